"""The one rule for probabilities from outside: labels, the noise model and the losses share it."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import torch

from noisyteacher.core.errors import InputError

# How far from 1 a row may sum: two or three decimals, or bfloat16's 8 bits, leave as much.
SUM_TOLERANCE = 2e-2

Array = TypeVar("Array", npt.NDArray[Any], torch.Tensor)


def check_probabilities(
    probs: Array, row_name: Callable[[int], str], rest: Array | None = None, first_row: int = 0
) -> Array:
    """Refuse rows with NaN, infinity or negative entries, and rows that do not sum to 1.

    Args:
        probs: (n, m) real numbers.
        row_name: the name of a row in an error message, from its position.
        rest: (n,) probability of the classes that have no column, which counts in the sum.
        first_row: the position of the first row, where ``probs`` is a part of an array.

    Returns:
        (n,) float64, the sum of each row.
    """
    double: Any = np.float64 if isinstance(probs, np.ndarray) else torch.float64
    total: Array = probs.sum(1, dtype=double)
    if rest is not None:
        total = total + rest
    bad = ~(abs(total - 1) <= SUM_TOLERANCE)  # true for NaN as well
    if 0 not in probs.shape and probs.min() < 0:
        bad |= (probs < 0).any(1)
    if bad.any():
        row = int(bad.nonzero()[0][0])
        problem = _problem(probs[row].tolist(), float(total[row]))
        raise InputError(f"{row_name(first_row + row)} {problem}.")
    return total


def _problem(row: list[float], total: float) -> str:
    if not all(map(math.isfinite, row)):
        return "holds NaN or infinity"
    if min(row) < 0:
        return f"holds a negative probability, {min(row):.6g}"
    problem = f"sums to {total:.6g} instead of 1"
    if abs(total - 100) <= 100 * SUM_TOLERANCE:
        problem += "; percentages are to be divided by 100"
    return problem
