"""Truncated generalised cross-entropy: stop learning labels that the student does not come to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from noisyteacher import losses
from noisyteacher.labels import TeacherLabels
from noisyteacher.methods.base import Batch, Columns, Output, Rows
from noisyteacher.methods.targets import TargetMethod, pool_labels, weighted_mean
from noisyteacher.noise import TeacherNoise


@dataclass(frozen=True, repr=False)
class TruncatedGCE(TargetMethod):
    """Generalised cross-entropy, from ``start`` on without the rows whose label is improbable.

    Args:
        q: as in ``GCE``.
        threshold: a pool row is left out while its label has this probability or less.
        every: how many epochs until that is decided anew.
        start: the share of training before anything is left out (40 of 120 epochs in the
            reference).
        hard: train on the teacher's top class; the label that is looked at is always that.
    """

    q: float = 0.7
    threshold: float = 0.5
    every: int = 10
    start: float = 1 / 3
    hard: bool = False

    formula: ClassVar[str] = "1{f_top > τ} Σ_j ys_j (1 − f_j^q) / q, the first term renewed"
    reference: ClassVar[str] = "Zhang & Sabuncu 2018"
    unverified: ClassVar[str] = "soft labels"

    def __post_init__(self) -> None:
        super().__post_init__()
        self.base_loss()  # refuses a q out of range
        self._check(0 <= self.threshold < 1, "threshold", "at least 0 and below 1")
        self._check(self.every >= 1, "every", "at least 1")
        self._check(0 <= self.start <= 1, "start", "between 0 and 1")

    def base_loss(self) -> losses.BaseLoss:
        return losses.GCE(self.q)

    def prepare(
        self, rows: Rows, labels: TeacherLabels | None, noise: TeacherNoise | None
    ) -> Columns:
        pool = pool_labels(self, rows, labels)
        columns = self.target_columns(rows, pool)
        said = columns.y.clone()
        said[columns.y < 0] = torch.from_numpy(pool.hard)
        columns.values.update(said=said, probable=torch.ones(len(said)))
        return columns

    def refresh_every(self) -> int:
        return self.every

    def refresh(self, student_probs: Tensor, val_probs: Tensor, columns: Columns) -> None:
        of_label = student_probs.gather(1, columns.values["said"][:, None])[:, 0]
        kept = (of_label > self.threshold) | (columns.y >= 0)
        columns.values["probable"].copy_(kept)
        columns.weight.fill_(1.0)

    def loss(
        self, output: Output, batch: Batch, modules: nn.Module | None, progress: Tensor
    ) -> Tensor:
        left = torch.where(progress < self.start, 1.0, batch.values["probable"])
        return weighted_mean(left * self.example_losses(output.logits.float(), batch), batch)
