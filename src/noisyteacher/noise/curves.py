"""What is learned from V, for all of it or for one class, and how a pool is read off it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int

from noisyteacher.noise.confidence import Metric, covariates
from noisyteacher.noise.cuts import ALWAYS, NEVER, first_passed, fit_cuts
from noisyteacher.noise.isotonic import StepIsotonic
from noisyteacher.noise.rows import TeacherRows, each_chunk


@dataclass(frozen=True)
class Curves:
    """The alpha curve and the cuts of k(x), from ``n`` examples of V."""

    curve: StepIsotonic
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
        by_size: covariates as :func:`covariates_by_size` makes them.
        rank: the truth's place in the teacher's order, 0 for the top class.
        lower_bound: alpha's lower bound.
        threshold: the accuracy a shortlist must reach; None when no cuts are wanted.
    """
    curve = StepIsotonic(lower_bound=lower_bound).fit(by_size[0], rank == 0)
    cuts = None if threshold is None else fit_cuts(by_size, rank, threshold)
    return Curves(curve, cuts, len(rank))


def covariates_by_size(
    rows: TeacherRows, sizes: int, metric: Metric
) -> Float[np.ndarray, "sizes n"]:
    """Covariate_k of every row, one array row for each k from 1 to ``sizes``."""
    by_size = np.empty((sizes, len(rows)))

    def fill(part: slice) -> None:
        by_size[:, part] = covariates(rows, part, sizes, metric).T

    each_chunk(fill, len(rows), 8 * rows.stored)
    return by_size


@dataclass(frozen=True)
class CutTable:
    """The cuts of several groups of examples, side by side."""

    cuts: Float[np.ndarray, "groups sizes"]
    complete: Bool[np.ndarray, " groups"]  # whether the cuts up to L-1 are all known

    @classmethod
    def stack(cls, groups: Sequence[np.ndarray], num_classes: int) -> CutTable:
        """Stack cuts of different lengths: after ALWAYS comes ALWAYS, what is unknown is NEVER."""
        ended = np.array([cuts[-1] == ALWAYS for cuts in groups])
        table = np.full((len(groups), max(map(len, groups))), NEVER)
        table[ended] = ALWAYS
        for row, cuts in zip(table, groups, strict=True):
            row[: len(cuts)] = cuts
        return cls(table, ended | np.array([len(cuts) == num_classes - 1 for cuts in groups]))

    def of(self, group: Int[np.ndarray, " n"], sizes: int) -> Float[np.ndarray, "*rows sizes"]:
        """The first cuts of each example's group; one row serves all when there is one group."""
        return self.cuts[0, :sizes] if len(self.cuts) == 1 else self.cuts[group, :sizes]


def read_confidence(rows: TeacherRows, metric: Metric) -> Float[np.ndarray, " n"]:
    """Covariate_1 of every row."""
    return covariates_by_size(rows, 1, metric)[0]


def read_pool(
    rows: TeacherRows, table: CutTable, group: Int[np.ndarray, " n"], metric: Metric
) -> tuple[Float[np.ndarray, " n"], Int[np.ndarray, " n"]]:
    """Covariate_1 of every row, and the smallest size whose cut it passes (0: none).

    A first look at the few largest probabilities settles most rows; only the others are sorted.
    """
    sizes = min(table.cuts.shape[1], rows.stored - 1)
    look = min(sizes, rows.cheap_width - 1)
    confidence = np.empty(len(rows))
    size = np.empty(len(rows), dtype=np.int64)

    def first_look(part: slice) -> None:
        seen = covariates(rows, part, look, metric)
        confidence[part] = seen[:, 0]
        size[part] = first_passed(seen, table.of(group[part], look))

    each_chunk(first_look, len(rows), 8 * rows.stored)
    if look == sizes:
        return confidence, size
    rest = np.flatnonzero(size == 0)

    def full_look(part: slice) -> None:
        these = rest[part]
        seen = covariates(rows, these, sizes, metric)
        size[these] = first_passed(seen, table.of(group[these], sizes))

    each_chunk(full_look, len(rest), 8 * rows.stored)
    return confidence, size
