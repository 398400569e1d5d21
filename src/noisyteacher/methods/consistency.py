"""Consistency: what the student says of a weak view must hold for a strong one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from noisyteacher.core.errors import InputError
from noisyteacher.labels import TeacherLabels
from noisyteacher.methods.base import Batch, Columns, Grid, Method, Output, Rows
from noisyteacher.methods.slam import SLaM
from noisyteacher.methods.targets import all_rows, gold_losses, weighted_mean
from noisyteacher.methods.wrapper import Wrapper
from noisyteacher.noise import TeacherNoise

RAMP_START = 0.1  # the share of the pool's term at the first step
RAMP_LENGTH = 0.1  # the share of training over which it grows by 1


@dataclass(frozen=True, repr=False)
class Consistency(Wrapper):
    """Adds, to any method, cross-entropy of the strong view with the student's own weak answer.

    Pool rows take part where that answer is at least ``threshold`` sure; gold rows always, with
    their true class. Always the outermost method. ``inner=None`` is the rival without a teacher:
    gold labels, the pool, two views.
    """

    inner: Method | None = SLaM()  # noqa: RUF009  frozen
    threshold: float = 0.8
    weight: float = 1.0

    own_needs: ClassVar[frozenset[str]] = frozenset()
    outermost: ClassVar[bool] = True
    own_views: ClassVar[tuple[str, ...]] = ("weak", "strong")
    formula: ClassVar[str] = "inner + λ mean 1{max p ≥ τ} ce(argmax p, f(strong)), p = f(weak)"
    reference: ClassVar[str] = "after FixMatch, Sohn et al. 2020"
    grid: ClassVar[Grid] = {"threshold": (0.6, 0.8, 0.95)}

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check(0 <= self.threshold <= 1, "threshold", "between 0 and 1")
        self._check(self.weight >= 0, "weight", "at least 0")

    @property
    def wrapped(self) -> Method:
        return _GoldTerm() if self.inner is None else super().wrapped

    def loss(
        self, output: Output, batch: Batch, modules: nn.Module | None, progress: Tensor
    ) -> Tensor:
        if output.strong is None:
            raise InputError(f"{self!r} needs a strong view, and none was given.")
        inner = super().loss(output, batch, modules, progress)
        sure, answer = output.logits.detach().float().softmax(1).max(1)
        ramp = (RAMP_START + progress / RAMP_LENGTH).clamp(max=1.0)
        used = torch.where(batch.gold, 1.0, (sure >= self.threshold) * ramp)
        label = torch.where(batch.gold, batch.y, answer)
        losses = F.cross_entropy(output.strong.float(), label, reduction="none")
        return inner + self.weight * (used * losses).mean()


class _GoldTerm(Method):
    """The first term without a teacher: gold rows' cross-entropy, a mean over all rows."""

    own_needs: ClassVar[frozenset[str]] = frozenset()

    def prepare(
        self, rows: Rows, labels: TeacherLabels | None, noise: TeacherNoise | None
    ) -> Columns:
        return all_rows(rows)

    def loss(
        self, output: Output, batch: Batch, modules: nn.Module | None, progress: Tensor
    ) -> Tensor:
        return weighted_mean(gold_losses(output.logits.float(), batch.y) * batch.gold, batch)
