"""PyTorch: the teacher's labels, joined to the examples of a batch by their ids.

columns = TeacherColumns(labels, noise, gold_ids, gold_y)
loader = DataLoader(StackDataset(ids, data), collate_fn=JoinTeacher(columns), shuffle=True)
for x, teacher in loader:
    loss = teacher_loss(SLaMLoss(), model(x), teacher)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import default_collate

from noisyteacher.core.errors import InputError, first_few
from noisyteacher.io.ids import IdLookup, IdsLike, check_unique, clean_ids, is_text
from noisyteacher.labels import TeacherLabels
from noisyteacher.losses import SLaMLoss
from noisyteacher.methods import Rows, SLaM
from noisyteacher.noise import TeacherNoise

_NAMES = {"target": "teacher_probs", "top_index": "topk_index", "top_prob": "topk_prob"}


class TeacherColumns:
    """The teacher probabilities, alpha and k that ``SLaMLoss`` needs, looked up by id.

    Args:
        labels: the store, of the pool at least.
        noise: fitted on V; it says how far each of the labels can be trusted.
        gold_ids, gold_y: examples of A and V with their true classes (m,), 0 ≤ y < L. They count
            as sure: all their probability on the true class, alpha = 1. They need no teacher
            label, and lose it if they have one.

    Attributes:
        values: ``alpha`` and ``k`` (n,), with ``teacher_probs`` (n, L); or, where the store keeps
            K < L classes, with ``topk_index`` and ``topk_prob`` (n, K) and ``tail`` (n,).
    """

    values: dict[str, Tensor]

    def __init__(
        self,
        labels: TeacherLabels,
        noise: TeacherNoise,
        gold_ids: IdsLike = (),
        gold_y: Sequence[int] | np.ndarray | Tensor = (),
    ) -> None:
        check_unique(labels.ids)
        known, y = _checked_gold(gold_ids, gold_y, labels)
        pool = labels.ids[IdLookup(known).find(labels.ids) < 0]
        ids = np.concatenate([known, pool]) if len(known) else pool
        none = np.empty(0, np.int64)
        truth = np.concatenate([y, np.full(len(pool), -1)])
        rows = Rows(ids, truth, none, none, labels.num_classes)
        made = SLaM().prepare(rows, labels, noise).values
        made.pop("mask", None)  # the loss takes the shortlist from the probabilities
        self.values = {_NAMES.get(name, name): value for name, value in made.items()}
        self._lookup = IdLookup(ids)

    def __repr__(self) -> str:
        return f"TeacherColumns({len(self.values['k'])} examples: {', '.join(self.values)})"

    def rows(self, ids: IdsLike) -> Tensor:
        """(b,) int64: where in ``values`` the examples stand; unknown ids are an error."""
        return torch.from_numpy(self._lookup.rows(clean_ids(ids)))

    def join(self, ids: IdsLike) -> dict[str, Tensor]:
        """The columns of the examples with these ids, in their order; repeats are allowed."""
        return take(self.values, self.rows(ids))


@dataclass(frozen=True, eq=False)
class JoinTeacher:
    """A ``collate_fn`` that joins the columns to each batch, in the loader's workers.

    An example is a pair (id, anything), as ``StackDataset(ids, dataset)`` gives; a batch is the
    pair (what ``collate`` makes of the anythings, their columns).
    """

    columns: TeacherColumns
    collate: Callable[[list[Any]], Any] = default_collate

    def __call__(self, examples: Sequence[tuple[Any, Any]]) -> tuple[Any, dict[str, Tensor]]:
        ids, inputs = zip(*examples, strict=True)
        return self.collate(list(inputs)), self.columns.join(ids)


def take(values: Mapping[str, Tensor], rows: Tensor) -> dict[str, Tensor]:
    """The given rows of each column."""
    return {name: value.index_select(0, rows) for name, value in values.items()}


def teacher_loss(loss: SLaMLoss, logits: Tensor, teacher: Mapping[str, Tensor]) -> Tensor:
    """The loss of a batch with joined columns, whether the store keeps all classes or the top."""
    return loss.sparse(logits, **teacher) if "tail" in teacher else loss(logits, **teacher)


def _checked_gold(
    gold_ids: IdsLike, gold_y: Sequence[int] | np.ndarray | Tensor, labels: TeacherLabels
) -> tuple[np.ndarray, np.ndarray]:
    """Gold ids, of the store's kind and without repeats, and their classes as int64."""
    known, y = clean_ids(gold_ids), np.asarray(gold_y)
    check_unique(known)
    if y.shape != known.shape:
        raise InputError(f"{len(known)} gold ids do not match gold labels of shape {y.shape}.")
    if not len(known):
        return known, np.empty(0, np.int64)
    if len(labels) and is_text(known) != is_text(labels.ids):
        raise InputError(
            f"Gold ids such as {known.tolist()[0]!r} and ids of the store such as "
            f"{labels.ids.tolist()[0]!r} must both be strings or both integers."
        )
    if y.dtype.kind not in "iu":
        raise InputError(f"Gold labels must be whole numbers, not {y.dtype}.")
    wrong = y[(y < 0) | (y >= labels.num_classes)]
    if len(wrong):
        raise InputError(
            f"Gold labels must lie in 0..{labels.num_classes - 1}; found "
            f"{first_few(np.unique(wrong).tolist())}."
        )
    return known, y.astype(np.int64)
