"""Samples until the error is at most ε, and the power laws fitted to them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

from noisyteacher.core.errors import InputError

_BOOTSTRAP = 200


@dataclass(frozen=True)
class Reached:
    """When half of the runs had error at most ε; None: not within the steps that were run."""

    steps: int | None
    low: int | None  # 95 % bootstrap interval over the runs
    high: int | None
    share: float  # of the runs that have it after the last step


def steps_to_error(steps: np.ndarray, errors: np.ndarray, epsilon: float, seed: int = 0) -> Reached:
    """First of the kept ``steps`` (c,) at which half of the ``errors`` (c, runs) are at most ε.

    Pass the errors of the iterates themselves, or the best so far: then it is the theorem's "some
    iterate is good".
    """
    good = errors <= epsilon
    runs = good.shape[1]
    draws = np.random.default_rng(seed).multinomial(runs, np.full(runs, 1 / runs), size=_BOOTSTRAP)
    again = np.sort(_first_half(good.astype(float) @ draws.T / runs))
    last = len(steps) - 1

    def at(index: float) -> int | None:
        return int(steps[int(index)]) if index <= last else None

    return Reached(
        steps=at(_first_half(good.mean(1, keepdims=True))[0]),
        low=at(again[int(0.025 * _BOOTSTRAP)]),
        high=at(again[int(0.975 * _BOOTSTRAP)]),
        share=float(good[-1].mean()),
    )


def _first_half(share: np.ndarray) -> np.ndarray:
    """(c, b) -> (b,): the first row with at least one half, c where there is none."""
    enough = share >= 0.5
    return np.where(enough.any(0), enough.argmax(0), len(share))


@dataclass(frozen=True)
class Exponent:
    """n ≈ constant · (1/variable)^slope, with a 95 % interval of the slope."""

    slope: float
    low: float
    high: float
    constant: float
    points: int


def fit_exponent(variable: Sequence[float], reached: Sequence[Reached]) -> Exponent | None:
    """Least squares of log n on log(1/variable); cells that were not reached are left out.

    The interval takes the larger of two errors: the bootstrap error of the medians, and the
    scatter around the line. None with fewer than three points.
    """
    if len(variable) != len(reached):
        raise InputError(f"{len(variable)} values and {len(reached)} measurements do not match.")
    kept = [
        (value, r.steps, _log_error(r.steps, r))
        for value, r in zip(variable, reached, strict=True)
        if r.steps is not None
    ]
    if len(kept) < 3:
        return None
    values, steps, noise = (np.array(column) for column in zip(*kept, strict=True))
    x, y = -np.log(values), np.log(steps)
    centred = x - x.mean()
    spread = float(centred @ centred)
    slope = float(centred @ y) / spread
    offset = float(y.mean() - slope * x.mean())
    scatter = float(((y - offset - slope * x) ** 2).sum()) / (len(kept) - 2) / spread
    sampling = float((centred**2) @ noise**2) / spread**2
    reach = float(stats.t.ppf(0.975, len(kept) - 2)) * math.sqrt(max(scatter, sampling))
    return Exponent(slope, slope - reach, slope + reach, math.exp(offset), len(kept))


def _log_error(steps: int, reached: Reached) -> float:
    """Standard error of log n from the bootstrap interval, mirrored where its upper end is open."""
    low = reached.low or steps
    high = reached.high or steps * steps / low
    return math.log(high / low) / (2 * 1.96)
