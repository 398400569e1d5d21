"""Did the teacher see V? Ids that sets share, and confidence that is too good on V."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from scipy.stats import ks_2samp

from noisyteacher.io.ids import IdLookup

FAR = 0.1
SURE = 1e-3


@dataclass(frozen=True)
class Leakage:
    """Signs that V is not new to the teacher."""

    val_in_gold: list[str]  # ids of V that are in A too
    val_in_pool: list[str]  # ids of V that are in the pool too
    gold_in_pool: list[str]  # ids of A that are in the pool too
    excess_confidence: float  # the largest share of rows by which V is more confident, 0 to 1
    p_value: float  # of V being no more confident than the pool; 1 without a pool
    suspected: bool  # whether V is too confident to be new


def look_for_leaks(
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
        suspected=excess >= FAR and p_value < SURE,
    )


def _shared(some: np.ndarray, others: np.ndarray) -> list[str]:
    return [str(i) for i in some[IdLookup(others).find(some) >= 0].tolist()]
