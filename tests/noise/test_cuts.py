from fractions import Fraction

import numpy as np
import pytest
import reference_noise as reference
from hypothesis import given, settings
from hypothesis import strategies as st

from noisyteacher.noise.isotonic import (
    ALWAYS,
    NEVER,
    as_written,
    first_passed,
    fit_cuts,
    size_for_level,
)


def cut(covariate, hits, threshold):
    """The cut of one curve."""
    covariate = np.array(covariate, dtype=np.float64)
    return float(fit_cuts(covariate[None], np.where(hits, 0, 1), threshold)[0])


def plain_cut(covariate, hits, threshold):
    knots, values = reference.step_fit(covariate, hits)
    failing = [c for c, v in zip(knots, values, strict=True) if v < threshold]
    if not failing:
        return ALWAYS
    return NEVER if len(failing) == len(knots) else failing[-1]


curves = st.lists(st.tuples(st.integers(0, 12), st.booleans()), min_size=1, max_size=40)
shares = st.sampled_from(["0.5", "0.57", "0.6", "0.75", "0.9", "0.95", "1"])


@given(curves, shares)
@settings(max_examples=300, deadline=None)
def test_the_cut_is_the_last_knot_below_the_threshold(pairs, share):
    covariate, hits = map(list, zip(*pairs, strict=True))
    assert cut(covariate, hits, float(share)) == plain_cut(covariate, hits, Fraction(share))


@given(curves, shares, st.lists(st.integers(-1, 26), max_size=8))
@settings(max_examples=150, deadline=None)
def test_passing_the_cut_is_reaching_the_threshold(pairs, share, doubled_queries):
    covariate, hits = map(list, zip(*pairs, strict=True))
    found = cut(covariate, hits, float(share))
    knots, values = reference.step_fit(covariate, hits)
    for query in (q / 2 for q in doubled_queries):
        reached = reference.step_value(knots, values, query) >= Fraction(share)
        assert (query > found) == reached


def test_a_query_between_the_last_failing_and_the_first_passing_knot_passes():
    # The smallest knot >= 0.5 is 0.8, which passes; cutting at 0.8 would refuse it.
    found = cut([0.2, 0.8], [False, True], 0.9)
    assert found == 0.2
    assert first_passed(np.array([[0.5]]), np.array([found])).tolist() == [1]
    assert first_passed(np.array([[0.2]]), np.array([found])).tolist() == [0]


def test_a_fitted_value_equal_to_the_threshold_is_reached():
    # 0.57 * 100 is 56.99999999999999 in floats, and 57 right of 100 must still reach 0.57.
    for right, of, share in ((9, 10, 0.9), (57, 100, 0.57), (7, 10, 0.7), (2, 3, 2 / 3)):
        hits = np.arange(of) < right
        assert cut(np.ones(of), hits, share) == ALWAYS
        assert cut(np.ones(of + 1), np.append(hits, False), share) == NEVER


def test_a_share_means_what_was_written():
    assert as_written(0.9) == Fraction(9, 10)
    assert as_written(1.0) == 1
    assert as_written(0.123456) == Fraction("0.123456")


def test_cuts_end_at_the_first_always():
    covariates = np.array([[0.1, 0.5, 0.9], [0.2, 0.6, 0.9], [0.3, 0.7, 1.0]])
    cuts = fit_cuts(covariates, np.array([1, 0, 0]), 0.9)
    assert cuts.tolist() == [0.1, ALWAYS]


def test_first_passed_takes_cuts_for_all_or_one_row_each():
    covariates = np.array([[0.1, 0.5], [0.4, 0.5], [0.1, 0.2]])
    assert first_passed(covariates, np.array([0.3, 0.4])).tolist() == [2, 1, 0]
    each = np.array([[NEVER, ALWAYS], [NEVER, NEVER], [ALWAYS, ALWAYS]])
    assert first_passed(covariates, each).tolist() == [2, 0, 1]


@given(st.lists(st.integers(0, 6), min_size=1, max_size=30), st.integers(2, 6), shares)
@settings(max_examples=100, deadline=None)
def test_the_level_is_reached_first_at_that_size(rank, stored, level):
    accuracy = {k: Fraction(sum(r < k for r in rank), len(rank)) for k in range(2, stored + 1)}
    expected = next((k for k, a in accuracy.items() if a >= Fraction(level)), None)
    assert size_for_level(np.array(rank), stored, float(level)) == expected


@pytest.mark.parametrize(("level", "expected"), [(0.6, 2), (0.7, 3), (0.9, 4), (0.95, None)])
def test_the_level_of_a_known_teacher(level, expected):
    rank = np.array([0, 0, 0, 1, 1, 1, 2, 3, 3, 9])
    assert size_for_level(rank, 4, level) == expected
