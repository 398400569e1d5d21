"""Gold labels alone: the student that any use of the teacher must beat."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from torch import Tensor, nn

from noisyteacher.labels import TeacherLabels
from noisyteacher.methods.base import Batch, Columns, Method, Output, Rows
from noisyteacher.methods.targets import all_rows, gold_losses, keep_rows, weighted_mean
from noisyteacher.noise import TeacherNoise


@dataclass(frozen=True, repr=False)
class GoldOnly(Method):
    """Cross-entropy on A and V, for as many optimiser steps as vanilla distillation takes.

    ``use_val=False`` leaves V out: the student of A alone.
    """

    use_val: bool = True

    own_needs: ClassVar[frozenset[str]] = frozenset()
    formula: ClassVar[str] = "ce(y, f) on gold rows"
    reference: ClassVar[str] = "baseline"

    def prepare(
        self, rows: Rows, labels: TeacherLabels | None, noise: TeacherNoise | None
    ) -> Columns:
        keep = rows.gold
        if not self.use_val:
            keep = keep & ~np.isin(rows.ids, rows.val_ids)
        return keep_rows(all_rows(rows), keep)

    def loss(
        self, output: Output, batch: Batch, modules: nn.Module | None, progress: Tensor
    ) -> Tensor:
        return weighted_mean(gold_losses(output.logits.float(), batch.y), batch)
