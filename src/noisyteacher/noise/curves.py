"""What is learned from V, from all of it or from one class."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from noisyteacher.noise.cuts import fit_cuts
from noisyteacher.noise.isotonic import StepIsotonic


@dataclass(frozen=True)
class Curves:
    """The alpha curve and the cuts of k(x), from ``n`` examples of V."""

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
