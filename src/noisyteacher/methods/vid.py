"""VID: vanilla distillation, and the student's embedding must be able to tell the teacher's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from noisyteacher.core.errors import InputError, MissingIdsError
from noisyteacher.labels import TeacherLabels
from noisyteacher.losses import vid_nll, vid_rho
from noisyteacher.methods.base import (
    EMBEDDINGS,
    SOFT_LABELS,
    Batch,
    Columns,
    Grid,
    Output,
    Rows,
    StudentModel,
)
from noisyteacher.methods.targets import TargetMethod, given, weighted_mean
from noisyteacher.noise import TeacherNoise


@dataclass(frozen=True, repr=False)
class VID(TargetMethod):
    """Variational information distillation on the penultimate layer.

    Args:
        weight: coefficient λ of the embedding term.
        layers: of the trainable projection: 1, or 3 with ReLU between and no bias.
        on: ``"all"`` rows have the embedding term, which needs the teacher's embeddings of A and
            V too, or ``"pool"`` rows only.
        hard: whether the label term uses the teacher's top class.
    """

    weight: float = 1.0
    layers: int = 1
    on: str = "all"
    hard: bool = False

    own_needs: ClassVar[frozenset[str]] = frozenset({SOFT_LABELS, EMBEDDINGS})
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

    def prepare(
        self, rows: Rows, labels: TeacherLabels | None, noise: TeacherNoise | None
    ) -> Columns:
        columns = super().prepare(rows, labels, noise)
        wanted = np.ones(len(rows), bool) if self.on == "all" else ~rows.gold
        found = self._embeddings(given(self, labels), rows.ids[wanted])
        embedding = torch.zeros(len(rows), found.shape[1])
        embedding[torch.from_numpy(wanted)] = found
        columns.values["embedding"] = embedding
        return columns

    def _embeddings(self, labels: TeacherLabels, ids: np.ndarray) -> Tensor:
        try:
            taken = labels.take(ids)
        except MissingIdsError as error:
            raise MissingIdsError(
                f"{self!r} wants the teacher's embeddings of gold rows too, but there are "
                f'{str(error).rstrip(".")}: label A as well, or take on="pool".'
            ) from error
        return torch.from_numpy(taken.extras["embedding"].astype(np.float32))

    def modules(self, student: StudentModel, columns: Columns) -> nn.Module:
        return Projection(student.embedding_dim, columns.values["embedding"].shape[1], self.layers)

    def loss(
        self, output: Output, batch: Batch, modules: nn.Module | None, progress: Tensor
    ) -> Tensor:
        if output.embedding is None or not isinstance(modules, Projection):
            raise InputError(f"{self!r} needs the student's embedding and its own projection.")
        mean = modules(output.embedding.float())
        nll = vid_nll(mean, batch.values["embedding"], modules.rho)
        if self.on == "pool":
            nll = nll * ~batch.gold
        losses = self.example_losses(output.logits.float(), batch)
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
        # A parameter, so that the variances are in the optimiser and really learned.
        self.rho = nn.Parameter(torch.full((teacher_dim,), vid_rho()))

    def forward(self, embedding: Tensor) -> Tensor:
        """(b, d_student) -> (b, d_teacher)."""
        mean: Tensor = self.mean(embedding)
        return mean
