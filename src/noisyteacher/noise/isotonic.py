"""Step isotonic regression: the increasing step function nearest to noisy 0/1 answers.

Between two knots scikit-learn's ``IsotonicRegression`` draws a straight line. Here, as in the SLaM
paper, a query takes the fitted value at the smallest knot that is not below it, and the last value
beyond the end.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from jaxtyping import Float
from scipy.optimize import isotonic_regression
from sklearn.base import BaseEstimator

from noisyteacher.core.errors import InputError

# As static types these are NumPy's ArrayLike and float; checked at run time, those refuse integers.
ArrayLike: TypeAlias = np.ndarray | Sequence[Any]
Number: TypeAlias = float | int


class StepCurve(NamedTuple):
    """An increasing step function."""

    knots: Float[np.ndarray, " m"]  # float64, strictly increasing
    values: Float[np.ndarray, " m"]  # float64, non-decreasing


def fit_step_isotonic(
    x: ArrayLike,
    y: ArrayLike,
    weight: ArrayLike | None = None,
    *,
    lower_bound: Number = 0.0,
    upper_bound: Number = 1.0,
) -> StepCurve:
    """Fit an increasing step function with values in [lower_bound, upper_bound].

    Args:
        x: covariates, shape (n,), in any order; equal ones are merged by their weighted mean.
        y: responses, shape (n,).
        weight: positive weights, shape (n,); all 1 when left out.
        lower_bound, upper_bound: the fitted values stay within these.

    Returns:
        One knot for each distinct covariate, and the fitted value there.
    """
    _check_bounds(lower_bound, upper_bound)
    covariate, response, weights = _check_points(x, y, weight)
    knots, group = np.unique(covariate, return_inverse=True)
    total = np.bincount(group, weights=weights)
    mean = np.bincount(group, weights=weights * response) / total
    fitted = isotonic_regression(mean, weights=total).x
    # Clipping the unbounded fit gives the bounded optimum.
    return StepCurve(knots, np.clip(fitted, lower_bound, upper_bound))


def step_value(curve: StepCurve, query: ArrayLike) -> np.ndarray:
    """The curve's value at each query: the one at the smallest knot >= query, else the last.

    Args:
        curve: knots and values, each of shape (m,).
        query: any shape.

    Returns:
        float64, of the query's shape.
    """
    at = np.searchsorted(curve.knots, np.asarray(query, dtype=np.float64), side="left")
    return np.asarray(curve.values[np.minimum(at, len(curve.knots) - 1)])


class StepIsotonic(BaseEstimator):  # type: ignore[misc]  # scikit-learn ships no types
    """The estimator form of :func:`fit_step_isotonic` and :func:`step_value`.

    Args:
        lower_bound, upper_bound: the fitted values stay within these.

    After ``fit``: ``knots_`` and ``values_``, each of shape (m,), float64.
    """

    knots_: np.ndarray
    values_: np.ndarray

    def __init__(self, *, lower_bound: Number = 0.0, upper_bound: Number = 1.0) -> None:
        self.lower_bound = lower_bound
        self.upper_bound = upper_bound

    def fit(
        self, x: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> StepIsotonic:
        """Fit to covariates ``x`` (n,) and responses ``y`` (n,)."""
        curve = fit_step_isotonic(
            x, y, sample_weight, lower_bound=self.lower_bound, upper_bound=self.upper_bound
        )
        self.knots_, self.values_ = curve
        return self

    def predict(self, x: ArrayLike) -> np.ndarray:
        """The fitted value at each query, float64 of the query's shape."""
        if not hasattr(self, "knots_"):
            raise InputError("This StepIsotonic is not fitted yet: call fit(x, y) before predict.")
        return step_value(StepCurve(self.knots_, self.values_), x)


def _check_bounds(lower_bound: Number, upper_bound: Number) -> None:
    if not lower_bound <= upper_bound:
        raise InputError(
            f"lower_bound must not be above upper_bound, but {lower_bound} > {upper_bound}."
        )


def _check_points(
    x: ArrayLike, y: ArrayLike, weight: ArrayLike | None
) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, " n"], Float[np.ndarray, " n"]]:
    covariate = np.asarray(x, dtype=np.float64)
    response = np.asarray(y, dtype=np.float64)
    weights = np.ones(response.shape) if weight is None else np.asarray(weight, dtype=np.float64)
    shapes = [covariate.shape, response.shape, weights.shape]
    if covariate.ndim != 1 or len(set(shapes)) > 1:
        raise InputError(
            "Isotonic regression needs covariates, responses and weights of one shape (n,), "
            f"but they have shapes {', '.join(map(str, shapes))}."
        )
    if len(covariate) == 0:
        raise InputError("Isotonic regression needs at least one point, but got none.")
    if not (np.isfinite(covariate).all() and np.isfinite(response).all()):
        raise InputError("Isotonic regression needs finite covariates and responses.")
    if not ((weights > 0) & np.isfinite(weights)).all():
        raise InputError("Isotonic regression needs weights that are finite and above 0.")
    return covariate, response, weights
