"""Truncated generalised cross-entropy: stop learning labels that the student does not come to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from noisyteacher import losses
from noisyteacher.labels import TeacherLabels
from noisyteacher.methods.base import Batch, Columns, Grid, Output, Rows
from noisyteacher.methods.targets import TargetMethod, pool_labels, weighted_mean
from noisyteacher.noise import TeacherNoise


@dataclass(frozen=True, repr=False)
class TruncatedGCE(TargetMethod):
    """Generalised cross-entropy, from ``start`` on without the rows whose label is improbable.

    Args:
        q: as in ``GCE``.
        threshold: a pool row is left out while its label has this probability or less.
        start: the share of training before anything is left out (40 of 120 epochs in the
            reference).
        hard: train on the teacher's top class; the label that is looked at is always that.
    """

    q: float = 0.7
    threshold: float = 0.5
    start: float = 1 / 3
    hard: bool = False

    formula: ClassVar[str] = "1{f_top > τ} Σ_j ys_j (1 − f_j^q) / q"
    reference: ClassVar[str] = "Zhang & Sabuncu 2018"
    unverified: ClassVar[str] = (
        "soft labels; rows are judged at every step, every tenth epoch in the reference"
    )
    grid: ClassVar[Grid] = {"threshold": (0.1, 0.3, 0.5)}

    def __post_init__(self) -> None:
        super().__post_init__()
        self.base_loss()  # refuses a q out of range
        self._check(0 <= self.threshold < 1, "threshold", "at least 0 and below 1")
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
        columns.values["said"] = said
        return columns

    def loss(
        self, output: Output, batch: Batch, modules: nn.Module | None, progress: Tensor
    ) -> Tensor:
        logits = output.logits.float()
        probs = logits.detach().softmax(1)
        of_label = probs.gather(1, batch.values["said"][:, None])[:, 0]
        kept = (of_label > self.threshold) | batch.gold | (progress < self.start)
        return weighted_mean(kept * self.example_losses(logits, batch), batch)
