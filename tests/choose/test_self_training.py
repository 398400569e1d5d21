"""Self-training of linear students, against scikit-learn's."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.semi_supervised import SelfTrainingClassifier

from noisyteacher import InputError
from noisyteacher.choose.evidence import DecisionRows, LinearCandidate, Setting, solve_candidates
from noisyteacher.methods import GoldOnly, SelfTraining


def blobs(classes: int, rows: int = 300, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    y = rng.integers(0, classes, rows)
    centers = rng.normal(0, 1.6, (classes, 6))
    return (centers[y] + rng.normal(size=(rows, 6))).astype(np.float64), y


def decision_rows(x: np.ndarray, y: np.ndarray, gold: int, classes: int) -> DecisionRows:
    known = np.where(np.arange(len(y)) < gold, y, -1)
    return DecisionRows(x, np.arange(len(y)), known, known >= 0, known >= 0, None, classes)


@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize("threshold", [0.6, 0.9])
def test_it_equals_scikit_learns(classes: int, threshold: float) -> None:
    x, y = blobs(classes)
    rows = decision_rows(x, y, 30, classes)
    method = SelfTraining(threshold=threshold, align=False)
    (fits,) = solve_candidates(rows, [LinearCandidate(method, (Setting(1.0),))])
    rival = SelfTrainingClassifier(
        LogisticRegression(C=1.0, tol=1e-10, max_iter=5_000), threshold=threshold, max_iter=10
    ).fit(x, np.where(np.arange(len(y)) < 30, y, -1))
    # In ten rounds scikit-learn labels rows nine times before its last fit, as we do.
    logits = fits[0].logits(x)
    probs = np.exp(logits - np.logaddexp.reduce(logits, axis=1, keepdims=True))
    assert np.mean(probs.argmax(1) == rival.predict(x)) == 1
    np.testing.assert_allclose(probs, rival.predict_proba(x), atol=2e-3)


def test_without_a_sure_row_it_is_gold_only_and_more_rounds_add_rows() -> None:
    x, y = blobs(3)
    rows = decision_rows(x, y, 20, 3)

    def weight(method: SelfTraining) -> np.ndarray:
        (fits,) = solve_candidates(rows, [LinearCandidate(method, (Setting(1.0),))])
        return fits[0].weight

    never = weight(SelfTraining(threshold=1.0))
    np.testing.assert_allclose(weight(SelfTraining(threshold=0.5, rounds=1)), never, atol=1e-4)
    assert np.abs(weight(SelfTraining(threshold=0.5, rounds=2)) - never).max() > 0.05


def test_aligned_it_keeps_the_classes_that_a_student_of_few_gold_rows_gives_up() -> None:
    # Two classes that overlap, three quarters of class 1; the sure rows are nearly all of class 1.
    rng = np.random.default_rng(0)
    y = (rng.random(2000) < 0.75).astype(np.int64)
    x = rng.normal(size=(2000, 8)) + np.where(y[:, None] == 1, 0.45, -0.45)
    gold = 40
    rows = decision_rows(x, y, gold, 2)

    def predict(align: bool) -> np.ndarray:
        method = SelfTraining(threshold=0.8, align=align)
        (fits,) = solve_candidates(rows, [LinearCandidate(method, (Setting(0.03),))])
        return fits[0].logits(x[gold:]).argmax(1)

    plain, aligned = predict(False), predict(True)
    assert np.mean(plain == 1) > 0.95
    assert abs(np.mean(aligned == 1) - np.mean(y[:gold] == 1)) < 0.15
    assert np.mean(aligned == y[gold:]) > np.mean(plain == y[gold:]) + 0.05


def test_a_pool_that_is_empty_leaves_gold_only() -> None:
    x, y = blobs(3, rows=40)
    rows = decision_rows(x, y, 40, 3)
    (fits,) = solve_candidates(rows, [LinearCandidate(SelfTraining(), (Setting(1.0),))])
    (gold,) = solve_candidates(rows, [LinearCandidate(GoldOnly(), (Setting(1.0),))])
    np.testing.assert_allclose(fits[0].weight, gold[0].weight, atol=1e-6)


def test_a_network_is_refused() -> None:
    with pytest.raises(InputError, match=r"SelfTraining\(\) trains linear students only"):
        SelfTraining().modules(None, None)  # type: ignore[arg-type]
