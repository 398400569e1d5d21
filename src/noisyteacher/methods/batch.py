"""What a method is given and what it makes: rows, columns, batches, outputs and targets.

The target of a row is its true label on gold rows and the teacher's label on pool rows. It is kept
dense, as ``target`` (n, L), or, where the store holds fewer classes than there are, as stored:
``top_index`` and ``top_prob`` (n, K), ``tail`` (n,).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from noisyteacher.core.errors import InputError, MissingIdsError
from noisyteacher.labels import TeacherLabels
from noisyteacher.noise import TeacherNoise

Labels: TypeAlias = TeacherLabels | None  # None without a teacher
Noise: TypeAlias = TeacherNoise | None  # fitted on V; None for methods that want none
Modules: TypeAlias = nn.Module | None  # trainable parts of a method's own

__all__ = [
    "Batch",
    "Columns",
    "Output",
    "Rows",
    "StudentModel",
    "all_rows",
    "dense_labels",
    "dense_target",
    "gold_losses",
    "keep_rows",
    "one_hot",
    "pool_labels",
    "weighted_mean",
]


@dataclass(frozen=True)
class Rows:
    """The training rows of one student, in order, and the validation set V on which fits are made.

    V is usually among the rows too, with its gold labels. For a first generation its rows are pool
    rows, and in an ablation they are left out. Fits on V therefore never use ``y``.
    """

    ids: np.ndarray  # (n,)
    y: np.ndarray  # (n,) int64, -1 on pool rows
    val_ids: np.ndarray  # (v,)
    val_y: np.ndarray  # (v,) int64
    classes: int

    @property
    def gold(self) -> np.ndarray:
        """(n,) bool: rows with a true label."""
        return np.asarray(self.y >= 0)

    def __len__(self) -> int:
        return len(self.ids)


@dataclass
class Columns:
    """The training data of a method: one value per kept row in each column, and constants."""

    index: Tensor  # (m,) int64: which rows are kept, as positions in Rows
    y: Tensor  # (m,) int64, -1 on pool rows
    weight: Tensor  # (m,) float32: multiplies each row's loss; 1 on gold rows
    values: dict[str, Tensor] = field(default_factory=dict)  # each (m, ...)
    constants: dict[str, Tensor] = field(default_factory=dict)  # any shape
    rows_per_epoch: int = 0  # how many rows make an epoch; 0: as many as are kept

    def __len__(self) -> int:
        return len(self.index)

    def batch(self, entries: Tensor) -> Batch:
        """The rows of one step, at these positions (b,)."""
        return Batch(
            y=self.y.index_select(0, entries),
            weight=self.weight.index_select(0, entries),
            values={name: v.index_select(0, entries) for name, v in self.values.items()},
            constants=self.constants,
        )

    @property
    def row_bytes(self) -> int:
        """The memory that the columns of a row take, in bytes."""
        parts = [self.y, self.weight, *self.values.values()]
        return sum(part[:1].numel() * part.element_size() for part in parts)


@dataclass(frozen=True)
class Batch:
    """The rows of one training step, on the device. Their shapes are constant within a run."""

    y: Tensor  # (b,) int64, -1 on pool rows
    weight: Tensor  # (b,)
    values: Mapping[str, Tensor]  # each (b, ...)
    constants: Mapping[str, Tensor]

    @property
    def gold(self) -> Tensor:
        """(b,) bool."""
        return self.y >= 0


@dataclass(frozen=True)
class Output:
    """The student's output on one batch, at least in float32, because losses need its precision."""

    logits: Tensor  # (b, L), weak view
    embedding: Tensor | None = None  # (b, d), weak view; only for methods that need embeddings
    strong: Tensor | None = None  # (b, L), strong view; only where ``views`` asks for it

    def __post_init__(self) -> None:
        for name in ("logits", "embedding", "strong"):
            value = getattr(self, name)
            if value is not None and value.dtype in (torch.float16, torch.bfloat16):
                object.__setattr__(self, name, value.float())


class StudentModel(Protocol):
    """The part of a model that methods use (see ``models``)."""

    embedding_dim: int
    classes: int


def all_rows(rows: Rows) -> Columns:
    """Columns with all rows, with weight 1."""
    return Columns(torch.arange(len(rows)), gold_classes(rows), torch.ones(len(rows)))


def keep_rows(columns: Columns, keep: np.ndarray) -> Columns:
    """Columns of the rows where ``keep`` (m,) is true.

    The number of steps per epoch stays the same, and the remaining rows are shown more often: a
    method that drops rows is compared with others after the same number of steps.
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


def gold_classes(rows: Rows) -> Tensor:
    """(n,) int64: a copy of the true classes, -1 on pool rows."""
    return torch.from_numpy(np.array(rows.y, np.int64))


def given(method: object, labels: TeacherLabels | None) -> TeacherLabels:
    """The teacher's labels, for a method that cannot do without."""
    if labels is None:
        raise InputError(f"{method!r} needs teacher labels, and none were given.")
    return labels


def pool_labels(method: object, rows: Rows, labels: TeacherLabels | None) -> TeacherLabels:
    """The teacher's labels of the pool rows, in their order."""
    return given(method, labels).take(rows.ids[~rows.gold])


def labels_of_gold(
    method: object, labels: TeacherLabels | None, ids: np.ndarray, what: str, otherwise: str
) -> TeacherLabels:
    """The teacher's labels of gold rows, which many teachers do not give."""
    try:
        return given(method, labels).take(ids)
    except MissingIdsError as error:
        raise MissingIdsError(
            f"{method!r} needs the teacher's {what} of gold rows too, but there are "
            f"{str(error).rstrip('.')}: label A as well, or take {otherwise}."
        ) from error


def one_hot(y: Tensor, classes: int) -> Tensor:
    """(n,) int64 -> (n, L) float32; rows of zeros where y is -1."""
    return (torch.arange(classes, device=y.device) == y[:, None]).float()


def dense_target(rows: Rows, pool: TeacherLabels, hard: bool = False) -> Tensor:
    """(n, L) float32: one-hot on gold rows, the teacher's label on pool rows."""
    target = one_hot(gold_classes(rows), rows.classes)
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


def top_classes(rows: Rows, pool: TeacherLabels) -> Tensor:
    """(n,) int64: the true class on gold rows, the teacher's top class on pool rows."""
    classes = gold_classes(rows)
    classes[torch.from_numpy(~rows.gold)] = torch.from_numpy(pool.hard)
    return classes


def temper(probs: Tensor, temperature: float) -> Tensor:
    """(n, L) probabilities to the power 1 / temperature, normalized: softmax(logits / t).

    A probability of 0 stays 0: with a floor of 1e-12, a thousand classes would share half of a
    one-hot label at temperature 4.
    """
    return (probs.log() / temperature).softmax(1)


def temper_top(
    prob: Tensor, tail: Tensor, others: int, temperature: float
) -> tuple[Tensor, Tensor]:
    """``temper`` on stored labels: (n, K) top and (n,) mass spread over ``others`` more classes."""
    each = (tail / others)[:, None]
    log_all = torch.cat([prob, each], 1).log() / temperature
    log_all[:, -1] += np.log(others)
    tempered = log_all.softmax(1)
    return tempered[:, :-1], tempered[:, -1]


def gold_losses(logits: Tensor, y: Tensor) -> Tensor:
    """(b,) cross-entropy with the true class; not valid for pool rows, where y is -1."""
    return F.cross_entropy(logits, y.clamp(min=0), reduction="none")


def weighted_mean(losses: Tensor, batch: Batch) -> Tensor:
    """Mean of weight times loss over all rows; the weights are not renormalized."""
    return (losses * batch.weight).mean()
