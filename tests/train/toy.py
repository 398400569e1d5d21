"""A small problem for the engine's tests: Gaussian classes, plain views, made-up methods."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from noisyteacher.labels import TeacherLabels
from noisyteacher.methods import (
    Batch,
    Columns,
    Method,
    Output,
    Prepared,
    Rows,
    fit_and_prepare,
    one_hot,
)
from noisyteacher.noise import TeacherNoise
from noisyteacher.train import Adam, Constant, Job, TrainConfig, TrainData

CLASSES, FEATURES, TRAIN, TEST = 3, 6, 240, 90


@dataclass(frozen=True)
class NoisyViews:
    """Weak: a little noise; strong: more of it. Both drawn from the generator they are given."""

    has_strong: bool = True

    def plain(self, x: Tensor) -> Tensor:
        return x.float()

    def weak(self, x: Tensor, generator: torch.Generator) -> Tensor:
        return x + 0.05 * torch.randn(x.shape, generator=generator, device=x.device)

    def strong(self, x: Tensor, generator: torch.Generator) -> Tensor:
        return x + 0.5 * torch.randn(x.shape, generator=generator, device=x.device)


@dataclass(frozen=True)
class Net:
    """An MLP with dropout, the smallest model that has everything the engine looks at."""

    classes: int = CLASSES
    dropout: float = 0.1

    def build(self) -> nn.Module:
        return _Net(self)


class _Net(nn.Module):
    def __init__(self, spec: Net) -> None:
        super().__init__()
        self.classes, self.embedding_dim = spec.classes, 16
        self.body = nn.Sequential(nn.Linear(FEATURES, 16), nn.ReLU(), nn.Dropout(spec.dropout))
        self.head = nn.Linear(16, spec.classes)

    def embed(self, x: Tensor) -> Tensor:
        return self.body(x)

    def classify(self, embedding: Tensor) -> Tensor:
        return self.head(embedding)

    def forward(self, x: Tensor) -> Tensor:
        return self.classify(self.embed(x))


@dataclass(frozen=True, repr=False)
class PlainCE(Method):
    """Cross-entropy on gold rows and on the teacher's labels."""

    def prepare(
        self, rows: Rows, labels: TeacherLabels | None, noise: TeacherNoise | None
    ) -> Columns:
        assert labels is not None
        y = torch.from_numpy(rows.y)
        target = one_hot(y, rows.classes)
        pool = y < 0
        target[pool] = torch.from_numpy(labels.take(rows.ids[pool.numpy()]).probs)
        return Columns(torch.arange(len(rows)), y, torch.ones(len(rows)), {"target": target})

    def loss(
        self, output: Output, batch: Batch, modules: nn.Module | None, progress: Tensor
    ) -> Tensor:
        per_row = -(batch.values["target"] * F.log_softmax(output.logits, 1)).sum(1)
        return (per_row * batch.weight).mean()


@dataclass(frozen=True, repr=False)
class Everything(PlainCE):
    """Every part of the protocol: trainable parts, refresh, dropped rows, strong view, ramp."""

    needs: ClassVar[frozenset[str]] = frozenset({"soft labels", "embeddings"})
    views: ClassVar[tuple[str, ...]] = ("weak", "strong")
    every: int = 2

    def prepare(
        self, rows: Rows, labels: TeacherLabels | None, noise: TeacherNoise | None
    ) -> Columns:
        whole = super().prepare(rows, labels, noise)
        assert labels is not None
        kept = (whole.y >= 0) | (torch.arange(len(rows)) % 3 != 0)
        target = torch.from_numpy(labels.take(rows.ids[kept.numpy()]).extras["embedding"]).float()
        return Columns(
            whole.index[kept],
            whole.y[kept],
            whole.weight[kept],
            {"target": whole.values["target"][kept], "embedding": target},
        )

    def modules(self, student: nn.Module, columns: Columns) -> nn.Module:
        return nn.Linear(student.embedding_dim, columns.values["embedding"].shape[1])

    def loss(
        self, output: Output, batch: Batch, modules: nn.Module | None, progress: Tensor
    ) -> Tensor:
        assert modules is not None
        assert output.embedding is not None
        assert output.strong is not None
        aside = (modules(output.embedding) - batch.values["embedding"]).square().mean()
        ramp = (progress * 10).clamp(max=1.0)
        guess = output.logits.detach().argmax(1)
        return (
            super().loss(output, batch, modules, progress)
            + 0.1 * aside
            + ramp * F.cross_entropy(output.strong, guess)
        )

    def refresh_every(self) -> int:
        return self.every

    def refresh(self, student_probs: Tensor, val_probs: Tensor, columns: Columns) -> None:
        pool = columns.y < 0
        columns.weight[pool] = student_probs.max(1).values[pool] * val_probs.max(1).values.mean()


@dataclass(frozen=True, repr=False)
class TurnsNaN(PlainCE):
    """Divides by zero from a given share of the run on."""

    after: float = 0.5

    def loss(
        self, output: Output, batch: Batch, modules: nn.Module | None, progress: Tensor
    ) -> Tensor:
        return super().loss(output, batch, modules, progress) / (progress < self.after).float()


@dataclass(frozen=True)
class Toy:
    """The whole problem: inputs, truth, labels and the split."""

    data: TrainData
    y: np.ndarray
    labels: TeacherLabels

    def job(self, name: str, method: Method, seed: int = 0, **changes: object) -> Job:
        gold, val, selection = np.arange(30), np.arange(30, 60), np.arange(60, 90)
        positions = np.concatenate([gold, val, np.arange(90, TRAIN)])
        row_y = np.full(len(positions), -1)
        row_y[:60] = self.y[:60]
        rows = Rows(positions, row_y, val, self.y[val], CLASSES)
        prepared: Prepared = fit_and_prepare(method, rows, self.labels)
        settings = {"model": Net(), "seed": seed, "selection": selection} | changes
        return Job(
            name=name,
            method=method,
            prepared=prepared,
            positions=positions,
            val_positions=val,
            selection_y=self.y[settings["selection"]],
            **settings,
        )


def make_toy(seed: int = 0) -> Toy:
    rng = np.random.default_rng(seed)
    centres = 2 * rng.normal(size=(CLASSES, FEATURES))
    y = rng.integers(0, CLASSES, TRAIN + TEST)
    x = (centres[y] + rng.normal(size=(TRAIN + TEST, FEATURES))).astype(np.float32)
    logits = x[:TRAIN] @ centres.T.astype(np.float32) + 2 * rng.normal(size=(TRAIN, CLASSES))
    labels = TeacherLabels.from_logits(
        np.arange(TRAIN),
        logits.astype(np.float32),
        extras={"embedding": rng.normal(size=(TRAIN, 4)).astype(np.float32)},
    )
    data = TrainData(
        torch.from_numpy(x[:TRAIN]),
        NoisyViews(),
        CLASSES,
        torch.from_numpy(x[TRAIN:]),
        y[TRAIN:],
    )
    return Toy(data, y, labels)


def small(epochs: int = 4, **changes: object) -> TrainConfig:
    settings = {"batch_size": 32, "optimizer": Adam(1e-2), "schedule": Constant()} | changes
    return TrainConfig(epochs=epochs, **settings)
