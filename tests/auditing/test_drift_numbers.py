"""V against the pool, computed a second time in plain code."""

from __future__ import annotations

import numpy as np
import pytest
from audit_teachers import calibrated

from noisyteacher.auditing import audit
from noisyteacher.auditing.drift import Drift, importance_weights
from noisyteacher.auditing.quality import _temperature_interval
from noisyteacher.labels import TeacherLabels
from noisyteacher.noise import margin


def shifted(times: int = 1) -> tuple[np.ndarray, np.ndarray, np.ndarray, Drift]:
    """V, its classes and a pool with fewer unsure rows and fewer rows of the first class."""
    planted = calibrated(n=400)
    first = planted.pool.argmax(axis=1) == 0
    kept = (~first | (np.arange(len(first)) % 2 == 0)) & (margin(planted.pool, 1) > 0.1)
    pool = np.repeat(planted.pool[kept], times, axis=0)
    drift = audit(planted.val, planted.y, pool=pool, replicates=50).numbers.drift
    assert drift is not None
    return planted.val, planted.y, pool, drift


def test_the_effect_on_classes_is_cohens_w_less_what_chance_explains() -> None:
    val, _, pool, drift = shifted()
    p, q = (np.bincount(x.argmax(axis=1), minlength=5) / len(x) for x in (val, pool))
    both = (len(val) * p + len(pool) * q) / (len(val) + len(pool))
    chance = 4 * (1 / len(val) + 1 / len(pool))
    expected = np.sqrt(sum((p - q) ** 2 / both) - chance)
    assert drift.classes_effect == pytest.approx(expected)
    assert expected > 0.1


def test_a_larger_pool_makes_differences_surer_and_not_larger() -> None:
    (*_, one), (*_, ten) = shifted(), shifted(10)
    assert ten.classes_effect == pytest.approx(one.classes_effect, rel=0.2)
    assert ten.classes_p_value < one.classes_p_value
    assert ten.margin.distance == pytest.approx(one.margin.distance)
    assert ten.reweighted_rows == pytest.approx(one.reweighted_rows)


def test_v_is_weighted_as_the_pool() -> None:
    val, y, pool, drift = shifted()
    weight = importance_weights(margin(val, 1), margin(pool, 1))
    right = val.argmax(axis=1) == y
    assert drift.reweighted_accuracy.value == pytest.approx(
        np.average(right, weights=weight), abs=0.01
    )
    assert drift.reweighted_accuracy.value > right.mean()  # the pool's rows are easier
    # So many rows of equal weight have a mean of the same variance.
    share = weight / weight.sum()
    assert drift.reweighted_rows == pytest.approx(1 / sum(share**2), rel=0.01)
    assert drift.reweighted_rows < len(val) - 5


def test_rows_that_the_teacher_was_trained_on_are_no_part_of_the_pool() -> None:
    planted = calibrated(n=400)
    probs = np.concatenate([planted.val, planted.pool])
    labels = TeacherLabels.from_probs(np.arange(len(probs)), probs)
    trained_on = np.arange(400, 500)
    found = audit(labels, planted.y, np.arange(400), gold_ids=trained_on, replicates=50).numbers
    assert found.pool_rows == len(planted.pool) - 100
    others = margin(planted.pool[100:], 1)
    assert found.drift is not None
    assert found.drift.margin.pool_mean == pytest.approx(others.mean(), abs=1e-3)


def test_a_sample_whose_loss_falls_with_the_temperature_wants_a_higher_one() -> None:
    """The slope is by the inverse of the temperature: positive where this is too large."""
    found = _temperature_interval(1.0, np.array([[0.1, 1.0]] * 60))
    assert (found.value, found.low, found.high) == pytest.approx((1.0, 1 / 0.9, 1 / 0.9))


def found_of(right: int, rows: int) -> set[str]:
    """Codes of the findings on a teacher of two classes that is right so often."""
    y = np.arange(rows) % 2
    said = np.where(np.arange(rows) < right, y, 1 - y)
    sure = np.random.default_rng(0).uniform(0.6, 0.9, rows)
    probs = np.where(np.arange(2) == said[:, None], sure[:, None], 1 - sure[:, None])
    found = audit(probs, y, replicates=50).findings
    return {one.code for one in found}


def test_classes_look_swapped_and_teachers_perfect_where_the_interval_says_so() -> None:
    """Not where the number alone does."""
    assert "swapped" not in found_of(28, 60)
    assert "swapped" in found_of(15, 60)
    assert "nearly_perfect" not in found_of(60, 60)
    assert "nearly_perfect" in found_of(600, 600)


@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.parametrize("seed", [5, 7, 9])
def test_a_good_teacher_whose_classes_are_swapped_is_audited(seed: int) -> None:
    """The surer it is, the less often it is right, so the limits of its alpha curve cross."""
    rng = np.random.default_rng(seed)
    scores = 8 * rng.normal(size=1_000)
    chance = 1 / (1 + np.exp(-scores))
    y = (rng.random(1_000) < chance).astype(int)
    found = audit(np.stack([chance, 1 - chance], axis=1), y, replicates=50)
    assert "swapped" in {one.code for one in found.findings}
    assert 4_000 <= found.numbers.curve.rows_to_halve_band <= 8_000
