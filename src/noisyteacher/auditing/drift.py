"""Is V like the pool? Two-sample tests, and what V is worth when it is not."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int
from scipy.stats import chi2, ks_2samp

from noisyteacher.auditing.bootstrap import Bootstrap, Interval, interval
from noisyteacher.auditing.reading import RowSummary, ValReading

_GROUPS = 20
QUANTILES = np.linspace(0.0, 1.0, 21)


@dataclass(frozen=True)
class Comparison:
    """One number of V's rows against the pool's: Kolmogorov and Smirnov's test.

    ``distance`` is the effect: the largest difference between the two distribution functions,
    from 0 (the same) to 1. With a large pool even a tiny one has a small ``p_value``.
    """

    distance: float
    p_value: float
    at: float  # where the distance is reached
    val_is_lower: bool  # whether V has more of the low values there
    val_mean: float
    pool_mean: float
    val_quantiles: list[float]  # at 0, 0.05, ..., 1
    pool_quantiles: list[float]


@dataclass(frozen=True)
class Drift:
    """V against the pool."""

    margin: Comparison
    entropy: Comparison
    classes_effect: float  # Cohen's w of the predicted classes' shares, what chance explains off
    classes_p_value: float
    pool_outside_val: float  # the share of the pool with margins that V never shows
    reweighted_accuracy: Interval  # of V, weighted so that its margins are spread as the pool's
    reweighted_rows: float  # how many equally weighted rows V is then worth


def compare_with_pool(val: ValReading, pool: RowSummary, bootstrap: Bootstrap) -> Drift:
    """Compare margins, entropies and predicted classes."""
    effect, p_value = _compare_classes(val.predicted, pool.predicted, val.num_classes)
    weight = importance_weights(val.margin, pool.margin)
    right = val.right.astype(np.float64)
    hits, total = bootstrap.means(np.column_stack([weight * right, weight])).T
    outside = (pool.margin < val.margin.min()) | (pool.margin > val.margin.max())
    return Drift(
        margin=compare(val.margin, pool.margin),
        entropy=compare(val.entropy, pool.entropy),
        classes_effect=effect,
        classes_p_value=p_value,
        pool_outside_val=float(outside.mean()),
        reweighted_accuracy=interval(float(weight @ right / weight.sum()), hits / total),
        reweighted_rows=float(weight.sum() ** 2 / (weight**2).sum()),
    )


def compare(val: Float[np.ndarray, " n"], pool: Float[np.ndarray, " p"]) -> Comparison:
    """Both distributions of one number."""
    test = ks_2samp(val, pool, method="asymp")
    return Comparison(
        distance=float(test.statistic),
        p_value=float(test.pvalue),
        at=float(test.statistic_location),
        val_is_lower=bool(test.statistic_sign > 0),
        val_mean=float(val.mean()),
        pool_mean=float(pool.mean()),
        val_quantiles=np.quantile(val, QUANTILES).tolist(),
        pool_quantiles=np.quantile(pool, QUANTILES).tolist(),
    )


def importance_weights(
    val: Float[np.ndarray, " n"], pool: Float[np.ndarray, " p"]
) -> Float[np.ndarray, " n"]:
    """The pool's density over V's at each row of V, from groups of V's neighbouring margins."""
    groups = min(_GROUPS, max(1, len(val) // 10))
    edges = np.unique(np.quantile(val, np.linspace(0, 1, groups + 1)[1:-1]))
    of_val, of_pool = (np.searchsorted(edges, x, side="right") for x in (val, pool))
    val_rows = np.bincount(of_val, minlength=len(edges) + 1)
    pool_rows = np.bincount(of_pool, minlength=len(edges) + 1)
    ratio = pool_rows / len(pool) / (np.maximum(val_rows, 1) / len(val))
    return np.asarray(ratio[of_val])


def _compare_classes(
    val: Int[np.ndarray, " n"], pool: Int[np.ndarray, " p"], classes: int
) -> tuple[float, float]:
    """The effect and the p-value of the two-sample chi-squared test."""
    counts = np.array([np.bincount(x, minlength=classes) for x in (val, pool)], np.float64)
    counts = counts[:, counts.sum(axis=0) > 0]
    expected = np.outer(counts.sum(axis=1), counts.sum(axis=0)) / counts.sum()
    statistic = float(((counts - expected) ** 2 / expected).sum())
    freedom = counts.shape[1] - 1
    if freedom == 0:
        return 0.0, 1.0
    # In units of V alone: a larger pool makes the test sharper, not the difference larger.
    both = 1 / (1 / len(val) + 1 / len(pool))
    effect = np.sqrt(max(0.0, statistic - freedom) / both)
    return float(effect), float(chi2.sf(statistic, freedom))
