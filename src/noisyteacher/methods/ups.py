"""UPS: keep only labels, positive or negative, that the teacher is sure of in every view."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from noisyteacher.core.errors import NoisyTeacherWarning
from noisyteacher.labels import TeacherLabels
from noisyteacher.losses import negative_cross_entropy_from_log, selected_binary_ce_from_log
from noisyteacher.methods.base import (
    SOFT_LABELS,
    VIEW_STATISTICS,
    Batch,
    Columns,
    Method,
    Output,
    Rows,
    one_hot,
)
from noisyteacher.methods.targets import all_rows, gold_losses, keep_rows, pool_labels
from noisyteacher.noise import TeacherNoise

LEAST_PER_CLASS = 25  # what class balancing leaves of each class at least


class Selection(NamedTuple):
    """What UPS takes from each pool row."""

    positive: np.ndarray  # (n,) int64: the class taken as the label, -1 where none is
    negative: np.ndarray  # (n, L) bool: classes taken as not the label


@dataclass(frozen=True, repr=False)
class UPS(Method):
    """Uncertainty-aware pseudo-label selection, once, from the teacher's statistics over views.

    The loss is the mean cross-entropy of the positives (gold rows are among them) plus the mean
    negative cross-entropy of the rows that only say what they are not; with ``binary``, one
    binary cross-entropy over each row's selected classes. Both means are over a batch: shared by
    several processes, each has means of its own, and the sum is not quite that of one process.

    Args:
        positive_threshold, positive_std: a positive has a mean of at least this at temperature 1
            and a deviation below that.
        negative_threshold, negative_std: a negative class lies below both at temperature 2.
        binary: the multi-label form of the loss.
        balance: keep equally many positives of each class, those of least deviation.
    """

    positive_threshold: float = 0.7
    positive_std: float = 0.05
    negative_threshold: float = 0.05
    negative_std: float = 0.005
    binary: bool = False
    balance: bool = False

    own_needs: ClassVar[frozenset[str]] = frozenset({SOFT_LABELS, VIEW_STATISTICS})
    formula: ClassVar[str] = "mean ce(ŷ, f) over positives + mean −log(1 − f_c) over negatives"
    reference: ClassVar[str] = "Rizve et al. ICLR 2021"
    unverified: ClassVar[str] = "the thresholds the SLaM paper used; the equation of `binary`"

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("positive_threshold", "negative_threshold"):
            self._check(0 <= getattr(self, name) <= 1, name, "between 0 and 1")
        for name in ("positive_std", "negative_std"):
            self._check(getattr(self, name) > 0, name, "above 0")

    def prepare(
        self, rows: Rows, labels: TeacherLabels | None, noise: TeacherNoise | None
    ) -> Columns:
        extras = pool_labels(self, rows, labels).extras
        chosen = self.select(extras["view_mean"], extras["view_std"])
        label = np.array(rows.y, np.int64)
        label[~rows.gold] = chosen.positive
        negative = np.zeros((len(rows), rows.classes), bool)
        negative[~rows.gold] = chosen.negative
        keep = (label >= 0) | negative.any(axis=1)
        if len(rows) > rows.gold.sum() and not (keep & ~rows.gold).any():
            warnings.warn(
                f"{self!r} selects no row of the pool: only gold rows are left to train on.",
                NoisyTeacherWarning,
                stacklevel=2,
            )
        columns = all_rows(rows)
        columns.values["label"] = torch.from_numpy(label)
        columns.values["negative"] = torch.from_numpy(negative)
        return keep_rows(columns, keep)

    def select(self, view_mean: np.ndarray, view_std: np.ndarray) -> Selection:
        """Choose positives and negatives; both inputs are (n, 2, L), at temperatures 1 and 2."""
        mean, std = view_mean[:, 0], view_std[:, 0]
        best = mean.argmax(axis=1)
        at_best = np.arange(len(best)), best
        sure = (mean[at_best] >= self.positive_threshold) & (std[at_best] < self.positive_std)
        if self.balance:
            sure &= _balanced(best, std[at_best], sure, mean.shape[1])
        negative = (view_std[:, 1] < self.negative_std) & (
            view_mean[:, 1] < self.negative_threshold
        )
        negative[at_best] = False
        if not self.binary:
            negative[sure] = False
        return Selection(np.where(sure, best, -1), negative)

    def loss(
        self, output: Output, batch: Batch, modules: nn.Module | None, progress: Tensor
    ) -> Tensor:
        logits, label = output.logits.float(), batch.values["label"]
        negative, positive = batch.values["negative"].float(), label >= 0
        log_probs = logits.log_softmax(1)
        with_label = gold_losses(logits, label)
        if self.binary:
            target = one_hot(label, logits.shape[1])
            losses = selected_binary_ce_from_log(target, target + negative, log_probs)
            losses = torch.where(batch.gold, with_label, losses)
            return (losses * batch.weight).mean()
        without = negative_cross_entropy_from_log(negative, log_probs)
        return _group_mean(with_label * batch.weight, positive) + _group_mean(
            without * batch.weight, ~positive
        )


def _group_mean(losses: Tensor, group: Tensor) -> Tensor:
    """Mean over the rows of a group, 0 where it is empty."""
    return (losses * group).sum() / group.sum().clamp(min=1)


def _balanced(best: np.ndarray, std: np.ndarray, sure: np.ndarray, classes: int) -> np.ndarray:
    """(n,) bool: the surest positives, as many of each class as of the rarest."""
    counts = np.bincount(best[sure], minlength=classes)
    most = max(LEAST_PER_CLASS, int(counts.min()))
    keep = np.zeros(len(best), bool)
    for label in range(classes):
        members = np.flatnonzero(sure & (best == label))
        keep[members[np.argsort(std[members], kind="stable")[:most]]] = True
    return keep
