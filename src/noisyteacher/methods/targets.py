"""Methods that compare the student with a target: the true label on gold rows, the teacher's else.

The target is kept dense, ``target`` (n, L), or, where the store holds fewer classes than there
are, as stored: ``top_index`` and ``top_prob`` (n, K), ``tail`` (n,).
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from noisyteacher.core.errors import InputError
from noisyteacher.labels import TeacherLabels
from noisyteacher.losses import BaseLoss, CrossEntropy, sparse_slam_loss, vanilla_loss
from noisyteacher.methods.base import Batch, Columns, Method, Output, Rows, one_hot
from noisyteacher.noise import TeacherNoise

SHORTLIST = 2  # the shortlist size of rows that need none: at alpha = 1 nobody looks at it


class TargetMethod(Method):
    """A loss between the student's prediction and a target column."""

    hard: bool  # train on the teacher's top class instead of its probabilities
    dense_only: ClassVar[bool] = False  # whether the loss looks at every class of the target

    def base_loss(self) -> BaseLoss:
        """The loss against the target."""
        return CrossEntropy()

    def prepare(
        self, rows: Rows, labels: TeacherLabels | None, noise: TeacherNoise | None
    ) -> Columns:
        return self.target_columns(rows, pool_labels(self, rows, labels))

    def target_columns(self, rows: Rows, pool: TeacherLabels) -> Columns:
        """All rows with their targets; ``pool`` holds the labels of the pool rows, in order."""
        columns = all_rows(rows)
        if pool.k < pool.num_classes and not self.dense_only:
            columns.values.update(sparse_target(rows, pool))
        else:
            columns.values["target"] = dense_target(rows, pool, self.hard)
        return columns

    def loss(
        self, output: Output, batch: Batch, modules: nn.Module | None, progress: Tensor
    ) -> Tensor:
        return weighted_mean(self.example_losses(output.logits.float(), batch), batch)

    def example_losses(self, logits: Tensor, batch: Batch) -> Tensor:
        """(b,) loss of each row, before its weight."""
        base, values = self.base_loss(), batch.values
        if "target" in values:
            return vanilla_loss(logits, values["target"], base)
        return sparse_slam_loss(
            logits,
            values["top_index"],
            values["top_prob"],
            values["tail"],
            torch.ones_like(values["tail"]),
            torch.full_like(batch.y, SHORTLIST),
            base,
            "none",
            self.hard,
        )


class PlainMethod(TargetMethod):
    """A base loss against the target and nothing else, so it can stand in ``SLaM(base=...)``."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.base_loss()  # refuses settings out of range


def all_rows(rows: Rows) -> Columns:
    """Columns that keep every row with weight 1."""
    return Columns(
        index=torch.arange(len(rows)),
        y=torch.from_numpy(np.array(rows.y, np.int64)),
        weight=torch.ones(len(rows)),
    )


def keep_rows(columns: Columns, keep: np.ndarray) -> Columns:
    """Columns of the rows where ``keep`` (m,) is true.

    An epoch stays as long as before, and what is left comes up more often: a method that drops
    rows is compared with others at as many steps as theirs.
    """
    kept = torch.from_numpy(np.flatnonzero(keep))
    return Columns(
        index=columns.index[kept],
        y=columns.y[kept],
        weight=columns.weight[kept],
        values={name: value[kept] for name, value in columns.values.items()},
        constants=columns.constants,
        rows_per_epoch=len(columns),
    )


def given(method: Method, labels: TeacherLabels | None) -> TeacherLabels:
    """The labels of a method that cannot do without."""
    if labels is None:
        raise InputError(f"{method!r} needs teacher labels, and none were given.")
    return labels


def pool_labels(method: Method, rows: Rows, labels: TeacherLabels | None) -> TeacherLabels:
    """What the teacher said about the pool rows, in their order."""
    return given(method, labels).take(rows.ids[~rows.gold])


def dense_target(rows: Rows, pool: TeacherLabels, hard: bool = False) -> Tensor:
    """(n, L) float32: one-hot on gold rows, the teacher's label on pool rows."""
    target = one_hot(torch.from_numpy(np.array(rows.y, np.int64)), rows.classes)
    target[torch.from_numpy(~rows.gold)] = dense_labels(pool, hard)
    return target


def dense_labels(labels: TeacherLabels, hard: bool = False) -> Tensor:
    """(n, L) float32: the teacher's probabilities, or one-hot at its top class."""
    if hard:
        return one_hot(torch.from_numpy(labels.hard), labels.num_classes)
    return torch.from_numpy(labels.probs)


def sparse_target(rows: Rows, pool: TeacherLabels) -> dict[str, Tensor]:
    """The target as the store keeps it: top classes first, the rest as one mass."""
    gold, stored = rows.gold, pool.k
    # A gold row has all its mass on the first entry; the others only have to be other classes.
    index = (rows.y[:, None] + np.arange(stored)) % rows.classes
    prob = np.zeros((len(rows), stored), np.float32)
    prob[:, 0] = 1.0
    tail = np.zeros(len(rows), np.float32)
    index[~gold], prob[~gold], tail[~gold] = pool.topk_index, pool.topk_prob, pool.tail
    return {
        "top_index": torch.from_numpy(index.astype(np.int32)),
        "top_prob": torch.from_numpy(prob),
        "tail": torch.from_numpy(tail),
    }


def gold_losses(logits: Tensor, y: Tensor) -> Tensor:
    """(b,) cross-entropy with the true class; meaningless on pool rows, where y is -1."""
    return F.cross_entropy(logits, y.clamp(min=0), reduction="none")


def weighted_mean(losses: Tensor, batch: Batch) -> Tensor:
    """Mean over all rows of weight times loss; the weights are not renormalised."""
    return (losses * batch.weight).mean()
