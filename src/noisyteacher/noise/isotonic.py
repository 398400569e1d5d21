"""Step isotonic regression, and the cuts that find k(x) without one curve per shortlist size.

Between two knots scikit-learn's ``IsotonicRegression`` draws a straight line. Here, as in the SLaM
paper, a query takes the fitted value at the smallest knot that is not below it, and the last value
beyond the end.

alpha_k is such an increasing step function of its covariate, so "alpha_k(x) >= t" is the same as
"covariate_k(x) > c_k" with c_k the last knot whose fitted value is below t: -inf ("always") when
no knot is, and +inf ("never") when all are, as queries beyond the end take the last value.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.optimize import isotonic_regression
from sklearn.base import BaseEstimator

from noisyteacher.core.errors import InputError

# As static types these are NumPy's ArrayLike and float; checked at run time, those refuse integers.
ArrayLike: TypeAlias = np.ndarray | Sequence[Any]
Number: TypeAlias = float | int

ALWAYS = -np.inf
NEVER = np.inf


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
        weight: positive weights, shape (n,); by default 1.
        lower_bound, upper_bound: bounds of the fitted values.

    Returns:
        One knot for each distinct covariate, and the fitted value there.
    """
    if not lower_bound <= upper_bound:
        raise InputError(
            f"lower_bound must not be above upper_bound, but {lower_bound} > {upper_bound}."
        )
    covariate, response, weights = _check_points(x, y, weight)
    knots, group = np.unique(covariate, return_inverse=True)
    total = np.bincount(group, weights=weights)
    mean = np.bincount(group, weights=weights * response) / total
    fitted = isotonic_regression(mean, weights=total).x
    # Clipping the unbounded fit gives the bounded optimum.
    return StepCurve(knots, np.clip(fitted, lower_bound, upper_bound))


def step_value(curve: StepCurve, query: ArrayLike) -> np.ndarray:
    """The value of a step curve at each query: at the smallest knot >= query, else at the last.

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
        lower_bound, upper_bound: bounds of the fitted values.

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


# -- cuts ----------------------------------------------------------------------------------------


def as_written(share: float) -> Fraction:
    """The share as the user wrote it, 0.9 as 9/10, so that 9 right of 10 reaches it exactly."""
    return Fraction(share).limit_denominator(10**6)


def fit_cuts(
    covariates: Float[np.ndarray, "sizes n"], rank: Int[np.ndarray, " n"], threshold: float
) -> Float[np.ndarray, " cuts"]:
    """The cuts c_1, c_2, ... of the shortlist sizes, on V.

    Args:
        covariates: row k-1 holds covariate_k of every example of V, shape (sizes, n).
        rank: the truth's place in the teacher's order, 0 for the top class, shape (n,).
        threshold: the accuracy t that a shortlist must reach.

    Returns:
        float64; ends at the first ALWAYS, as no later cut is ever looked at.
    """
    wanted = as_written(threshold)
    cuts = []
    for size, covariate in enumerate(covariates, start=1):
        cuts.append(_cut(covariate, rank >= size, wanted))
        if cuts[-1] == ALWAYS:
            break
    return np.array(cuts, dtype=np.float64)


def _cut(covariate: Float[np.ndarray, " n"], missed: Bool[np.ndarray, " n"], t: Fraction) -> float:
    """The last knot whose isotonic fit is below t, without making the fit.

    The fit is the slope of the greatest convex minorant of the running sum of (response - t), so
    it is below t exactly up to the first place where that sum is smallest. The sum falls only at
    misses, so only they are looked at; it is kept in whole numbers, as multiples of 1/denominator.
    """
    misses = np.sort(covariate[missed])
    if len(misses) == 0:
        return ALWAYS
    # How many examples lie at or below each miss. Of tied misses the last has the smallest sum.
    seen = np.searchsorted(np.sort(covariate), misses, side="right")
    excess = (t.denominator - t.numerator) * seen - t.denominator * np.arange(1, len(misses) + 1)
    lowest = int(np.argmin(excess))
    if excess[lowest] >= 0:
        return ALWAYS
    if seen[lowest] == len(covariate):
        return NEVER
    return float(misses[lowest])


def first_passed(
    covariates: Float[np.ndarray, "n sizes"], cuts: Float[np.ndarray, "*rows sizes"]
) -> Int[np.ndarray, " n"]:
    """The smallest size whose cut is passed, shape (n,) int64; 0 where none is.

    Args:
        covariates: covariate_1, covariate_2, ... of each example, shape (n, sizes).
        cuts: c_1, c_2, ..., shape (sizes,) for all examples or (n, sizes).
    """
    passed = covariates > cuts
    first = passed.argmax(axis=1)
    return np.where(passed[np.arange(len(passed)), first], first + 1, 0)


def size_for_level(rank: Int[np.ndarray, " n"], stored: int, level: float) -> int | None:
    """The smallest size from 2 to ``stored`` whose top-k accuracy reaches the level, if any."""
    wanted = as_written(level)
    hits = np.cumsum(np.bincount(rank, minlength=stored)[:stored])
    reached = hits * wanted.denominator >= wanted.numerator * len(rank)
    sizes = np.flatnonzero(reached[1:]) + 2
    return int(sizes[0]) if len(sizes) else None


@dataclass(frozen=True)
class Curves:
    """The alpha curve and the cuts of k(x), fitted on ``n`` examples of V."""

    alpha_curve: StepIsotonic
    cuts: np.ndarray | None  # cuts[k-1] is c_k; it ends at the first ALWAYS; None unless k="auto"
    n: int


def fit_curves(
    by_size: Float[np.ndarray, "sizes n"],
    rank: Int[np.ndarray, " n"],
    lower_bound: float,
    threshold: float | None,
) -> Curves:
    """Fit alpha to the first row of covariates, and the cuts to all of them.

    Args:
        by_size: covariate_k of every example, one array row for each k.
        rank: the truth's place in the teacher's order, 0 for the top class.
        lower_bound: alpha's lower bound.
        threshold: the accuracy a shortlist must reach; None when no cuts are wanted.
    """
    curve = StepIsotonic(lower_bound=lower_bound).fit(by_size[0], rank == 0)
    cuts = None if threshold is None else fit_cuts(by_size, rank, threshold)
    return Curves(curve, cuts, len(rank))
