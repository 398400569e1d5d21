"""Other forms of distillation: tempered, decoupled, of embeddings, and on strong views."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from noisyteacher.core.errors import InputError
from noisyteacher.labels import TeacherLabels
from noisyteacher.losses import dkd, vid_nll, vid_rho
from noisyteacher.methods.batch import (
    Batch,
    Columns,
    Labels,
    Modules,
    Noise,
    Output,
    Rows,
    StudentModel,
    all_rows,
    gold_losses,
    labels_of_gold,
    pool_labels,
    temper,
    top_classes,
    weighted_mean,
)
from noisyteacher.methods.method import EMBEDDINGS, SOFT_LABELS, Grid, Method, TargetMethod


@dataclass(frozen=True)
class TTM(TargetMethod):
    """Transformed teacher matching: cross-entropy with the teacher's label at ``temperature``.

    The student's temperature stays at 1. (``Temperature`` applies to both, which is another loss.)
    """

    temperature: float = 2.0

    hard: ClassVar[bool] = False  # type: ignore[misc]  # a softened top class is the top class
    dense_only: ClassVar[bool] = True
    formula: ClassVar[str] = "ce(ys^(1/T) / Σ, f)"
    reference: ClassVar[str] = "Zheng & Yang ICLR 2024"
    unverified: ClassVar[str] = "read in its abstract only"
    grid: ClassVar[Grid] = {"temperature": (0.5, 2.0, 4.0)}

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check(self.temperature > 0, "temperature", "above 0")

    def target_columns(self, rows: Rows, pool: TeacherLabels) -> Columns:
        columns = super().target_columns(rows, pool)
        target, gold = columns.values["target"], columns.y >= 0
        target[~gold] = temper(target[~gold], self.temperature)
        return columns


@dataclass(frozen=True)
class DKD(Method):
    """Decoupled KD with the teacher's top class as target on pool rows, cross-entropy on gold rows.

    The teacher's confidence in its top class and its ranking of the other classes are two separate
    terms. ``warmup`` is the share of training over which the term of the pool rows grows from 0 to
    its full size (20 of 240 epochs in the reference).
    """

    alpha: float = 1.0
    beta: float = 8.0
    temperature: float = 4.0
    warmup: float = 0.1

    formula: ClassVar[str] = "T² [α KL(top or not) + β KL(among the others)] · warm-up"
    reference: ClassVar[str] = "Zhao et al. CVPR 2022"
    unverified: ClassVar[str] = "the top class as target: the original uses the true one"
    grid: ClassVar[Grid] = {"beta": (2.0, 8.0)}

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check(self.alpha >= 0, "alpha", "at least 0")
        self._check(self.beta >= 0, "beta", "at least 0")
        self._check(self.temperature > 0, "temperature", "above 0")
        self._check(0 <= self.warmup <= 1, "warmup", "between 0 and 1")

    def loss(self, output: Output, batch: Batch, modules: Modules, progress: Tensor) -> Tensor:
        logits, target = output.logits, batch.values["target"]
        on_pool = dkd(
            logits,
            target.log(),
            target.argmax(1),
            self.alpha,
            self.beta,
            self.temperature,
        )
        if self.warmup > 0:
            on_pool = on_pool * (progress / self.warmup).clamp(max=1.0)
        return weighted_mean(torch.where(batch.gold, gold_losses(logits, batch.y), on_pool), batch)


@dataclass(frozen=True)
class VID(TargetMethod):
    """Vanilla distillation plus variational information distillation of the penultimate layer.

    Args:
        weight: the coefficient λ of the embedding term.
        layers: the number of layers of the trainable projection: 1, or 3 with ReLU between them and
            no bias.
        on: the rows with the embedding term: ``"all"``, which needs the teacher's embeddings of A
            and V too, or ``"pool"``.
        hard: whether the label term uses the teacher's top class.
    """

    weight: float = 1.0
    layers: int = 1
    on: str = "all"
    hard: bool = False

    needs: ClassVar[frozenset[str]] = frozenset({SOFT_LABELS, EMBEDDINGS})
    formula: ClassVar[str] = "ce(ys, f) + λ mean_j ½[(t_j − μ_j(s))² / σ_j² + log σ_j²]"
    reference: ClassVar[str] = "Ahn et al. CVPR 2019"
    unverified: ClassVar[str] = "the fully connected form and the shape of the projection"
    grid: ClassVar[Grid] = {"weight": (0.001, 0.1, 0.2, 0.5, 0.8, 1.0, 2.0, 10.0, 50.0, 100.0)}
    other_grids: ClassVar[dict[str, Grid]] = {
        "imagenet": {"weight": (0.1, 0.3, 0.5)},
        "imdb": {"weight": (0.1, 0.5, 1.0, 2.0)},
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check(self.weight >= 0, "weight", "at least 0")
        self._check(self.layers in (1, 3), "layers", "1 or 3")
        self._check(self.on in ("all", "pool"), "on", '"all" or "pool"')

    def prepare(self, rows: Rows, labels: Labels, noise: Noise) -> Columns:
        columns = super().prepare(rows, labels, noise)
        wanted = np.ones(len(rows), bool) if self.on == "all" else ~rows.gold
        found = labels_of_gold(self, labels, rows.ids[wanted], "embeddings", 'on="pool"')
        vectors = torch.from_numpy(found.extras["embedding"].astype(np.float32))
        embedding = torch.zeros(len(rows), vectors.shape[1])
        embedding[torch.from_numpy(wanted)] = vectors
        columns.values["embedding"] = embedding
        return columns

    def modules(self, student: StudentModel, columns: Columns) -> nn.Module:
        return Projection(student.embedding_dim, columns.values["embedding"].shape[1], self.layers)

    def loss(self, output: Output, batch: Batch, modules: Modules, progress: Tensor) -> Tensor:
        if output.embedding is None or not isinstance(modules, Projection):
            raise InputError(f"{self!r} needs the student's embedding and its own projection.")
        mean = modules(output.embedding)
        nll = vid_nll(mean, batch.values["embedding"], modules.rho)
        if self.on == "pool":
            nll = nll * ~batch.gold
        losses = self.example_losses(output.logits, batch)
        return weighted_mean(losses + self.weight * nll, batch)


class Projection(nn.Module):
    """From the student's embedding to the mean of the teacher's, with a variance per coordinate."""

    def __init__(self, student_dim: int, teacher_dim: int, layers: int) -> None:
        super().__init__()
        self.mean: nn.Module
        if layers == 1:
            self.mean = nn.Linear(student_dim, teacher_dim)
        else:
            self.mean = nn.Sequential(
                nn.Linear(student_dim, teacher_dim, bias=False),
                nn.ReLU(),
                nn.Linear(teacher_dim, teacher_dim, bias=False),
                nn.ReLU(),
                nn.Linear(teacher_dim, teacher_dim, bias=False),
            )
        # A parameter, so that the variances are in the optimizer and really learned.
        self.rho = nn.Parameter(torch.full((teacher_dim,), vid_rho()))

    def forward(self, embedding: Tensor) -> Tensor:
        """(b, d_student) -> (b, d_teacher)."""
        mean: Tensor = self.mean(embedding)
        return mean


@dataclass(frozen=True)
class FixMatch(Method):
    """Cross-entropy of the strong view with the teacher's top class, if the teacher is confident.

    Rows whose top probability is below ``threshold`` count with loss 0. The original takes labels
    from the student itself, as ``Consistency(inner=None)`` does; here the teacher's stored labels
    are used instead.
    """

    threshold: float = 0.95
    weight: float = 1.0

    views: ClassVar[tuple[str, ...]] = ("weak", "strong")
    formula: ClassVar[str] = "λ 1{max ys ≥ τ} ce(argmax ys, f(strong))"
    reference: ClassVar[str] = "Sohn et al. NeurIPS 2020"
    unverified: ClassVar[str] = "read in re-implementations"

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check(0 <= self.threshold <= 1, "threshold", "between 0 and 1")
        self._check(self.weight >= 0, "weight", "at least 0")

    def prepare(self, rows: Rows, labels: Labels, noise: Noise) -> Columns:
        pool = pool_labels(self, rows, labels)
        columns = all_rows(rows)
        sure = torch.ones(len(rows), dtype=torch.bool)
        sure[columns.y < 0] = torch.from_numpy(pool.topk_prob[:, 0] >= self.threshold)
        columns.values.update(label=top_classes(rows, pool), sure=sure)
        return columns

    def loss(self, output: Output, batch: Batch, modules: Modules, progress: Tensor) -> Tensor:
        if output.strong is None:
            raise InputError(f"{self!r} needs a strong view, and none was given.")
        on_gold = gold_losses(output.logits, batch.y)
        strong = F.cross_entropy(output.strong, batch.values["label"], reduction="none")
        on_pool = self.weight * batch.values["sure"] * strong
        return weighted_mean(torch.where(batch.gold, on_gold, on_pool), batch)
