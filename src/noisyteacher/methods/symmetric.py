"""Symmetric cross-entropy: the usual one plus the one with label and prediction exchanged."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from noisyteacher.losses import symmetric_ce_from_log
from noisyteacher.methods.base import Batch, Grid
from noisyteacher.methods.targets import TargetMethod


@dataclass(frozen=True, repr=False)
class SymmetricCE(TargetMethod):
    """Its authors use (alpha, beta) = (0.1, 1) on CIFAR-10 and (6, 1) on CIFAR-100."""

    alpha: float = 0.1
    beta: float = 1.0
    hard: bool = False

    dense_only: ClassVar[bool] = True
    formula: ClassVar[str] = "α ce(ys, f) − β Σ_j f_j log max(ys_j, 1e-4)"
    reference: ClassVar[str] = "Wang et al. ICCV 2019"
    grid: ClassVar[Grid] = {"alpha": (0.1, 6.0)}

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check(self.alpha >= 0, "alpha", "at least 0")
        self._check(self.beta >= 0, "beta", "at least 0")

    def example_losses(self, logits: Tensor, batch: Batch) -> Tensor:
        log_probs = logits.log_softmax(1)
        return symmetric_ce_from_log(batch.values["target"], log_probs, self.alpha, self.beta)
