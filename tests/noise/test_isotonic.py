import numpy as np
import pytest
import reference_noise as reference
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.isotonic import IsotonicRegression

from noisyteacher.core.errors import InputError
from noisyteacher.noise import StepIsotonic, fit_step_isotonic, step_value

X = np.array([0.05, 0.10, 0.10, 0.30, 0.40, 0.55, 0.80, 0.95])
R = np.array([0, 1, 0, 0, 1, 0, 1, 1])
QUERIES = np.array([0, 0.07, 0.35, 0.60, 0.99])

points = st.lists(st.tuples(st.integers(0, 6), st.booleans()), min_size=1, max_size=25)


def test_the_oracle_fit_and_queries():
    curve = fit_step_isotonic(X, R)
    np.testing.assert_array_equal(curve.knots, np.unique(X))
    np.testing.assert_allclose(curve.values, [0, 1 / 3, 1 / 3, 0.5, 0.5, 1, 1], atol=1e-12)
    np.testing.assert_allclose(step_value(curve, QUERIES), [0, 1 / 3, 0.5, 1, 1], atol=1e-12)


def test_the_oracle_with_a_lower_bound():
    curve = fit_step_isotonic(X, R, lower_bound=0.5)
    np.testing.assert_allclose(curve.values, [0.5, 0.5, 0.5, 0.5, 0.5, 1, 1], atol=1e-12)


def test_scikit_learn_interpolates_and_we_do_not():
    between = QUERIES[1:4]
    theirs = IsotonicRegression(out_of_bounds="clip").fit(X, R).predict(between)
    np.testing.assert_allclose(theirs, [0.133333, 0.416667, 0.6], atol=1e-6)
    ours = StepIsotonic().fit(X, R).predict(between)
    assert (np.abs(ours - theirs) > 0.05).all()


@given(points, st.lists(st.integers(-2, 15), max_size=10))
@settings(max_examples=150, deadline=None)
def test_fit_and_step_rule_match_the_plain_ones(pairs, queries):
    x, r = zip(*pairs, strict=True)
    knots, values = reference.step_fit(x, r)
    curve = fit_step_isotonic(x, r)
    np.testing.assert_array_equal(curve.knots, knots)
    np.testing.assert_allclose(curve.values, [float(v) for v in values], atol=1e-12)
    halves = np.array(queries) / 2
    expected = [float(reference.step_value(knots, values, q)) for q in halves]
    np.testing.assert_allclose(step_value(curve, halves), expected, atol=1e-12)


@given(points, st.data())
@settings(max_examples=50, deadline=None)
def test_a_weight_counts_as_that_many_points(pairs, data):
    counts = data.draw(
        st.lists(st.integers(1, 4), min_size=len(pairs), max_size=len(pairs)), label="weights"
    )
    x, r = map(np.array, zip(*pairs, strict=True))
    weighted = fit_step_isotonic(x, r, counts)
    repeated = fit_step_isotonic(np.repeat(x, counts), np.repeat(r, counts))
    np.testing.assert_allclose(weighted.values, repeated.values, atol=1e-12)


def test_the_estimator_is_the_function():
    estimator = StepIsotonic(lower_bound=0.2, upper_bound=0.9)
    assert estimator.fit(X, R) is estimator
    curve = fit_step_isotonic(X, R, lower_bound=0.2, upper_bound=0.9)
    np.testing.assert_array_equal(estimator.knots_, curve.knots)
    np.testing.assert_array_equal(estimator.values_, curve.values)
    np.testing.assert_array_equal(estimator.predict(QUERIES), step_value(curve, QUERIES))
    assert not hasattr(clone(estimator), "knots_")


def test_queries_keep_their_shape():
    estimator = StepIsotonic().fit(X, R)
    assert estimator.predict(np.zeros((2, 3))).shape == (2, 3)
    assert estimator.predict([]).shape == (0,)


@pytest.mark.parametrize(
    ("x", "y", "weight", "match"),
    [
        ([1, 2], [1], None, "shape"),
        ([[1], [2]], [[1], [0]], None, "shape"),
        ([], [], None, "at least one"),
        ([1, np.nan], [0, 1], None, "finite"),
        ([1, 2], [0, np.inf], None, "finite"),
        ([1, 2], [0, 1], [1, 0], "above 0"),
    ],
)
def test_bad_points(x, y, weight, match):
    with pytest.raises(InputError, match=match):
        fit_step_isotonic(x, y, weight)


def test_bad_bounds_and_unfitted():
    with pytest.raises(InputError, match="lower_bound"):
        fit_step_isotonic(X, R, lower_bound=0.8, upper_bound=0.2)
    with pytest.raises(InputError, match="not fitted"):
        StepIsotonic().predict(X)
