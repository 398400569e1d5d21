"""What a method is: a frozen dataclass that turns teacher labels into a training signal.

The engine walks every method the same way::

    check_store -> relabel -> noise().fit(V) -> prepare -> modules -> [loss ... refresh ...]

``fit_and_prepare`` does the first four steps; the training loop does the rest.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, Protocol, TypeAlias

import numpy as np
import torch
from torch import Tensor, nn

from noisyteacher.core.errors import InputError
from noisyteacher.labels import TeacherLabels
from noisyteacher.noise import TeacherNoise

SOFT_LABELS = "soft labels"
EMBEDDINGS = "embeddings"
VIEW_STATISTICS = "view statistics"
EXTRAS = frozenset({EMBEDDINGS, VIEW_STATISTICS})  # beside the labels; students' labels have none
PRETRAINED = "student pre-trained on A"

ONCE = 2**31  # more epochs than any run has: ``refresh_every`` of what is settled at the start

Grid: TypeAlias = Mapping[str, tuple[Any, ...]]  # field name -> values to try


@dataclass(frozen=True)
class Rows:
    """The training rows of one student, in order, and the validation set that fits are made on.

    V usually stands among the rows too, with its gold labels; a first generation has it there as
    pool rows, and an ablation leaves it out. Fits on V therefore never look at ``y``.
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
    """What a method made of the rows: one value per kept row, and constants for all of them."""

    index: Tensor  # (m,) int64: which rows are kept, as positions in Rows
    y: Tensor  # (m,) int64, -1 on pool rows
    weight: Tensor  # (m,) float32: multiplies each row's loss; 1 on gold rows
    values: dict[str, Tensor] = field(default_factory=dict)  # each (m, ...)
    constants: dict[str, Tensor] = field(default_factory=dict)  # any shape
    rows_per_epoch: int = 0  # how many rows make an epoch; 0: as many as are kept

    def __len__(self) -> int:
        return len(self.index)


@dataclass(frozen=True)
class Batch:
    """The rows of one step, gathered on the device. Shapes are static within a run."""

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
    """What the student said on one batch."""

    logits: Tensor  # (b, L), weak view
    embedding: Tensor | None = None  # (b, d), weak view; only for methods that need embeddings
    strong: Tensor | None = None  # (b, L), strong view; only where ``views`` asks for it


class StudentModel(Protocol):
    """The part of a model that methods look at (see ``models``)."""

    embedding_dim: int
    classes: int


@dataclass(frozen=True)
class Method:
    """Base of all methods; the defaults are those of a method that does nothing special.

    The class variables describe the method in documents and name the paper's grids: ``grid`` is
    the one for CIFAR and CelebA, ``other_grids`` those of other data sets where they differ.
    """

    own_needs: ClassVar[frozenset[str]] = frozenset({SOFT_LABELS})
    own_views: ClassVar[tuple[str, ...]] = ("weak",)
    formula: ClassVar[str] = ""
    reference: ClassVar[str] = ""
    unverified: ClassVar[str] = ""
    grid: ClassVar[Grid] = {}
    other_grids: ClassVar[Mapping[str, Grid]] = {}
    positional: ClassVar[tuple[str, ...]] = ()  # fields that the repr shows always, unnamed
    outermost: ClassVar[bool] = False  # whether it refuses to be another method's inner one

    def __post_init__(self) -> None:
        for f in fields(self):
            self._check_type(f.name, str(f.type))

    @property
    def needs(self) -> frozenset[str]:
        """What must be there before training; a wrapper needs what its inner method needs too."""
        return self.own_needs

    @property
    def views(self) -> tuple[str, ...]:
        """How each example is shown to the student; each view costs one pass per step."""
        return self.own_views

    def noise(self) -> TeacherNoise | None:
        """The unfitted noise model this method wants."""
        return None

    def relabel(self, rows: Rows, labels: TeacherLabels) -> TeacherLabels:
        """Replace the teacher's labels before the noise model sees them (calibration)."""
        return labels

    def prepare(
        self, rows: Rows, labels: TeacherLabels | None, noise: TeacherNoise | None
    ) -> Columns:
        """Turn rows and labels into per-example tensors, once, on the CPU."""
        raise TypeError(f"{type(self).__name__} does not implement prepare()")

    def modules(self, student: StudentModel, columns: Columns) -> nn.Module | None:
        """Trainable parts of the method itself; they join the student's optimiser."""
        return None

    def loss(
        self, output: Output, batch: Batch, modules: nn.Module | None, progress: Tensor
    ) -> Tensor:
        """The scalar to minimise. Static shapes, no host sync (it is captured in a CUDA graph)."""
        raise TypeError(f"{type(self).__name__} does not implement loss()")

    def refresh_every(self) -> int:
        """Call ``refresh`` before every n-th epoch (0-based epochs 0, n, 2n ...); 0: never."""
        return 0

    def refresh(self, student_probs: Tensor, val_probs: Tensor, columns: Columns) -> None:
        """Write ``columns.weight`` anew, in place, from the student's current predictions.

        Whole, because a wrapper may have changed it; and nothing else, because checkpoints keep
        nothing else of the columns.

        ``student_probs`` (m, L) are those of the kept rows, ``val_probs`` (v, L) those of V; both
        un-augmented and in evaluation mode.
        """

    def __repr__(self) -> str:
        """The method's whole name: its type and the fields that differ from their defaults."""
        parts = [
            f"{getattr(self, f.name)!r}"
            if f.name in self.positional
            else f"{f.name}={getattr(self, f.name)!r}"
            for f in fields(self)
            if f.name in ("inner", *self.positional) or getattr(self, f.name) != f.default
        ]
        return f"{type(self).__name__}({', '.join(parts)})"

    def _check_type(self, name: str, annotation: str) -> None:
        """Hold simple fields to their annotation; NumPy's scalars become Python's."""
        value = getattr(self, name)
        if isinstance(value, np.generic):
            value = value.item()
            object.__setattr__(self, name, value)
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if annotation == "bool":
            self._check(isinstance(value, bool), name, "True or False")
        elif annotation == "int":
            self._check(isinstance(value, int) and number, name, "a whole number")
        elif annotation == "float":
            self._check(number and math.isfinite(value), name, "a finite number")
        elif annotation == "str":
            self._check(isinstance(value, str), name, "a string")

    def _check(self, fine: bool, name: str, what: str) -> None:
        """Refuse a field's value in one sentence."""
        if not fine:
            raise InputError(
                f"{type(self).__name__}: {name} must be {what}, not {getattr(self, name)!r}."
            )


@dataclass(frozen=True)
class Prepared:
    """A method ready to train: its columns, and what was fitted on the way, to be looked at."""

    columns: Columns
    noise: TeacherNoise | None
    labels: TeacherLabels | None


def fit_and_prepare(method: Method, rows: Rows, labels: TeacherLabels | None) -> Prepared:
    """Check what the method needs, relabel, fit its noise model on V and make its columns."""
    check_store(method, labels)
    if labels is not None:
        if labels.num_classes != rows.classes:
            raise InputError(
                f"The teacher's labels have {labels.num_classes} classes, the data has "
                f"{rows.classes}."
            )
        labels = method.relabel(rows, labels)
    noise = method.noise()
    if noise is not None:
        if labels is None:
            raise InputError(f"{method!r} needs teacher labels, and none were given.")
        noise.fit(labels.take(rows.val_ids), rows.val_y)
    return Prepared(method.prepare(rows, labels, noise), noise, labels)


def check_store(method: Method, labels: TeacherLabels | None) -> None:
    """Refuse, in one sentence, a store that lacks what the method needs."""
    if labels is None and SOFT_LABELS in method.needs:
        raise InputError(
            f"{method!r} needs teacher labels, and none were given; make them with "
            "`noisyteacher label` or `noisyteacher import`."
        )
    extras = set() if labels is None else set(labels.extras)
    if EMBEDDINGS in method.needs and "embedding" not in extras:
        raise InputError(
            f"{method!r} needs the teacher's embeddings, which this label store lacks; "
            "make them with `noisyteacher label --embeddings`."
        )
    if VIEW_STATISTICS in method.needs and not {"view_mean", "view_std"} <= extras:
        raise InputError(
            f"{method!r} needs per-view statistics, which this label store lacks; "
            "make them with `noisyteacher label --view-passes 10`."
        )


def one_hot(y: Tensor, classes: int) -> Tensor:
    """(n,) int64 -> (n, L) float32; rows of zeros where y is -1."""
    return (torch.arange(classes, device=y.device) == y[:, None]).float()
