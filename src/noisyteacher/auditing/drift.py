"""V against the pool: is V like it, and did the teacher see V?"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int
from scipy.stats import chi2_contingency, ks_2samp

from noisyteacher.auditing.bootstrap import Bootstrap, interval
from noisyteacher.auditing.quality import RowSummary, ValReading
from noisyteacher.choose.decision import Interval
from noisyteacher.io.ids import are_among

_GROUPS = 20
_QUANTILES = np.linspace(0.0, 1.0, 21)
# V looks leaked where its margins are higher than the pool's by this much, and not by chance.
_LEAK_DISTANCE, _LEAK_P_VALUE = 0.1, 1e-3


@dataclass(frozen=True)
class DriftTest:
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

    margin: DriftTest
    entropy: DriftTest
    classes_effect: float  # Cohen's w of the predicted classes' shares, less what chance explains
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


def compare(val: Float[np.ndarray, " n"], pool: Float[np.ndarray, " p"]) -> DriftTest:
    """Both distributions of one number."""
    test = ks_2samp(val, pool, method="asymp")
    return DriftTest(
        distance=float(test.statistic),
        p_value=float(test.pvalue),
        at=float(test.statistic_location),
        val_is_lower=bool(test.statistic_sign > 0),
        val_mean=float(val.mean()),
        pool_mean=float(pool.mean()),
        val_quantiles=np.quantile(val, _QUANTILES).tolist(),
        pool_quantiles=np.quantile(pool, _QUANTILES).tolist(),
    )


def importance_weights(
    val: Float[np.ndarray, " n"], pool: Float[np.ndarray, " p"]
) -> Float[np.ndarray, " n"]:
    """The pool's density over V's at each row of V, from groups of V's neighboring margins."""
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
    counts = np.array([np.bincount(x, minlength=classes) for x in (val, pool)])
    test = chi2_contingency(counts[:, counts.any(axis=0)], correction=False)
    # In units of V alone: a larger pool makes the test sharper, not the difference larger.
    both = 1 / (1 / len(val) + 1 / len(pool))
    return float(np.sqrt(max(0.0, test.statistic - test.dof) / both)), float(test.pvalue)


@dataclass(frozen=True)
class Leakage:
    """Signs that V is not new to the teacher."""

    val_in_gold: list[str]  # ids of V that are in A too
    val_in_pool: list[str]  # ids of V that are in the pool too
    gold_in_pool: list[str]  # ids of A that are in the pool too
    excess_confidence: float  # the largest share of rows by which V is more confident, 0 to 1
    p_value: float  # of V being no more confident than the pool; 1 without a pool
    suspected: bool  # whether V is too confident to be new


def check_leakage(
    val_margin: Float[np.ndarray, " n"],
    pool_margin: Float[np.ndarray, " p"] | None,
    val_ids: np.ndarray,
    gold_ids: np.ndarray,
    pool_ids: np.ndarray,
) -> Leakage:
    """Compare V's margins with the pool's, and the ids of V, A and the pool as they were given.

    A teacher is surer of what it was trained on, so V should not look more confident than the
    pool. An easier V looks the same: either way alpha would be too high on the pool.
    """
    excess, p_value = 0.0, 1.0
    if pool_margin is not None:
        # The distribution function of the larger numbers is the lower one.
        test = ks_2samp(val_margin, pool_margin, alternative="less", method="asymp")
        excess, p_value = float(test.statistic), float(test.pvalue)
    return Leakage(
        val_in_gold=_shared(val_ids, gold_ids),
        val_in_pool=_shared(val_ids, pool_ids),
        gold_in_pool=_shared(gold_ids, pool_ids),
        excess_confidence=excess,
        p_value=p_value,
        suspected=excess >= _LEAK_DISTANCE and p_value < _LEAK_P_VALUE,
    )


def _shared(some: np.ndarray, others: np.ndarray) -> list[str]:
    return [str(i) for i in some[are_among(some, others)].tolist()]
