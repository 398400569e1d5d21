"""How far a number may move, because V is small: the bootstrap, by weights instead of copies."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from noisyteacher.choose.decision import Interval
from noisyteacher.noise.isotonic import Number

LEVEL = 0.95
_BLOCK_VALUES = 1 << 22


@dataclass(frozen=True)
class Bootstrap:
    """``replicates`` samples of ``draws`` rows with replacement, the same in every call."""

    rows: int
    replicates: int = 1000
    seed: int = 0
    draws: int | None = None  # as many as there are rows, unless given

    def weights(self) -> Iterator[Float[np.ndarray, "some rows"]]:
        """How often each row was drawn, for some replicates at a time."""
        rng = np.random.default_rng(self.seed)
        draws = self.draws or self.rows
        at_once = max(1, _BLOCK_VALUES // self.rows)
        for start in range(0, self.replicates, at_once):
            some = min(at_once, self.replicates - start)
            place = rng.integers(0, self.rows, (some, draws))
            place += np.arange(some)[:, None] * self.rows
            count = np.bincount(place.ravel(), minlength=some * self.rows)
            yield count.reshape(some, self.rows).astype(np.float64)

    def means(self, columns: Float[np.ndarray, "rows m"]) -> Float[np.ndarray, "replicates m"]:
        """The mean of every column in every replicate."""
        return np.concatenate([w @ columns for w in self.weights()]) / (self.draws or self.rows)


def percentiles(draws: Float[np.ndarray, " replicates"]) -> list[float]:
    """The ends of the middle 95% of the replicates."""
    ends: list[float] = np.quantile(draws, [(1 - LEVEL) / 2, (1 + LEVEL) / 2]).tolist()
    return ends


def interval(value: Number, draws: Float[np.ndarray, " replicates"]) -> Interval:
    """The percentile interval of a mean."""
    return Interval(float(value), *percentiles(draws))


def pivot_interval(value: Number, draws: Float[np.ndarray, " replicates"]) -> Interval:
    """The interval of a number that resampling pushes up, such as an absolute error.

    Replicates lie above the value by as much as the value lies above the truth, so the interval
    is mirrored at the value; it ends at 0, and not below the value, which would read as a mistake.
    """
    low, high = percentiles(draws)
    return Interval(float(value), max(0.0, 2 * value - high), max(float(value), 2 * value - low))
