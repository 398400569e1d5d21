"""The one rule for probabilities from outside: labels, the noise model and the losses share it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from noisyteacher.core.errors import InputError

# How far from 1 a row may sum: two or three decimals, or bfloat16's 8 bits, leave as much.
SUM_TOLERANCE = 2e-2


def check_probabilities(
    probs: npt.NDArray[Any],
    row_name: Callable[[int], str],
    rest: npt.NDArray[Any] | None = None,
    first_row: int = 0,
) -> npt.NDArray[np.float64]:
    """Refuse rows with NaN, infinity or negative entries, and rows that do not sum to 1.

    Args:
        probs: (n, m) real numbers.
        row_name: the name of a row in an error message, from its position.
        rest: (n,) probability of the classes that have no column, which counts in the sum.
        first_row: the position of the first row, where ``probs`` is a part of an array.

    Returns:
        (n,) the sum of each row.
    """
    total = np.asarray(probs.sum(axis=1, dtype=np.float64))
    if rest is not None:
        total += rest
    bad = ~(np.abs(total - 1) <= SUM_TOLERANCE)  # true for NaN as well
    if probs.size and probs.min() < 0:
        bad |= probs.min(axis=1) < 0
    if bad.any():
        row = int(bad.argmax())
        raise InputError(f"{row_name(first_row + row)} {_problem(probs[row], float(total[row]))}.")
    return total


def _problem(row: npt.NDArray[Any], total: float) -> str:
    if not np.isfinite(row).all():
        return "holds NaN or infinity"
    if row.min() < 0:
        return f"holds a negative probability, {row.min():.6g}"
    problem = f"sums to {total:.6g} instead of 1"
    if abs(total - 100) <= 100 * SUM_TOLERANCE:
        problem += "; percentages are to be divided by 100"
    return problem
