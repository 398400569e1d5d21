"""Hugging Face: SLaM as the ``compute_loss_func`` of a ``Trainer``, nothing to subclass.

    loss = TrainerLoss(TeacherColumns(labels, noise, gold_ids, gold_y))
    train_set = train_set.add_column("labels", loss.label_column(train_set["id"]))
    Trainer(model, args, train_dataset=train_set, compute_loss_func=loss, ...).train()

A ``Trainer`` hands its loss function nothing but the model's outputs and the ``labels`` of the
batch. So the labels of the training set say which row of the teacher's columns an example has; the
columns wait in the loss function, on the device. Evaluation sets keep their true classes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from noisyteacher.core.errors import InputError, first_few
from noisyteacher.integrations.torch_data import TeacherColumns, take, teacher_loss
from noisyteacher.io.ids import IdsLike
from noisyteacher.losses import BaseFunction, SLaMLoss

IGNORED = -100  # the label that transformers leaves out of every loss
FIRST_ROW = -1000  # row r of the columns is the label FIRST_ROW - r, away from any class


class TrainerLoss:
    """A loss function for ``Trainer(compute_loss_func=...)``, transformers 4.46 or later.

    Examples whose label is a true class, as in evaluation, get plain cross-entropy; those with
    label -100 get none. With gradient accumulation and with several processes the sum of the
    losses is divided by the number of examples that the Trainer counted, as the library asks.

    Args:
        columns: the teacher's labels and the gold ones, by id.
        base, normalize, hard: those of ``SLaMLoss``.
    """

    def __init__(
        self,
        columns: TeacherColumns,
        base: str | BaseFunction = "ce",
        normalize: str = "sum",
        hard: bool = False,
    ) -> None:
        self.columns = columns
        self.loss = SLaMLoss(base, normalize, hard, reduction="none")
        self._values: dict[torch.device, dict[str, Tensor]] = {}

    def label_column(self, ids: IdsLike) -> np.ndarray:
        """(n,) int64: the ``labels`` of a training set with these ids, for this loss only."""
        return FIRST_ROW - self.columns.rows(ids).numpy()

    def __call__(
        self, outputs: Any, labels: Tensor | None, num_items_in_batch: Tensor | int | None = None
    ) -> Tensor:
        """The loss of a batch: ``outputs`` of the model without labels, ``labels`` (b,)."""
        if labels is None:
            raise InputError("The batch has no labels; make them with TrainerLoss.label_column().")
        logits = outputs["logits"] if isinstance(outputs, Mapping) else outputs[0]
        losses = self._losses(logits, labels)
        if num_items_in_batch is None:
            num_items_in_batch = (labels != IGNORED).sum().clamp(min=1)
        return losses.sum() / num_items_in_batch

    def _losses(self, logits: Tensor, labels: Tensor) -> Tensor:
        """(b,) loss of each example, 0 where it is to be ignored."""
        _check_labels(labels)
        labels = labels.long()
        known, ignored = labels >= 0, labels == IGNORED
        # A label that is none of the three becomes a negative row, which the GPU refuses too.
        rows = torch.where(known | ignored, 0, FIRST_ROW - labels)
        teacher = take(self._columns_on(labels.device), rows)
        mixed = teacher_loss(self.loss, logits, teacher)
        plain = F.cross_entropy(logits.float(), labels.clamp(min=0), reduction="none")
        return torch.where(known, plain, mixed.to(plain.dtype)).masked_fill(ignored, 0.0)

    def _columns_on(self, device: torch.device) -> dict[str, Tensor]:
        if device not in self._values:
            values = self.columns.values
            self._values[device] = {name: value.to(device) for name, value in values.items()}
        return self._values[device]


def _check_labels(labels: Tensor) -> None:
    """Refuse labels of the wrong kind, and, where looking costs nothing, of the wrong value."""
    if labels.ndim != 1 or labels.is_floating_point():
        raise InputError(
            f"labels must be whole numbers of shape (b,), not {labels.dtype} of shape "
            f"{tuple(labels.shape)}."
        )
    if labels.device.type != "cpu":
        return
    wrong = labels[(labels < 0) & (labels != IGNORED) & (labels > FIRST_ROW)]
    if len(wrong):
        raise InputError(
            f"labels must be true classes, {IGNORED}, or come from TrainerLoss.label_column(); "
            f"found {first_few(wrong.unique().tolist())}."
        )
