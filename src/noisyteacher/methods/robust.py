"""Losses and weights made for wrong labels: symmetric, truncated, corrected, partial, weighted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from scipy.spatial import cKDTree
from torch import Tensor

from noisyteacher import losses
from noisyteacher.core.errors import InputError, warn
from noisyteacher.labels import TeacherLabels
from noisyteacher.methods.batch import (
    Batch,
    Columns,
    Labels,
    Modules,
    Noise,
    Output,
    Rows,
    all_rows,
    dense_labels,
    given,
    gold_classes,
    one_hot,
    top_classes,
    weighted_mean,
)
from noisyteacher.methods.method import ONCE, PRETRAINED, SOFT_LABELS, Grid, TargetMethod
from noisyteacher.noise import margin

SMALLEST_LOSS = 1e-7


@dataclass(frozen=True)
class SymmetricCE(TargetMethod):
    """Symmetric cross-entropy: cross-entropy, plus that with label and prediction exchanged.

    Its authors use (alpha, beta) = (0.1, 1) on CIFAR-10 and (6, 1) on CIFAR-100.
    """

    alpha: float = 0.1
    beta: float = 1.0
    hard: bool = False

    dense_only: ClassVar[bool] = True
    formula: ClassVar[str] = "α ce(ys, f) − β Σ_j f_j log max(ys_j, 1e-4)"
    reference: ClassVar[str] = "Wang et al. ICCV 2019"
    grid: ClassVar[Grid] = {"alpha": (0.1, 6.0)}

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check(self.alpha >= 0, "alpha", "at least 0")
        self._check(self.beta >= 0, "beta", "at least 0")

    def example_losses(self, logits: Tensor, batch: Batch) -> Tensor:
        return losses.symmetric_ce_from_log(
            batch.values["target"], logits.log_softmax(1), self.alpha, self.beta
        )


@dataclass(frozen=True)
class TruncatedGCE(TargetMethod):
    """Generalized cross-entropy that leaves out rows with an improbable label, after ``start``.

    Args:
        q: as in ``GCE``.
        threshold: a pool row is left out while the student gives its label this probability or
            less.
        start: the share of training before rows are left out (40 of 120 epochs in the reference).
        hard: whether to train on the teacher's top class; rows are left out by this class in any
            case.
    """

    q: float = 0.7
    threshold: float = 0.5
    start: float = 1 / 3
    hard: bool = False

    formula: ClassVar[str] = "1{f_top > τ} Σ_j ys_j (1 − f_j^q) / q"
    reference: ClassVar[str] = "Zhang & Sabuncu 2018"
    unverified: ClassVar[str] = (
        "soft labels; rows are left out at every step, every tenth epoch in the reference"
    )
    grid: ClassVar[Grid] = {"threshold": (0.1, 0.3, 0.5)}

    def __post_init__(self) -> None:
        super().__post_init__()
        self.base_loss()  # refuses a q out of range
        self._check(0 <= self.threshold < 1, "threshold", "at least 0 and below 1")
        self._check(0 <= self.start <= 1, "start", "between 0 and 1")

    def base_loss(self) -> losses.BaseLoss:
        return losses.GCE(self.q)

    def target_columns(self, rows: Rows, pool: TeacherLabels) -> Columns:
        columns = super().target_columns(rows, pool)
        columns.values["label"] = top_classes(rows, pool)
        return columns

    def loss(self, output: Output, batch: Batch, modules: Modules, progress: Tensor) -> Tensor:
        logits = output.logits
        probs = logits.detach().softmax(1)
        of_label = probs.gather(1, batch.values["label"][:, None])[:, 0]
        kept = (of_label > self.threshold) | batch.gold | (progress < self.start)
        return weighted_mean(kept * self.example_losses(logits, batch), batch)


@dataclass(frozen=True)
class ForwardCorrection(TargetMethod):
    """Cross-entropy between the teacher's label and the student's prediction times T, on the pool.

    Row i of T is the mean teacher label over the rows of V whose true class is i, with
    ``smoothing`` pseudo-rows that are spread evenly over the classes, because V may have few rows
    of a class.
    """

    smoothing: float = 1.0
    hard: bool = False

    dense_only: ClassVar[bool] = True
    formula: ClassVar[str] = "−Σ_j ys_j log Σ_i f_i T_ij, T from V"
    reference: ClassVar[str] = "Patrini et al. CVPR 2017"
    unverified: ClassVar[str] = "soft labels, and how much to smooth"

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check(self.smoothing >= 0, "smoothing", "at least 0")

    def prepare(self, rows: Rows, labels: Labels, noise: Noise) -> Columns:
        columns = super().prepare(rows, labels, noise)
        val = given(self, labels).take(rows.val_ids)
        columns.constants["transition"] = self.transition(
            dense_labels(val, self.hard), torch.as_tensor(rows.val_y)
        )
        return columns

    def transition(self, val_target: Tensor, val_y: Tensor) -> Tensor:
        """(L, L): row i is the mean label of the teacher if the true class is i."""
        classes = val_target.shape[1]
        truth = one_hot(val_y, classes)
        total = truth.sum(0) + self.smoothing
        if bool((total == 0).any()):
            raise InputError(
                f"{self!r}: V has no row of class {int(total.argmin())}; use smoothing above 0."
            )
        return (truth.T @ val_target + self.smoothing / classes) / total[:, None]

    def example_losses(self, logits: Tensor, batch: Batch) -> Tensor:
        corrected = losses.forward_correction_from_log(
            batch.values["target"], logits.log_softmax(1), batch.constants["transition"]
        )
        return torch.where(batch.gold, super().example_losses(logits, batch), corrected)


@dataclass(frozen=True)
class PartialLabels(TargetMethod):
    """Cross-entropy with equal weights on the teacher's ``top`` most likely classes.

    Such a label states only that the true class is one of them.
    """

    top: int = 2

    hard: ClassVar[bool] = False  # type: ignore[misc]  # there is one form only
    formula: ClassVar[str] = "−(1/n) Σ_{j among the first n of ys} log f_j"
    reference: ClassVar[str] = "arXiv 2402.10482 (ICLR 2025)"
    unverified: ClassVar[str] = "read in its abstract only"
    grid: ClassVar[Grid] = {"top": (2, 3, 5)}

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check(self.top >= 1, "top", "at least 1")

    def target_columns(self, rows: Rows, pool: TeacherLabels) -> Columns:
        if self.top > pool.k:
            raise InputError(f"{self!r} needs {self.top} classes per label; {pool.k} are stored.")
        first = torch.from_numpy(pool.topk_index[:, : self.top].astype(np.int64))
        if self.top >= rows.classes:
            warn(f"{self!r} of {rows.classes} classes does not distinguish between classes.")
        # Classes that the teacher rules out, as in a hard label, have no share.
        possible = torch.from_numpy(np.isfinite(pool.topk_logprob[:, : self.top])).float()
        shared = torch.zeros(len(first), rows.classes).scatter_(1, first, possible)
        shared /= shared.sum(1, keepdim=True)
        target = one_hot(gold_classes(rows), rows.classes)
        target[torch.from_numpy(~rows.gold)] = shared
        columns = all_rows(rows)
        columns.values["target"] = target
        return columns


@dataclass(frozen=True)
class Weighted(TargetMethod):
    """Cross-entropy with weight 1 / mean of R = ℓ(teacher, f) / ℓ(truth, f) over similar rows of V.

    With hard labels that mean is 1 + p (d − 1): p is the teacher's error rate among the neighbours,
    and d is the distortion, averaged over those on which the teacher is wrong. Similar rows are the
    nearest in (teacher margin, student margin).

    Args:
        every: the number of epochs between updates of the weights; 0 computes them once, before the
            first.
        neighbours: the number of rows of V to average over; 0 is half the square root of their
            number.
        max_weight: the largest weight; with 1, weights can only be reduced.
        hard: whether to use the teacher's top class for training and for the weights.
    """

    every: int = 25
    neighbours: int = 0
    max_weight: float = 10.0
    hard: bool = False

    needs: ClassVar[frozenset[str]] = frozenset({SOFT_LABELS, PRETRAINED})
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

    def prepare(self, rows: Rows, labels: Labels, noise: Noise) -> Columns:
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
    # Both have the floor, so that the ratio stays 1 where the teacher is right.
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
