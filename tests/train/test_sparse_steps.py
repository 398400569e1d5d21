"""Linear students of words, trained step by step on CSR rows."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.sparse import csr_matrix
from scipy.sparse import random as random_sparse

from noisyteacher.data import BagViews, Split
from noisyteacher.data.text import padded_bags
from noisyteacher.labels import TeacherLabels
from noisyteacher.methods import (
    Consistency,
    GoldOnly,
    Method,
    Rows,
    SLaM,
    Vanilla,
    fit_and_prepare,
)
from noisyteacher.models import BagLinear
from noisyteacher.train import Adam, Cosine, Problem, TrainConfig, TrainData, train
from noisyteacher.train.sparse_steps import train_on_words

ROWS, WORDS, CLASSES, GOLD = 160, 40, 3, 40
CONFIG = TrainConfig(4, 32, Adam(0.02), Cosine(warmup=0.3), gold_repeat=3, steps_per_epoch=7)


def problem(seed: int = 0) -> tuple[csr_matrix, np.ndarray, TeacherLabels]:
    rng = np.random.default_rng(seed)
    x = random_sparse(ROWS, WORDS, 0.3, "csr", np.float32, rng)
    y = np.asarray((x @ rng.normal(size=(WORDS, CLASSES))).argmax(1))
    said = np.where(rng.random(ROWS) < 0.7, y, rng.integers(0, CLASSES, ROWS))
    probs = np.full((ROWS, CLASSES), 0.1, np.float32)
    probs[np.arange(ROWS), said] = 0.8
    return x, y, TeacherLabels.from_probs(np.arange(ROWS), probs)


def columns_of(method: Method, y: np.ndarray, labels: TeacherLabels):
    known = np.where(np.arange(ROWS) < GOLD, y, -1)
    rows = Rows(np.arange(ROWS), known, np.arange(GOLD), y[:GOLD], CLASSES)
    return fit_and_prepare(method, rows, labels)


@pytest.mark.parametrize("method", [Consistency(SLaM()), Consistency(None), Vanilla()], ids=repr)
def test_one_step_with_all_rows_equals_the_engines(method: Method) -> None:
    # Every step shows every row once, so the order does not matter and nothing is dropped.
    x, y, labels = problem()
    config = TrainConfig(5, ROWS, Adam(0.05), Cosine(), steps_per_epoch=1)
    prepared = columns_of(method, y, labels)
    ours = train_on_words(
        x, method, prepared.columns, CLASSES, config=config, views=BagViews(0.0, 0.0)
    )
    width = int(np.diff(x.indptr).max())
    data = TrainData(padded_bags(x, width), BagViews(0.0, 0.0), CLASSES)
    known = np.where(np.arange(ROWS) < GOLD, y, -1)
    parts = Split(
        gold=np.arange(0),
        val=np.arange(GOLD),
        selection=np.arange(0),
        pool=np.arange(GOLD, ROWS),
    )
    spec = BagLinear(WORDS, CLASSES)
    zero = {name: torch.zeros_like(v) for name, v in spec.build().state_dict().items()}
    job = Problem(data, np.arange(ROWS), known, parts, spec, zero).job("s", method, labels, seed=0)
    (theirs,) = train(job, data, config, device="cpu", quiet=True)
    np.testing.assert_allclose(ours.weight, theirs.state["bag.weight"].numpy().T, atol=2e-5)
    np.testing.assert_allclose(ours.bias, theirs.state["bias"].numpy(), atol=2e-5)


def test_the_seed_is_all_that_is_random_and_words_are_dropped() -> None:
    x, y, labels = problem()
    method = Consistency(SLaM())
    columns = columns_of(method, y, labels).columns

    def weight(seed: int, views: BagViews = BagViews()) -> np.ndarray:  # noqa: B008
        fit = train_on_words(x, method, columns, CLASSES, config=CONFIG, views=views, seed=seed)
        return fit.weight

    np.testing.assert_array_equal(weight(1), weight(1))
    assert np.abs(weight(1) - weight(2)).max() > 1e-3
    assert np.abs(weight(1) - weight(1, BagViews(0.0, 0.0))).max() > 1e-3


def test_gold_rows_are_repeated() -> None:
    x, y, labels = problem()
    columns = columns_of(Vanilla(), y, labels).columns
    gold_hits = []
    for repeat in (1, 20):
        config = TrainConfig(30, 32, Adam(0.05), Cosine(), gold_repeat=repeat, steps_per_epoch=7)
        fit = train_on_words(x, Vanilla(), columns, CLASSES, config=config)
        gold_hits.append(np.mean(fit.logits(x[:GOLD]).argmax(1) == y[:GOLD]))
    assert gold_hits[1] > gold_hits[0]


def test_a_student_learns() -> None:
    x, y, labels = problem()
    fit = train_on_words(x, GoldOnly(), columns_of(GoldOnly(), y, labels).columns, CLASSES)
    assert np.mean(fit.logits(x[:GOLD]).argmax(1) == y[:GOLD]) > 0.95
