"""Confident pruning: drop the teacher labels that a student of the gold labels contradicts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from noisyteacher.labels import TeacherLabels
from noisyteacher.methods.base import ONCE, PRETRAINED, SOFT_LABELS, Columns, Rows
from noisyteacher.methods.targets import TargetMethod, pool_labels
from noisyteacher.noise import TeacherNoise

_BLOCK_ROWS = 4096


@dataclass(frozen=True, repr=False)
class ConfidentPruning(TargetMethod):
    """Vanilla distillation without the rows that confident learning takes for mislabelled.

    Confident learning asks a classifier that has not seen these labels. Here that is the student
    as it starts, trained on A alone: the teacher itself would agree with all it said. What is
    dropped is settled before the first epoch and keeps its place with weight 0.
    """

    hard: bool = False

    own_needs: ClassVar[frozenset[str]] = frozenset({SOFT_LABELS, PRETRAINED})
    formula: ClassVar[str] = (
        "w ce(ys, f), w = 0 for the n(label, class) rows of largest p(class) − p(label), "
        "n: the confident joint, p: the pre-trained student"
    )
    reference: ClassVar[str] = "Northcutt et al. JAIR 2021"
    unverified: ClassVar[str] = "a student of A in place of cross-validation"

    def prepare(
        self, rows: Rows, labels: TeacherLabels | None, noise: TeacherNoise | None
    ) -> Columns:
        pool = pool_labels(self, rows, labels)
        columns = self.target_columns(rows, pool)
        said = torch.from_numpy(np.array(rows.y, np.int64))
        said[torch.from_numpy(~rows.gold)] = torch.from_numpy(pool.hard)
        columns.values["said"] = said
        return columns

    def refresh_every(self) -> int:
        return ONCE

    def refresh(self, student_probs: Tensor, val_probs: Tensor, columns: Columns) -> None:
        pool = columns.y < 0
        wrong = find_mislabelled(
            student_probs[pool].float().cpu().numpy(), columns.values["said"][pool].cpu().numpy()
        )
        columns.weight.fill_(1.0)
        columns.weight[pool] = torch.from_numpy(~wrong).to(columns.weight)


def confident_joint(
    probs: Float[np.ndarray, "n L"], label: Int[np.ndarray, " n"]
) -> Int[np.ndarray, "L L"]:
    """Rows counted by their label and by the class they surely belong to; unsure rows by neither.

    A row is sure of a class where that class has at least the mean probability it has over the
    rows labelled so; of several such classes, the most probable counts.
    """
    classes = probs.shape[1]
    counts = np.bincount(label, minlength=classes)
    own = np.bincount(label, weights=probs[np.arange(len(label)), label], minlength=classes)
    # A class that is nobody's label is nobody's truth either.
    threshold = np.divide(own, counts, out=np.full(classes, np.inf), where=counts > 0)
    joint = np.zeros((classes, classes), np.int64)
    # In blocks: the probabilities of a large pool fill much of the memory already.
    for first in range(0, len(label), _BLOCK_ROWS):
        block = probs[first : first + _BLOCK_ROWS]
        sure = block >= threshold - 1e-6  # a row at the mean itself is sure, whatever the rounding
        truth = np.where(sure, block, -1.0).argmax(1)
        some = sure.any(1)
        np.add.at(joint, (label[first : first + _BLOCK_ROWS][some], truth[some]), 1)
    return joint


def find_mislabelled(
    probs: Float[np.ndarray, "n L"], label: Int[np.ndarray, " n"]
) -> Bool[np.ndarray, " n"]:
    """Mark, for each label and each other class, as many rows as the joint has of that pair.

    The joint is first scaled so that its rows sum to what each label has. Rows of the largest
    p(class) − p(label) go first; one whose most probable class is its label is never marked.
    """
    joint = confident_joint(probs, label)
    counts = np.bincount(label, minlength=len(joint))
    wanted = np.stack([_shares(row, count) for row, count in zip(joint, counts, strict=True)])
    marked = np.zeros(len(label), bool)
    for here in np.flatnonzero(counts):
        mine = np.flatnonzero(label == here)
        for there in np.flatnonzero(wanted[here]):
            if there != here:
                # Rounded to float32, leads that differ would tie.
                lead = np.subtract(probs[mine, there], probs[mine, here], dtype=np.float64)
                marked[mine[np.argsort(-lead, kind="stable")[: wanted[here, there]]]] = True
    return np.asarray(marked & (probs.argmax(1) != label))


def _shares(row: Int[np.ndarray, " L"], total: int) -> Int[np.ndarray, " L"]:
    """The row scaled to whole numbers that sum to ``total``: the largest remainders round up."""
    if not row.any():
        return row
    exact = row * (total / row.sum())
    whole: np.ndarray = np.floor(exact).astype(np.int64)
    up = np.argsort(whole - exact, kind="stable")[: total - whole.sum()]
    whole[up] += 1
    return whole
