"""Nothing that judges a student may have taught it: temperatures, copies, resamples."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.special import log_softmax
from sklearn.linear_model import LogisticRegression

from noisyteacher.choose import linear_choice
from noisyteacher.choose.decision import TEMPERATURES, Evidence
from noisyteacher.choose.evidence import DecisionRows, LinearCandidate, Setting, cross_fit
from noisyteacher.choose.folds import input_groups, make_folds
from noisyteacher.choose.linear_choice import choose_linear
from noisyteacher.labels import TeacherLabels
from noisyteacher.methods import GoldOnly, Vanilla

WIDTH = 100
STRONG = (Setting(100.0),)  # a student that learns its rows by heart


def memorizable(gold: int = 60, pool: int = 0, twins: bool = False, seed: int = 0) -> DecisionRows:
    """More columns than gold rows, and classes that are coin flips: half of all is the best.

    With ``twins`` the second half of the gold rows repeats the first; the first pool rows are
    always copies of the gold rows, and the teacher knows their classes.
    """
    rng = np.random.default_rng(seed)
    x, y = rng.normal(size=(gold + pool, WIDTH)), rng.integers(0, 2, gold)
    if twins:
        half = gold // 2
        x[half:gold], y[half:] = x[:half], y[:half]
    said = np.append(y, rng.integers(0, 2, pool))
    copies = min(gold, pool)
    x[gold : gold + copies], said[gold : gold + copies] = x[:copies], y[:copies]
    ids = np.arange(gold + pool)
    labels = TeacherLabels.from_probs(ids, 0.02 + 0.96 * np.eye(2)[said])
    known = ids < gold
    truth = np.where(known, said, -1)
    return DecisionRows(x, ids, truth, known, known, labels, 2, groups=input_groups(x))


def gold_only_log_loss(logits: np.ndarray, y: np.ndarray) -> list[float]:
    """At every temperature."""
    return [
        -float(np.mean(log_softmax(logits / t, axis=1)[np.arange(len(y)), y])) for t in TEMPERATURES
    ]


def logistic_logits(x: np.ndarray, y: np.ndarray, shown: np.ndarray) -> np.ndarray:
    fit = LogisticRegression(C=100.0, tol=1e-8, max_iter=5000).fit(x, y)
    second = fit.decision_function(shown)
    return np.stack([np.zeros_like(second), second], axis=1)


def test_temperatures_are_fitted_on_out_of_fold_predictions() -> None:
    """Those of scikit-learn's folds; on its own rows such a student would be called sure."""
    rng = np.random.default_rng(0)
    y = np.arange(60) % 2
    x = rng.normal(size=(60, 30)) + 0.5 * y[:, None] * (np.arange(30) < 5)
    ids, known = np.arange(60), np.ones(60, bool)
    rows = DecisionRows(x, ids, y, known, known, None, 2)
    (part,) = choose_linear(rows, [LinearCandidate(GoldOnly(), STRONG)], seed=0).parts
    folds, outside = make_folds(y, seed=0), np.empty((60, 2))
    for fold in range(5):
        inside = folds == fold
        outside[inside] = logistic_logits(x[~inside], y[~inside], x[inside])
    found, own = (
        TEMPERATURES[np.argmin(gold_only_log_loss(logits, y))]
        for logits in (outside, logistic_logits(x, y, x))
    )
    assert part.temperature == pytest.approx(found)
    assert part.temperature > 3 * own


def test_a_resample_is_fitted_on_its_rows_and_scored_on_the_others() -> None:
    """The best of forty guessers is a guesser: weights fitted on the rows scored would hide it."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 60)
    guesses = [6 * rng.normal(size=(1, 60, 2)) for _ in range(40)]
    evidence = Evidence(y, guesses)
    chosen = evidence.predictions(evidence.blend()).argmax(1)
    assert np.mean(chosen == y) > 0.62
    assert np.nanmean(evidence.held_out_scores()) < 0.58


def test_identical_inputs_share_a_fold_in_every_repeat(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[np.ndarray] = []

    def listen(rows: Any, candidates: Any, folds: np.ndarray, **more: Any) -> Any:
        seen.append(folds)
        return cross_fit(rows, candidates, folds, **more)

    monkeypatch.setattr(linear_choice, "cross_fit", listen)
    choose_linear(memorizable(40, twins=True), [LinearCandidate(GoldOnly(), STRONG)])
    assert len(seen) == 3
    for folds in seen:
        np.testing.assert_array_equal(folds[:20], folds[20:])
        assert len(set(folds)) == 5


def test_a_copy_of_a_held_out_row_is_not_trained_on() -> None:
    rows = memorizable(40, twins=True)
    held_out = np.arange(40) == 3
    training, positions = rows.training_rows(held_out, rows.pool)
    assert set(positions) == set(range(40)) - {3, 23}
    assert set(training.ids) == set(training.val_ids) == set(positions)


@pytest.mark.parametrize(("pool", "twins"), [(0, True), (120, False)])
def test_copies_of_gold_rows_give_nothing_away(pool: int, twins: bool) -> None:
    """The classes are coin flips; only a copy of a held-out row could tell them."""
    rows = memorizable(80, pool, twins)
    methods = [GoldOnly()] if not pool else [GoldOnly(), Vanilla(hard=True)]
    choice = choose_linear(rows, [LinearCandidate(method, STRONG) for method in methods])
    assert choice.score.value < 0.65
    assert not set(rows.pool) & set(range(80, 160))
