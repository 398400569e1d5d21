"""Forward correction: send the prediction through the teacher's confusions before comparing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from noisyteacher.core.errors import InputError
from noisyteacher.labels import TeacherLabels
from noisyteacher.losses import forward_correction_from_log
from noisyteacher.methods.base import Batch, Columns, Rows, one_hot
from noisyteacher.methods.targets import TargetMethod, dense_labels, given
from noisyteacher.noise import TeacherNoise


@dataclass(frozen=True, repr=False)
class ForwardCorrection(TargetMethod):
    """Cross-entropy between the teacher's label and the student's prediction times T, on the pool.

    Row i of T is the mean teacher label over the rows of V whose true class is i, with
    ``smoothing`` pseudo-rows spread evenly over the classes: V may have few rows of a class.
    """

    smoothing: float = 1.0
    hard: bool = False

    dense_only: ClassVar[bool] = True
    formula: ClassVar[str] = "−Σ_j ys_j log Σ_i f_i T_ij, T from V"
    reference: ClassVar[str] = "Patrini et al. CVPR 2017"
    unverified: ClassVar[str] = "soft labels, and how much to smooth"

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check(self.smoothing >= 0, "smoothing", "at least 0")

    def prepare(
        self, rows: Rows, labels: TeacherLabels | None, noise: TeacherNoise | None
    ) -> Columns:
        columns = super().prepare(rows, labels, noise)
        val = given(self, labels).take(rows.val_ids)
        columns.constants["transition"] = self.transition(
            dense_labels(val, self.hard), torch.as_tensor(rows.val_y)
        )
        return columns

    def transition(self, val_target: Tensor, val_y: Tensor) -> Tensor:
        """(L, L): row i is what the teacher says when the truth is i."""
        classes = val_target.shape[1]
        truth = one_hot(val_y, classes)
        total = truth.sum(0) + self.smoothing
        if bool((total == 0).any()):
            raise InputError(
                f"{self!r}: V has no row of class {int(total.argmin())}; take smoothing above 0."
            )
        return (truth.T @ val_target + self.smoothing / classes) / total[:, None]

    def example_losses(self, logits: Tensor, batch: Batch) -> Tensor:
        corrected = forward_correction_from_log(
            batch.values["target"], logits.log_softmax(1), batch.constants["transition"]
        )
        return torch.where(batch.gold, super().example_losses(logits, batch), corrected)
