"""Decoupled KD: how sure the teacher is of its top class, and how it ranks the others, apart."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from noisyteacher.labels import TeacherLabels
from noisyteacher.losses import dkd
from noisyteacher.methods.base import Batch, Columns, Grid, Method, Output, Rows
from noisyteacher.methods.targets import (
    all_rows,
    dense_target,
    gold_losses,
    pool_labels,
    weighted_mean,
)
from noisyteacher.noise import TeacherNoise

SMALLEST_PROB = 1e-12


@dataclass(frozen=True, repr=False)
class DKD(Method):
    """Cross-entropy on gold rows, decoupled KD on pool rows with the teacher's top class as target.

    ``warmup`` is the share of training over which the pool's term grows from 0 to its full size
    (20 of 240 epochs in the reference).
    """

    alpha: float = 1.0
    beta: float = 8.0
    temperature: float = 4.0
    warmup: float = 0.1

    formula: ClassVar[str] = "T² [α KL(top or not) + β KL(among the others)] · warm-up"
    reference: ClassVar[str] = "Zhao et al. CVPR 2022"
    unverified: ClassVar[str] = "the top class as target: the original uses the true one"
    grid: ClassVar[Grid] = {"beta": (2.0, 8.0)}

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check(self.alpha >= 0, "alpha", "at least 0")
        self._check(self.beta >= 0, "beta", "at least 0")
        self._check(self.temperature > 0, "temperature", "above 0")
        self._check(0 <= self.warmup <= 1, "warmup", "between 0 and 1")

    def prepare(
        self, rows: Rows, labels: TeacherLabels | None, noise: TeacherNoise | None
    ) -> Columns:
        columns = all_rows(rows)
        columns.values["target"] = dense_target(rows, pool_labels(self, rows, labels))
        return columns

    def loss(
        self, output: Output, batch: Batch, modules: nn.Module | None, progress: Tensor
    ) -> Tensor:
        logits, target = output.logits.float(), batch.values["target"]
        on_pool = dkd(
            logits,
            target.clamp(min=SMALLEST_PROB).log(),
            target.argmax(1),
            self.alpha,
            self.beta,
            self.temperature,
        )
        if self.warmup > 0:
            on_pool = on_pool * (progress / self.warmup).clamp(max=1.0)
        return weighted_mean(torch.where(batch.gold, gold_losses(logits, batch.y), on_pool), batch)
