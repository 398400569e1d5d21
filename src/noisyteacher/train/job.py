"""What the engine is given: the inputs, shared by all students, and one job per student."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from noisyteacher.data import Views
from noisyteacher.errors import InputError, first_few
from noisyteacher.methods.base import Method, Prepared, Rows, fit_and_prepare
from noisyteacher.labels import TeacherLabels

Inputs: TypeAlias = Tensor | tuple[Tensor, ...]
_InputsT = TypeVar("_InputsT", Tensor, tuple[Tensor, ...])


def take_rows(inputs: Inputs, index: Tensor) -> Inputs:
    """The rows of raw inputs, whether one tensor or several side by side."""
    if isinstance(inputs, tuple):
        return tuple(part.index_select(0, index) for part in inputs)
    return inputs.index_select(0, index)


def join(parts: Sequence[Inputs]) -> Inputs:
    """Concatenate batches of the same structure."""
    first = parts[0]
    if isinstance(first, tuple):
        return tuple(torch.cat(column) for column in zip(*parts, strict=True))
    return torch.cat([part for part in parts if isinstance(part, Tensor)])


def to_device(inputs: Inputs, device: torch.device) -> Inputs:
    """Move raw inputs to the device."""
    if isinstance(inputs, tuple):
        return tuple(part.to(device) for part in inputs)
    return inputs.to(device)


def rows_in(inputs: Inputs) -> int:
    """How many rows raw inputs hold."""
    return len(inputs[0]) if isinstance(inputs, tuple) else len(inputs)


@dataclass(frozen=True)
class TrainData:
    """Raw inputs of the training part and the test part, and how they are shown to a student."""

    inputs: Inputs  # n training rows
    views: Views
    classes: int
    test_inputs: Inputs | None = None
    test_y: np.ndarray | None = None  # (t,) int64

    def __post_init__(self) -> None:
        if (self.test_inputs is None) != (self.test_y is None):
            raise InputError("test_inputs and test_y are given together or not at all.")
        if self.test_inputs is not None and self.test_y is not None:
            if rows_in(self.test_inputs) != len(self.test_y):
                raise InputError(
                    f"{rows_in(self.test_inputs)} test inputs do not match "
                    f"{len(self.test_y)} test labels."
                )


class BuildsModel(Protocol):
    """Settings that make a model: those of ``models``, or a user's own."""

    def build(self) -> nn.Module: ...


@dataclass(frozen=True, eq=False)
class Job:
    """One student to train. All positions point into ``TrainData.inputs``."""

    name: str
    model: BuildsModel
    method: Method
    prepared: Prepared
    positions: np.ndarray  # (n,) of Rows
    val_positions: np.ndarray  # (v,) of V, for methods that look at the student there
    selection: np.ndarray = field(default_factory=lambda: np.empty(0, np.int64))  # S
    selection_y: np.ndarray = field(default_factory=lambda: np.empty(0, np.int64))
    seed: int = 0
    init: dict[str, Tensor] | None = None  # weights to start from, as after pre-training on A

    def __post_init__(self) -> None:
        if not self.name or set(self.name) & set('/\\\0'):
            raise InputError(f"A job's name is also a file name; {self.name!r} cannot be one.")
        if len(self.selection) != len(self.selection_y):
            raise InputError(
                f"{len(self.selection)} selection rows do not match {len(self.selection_y)} labels."
            )
        both = np.intersect1d(self.selection, self.positions)
        if len(both):
            raise InputError(
                f"{len(both)} selection rows are also trained on (positions {first_few(both)})."
            )

    def fingerprint(self, settings: object) -> str:
        """What a checkpoint must agree on to be continued by this job."""
        digest = hashlib.sha256()
        columns = self.prepared.columns
        for part in (self.model, self.method, self.seed, settings):
            digest.update(repr(part).encode() + b"\0")
        for array in (columns.index.numpy(), columns.y.numpy(), self.positions, self.selection):
            digest.update(np.ascontiguousarray(array).tobytes())
        for name, tensor in sorted((self.init or {}).items()):
            digest.update(name.encode())
            digest.update(tensor.detach().cpu().float().numpy().tobytes())
        return digest.hexdigest()


def make_job(
    name: str,
    model: BuildsModel,
    method: Method,
    labels: TeacherLabels | None,
    *,
    ids: np.ndarray,
    gold: np.ndarray,
    val: np.ndarray,
    pool: np.ndarray,
    y: np.ndarray,
    classes: int,
    selection: np.ndarray | None = None,
    val_role: str = "gold",
    seed: int = 0,
    init: dict[str, Tensor] | None = None,
) -> Job:
    """A job from a split: ``gold``, ``val``, ``selection``, ``pool`` are positions in ``ids``.

    ``val_role`` says how V takes part in training: with its gold labels ("gold"), with teacher
    labels like the pool ("pool", a first generation), or not at all ("out").
    """
    if val_role not in ("gold", "pool", "out"):
        raise InputError(f'val_role is "gold", "pool" or "out", not {val_role!r}.')
    labelled = [gold, val] if val_role == "gold" else [gold]
    unlabelled = [val, pool] if val_role == "pool" else [pool]
    positions = np.concatenate([*labelled, *unlabelled]).astype(np.int64)
    _check_disjoint({"A": gold, "V": val, "pool": pool})
    known = sum(len(part) for part in labelled)
    row_y = np.full(len(positions), -1, np.int64)
    row_y[:known] = y[positions[:known]]
    if known and (row_y[:known].min() < 0 or row_y[:known].max() >= classes):
        raise InputError(f"Gold labels must lie in 0..{classes - 1}.")
    rows = Rows(ids[positions], row_y, ids[val], np.asarray(y[val], np.int64), classes)
    if selection is None:
        selection = np.empty(0, np.int64)
    return Job(
        name=name,
        model=model,
        method=method,
        prepared=fit_and_prepare(method, rows, labels),
        positions=positions,
        val_positions=np.asarray(val, np.int64),
        selection=np.asarray(selection, np.int64),
        selection_y=np.asarray(y[selection], np.int64),
        seed=seed,
        init=init,
    )


def _check_disjoint(parts: dict[str, np.ndarray]) -> None:
    names = list(parts)
    for i, one in enumerate(names):
        for other in names[i + 1 :]:
            both = np.intersect1d(parts[one], parts[other])
            if len(both):
                raise InputError(
                    f"{one} and {other} share {len(both)} examples (positions {first_few(both)})."
                )
