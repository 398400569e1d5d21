"""FixMatch with stored teacher labels: sure hard labels, taught on strong views."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from noisyteacher.core.errors import InputError
from noisyteacher.labels import TeacherLabels
from noisyteacher.methods.base import Batch, Columns, Method, Output, Rows
from noisyteacher.methods.targets import all_rows, gold_losses, pool_labels, weighted_mean
from noisyteacher.noise import TeacherNoise


@dataclass(frozen=True, repr=False)
class FixMatch(Method):
    """Cross-entropy of the strong view with the teacher's top class, where it is sure enough.

    Rows below ``threshold`` stay in the mean with loss 0. The original labels with the student
    itself (that is ``Consistency(inner=None)``); here the teacher's stored labels stand in.
    """

    threshold: float = 0.95
    weight: float = 1.0

    own_views: ClassVar[tuple[str, ...]] = ("weak", "strong")
    formula: ClassVar[str] = "λ 1{max ys ≥ τ} ce(argmax ys, f(strong))"
    reference: ClassVar[str] = "Sohn et al. NeurIPS 2020"
    unverified: ClassVar[str] = "read in re-implementations"

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check(0 <= self.threshold <= 1, "threshold", "between 0 and 1")
        self._check(self.weight >= 0, "weight", "at least 0")

    def prepare(
        self, rows: Rows, labels: TeacherLabels | None, noise: TeacherNoise | None
    ) -> Columns:
        pool = pool_labels(self, rows, labels)
        columns = all_rows(rows)
        on_pool = columns.y < 0
        label = columns.y.clone()
        label[on_pool] = torch.from_numpy(pool.hard)
        sure = torch.ones(len(rows), dtype=torch.bool)
        sure[on_pool] = torch.from_numpy(pool.topk_prob[:, 0] >= self.threshold)
        columns.values.update(label=label, sure=sure)
        return columns

    def loss(
        self, output: Output, batch: Batch, modules: nn.Module | None, progress: Tensor
    ) -> Tensor:
        if output.strong is None:
            raise InputError(f"{self!r} needs a strong view, and none was given.")
        on_gold = gold_losses(output.logits.float(), batch.y)
        strong = F.cross_entropy(output.strong.float(), batch.values["label"], reduction="none")
        on_pool = self.weight * batch.values["sure"] * strong
        return weighted_mean(torch.where(batch.gold, on_gold, on_pool), batch)
