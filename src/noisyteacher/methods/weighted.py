"""Weighted distillation: weigh each teacher label so that its loss is right on average."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from scipy.spatial import cKDTree
from torch import Tensor

from noisyteacher.labels import TeacherLabels
from noisyteacher.methods.base import (
    ONCE,
    PRETRAINED,
    SOFT_LABELS,
    Columns,
    Grid,
    Rows,
)
from noisyteacher.methods.targets import TargetMethod, dense_labels, given
from noisyteacher.noise import TeacherNoise, margin

SMALLEST_LOSS = 1e-7


@dataclass(frozen=True, repr=False)
class Weighted(TargetMethod):
    """Cross-entropy with weight 1 / mean of R = ℓ(teacher, f) / ℓ(truth, f) over like rows of V.

    With hard labels that mean is 1 + p (d − 1): p the teacher's error rate among the neighbours,
    d the distortion, averaged over the wrong ones. Like rows are the nearest in (teacher margin,
    student margin).

    Args:
        every: renew the weights every so many epochs; 0: once, before the first.
        neighbours: how many rows of V to average over; 0: half the root of their number.
        max_weight: weights are cut off here; 1 only ever weighs down.
        hard: train and weigh with the teacher's top class.
    """

    every: int = 25
    neighbours: int = 0
    max_weight: float = 10.0
    hard: bool = False

    own_needs: ClassVar[frozenset[str]] = frozenset({SOFT_LABELS, PRETRAINED})
    formula: ClassVar[str] = "w(x) ce(ys, f), w = 1 / (1 + p(x)(distortion(x) − 1))"
    reference: ClassVar[str] = "Iliopoulos et al. 2022 (arXiv 2210.06711)"
    unverified: ClassVar[str] = (
        "the weight's formula, the number of neighbours, the cut-off, and all of soft mode"
    )
    grid: ClassVar[Grid] = {"every": (1, 25, 50, 100, 200)}
    other_grids: ClassVar[dict[str, Grid]] = {
        "imagenet": {"every": (0,)},
        "imdb": {"every": (1, 10, 20, 40)},
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check(self.every >= 0, "every", "a number of epochs, or 0 for once")
        self._check(self.neighbours >= 0, "neighbours", "a number of rows, or 0 for the default")
        self._check(self.max_weight > 0, "max_weight", "above 0")

    def prepare(
        self, rows: Rows, labels: TeacherLabels | None, noise: TeacherNoise | None
    ) -> Columns:
        columns = super().prepare(rows, labels, noise)
        known = given(self, labels)
        teacher_margin = torch.zeros(len(rows))
        pool_margin = np.asarray(margin(known.take(rows.ids[~rows.gold])), np.float32)
        teacher_margin[torch.from_numpy(~rows.gold)] = torch.from_numpy(pool_margin)
        columns.values["teacher_margin"] = teacher_margin
        val = known.take(rows.val_ids)
        columns.constants.update(
            val_margin=torch.from_numpy(np.asarray(margin(val), np.float32)),
            val_target=dense_labels(val, self.hard),
            val_y=torch.from_numpy(np.array(rows.val_y, np.int64)),
        )
        return columns

    def refresh_every(self) -> int:
        return self.every or ONCE

    def refresh(self, student_probs: Tensor, val_probs: Tensor, columns: Columns) -> None:
        constants = columns.constants
        ratios = loss_ratios(val_probs, constants["val_target"], constants["val_y"])
        weight = neighbour_weights(
            _covariates(columns.values["teacher_margin"], student_probs),
            _covariates(constants["val_margin"], val_probs),
            ratios.cpu().numpy(),
            self.neighbours or default_neighbours(len(ratios)),
            self.max_weight,
        )
        fresh = torch.from_numpy(weight).to(columns.weight)
        columns.weight.copy_(torch.where(columns.y >= 0, 1.0, fresh))


def default_neighbours(rows: int) -> int:
    """Half the root of |V|: 11 of 500, 50 of 10 000."""
    return max(1, int(np.sqrt(rows) / 2))


def loss_ratios(probs: Tensor, target: Tensor, y: Tensor) -> Tensor:
    """(v,) loss with the teacher's label over loss with the true one, under the student."""
    log_probs = probs.float().clamp(min=torch.finfo(torch.float32).tiny).log()
    with_teacher = -(target * log_probs).sum(1)
    with_truth = -log_probs.gather(1, y[:, None])[:, 0]
    # Both are raised, so that the ratio stays 1 where the teacher is right.
    return with_teacher.clamp(min=SMALLEST_LOSS) / with_truth.clamp(min=SMALLEST_LOSS)


def neighbour_weights(
    queries: np.ndarray, val: np.ndarray, ratios: np.ndarray, neighbours: int, max_weight: float
) -> np.ndarray:
    """(m,) weights 1 / mean ratio of the nearest rows of V; ``queries`` (m, 2), ``val`` (v, 2)."""
    _, near = cKDTree(val).query(queries, k=np.arange(1, min(neighbours, len(val)) + 1))
    mean = np.asarray(ratios[near].mean(axis=1, dtype=np.float64))
    return np.minimum(1.0 / mean, max_weight)


def _covariates(teacher_margin: Tensor, student_probs: Tensor) -> np.ndarray:
    """(m, 2): teacher margin, student margin."""
    top = student_probs.float().topk(2, dim=1).values
    pair = torch.stack([teacher_margin.to(top.device), top[:, 0] - top[:, 1]], dim=1)
    return pair.cpu().numpy()
