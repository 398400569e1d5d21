"""Linear students of a pool on disk: the same as those of a pool in memory."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.sparse import csr_matrix, vstack
from scipy.sparse import random as random_sparse
from scipy.special import softmax

from noisyteacher.core.errors import InputError
from noisyteacher.labels import TeacherLabels
from noisyteacher.methods import (
    Calibrated,
    ConfidenceFilter,
    ConfidentPruning,
    CutStat,
    ForwardCorrection,
    Method,
    PartialLabels,
    Rows,
    SLaM,
    SymmetricCE,
    TaylorCE,
    Temperature,
    Vanilla,
    fit_and_prepare,
)
from noisyteacher.methods.method import REGISTRY
from noisyteacher.train.pool_shards import PoolShards, PoolTensors, check_streamable
from noisyteacher.train.solver import Block, Design, solve_blocks, solve_linear

GOLD, POOL, WIDTH = 60, 500, 40


def problem(classes: int, k: int | None) -> tuple[csr_matrix, Rows, TeacherLabels]:
    rng = np.random.default_rng(0)
    x = random_sparse(GOLD + POOL, WIDTH, 0.2, format="csr", random_state=1)
    logits = x @ rng.normal(size=(WIDTH, classes)) * 2
    y = (logits + rng.gumbel(size=logits.shape)).argmax(1)
    y[:classes] = np.arange(classes)
    ids = np.array([f"r{i}" for i in range(len(y))])
    probs = softmax(logits + rng.normal(size=logits.shape), axis=1).astype(np.float32)
    labels = TeacherLabels.from_probs(ids, probs, k=k)
    known = np.where(np.arange(len(y)) < GOLD, y, -1)
    return x, Rows(ids, known, ids[:GOLD], y[:GOLD], classes), labels


def shards_of(folder: Path, x: csr_matrix, rows: Rows, labels: TeacherLabels) -> PoolShards:
    shards = PoolShards(folder, WIDTH, labels)
    for start in range(GOLD, GOLD + POOL, 130):
        some = np.arange(start, min(start + 130, GOLD + POOL))
        shards.add(x[some], labels.take(rows.ids[some]))
    return shards


METHODS = [
    Vanilla(),
    Vanilla(hard=True),
    TaylorCE(2),
    SLaM(),
    ForwardCorrection(),
    Calibrated(),
    ConfidenceFilter(),
    SymmetricCE(),
    Temperature(2.0, 1.0),
    PartialLabels(),
]


@pytest.mark.filterwarnings("ignore::noisyteacher.core.errors.NoisyTeacherWarning")
@pytest.mark.parametrize(("classes", "k"), [(2, None), (4, None), (4, 3)])
@pytest.mark.parametrize("method", METHODS, ids=repr)
def test_shards_prepare_and_solve_as_memory_does(
    tmp_path: Path, method: Method, classes: int, k: int | None
) -> None:
    if k is not None and isinstance(method, Calibrated | ForwardCorrection | PartialLabels):
        pytest.skip("needs all classes")
    x, rows, labels = problem(classes, k)
    whole = fit_and_prepare(method, rows, labels).columns
    shards = shards_of(tmp_path / "pool", x, rows, labels)
    assert (shards.rows, len(shards)) == (POOL, 4)
    taught = shards.prepare(method, rows, labels)
    pool = whole.y < 0
    for name, value in whole.values.items():
        streamed = torch.cat([block.columns.values[name] for block in taught])
        torch.testing.assert_close(streamed, value[pool], rtol=0, atol=0)
    tensors = PoolTensors(tmp_path / "tensors", torch.zeros(GOLD, 2), labels)
    for shard in range(len(shards)):
        tensors.add(torch.full((len(shards.labels(shard)), 2), shard), shards.labels(shard))
    assert tensors.inputs()[:, 1].long().bincount().tolist() == [GOLD + 130, 130, 130, 110]
    first = Rows(rows.ids[:GOLD], rows.y[:GOLD], rows.val_ids, rows.val_y, classes)
    columns = tensors.prepare(method, first, labels)
    for name in ("index", "y", "weight"):
        assert torch.equal(getattr(columns, name), getattr(whole, name)), name
    assert columns.rows_per_epoch == whole.rows_per_epoch
    assert columns.values.keys() == whole.values.keys()
    for group in ("values", "constants"):
        for name, value in getattr(whole, group).items():
            assert torch.equal(getattr(columns, group)[name], value), name
    found = vstack([block.x for block in taught])
    assert (found != x[whole.index[pool].numpy()]).nnz == 0
    gold = Rows(rows.ids[:GOLD], rows.y[:GOLD], rows.val_ids, rows.val_y, classes)
    columns = fit_and_prepare(method, gold, labels).columns
    first = x[:GOLD]
    design = shards.design(first)
    np.testing.assert_allclose(design.moments, Design.of(x).moments, rtol=1e-5)
    blocks = [Block(first, first.T, columns), *taught]
    options = {"strength": 1.0, "gold_weight": 3.0, "tolerance": 1e-7}
    streamed = solve_blocks(blocks, design, method, classes, **options)
    usual = solve_linear(x, method, whole, classes, **options)
    a, b = (softmax(fit.logits(x), axis=1) for fit in (streamed, usual))
    np.testing.assert_allclose(a, b, atol=1e-5)


def test_methods_that_compare_rows_of_the_pool_are_refused() -> None:
    for method in (CutStat(), ConfidentPruning(), Temperature(2.0, 1.0, inner=ConfidentPruning())):
        with pytest.raises(InputError, match="needs the whole pool in memory"):
            check_streamable(method)
    named = {name for name, kind in REGISTRY.items() if kind.whole_pool}
    assert {"CutStat", "ConfidentPruning", "UPS", "Fidelity", "SelfTraining"} <= named


def test_rows_of_bags_are_as_wide_as_the_first(tmp_path: Path) -> None:
    labels = problem(2, None)[2]
    first = (torch.ones(2, 3, dtype=torch.int64), torch.ones(2, 3))
    tensors = PoolTensors(tmp_path / "pool", first, labels)
    tensors.add(
        (torch.tensor([[5, 6, 7, 8]]), torch.tensor([[0.9, 0.7, 0.5, 0.1]])), labels.at([3])
    )
    tensors.add((torch.tensor([[4]]), torch.tensor([[1.0]])), labels.at([5]))
    index, value = tensors.inputs()
    assert index[2:].tolist() == [[5, 6, 7], [4, 0, 0]]
    torch.testing.assert_close(value[2:], torch.tensor([[0.9, 0.7, 0.5], [1.0, 0.0, 0.0]]))
    assert (tensors.rows, tensors.first) == (2, 2)
