"""k(x) from one cut per shortlist size, in place of one curve per shortlist size.

alpha_k is an increasing step function of its covariate, so "alpha_k(x) >= t" is the same as
"covariate_k(x) > c_k" with c_k the last knot whose fitted value is below t: -inf ("always") when
no knot is, and +inf ("never") when all are, as queries beyond the end take the last value.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from jaxtyping import Bool, Float, Int

ALWAYS = -np.inf
NEVER = np.inf


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
