"""SLaM: add the teacher's noise to the student's prediction before comparing it with a label."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from noisyteacher.core.errors import InputError
from noisyteacher.labels import TeacherLabels
from noisyteacher.losses import (
    BaseLoss,
    CrossEntropy,
    check_normalize,
    resolve_base,
    slam_loss,
    sparse_slam_loss,
)
from noisyteacher.methods.batch import Batch, Columns, Labels, Noise, Rows, pool_labels
from noisyteacher.methods.method import SHORTLIST, Grid, PlainMethod, TargetMethod
from noisyteacher.noise import TeacherNoise
from noisyteacher.noise.saving import ONE_OVER_K, check_each_setting

CHUNK = 1 << 16


@dataclass(frozen=True)
class SLaM(TargetMethod):
    """Student-label mixing: the less reliable a label is, the less it influences the student.

    A label whose alpha is low enough does not tell which class of its shortlist is right. For "sum"
    and "none" this point is alpha = 1/2 for any k (with "sum", such a label still favors its
    shortlist), and for "k-1" it is alpha = 1/k. Below it, a label pushes the student away from its
    own class. This is why the default ``lower_bound`` is 0.5; ``"1/k"`` can only be used with
    "k-1".

    Args:
        base: the loss on the mix: ``"ce"``, ``"taylor_ce"``, ``"poly1"``, a base loss of
            ``losses``, or a method that is one, as in ``SLaM(base=TaylorCE(2))``.
        normalize: the form of the mix, ``"sum"``, ``"none"`` or ``"k-1"``.
        hard: whether to train on the teacher's top class; alpha, k and the shortlist are still
            computed from its probabilities.
        lower_bound, k, threshold, metric, per_class, level: as in ``TeacherNoise``.
    """

    base: BaseLoss | PlainMethod | str = "ce"
    normalize: str = "sum"
    hard: bool = False
    lower_bound: float | str = 0.5
    k: int | str = "auto"
    threshold: float = 0.9
    metric: str = "margin"
    per_class: bool = False
    level: float = 0.6

    formula: ClassVar[str] = "ce(ys, mix(f; α(x), k(x)))"
    reference: ClassVar[str] = "SLaM, NeurIPS 2023"
    unverified: ClassVar[str] = (
        'which form of the mix the authors ran; "sum" did best on CIFAR-100 with 5 000 labels'
    )
    grid: ClassVar[Grid] = {"lower_bound": (0.5,)}
    other_grids: ClassVar[dict[str, Grid]] = {
        "imagenet": {"lower_bound": (0.55, 0.60, 0.65, 0.70), "k": (5,)},
        "imdb": {"lower_bound": (0.5, 0.6, 0.7, 0.8, 0.9), "k": (2,)},
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        check_normalize(self.normalize)
        if self.lower_bound == ONE_OVER_K and self.normalize != "k-1":
            raise InputError(
                f'SLaM: lower_bound="{ONE_OVER_K}" needs normalize="k-1"; with '
                f"{self.normalize!r}, labels with an alpha below 0.5 would push the student away "
                "from their own class."
            )
        # How lower_bound goes with threshold is seen at fit: a grid sets one field at a time.
        check_each_setting(**self._noise_settings())
        # One method, one name: every way to write a base ends as the same object.
        loss = _as_base(self.base)
        object.__setattr__(self, "base", "ce" if loss == CrossEntropy() else loss)

    def base_loss(self) -> BaseLoss:
        return _as_base(self.base)

    def noise(self) -> TeacherNoise:
        return TeacherNoise(**self._noise_settings())

    def _noise_settings(self) -> dict[str, Any]:
        names = ("lower_bound", "k", "threshold", "metric", "per_class", "level")
        return {name: getattr(self, name) for name in names}

    def prepare(self, rows: Rows, labels: Labels, noise: Noise) -> Columns:
        if noise is None:
            raise InputError(f"{self!r} needs its noise model fitted on V.")
        pool = pool_labels(self, rows, labels)
        columns = self.target_columns(rows, pool)
        trust = noise.predict(pool)
        on_pool = torch.from_numpy(~rows.gold)
        alpha = torch.ones(len(rows))
        alpha[on_pool] = torch.as_tensor(trust.alpha)
        k = torch.full((len(rows),), SHORTLIST)
        k[on_pool] = torch.as_tensor(trust.k)
        columns.values.update(alpha=alpha, k=k)
        if "target" in columns.values:
            mask = torch.zeros(len(rows), rows.classes, dtype=torch.bool)
            mask[on_pool] = _shortlist(pool, k[on_pool])
            columns.values["mask"] = mask
        return columns

    def example_losses(self, logits: Tensor, batch: Batch) -> Tensor:
        base, values = self.base_loss(), batch.values
        if "target" in values:
            return slam_loss(
                logits,
                values["target"],
                values["alpha"],
                values["mask"],
                values["k"],
                base,
                self.normalize,
            )
        return sparse_slam_loss(
            logits,
            values["top_index"],
            values["top_prob"],
            values["tail"],
            values["alpha"],
            values["k"],
            base,
            self.normalize,
            self.hard,
        )


def _as_base(base: object) -> BaseLoss:
    if isinstance(base, PlainMethod):
        if base.hard:
            raise InputError(f"SLaM: hard belongs to SLaM itself, not to its base {base!r}.")
        return base.base_loss()
    loss = resolve_base(base) if isinstance(base, str) else base
    if not isinstance(loss, BaseLoss):
        raise InputError(f"SLaM: base must be a base loss such as TaylorCE(2), not {base!r}.")
    return loss


def _shortlist(labels: TeacherLabels, k: Tensor) -> Tensor:
    """(n, L) bool: the top k classes, read off the stored order."""
    mask = torch.zeros(len(labels), labels.num_classes, dtype=torch.bool)
    rank = torch.arange(labels.num_classes)
    for start in range(0, len(labels), CHUNK):  # the order as int64 would be 8 times the mask
        rows = slice(start, start + CHUNK)
        order = torch.from_numpy(labels.topk_index[rows].astype(np.int64))
        mask[rows].scatter_(1, order, rank < k[rows, None])
    return mask
