"""Partial labels: the truth is one of the teacher's first classes, and no more is said."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch

from noisyteacher.core.errors import InputError, NoisyTeacherWarning
from noisyteacher.labels import TeacherLabels
from noisyteacher.methods.base import Columns, Grid, Rows, one_hot
from noisyteacher.methods.targets import TargetMethod, all_rows


@dataclass(frozen=True, repr=False)
class PartialLabels(TargetMethod):
    """Cross-entropy with equal shares on the teacher's ``top`` first classes."""

    top: int = 2

    hard: ClassVar[bool] = False  # type: ignore[misc]  # there is one form only
    formula: ClassVar[str] = "−(1/n) Σ_{j among the first n of ys} log f_j"
    reference: ClassVar[str] = "arXiv 2402.10482 (ICLR 2025)"
    unverified: ClassVar[str] = "read in its abstract only"
    grid: ClassVar[Grid] = {"top": (2, 3, 5)}

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check(self.top >= 1, "top", "at least 1")

    def target_columns(self, rows: Rows, pool: TeacherLabels) -> Columns:
        if self.top > pool.k:
            raise InputError(f"{self!r} needs {self.top} classes per label; {pool.k} are stored.")
        first = torch.from_numpy(pool.topk_index[:, : self.top].astype(np.int64))
        if self.top >= rows.classes:
            warnings.warn(
                f"{self!r} of {rows.classes} classes tells none from another.",
                NoisyTeacherWarning,
                stacklevel=2,
            )
        # Classes that the teacher rules out, as in a hard label, have no share.
        said = torch.from_numpy(np.isfinite(pool.topk_logprob[:, : self.top])).float()
        shared = torch.zeros(len(first), rows.classes).scatter_(1, first, said)
        shared /= shared.sum(1, keepdim=True)
        target = one_hot(torch.from_numpy(np.array(rows.y, np.int64)), rows.classes)
        target[torch.from_numpy(~rows.gold)] = shared
        columns = all_rows(rows)
        columns.values["target"] = target
        return columns
