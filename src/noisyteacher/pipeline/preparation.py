"""What every distillation does before it trains: settings, its folder and rows, the audit."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch

from noisyteacher.auditing import Audit, audit
from noisyteacher.choose.decision import METRICS
from noisyteacher.choose.evidence import DecisionRows
from noisyteacher.choose.folds import input_groups
from noisyteacher.core.errors import InputError
from noisyteacher.core.files import write_atomic
from noisyteacher.core.integrity import sealed_json
from noisyteacher.data import Featurizer
from noisyteacher.data.dataset import Kind, take_rows
from noisyteacher.data.embeddings import Embeddings
from noisyteacher.data.input_format import InputFormat
from noisyteacher.labels import TeacherLabels
from noisyteacher.methods import EXTRAS, PRETRAINED, Method
from noisyteacher.models import ModelLike, ModelSpec
from noisyteacher.noise import TeacherNoise
from noisyteacher.pipeline.defaults import (
    AUTO,
    EMBEDDINGS,
    is_linear_student,
    student_for,
    training_for,
)
from noisyteacher.pipeline.student import is_student
from noisyteacher.pipeline.task import Task
from noisyteacher.runs import RunFolder
from noisyteacher.runs.folder import ANOTHER_FOLDER
from noisyteacher.train import Inputs, TrainConfig
from noisyteacher.train.pool_shards import PoolShards
from noisyteacher.train.solver import Features, is_solvable

_AUDIT_REPLICATES = 200
# What differs from the folder's run, as the one who gave it would say.
_CHANGED = {
    "data": "other files: gold, pool, teacher labels, validation or test rows",
    "student_training": "other training, such as other epochs (--epochs)",
    "flip": "another flip of images (--no-flip)",
    "featurizer": "another featurizer or encoder",
}


@dataclass(frozen=True)
class DistillSettings:
    """Which methods are trained, and how; None and "auto" are the defaults for the data."""

    student: str | ModelLike = AUTO
    methods: tuple[Method, ...] = ()  # instead of the recommended one and the default
    encoder: str | Path | None = None  # of the student "embeddings"
    folds: int | None = None  # None: 5 for linear students, 1 held-out part for networks
    metric: str = "accuracy"
    compare: bool = False
    quick: bool = False
    generations: int = 1
    epochs: int | None = None
    training: TrainConfig | None = None
    featurizer: Featurizer | None = field(default=None, compare=False)
    flip: bool = True
    max_memory: float | None = field(default=None, compare=False)  # GB for the inputs
    seed: int = 0

    def __post_init__(self) -> None:
        for name, least in (("generations", 1), ("epochs", 1), ("seed", 0), ("folds", 1)):
            value = getattr(self, name)
            if value is not None and value < least:
                raise InputError(f"{name} must be at least {least}, not {value}.")
        if self.metric not in METRICS:
            raise InputError(f"metric must be one of {', '.join(METRICS)}, not {self.metric!r}.")

    def solves(self, kind: Kind) -> bool:
        """Whether the students are linear, trained to convergence and cross-validated.

        Anything that asks for training steps (epochs, generations, methods that need more than
        logits) trains them step by step instead, like networks.
        """
        linear = is_linear_student(self.student, kind, self.encoder)
        steps = self.epochs is not None or self.training is not None or self.generations > 1
        encoded = self.encoder is not None or self.student == EMBEDDINGS
        words = kind == "text" and not encoded and not isinstance(self.featurizer, Embeddings)
        return linear and not steps and all(can_cross_fit(m, words) for m in self.methods)


@dataclass(frozen=True, eq=False)
class Run:
    """One task at work in a folder (or in memory alone)."""

    task: Task
    settings: DistillSettings
    inputs: InputFormat
    tensors: Inputs
    folder: RunFolder | None
    device: torch.device
    say: Callable[[str], None]
    quiet: bool
    deadline: float = math.inf

    @cached_property
    def spec(self) -> ModelSpec:
        return student_for(self.settings.student, self.inputs, len(self.task.classes))

    @cached_property
    def config(self) -> TrainConfig:
        """How networks are trained on the rows in memory."""
        return self.config_for(len(self.task.ids) - len(self.task.split.selection))

    def config_for(self, rows: int) -> TrainConfig:
        """How networks are trained on so many rows."""
        config = self.settings.training or training_for(self.task.kind, self.spec, rows)
        epochs = self.settings.epochs
        return config if epochs is None else replace(config, epochs=epochs)

    @property
    def path(self) -> Path | None:
        """Where its files go."""
        return None if self.folder is None else self.folder.path

    @property
    def minutes_left(self) -> float | None:
        if self.deadline == math.inf:
            return None
        return max(0.0, (self.deadline - time.monotonic()) / 60)

    @property
    def train_options(self) -> dict[str, Any]:
        """What every call of ``train`` in this run is told."""
        return {
            "out": self.path,
            "device": self.device,
            "minutes": self.minutes_left,
            "quiet": self.quiet,
            "max_memory": self.settings.max_memory,
        }

    def decision_rows(self, features: Features) -> DecisionRows:
        """The task's rows, with their roles in the decision."""
        task = self.task
        n = len(task.ids)
        judges, measures = np.zeros(n, bool), np.zeros(n, bool)
        judges[task.judges] = True
        measures[task.measures] = True
        # Pool rows are groups of their own: the task has no pool copy of a gold row.
        groups = np.arange(n)
        known = np.flatnonzero(task.y >= 0)
        groups[known] = n + input_groups(take_rows(task.inputs, known))
        return DecisionRows(
            features,
            task.ids,
            task.y,
            judges,
            measures,
            task.labels,
            len(task.classes),
            trains_judges=len(task.split.selection) == 0,
            groups=groups,
            rest=task.rest if isinstance(task.rest, PoolShards) else None,
            encoded=self.inputs.encoded if features.shape[1] else 0,
        )


def can_cross_fit(method: Method, words: bool) -> bool:
    """Whether a linear student of this method needs nothing but logits of the rows.

    Two views of a row are at hand where the rows are words, which can be dropped.
    """
    trains = is_solvable(method) or (words and not method.refresh_every())
    return trains and not method.needs & {*EXTRAS, PRETRAINED}


def claim_folder(run: Run, training: str) -> None:
    """Take the folder, or refuse it now and not after the training."""
    folder, task, featurizer = run.folder, run.task, run.inputs.featurizer
    if folder is None:
        return
    settings = {
        "name": "distill",
        "dataset": task.name,
        "data": task.digest(),
        "sizes": task.sizes,
        "classes": list(task.classes),
        "teacher": task.labels.teacher,
        "student": repr(run.spec),
        "student_training": training,
        "seed": run.settings.seed,
        "flip": run.inputs.flip,
        # Another vocabulary of the same size fits the same student, and means other words; so does
        # another encoder in the same folder.
        "featurizer": None if featurizer is None else featurizer.digest,
    }
    folder.claim(settings, in_words=_CHANGED)
    folder.rows()
    student = folder.path / "student"
    if student.exists() and not is_student(student):
        raise InputError(f"{student} exists and is not a student's folder; {ANOTHER_FOLDER}.")


def audit_teacher(run: Run) -> Audit:
    """Audit the teacher before anything is trained, say the warnings, and keep the audit."""
    task, measures = run.task, run.task.measures
    found = audit(
        task.labels.take(task.ids[np.concatenate([measures, task.split.pool])]),
        [task.classes[label] for label in task.y[measures]],
        task.ids[measures],
        kind=task.kind,
        replicates=_AUDIT_REPLICATES,
    )
    for warning in found.warnings:
        run.say(f"Audit: {warning}")
    if run.path is not None:
        write_atomic(run.path / "audit.json", sealed_json(found.to_dict()))
    return found


def fit_noise(
    methods: Iterable[Method], labels: TeacherLabels, ids: np.ndarray, y: np.ndarray
) -> TeacherNoise | None:
    """The first noise model that a method asks for, fitted on the rows that measure the teacher."""
    noise = next((made for method in methods if (made := method.noise()) is not None), None)
    return None if noise is None else noise.fit(labels.take(ids), y)
