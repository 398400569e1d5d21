"""The alpha curve with its band, and what the pool makes of it."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.optimize import isotonic_regression

from noisyteacher.auditing.bootstrap import Bootstrap, Interval, interval, percentiles

_GRID_POINTS = 101
# Isotonic bands shrink like n^(-1/2) where the curve is a step and like n^(-1/3) where it rises.
SLOWEST, FASTEST = 1 / 3, 1 / 2


@dataclass(frozen=True)
class ValGroup:
    """Rows of V with neighbouring margins."""

    rows: int
    margin: float  # their mean
    accuracy: float


@dataclass(frozen=True)
class AlphaCurve:
    """alpha(x) against the margin, before the lower bound, with a pointwise 95 % band.

    The bootstrap of an isotonic fit is a guide to its spread, not an exact interval.
    """

    margin: list[float]  # percentiles of the pool's margins
    alpha: list[float]
    low: list[float]
    high: list[float]
    pool_share: list[float]  # of the pool, at margins up to this one and above the one before
    val_groups: list[ValGroup]  # what the curve was fitted to, up to 20 groups
    band_width: float  # mean over the pool of high - low
    rows_to_halve_band: int  # how many rows V should have for a band half as wide


@dataclass(frozen=True)
class PoolTrust:
    """How much of the pool the noise model trusts."""

    rows: int
    mean_alpha: Interval
    share_at_lower_bound: Interval
    effective_labels: Interval  # sum of (2 alpha - 1)^2, in gold labels
    k_rows: dict[int, int]  # k(x) -> pool rows that have it
    k_median: float
    unreachable_share: float  # of rows with k = L because k(x) lay beyond the stored classes


@dataclass(frozen=True)
class StepFits:
    """Isotonic fits to reweighted copies of V, all on the knots of V itself."""

    knots: Float[np.ndarray, " m"]
    knot: Int[np.ndarray, " n"]  # of each row
    right: Float[np.ndarray, " n"]

    @classmethod
    def of(cls, margin: Float[np.ndarray, " n"], right: Bool[np.ndarray, " n"]) -> StepFits:
        knots, knot = np.unique(margin, return_inverse=True)
        return cls(knots, knot, right.astype(np.float64))

    def fit(self, weight: Float[np.ndarray, " n"]) -> Float[np.ndarray, " m"]:
        """The step function's value at every knot, also at those whose rows weigh nothing."""
        total = np.bincount(self.knot, weight, len(self.knots))
        hits = np.bincount(self.knot, weight * self.right, len(self.knots))
        seen = total > 0
        fitted = isotonic_regression(hits[seen] / total[seen], weights=total[seen]).x
        # A query takes the value at the next knot that is there, the last one beyond the end.
        following = np.cumsum(seen, dtype=np.int64) - seen.astype(np.int64)
        return np.asarray(fitted[np.minimum(following, len(fitted) - 1)])

    def at(self, margin: Float[np.ndarray, " q"]) -> Int[np.ndarray, " q"]:
        """The knot whose value each margin takes."""
        return np.minimum(np.searchsorted(self.knots, margin), len(self.knots) - 1)


def effective_labels(alpha: Float[np.ndarray, "*shape"]) -> Float[np.ndarray, "*shape"]:
    """What a teacher label is worth in gold labels: (2 alpha - 1)^2, and 0 below 1/2.

    Of two equally likely classes, a label that names the right one with chance alpha carries this
    share of a gold label's Fisher information: nothing at 1/2, where SLaM ignores it, all at 1.
    """
    return np.asarray((2 * np.maximum(alpha, 0.5) - 1) ** 2)


def margin_grid(pool_margin: Float[np.ndarray, " p"]) -> Float[np.ndarray, " g"]:
    """Where curves are shown: at the pool's percentiles, from its lowest margin to its highest."""
    shares = np.linspace(0.0, 1.0, _GRID_POINTS)
    return np.unique(np.quantile(pool_margin, shares, method="higher"))


def fit_alpha_curve(
    margin: Float[np.ndarray, " n"],
    right: Bool[np.ndarray, " n"],
    pool_margin: Float[np.ndarray, " p"],
    lower_bound: float,
    bootstrap: Bootstrap,
) -> tuple[AlphaCurve, dict[str, Interval]]:
    """The curve, and the intervals of PoolTrust's numbers by name."""
    fits = StepFits.of(margin, right)
    grid = margin_grid(pool_margin)
    pool_at_knot = np.bincount(fits.at(pool_margin), minlength=len(fits.knots))
    pool_share = np.bincount(np.searchsorted(grid, pool_margin)) / len(pool_margin)
    at_grid = fits.at(grid)

    def pool_numbers(value: Float[np.ndarray, " m"]) -> list[float]:
        alpha = np.maximum(value, lower_bound)
        worth = effective_labels(value) @ pool_at_knot
        bound = pool_at_knot[value <= lower_bound].sum() / len(pool_margin)
        return [float(alpha @ pool_at_knot / len(pool_margin)), float(bound), float(worth)]

    value = fits.fit(np.ones(len(margin)))
    drawn_curves, drawn_numbers = [], []
    for weights in bootstrap.weights():
        for weight in weights:
            drawn = fits.fit(weight)
            drawn_curves.append(drawn[at_grid])
            drawn_numbers.append(pool_numbers(drawn))
    low, high = percentiles(np.array(drawn_curves))
    width = float((high - low) @ pool_share)
    names = ("mean_alpha", "share_at_lower_bound", "effective_labels")
    numbers = {
        name: interval(now, draws)
        for name, now, draws in zip(
            names, pool_numbers(value), np.array(drawn_numbers).T, strict=True
        )
    }
    wanted = len(margin) * _growth_to_halve(fits, at_grid, pool_share, width, bootstrap)
    curve = AlphaCurve(
        margin=grid.tolist(),
        alpha=value[at_grid].tolist(),
        low=low.tolist(),
        high=high.tolist(),
        pool_share=pool_share.tolist(),
        val_groups=_grouped(margin, right),
        band_width=width,
        rows_to_halve_band=_two_digits(wanted),
    )
    return curve, numbers


def _growth_to_halve(
    fits: StepFits,
    at_grid: Int[np.ndarray, " g"],
    pool_share: Float[np.ndarray, " g"],
    width: float,
    bootstrap: Bootstrap,
) -> float:
    """How many times larger V should be, from how the band widens when a quarter of V is drawn."""
    quarter = replace(
        bootstrap, draws=max(1, bootstrap.rows // 4), replicates=min(bootstrap.replicates, 200)
    )
    drawn = [fits.fit(weight)[at_grid] for weights in quarter.weights() for weight in weights]
    low, high = percentiles(np.array(drawn))
    wider = float((high - low) @ pool_share)
    rate = np.log(wider / width) / np.log(4) if width > 0 and wider > 0 else FASTEST
    return float(2 ** (1 / np.clip(rate, SLOWEST, FASTEST)))


def _grouped(margin: Float[np.ndarray, " n"], right: Bool[np.ndarray, " n"]) -> list[ValGroup]:
    groups = np.array_split(np.argsort(margin, kind="stable"), min(20, max(1, len(margin) // 10)))
    return [
        ValGroup(len(rows), float(margin[rows].mean()), float(right[rows].mean()))
        for rows in groups
    ]


def _two_digits(number: float) -> int:
    return int(float(f"{number:.1e}"))
