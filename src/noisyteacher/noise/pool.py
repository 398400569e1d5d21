"""How far a pool can be trusted: alpha(x) and k(x), read off the curves and the cuts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from noisyteacher.noise.covariates import Block, Metric, TeacherRows, covariates
from noisyteacher.noise.isotonic import ALWAYS, NEVER, first_passed


@dataclass(frozen=True, repr=False)
class Trust:
    """alpha(x) and k(x) of teacher labels; torch if the labels were torch, otherwise NumPy."""

    alpha: np.ndarray | Tensor  # (n,) float32: the chance that the teacher's top class is right
    k: np.ndarray | Tensor  # (n,) int64: how many of its top classes hold the truth, from 2 to L
    lower_bound: float | np.ndarray  # what alpha is cut off at from below: all rows, or each
    unreachable: int = 0  # rows with k = L because k(x) lay beyond the stored probabilities

    def __len__(self) -> int:
        return len(self.alpha)

    def __repr__(self) -> str:
        if not len(self):
            return "Trust(rows=0)"
        alpha, k = (np.asarray(torch.as_tensor(values).cpu()) for values in (self.alpha, self.k))
        return (
            f"Trust(rows={len(self)}, alpha={alpha.min():.3f} to {alpha.max():.3f} (mean "
            f"{alpha.mean():.3f}), k={k.min()} to {k.max()} (median {np.median(k):g}))"
        )

    @property
    def share_at_lower_bound(self) -> float:
        """The share of rows whose alpha is the lower bound; at 0.5, SLaM mostly ignores these."""
        alpha = np.asarray(self.alpha.cpu() if isinstance(self.alpha, Tensor) else self.alpha)
        return float((alpha <= np.float32(self.lower_bound)).mean()) if len(self) else 0.0

    @property
    def unreachable_share(self) -> float:
        """The share of rows with k = L because k(x) exceeds the number of stored probabilities."""
        return self.unreachable / len(self) if len(self) else 0.0


@dataclass(frozen=True)
class CutTable:
    """The cuts of several groups of examples, side by side."""

    cuts: Float[np.ndarray, "groups sizes"]
    complete: Bool[np.ndarray, " groups"]  # whether the cuts up to L-1 are all known

    @classmethod
    def stack(cls, groups: Sequence[np.ndarray | None], num_classes: int) -> CutTable:
        """Stack cuts of different lengths; sizes whose cut is unknown never pass.

        A group without cuts, as with a k for all examples, passes at once.
        """
        known = [np.array([ALWAYS]) if cuts is None else cuts for cuts in groups]
        ended = np.array([cuts[-1] == ALWAYS for cuts in known])
        table = np.full((len(known), max(map(len, known))), NEVER)
        for row, cuts in zip(table, known, strict=True):
            row[: len(cuts)] = cuts
        return cls(table, ended | np.array([len(cuts) == num_classes - 1 for cuts in known]))

    def of(self, group: Int[np.ndarray, " n"], sizes: int) -> Float[np.ndarray, "*rows sizes"]:
        """The first cuts of each example's group; one row serves all when there is one group."""
        return self.cuts[0, :sizes] if len(self.cuts) == 1 else self.cuts[group, :sizes]


@dataclass(frozen=True)
class PoolReading:
    """What a pool's rows show of the curves and cuts, row by row."""

    confidence: Float[np.ndarray, " n"]  # covariate_1
    group: Int[np.ndarray, " n"]  # whose curves count
    size: Int[np.ndarray, " n"]  # the smallest size whose cut is passed; 0: none


def read_pool(
    rows: TeacherRows, table: CutTable, group_of_class: Int[np.ndarray, " classes"], metric: Metric
) -> PoolReading:
    """Read a pool block by block.

    A first look at the few largest probabilities settles most rows; only the others are sorted.
    """
    sizes = min(table.cuts.shape[1], rows.stored - 1)
    pool = PoolReading(
        np.empty(len(rows)), np.zeros(len(rows), np.int64), np.empty(len(rows), np.int64)
    )

    def read(part: slice, block: Block) -> None:
        if group_of_class.any():
            pool.group[part] = group_of_class[block.top_class()]
        group, size = pool.group[part], pool.size[part]
        look = min(sizes, block.cheap_width - 1)
        seen = covariates(block, look, metric)
        pool.confidence[part] = seen[:, 0]
        size[:] = first_passed(seen, table.of(group, look))
        rest = np.flatnonzero(size == 0)
        if look < sizes and len(rest):
            seen = covariates(block, sizes, metric, rest)
            size[rest] = first_passed(seen, table.of(group[rest], sizes))

    rows.each_block(read)
    return pool
