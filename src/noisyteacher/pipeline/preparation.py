"""What every distillation does before it trains: settings, the claim of its folder, the audit."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import orjson

from noisyteacher.auditing import Audit, audit
from noisyteacher.choose.decision import METRICS
from noisyteacher.choose.linear_choice import FOLDS
from noisyteacher.core.errors import InputError
from noisyteacher.core.files import write_atomic
from noisyteacher.data import Featurizer
from noisyteacher.data.dataset import Kind
from noisyteacher.data.input_format import InputFormat
from noisyteacher.methods import EXTRAS, PRETRAINED, Method
from noisyteacher.models import ModelLike, ModelSpec
from noisyteacher.pipeline.defaults import AUTO, is_linear_student
from noisyteacher.pipeline.student import is_student
from noisyteacher.pipeline.task import Task
from noisyteacher.runs import RunFolder
from noisyteacher.runs.folder import ANOTHER_FOLDER
from noisyteacher.train import TrainConfig
from noisyteacher.train.solver import is_solvable

_AUDIT_REPLICATES = 200
# What differs from the folder's run, as the one who gave it would say.
_CHANGED = {
    "data": "other files: gold, pool, teacher labels, validation or test rows",
    "student_training": "other training, such as other epochs (--epochs)",
    "flip": "another flip of images (--no-flip)",
    "featurizer": "another featurizer of texts",
}


@dataclass(frozen=True)
class DistillSettings:
    """What is tried and how it is trained; None and "auto" are the defaults for the data."""

    student: str | ModelLike = AUTO
    methods: tuple[Method, ...] = ()  # instead of the recommended one and the default
    encoder: str | Path | None = None  # of the student "embeddings"
    folds: int = FOLDS
    metric: str = "accuracy"
    compare: bool = False
    quick: bool = False
    generations: int = 1
    epochs: int | None = None
    training: TrainConfig | None = None
    featurizer: Featurizer | None = field(default=None, compare=False)
    flip: bool = True
    seed: int = 0

    def __post_init__(self) -> None:
        if self.generations < 1:
            raise InputError(f"generations must be at least 1, not {self.generations}.")
        if self.epochs is not None and self.epochs < 1:
            raise InputError(f"epochs must be at least 1, not {self.epochs}.")
        if self.seed < 0:
            raise InputError(f"seed must be at least 0, not {self.seed}.")
        if self.folds < 2:
            raise InputError(f"folds must be at least 2, not {self.folds}.")
        if self.metric not in METRICS:
            raise InputError(f"metric must be one of {', '.join(METRICS)}, not {self.metric!r}.")

    def cross_fits(self, kind: Kind) -> bool:
        """Whether students are linear and solved, so that all gold rows judge them in folds.

        Anything that asks for training steps (epochs, generations, methods with two views) trains
        them step by step instead, and judges on S.
        """
        linear = is_linear_student(self.student, kind)
        steps = self.epochs is not None or self.training is not None or self.generations > 1
        return linear and not steps and all(can_be_solved(method) for method in self.methods)


def can_be_solved(method: Method) -> bool:
    """Whether a linear student of this method needs no training steps and no extras."""
    return is_solvable(method) and not method.needs & {*EXTRAS, PRETRAINED}


def claim_folder(
    folder: RunFolder, task: Task, inputs: InputFormat, spec: ModelSpec, training: str, seed: int
) -> None:
    """Take the folder, or refuse it now and not after the training."""
    featurizer = inputs.featurizer
    settings = {
        "name": "distill",
        "dataset": task.name,
        "data": task.digest(),
        "sizes": task.sizes,
        "classes": list(task.classes),
        "teacher": task.labels.teacher,
        "student": repr(spec),
        "student_training": training,
        "seed": seed,
        "flip": inputs.flip,
        # Another vocabulary of the same size fits the same student, and means other words.
        "featurizer": None
        if featurizer is None
        else hashlib.sha256(orjson.dumps(featurizer.to_json())).hexdigest(),
    }
    folder.claim(settings, in_words=_CHANGED)
    folder.rows()
    student = folder.path / "student"
    if student.exists() and not is_student(student):
        raise InputError(f"{student} does not hold a student and is in the way; {ANOTHER_FOLDER}.")


def save_audit(found: Audit, folder: RunFolder) -> None:
    content = orjson.dumps(found.to_dict(), option=orjson.OPT_SERIALIZE_NUMPY)
    write_atomic(folder.path / "audit.json", content)


def audit_teacher(task: Task, say: Callable[[str], None]) -> Audit:
    """Audit the teacher before anything is trained, and say the warnings."""
    measures = task.measures
    found = audit(
        task.labels.take(task.ids[np.concatenate([measures, task.split.pool])]),
        [task.classes[label] for label in task.y[measures]],
        task.ids[measures],
        kind=task.kind,
        replicates=_AUDIT_REPLICATES,
    )
    for warning in found.warnings:
        say(f"Audit: {warning}")
    return found
