"""Fidelity weighting: trust a teacher label less, the more it changes from view to view."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from noisyteacher.labels import TeacherLabels
from noisyteacher.methods.base import (
    SOFT_LABELS,
    VIEW_STATISTICS,
    Columns,
    Grid,
    Method,
    Rows,
)
from noisyteacher.methods.targets import pool_labels
from noisyteacher.methods.vanilla import Vanilla
from noisyteacher.methods.wrapper import Wrapper
from noisyteacher.noise import TeacherNoise

NORMALIZERS: dict[str, Callable[[np.ndarray], float]] = {
    "mean": np.mean,
    "sum": np.sum,
    "max": np.max,
}


@dataclass(frozen=True, repr=False)
class Fidelity(Wrapper):
    """Weight exp(−β ū(x)) on pool rows, around any method.

    u is the variance of the teacher's probabilities over views, averaged over classes, and ū is u
    divided by its ``normalizer`` over the pool. The paper divides by the ``"sum"``, which makes
    every weight of a large pool practically 1; hence ``"mean"``.
    """

    beta: float
    normalizer: str = "mean"
    inner: Method = Vanilla()  # noqa: RUF009  frozen

    own_needs: ClassVar[frozenset[str]] = frozenset({SOFT_LABELS, VIEW_STATISTICS})
    formula: ClassVar[str] = "exp(−β u(x) / mean u) · inner"
    reference: ClassVar[str] = "Dehghani et al. ICLR 2018, as in the SLaM paper"
    unverified: ClassVar[str] = "the original's exact weight; the paper's normaliser is `sum`"
    grid: ClassVar[Grid] = {"beta": (0.1, 0.2, 1.0, 1.2, 2.0, 5.0, 10.0, 20.0)}

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check(self.beta >= 0, "beta", "at least 0")
        self._check(self.normalizer in NORMALIZERS, "normalizer", '"mean", "sum" or "max"')

    def prepare(
        self, rows: Rows, labels: TeacherLabels | None, noise: TeacherNoise | None
    ) -> Columns:
        columns = super().prepare(rows, labels, noise)
        std = pool_labels(self, rows, labels).extras["view_std"]
        factor = torch.ones(len(rows))
        factor[torch.from_numpy(~rows.gold)] = torch.from_numpy(self.pool_weights(std))
        columns.values["fidelity"] = factor[columns.index]
        columns.weight *= columns.values["fidelity"]
        return columns

    def pool_weights(self, view_std: np.ndarray) -> np.ndarray:
        """(n,) float32 weights of pool rows, from their (n, 2, L) deviations over views."""
        uncertainty = np.square(view_std[:, 0], dtype=np.float64).mean(axis=1)
        if not len(uncertainty):
            return np.ones(0, np.float32)
        scale = NORMALIZERS[self.normalizer](uncertainty)
        if scale == 0:  # the views of every row agree
            return np.ones(len(uncertainty), np.float32)
        weights: np.ndarray = np.exp(-self.beta * uncertainty / scale)
        return weights.astype(np.float32)

    def refresh(self, student_probs: Tensor, val_probs: Tensor, columns: Columns) -> None:
        if self.refresh_every():
            super().refresh(student_probs, val_probs, columns)
            # The inner method wrote its weights anew.
            columns.weight *= columns.values["fidelity"]
