"""When the minimiser of the population SLaM loss is the truth."""

import math

import numpy as np
import pytest

from noisyteacher.core.errors import InputError
from noisyteacher.halfspace.theory import SupportPoint, check_consistency, row_loss


def point(alpha, k, truth=0):
    return SupportPoint(truth=truth, alpha=alpha, shortlist=tuple(range(k)))


def test_counterexample_below_one_over_k():
    found = check_consistency([point(0.3, 2)], classes=3)
    assert found.truth_loss[0] == pytest.approx(0.610864, abs=1e-6)
    assert found.loss[0] == pytest.approx(0.356675, abs=1e-6)
    np.testing.assert_allclose(found.minimiser[0], [0, 0, 1], atol=1e-4)
    assert not found.holds


@pytest.mark.parametrize(("classes", "k"), [(3, 2), (4, 3), (6, 4)])
def test_one_over_k_is_the_threshold_when_k_is_below_the_classes(classes, k):
    below = check_consistency([point(1 / k - 0.02, k)], classes)
    above = check_consistency([point(1 / k + 0.02, k)], classes)
    assert not below.truth_is_minimal[0]
    assert above.holds
    alpha = 1 / k - 0.02
    assert below.loss[0] == pytest.approx(-math.log((1 - alpha) / (k - 1)), abs=1e-6)


def test_with_all_classes_on_the_shortlist_any_other_alpha_will_do():
    for alpha in (0.1, 0.3, 0.6):
        assert check_consistency([point(alpha, 4)], classes=4).holds
    assert check_consistency([point(0.3, 2)], classes=2).holds


def test_at_one_over_k_the_truth_is_one_minimiser_of_many():
    found = check_consistency([point(0.25, 4)], classes=4)
    assert found.truth_is_minimal[0]
    assert not found.truth_is_unique[0]


def test_the_papers_literal_form_needs_alpha_above_one_half():
    assert not check_consistency([point(0.45, 3)], 3, normalize="none").holds
    assert not check_consistency([point(0.45, 3)], 4, normalize="none").holds
    for k in (2, 3, 4):
        assert check_consistency([point(0.55, k)], 4, normalize="none").holds


def test_the_population_is_judged_point_by_point():
    support = [
        SupportPoint(truth=1, alpha=0.7, shortlist=(1, 2), mass=3.0),
        SupportPoint(truth=2, alpha=0.3, shortlist=(0, 2), mass=1.0),
    ]
    found = check_consistency(support, classes=3)
    np.testing.assert_array_equal(found.truth_is_minimal, [True, False])
    np.testing.assert_allclose(found.minimiser, [[0, 1, 0], [0, 1, 0]], atol=1e-3)
    assert found.population_loss == pytest.approx((3 * found.loss[0] + found.loss[1]) / 4)


def test_row_loss_of_a_plain_formula():
    f, alpha = np.array([0.5, 0.3, 0.2]), 0.6
    mixed = alpha * f + (1 - alpha) * (1 - f) / 1 * np.array([1, 1, 0])
    expected = -(0.6 * math.log(mixed[0]) + 0.4 * math.log(mixed[1]))
    loss, gradient = row_loss(f, point(alpha, 2))
    assert loss == pytest.approx(expected)
    assert gradient[0] == pytest.approx(-0.6 / mixed[0] * (alpha - (1 - alpha)))


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (SupportPoint(0, 0.0, (0, 1)), "alpha"),
        (SupportPoint(0, 0.5, (0,)), "two different classes"),
        (SupportPoint(0, 0.5, (0, 7)), "below 3"),
        (SupportPoint(2, 0.5, (0, 1)), "true class 2"),
        (SupportPoint(0, 0.5, (0, 1), mass=0.0), "mass"),
    ],
)
def test_bad_support_points(bad, message):
    with pytest.raises(InputError, match=message):
        check_consistency([bad], classes=3)


def test_bad_calls():
    with pytest.raises(InputError, match="at least one point"):
        check_consistency([], classes=3)
    with pytest.raises(InputError, match="normalize"):
        check_consistency([point(0.7, 2)], classes=3, normalize="k")
