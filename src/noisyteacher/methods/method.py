"""What a method is: a frozen dataclass that turns teacher labels into a training signal.

The engine treats every method the same way::

    check_store -> relabel -> noise().fit(V) -> prepare -> modules -> [loss ... refresh ...]

``fit_and_prepare`` does the first four steps; the training loop does the rest.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from inspect import get_annotations
from typing import Any, ClassVar, Self, TypeAlias

import numpy as np
import torch
from torch import Tensor, nn

from noisyteacher.core.errors import InputError
from noisyteacher.labels import TeacherLabels
from noisyteacher.losses import BaseLoss, CrossEntropy, sparse_slam_loss, vanilla_loss
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
    dense_target,
    given,
    pool_labels,
    sparse_target,
    weighted_mean,
)
from noisyteacher.noise import TeacherNoise

__all__ = [
    "EMBEDDINGS",
    "EXTRAS",
    "PRETRAINED",
    "SOFT_LABELS",
    "VIEW_STATISTICS",
    "Grid",
    "Method",
    "PlainMethod",
    "Prepared",
    "TargetMethod",
    "Wrapper",
    "check_store",
    "fit_and_prepare",
    "inner_methods",
]

SOFT_LABELS = "soft labels"
EMBEDDINGS = "embeddings"
VIEW_STATISTICS = "view statistics"
EXTRAS = frozenset({EMBEDDINGS, VIEW_STATISTICS})  # beside the labels; students' labels have none
PRETRAINED = "student pre-trained on A"

ONCE = 2**31  # more epochs than any run has: ``refresh_every`` of what is settled at the start
SHORTLIST = 2  # the shortlist size of rows that need none: at alpha = 1 it has no effect

Grid: TypeAlias = Mapping[str, tuple[Any, ...]]  # field name -> values to try

REGISTRY: dict[str, type[Method]] = {}  # every method by its class name, a user's too


@dataclass(frozen=True)
class Method:
    """The base class of all methods, built-in and your own.

    A method is a frozen dataclass whose fields are all its settings. Every subclass registers
    itself under its class name, so that ``parse`` reads its repr back from text. A subclass must
    define ``loss``; everything else has a default::

        @dataclass(frozen=True)
        class Focal(Method):
            gamma: float = 2.0

            def loss(self, output, batch, modules, progress):
                log_f = output.logits.log_softmax(1)
                unsure = (1 - log_f.exp()) ** self.gamma
                return weighted_mean(-(batch.values["target"] * unsure * log_f).sum(1), batch)

    By default ``prepare`` keeps every row and gives it the column ``target`` (n, L): one-hot at the
    true class on gold rows, the teacher's probabilities on pool rows. The class attributes
    ``needs`` and ``views`` state what the method needs and how each example is shown to the
    student. Others describe the method in the documentation: ``formula``, ``reference``,
    ``unverified``, and the paper's grids (``grid`` for CIFAR and CelebA, ``other_grids`` for other
    data sets).

    The repr names a method in results rows and checkpoints, and shows only the fields that differ
    from their defaults. After changing a default, or the loss itself, use a new folder for the run.
    """

    needs: ClassVar[frozenset[str]] = frozenset({SOFT_LABELS})  # a wrapper adds its inner method's
    views: ClassVar[tuple[str, ...]] = ("weak",)  # each view costs one pass per step
    formula: ClassVar[str] = ""
    reference: ClassVar[str] = ""
    unverified: ClassVar[str] = ""
    grid: ClassVar[Grid] = {}
    other_grids: ClassVar[Mapping[str, Grid]] = {}
    positional: ClassVar[tuple[str, ...]] = ()  # fields that the repr shows always, unnamed
    outermost: ClassVar[bool] = False  # whether it refuses to be another method's inner one
    whole_pool: ClassVar[bool] = False  # whether ``prepare`` compares pool rows with each other
    whole_batch: ClassVar[bool] = False  # whether the loss is no mean of losses of single rows

    def __init_subclass__(cls, register: bool = True, **options: Any) -> None:
        """Register the method; ``register=False`` is for classes that others are built on."""
        super().__init_subclass__(**options)
        if "__repr__" not in vars(cls):
            # In the class itself, because @dataclass replaces a repr that is only inherited.
            cls.__repr__ = cls.__repr__  # type: ignore[method-assign]
        if not register:
            return
        known = REGISTRY.get(cls.__name__, cls)
        names = [f"{kind.__module__}.{kind.__qualname__}" for kind in (known, cls)]
        if names[0] != names[1]:  # a cell of a notebook run again, or a reload, replaces its own
            raise InputError(
                f"There is already a method {cls.__name__}, {names[0]}; give {names[1]} another "
                "name."
            )
        REGISTRY[cls.__name__] = cls

    def __new__(cls, *_: Any, **__: Any) -> Self:
        own = [name for name, kind in get_annotations(cls).items() if "ClassVar" not in str(kind)]
        if own and "__dataclass_fields__" not in vars(cls):
            raise InputError(
                f"{cls.__name__} has the setting {own[0]} but is not a dataclass: write "
                "@dataclass(frozen=True) above the class."
            )
        return super().__new__(cls)

    def __post_init__(self) -> None:
        for f in fields(self):
            self._check_type(f.name, f.type.__name__ if isinstance(f.type, type) else str(f.type))

    def noise(self) -> TeacherNoise | None:
        """The unfitted noise model that this method needs, if any."""
        return None

    def relabel(self, rows: Rows, labels: TeacherLabels) -> TeacherLabels:
        """Replace the teacher's labels before the noise model sees them (calibration)."""
        return labels

    def prepare(self, rows: Rows, labels: Labels, noise: Noise) -> Columns:
        """Turn rows and labels into per-example tensors, once, on the CPU."""
        columns = all_rows(rows)
        if SOFT_LABELS in self.needs:
            columns.values["target"] = dense_target(rows, pool_labels(self, rows, labels))
        return columns

    def modules(self, student: StudentModel, columns: Columns) -> nn.Module | None:
        """Trainable modules of the method itself, which the student's optimizer also trains."""
        return None

    def loss(self, output: Output, batch: Batch, modules: Modules, progress: Tensor) -> Tensor:
        """The scalar to minimize; ``progress`` is the share of the steps that are done, a tensor.

        Static shapes, no host sync: it is captured in a CUDA graph.
        """
        raise TypeError(f"{type(self).__name__} does not implement loss()")

    def refresh_every(self) -> int:
        """The number n of epochs between calls of ``refresh`` (at epochs 0, n, 2n, ...), or 0."""
        return 0

    def refresh(self, student_probs: Tensor, val_probs: Tensor, columns: Columns) -> None:
        """Update ``columns.weight`` in place, from the student's current predictions.

        All of it, because a wrapper may have changed it; and nothing else, because checkpoints
        keep no other column.

        ``student_probs`` (m, L) are those of the kept rows, ``val_probs`` (v, L) those of V; both
        without augmentation and in evaluation mode.
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


class TargetMethod(Method, register=False):
    """A base loss between the student's prediction and the target, dense or as stored."""

    hard: bool  # train on the teacher's top class instead of its probabilities
    dense_only: ClassVar[bool] = False  # whether the loss looks at every class of the target

    def base_loss(self) -> BaseLoss:
        """The loss against the target."""
        return CrossEntropy()

    def prepare(self, rows: Rows, labels: Labels, noise: Noise) -> Columns:
        return self.target_columns(rows, pool_labels(self, rows, labels))

    def target_columns(self, rows: Rows, pool: TeacherLabels) -> Columns:
        """All rows with their targets; ``pool`` holds the labels of the pool rows, in order."""
        columns = all_rows(rows)
        if pool.k < pool.num_classes and not self.dense_only:
            columns.values.update(sparse_target(rows, pool))
        else:
            columns.values["target"] = dense_target(rows, pool, self.hard)
        return columns

    def loss(self, output: Output, batch: Batch, modules: Modules, progress: Tensor) -> Tensor:
        return weighted_mean(self.example_losses(output.logits, batch), batch)

    def example_losses(self, logits: Tensor, batch: Batch) -> Tensor:
        """(b,) loss of each row, before its weight."""
        base, values = self.base_loss(), batch.values
        if "target" in values:
            return vanilla_loss(logits, values["target"], base)
        return sparse_slam_loss(
            logits,
            values["top_index"],
            values["top_prob"],
            values["tail"],
            torch.ones_like(values["tail"]),
            torch.full_like(batch.y, SHORTLIST),
            base,
            "none",
            self.hard,
        )


class PlainMethod(TargetMethod, register=False):
    """A base loss against the target and nothing else, so it can be used in ``SLaM(base=...)``."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.base_loss()  # refuses settings out of range


class Wrapper(Method, register=False):
    """Holds an inner method and forwards everything to it; subclasses change one thing."""

    @property
    def wrapped(self) -> Method:
        """The inner method."""
        inner = getattr(self, "inner", None)
        if not isinstance(inner, Method):
            raise InputError(
                f"{type(self).__name__}: inner must be a method such as SLaM(), not {inner!r}."
            )
        return inner

    def __post_init__(self) -> None:
        super().__post_init__()
        for method in inner_methods(self.wrapped):
            if method.outermost:
                name = type(method).__name__
                raise InputError(f"{name} must be the outermost method, but {self!r} holds it.")
            if type(method) is type(self):
                raise InputError(f"{type(self).__name__} cannot contain itself.")
        views = tuple(dict.fromkeys((*self.views, *self.wrapped.views)))
        object.__setattr__(self, "needs", self.needs | self.wrapped.needs)
        object.__setattr__(self, "views", views)

    def noise(self) -> TeacherNoise | None:
        return self.wrapped.noise()

    def relabel(self, rows: Rows, labels: TeacherLabels) -> TeacherLabels:
        return self.wrapped.relabel(rows, labels)

    def prepare(self, rows: Rows, labels: Labels, noise: Noise) -> Columns:
        return self.wrapped.prepare(rows, labels, noise)

    def modules(self, student: StudentModel, columns: Columns) -> nn.Module | None:
        return self.wrapped.modules(student, columns)

    def loss(self, output: Output, batch: Batch, modules: Modules, progress: Tensor) -> Tensor:
        return self.wrapped.loss(output, batch, modules, progress)

    def refresh_every(self) -> int:
        return self.wrapped.refresh_every()

    def refresh(self, student_probs: Tensor, val_probs: Tensor, columns: Columns) -> None:
        self.wrapped.refresh(student_probs, val_probs, columns)


def inner_methods(method: Method) -> Iterator[Method]:
    """The method itself, its inner method, and so on."""
    yield method
    while isinstance(method, Wrapper):
        method = method.wrapped
        yield method


@dataclass(frozen=True)
class Prepared:
    """A method ready to train: its columns, and what was fitted to make them."""

    columns: Columns
    noise: TeacherNoise | None
    labels: TeacherLabels | None


def fit_and_prepare(method: Method, rows: Rows, labels: TeacherLabels | None) -> Prepared:
    """Check the method's requirements, relabel, fit its noise model on V and make its columns."""
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
        noise.fit(given(method, labels).take(rows.val_ids), rows.val_y)
    return Prepared(method.prepare(rows, labels, noise), noise, labels)


def check_classes(method: Method, classes: int) -> None:
    """Refuse a method whose fixed k is larger than the number of classes."""
    noise = method.noise()
    if noise is not None and isinstance(noise.k, int) and noise.k > classes:
        raise InputError(
            f"{method!r} asks for a shortlist of {noise.k} classes, and there are only {classes}; "
            'choose a smaller k, or k="auto".'
        )


def check_store(method: Method, labels: TeacherLabels | None) -> None:
    """Raise an error if the store lacks what the method needs."""
    if labels is None and SOFT_LABELS in method.needs:
        raise InputError(
            f"{method!r} needs teacher labels, and none were given; make them with "
            "`noisyteacher label` or `noisyteacher import`."
        )
    if labels is not None:
        check_classes(method, len(labels.classes))
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
