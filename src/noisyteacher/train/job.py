"""What the engine is given: the inputs, shared by all students, and one job per student."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Literal, Protocol, TypeAlias, get_args

import numpy as np
import torch
from torch import Tensor, nn

from noisyteacher.core.errors import InputError, first_few, warn
from noisyteacher.data import Inputs, Split, Views
from noisyteacher.data.tensors import gather_rows, parts_of, row_bytes, rows_in, to_device
from noisyteacher.io.ids import are_among
from noisyteacher.labels import TeacherLabels
from noisyteacher.methods import EMBEDDINGS, PRETRAINED, Method, Prepared, Rows, fit_and_prepare
from noisyteacher.models import CustomModel

_ADDRESS = re.compile(r" at 0x[0-9a-f]+")
_DIGEST_ROWS = 1000  # of a hundred gigabytes of images, all would take minutes
ValRole: TypeAlias = Literal["gold", "pool", "out"]


@dataclass(frozen=True)
class TrainData:
    """Raw inputs of the training part and the test part, and their views."""

    inputs: Inputs  # n training rows
    views: Views
    classes: int
    test_inputs: Inputs | None = None
    test_y: np.ndarray | None = None  # (t,) int64

    def __post_init__(self) -> None:
        if (self.test_inputs is None) != (self.test_y is None):
            raise InputError("test_inputs and test_y are given together or not at all.")
        if self.test_inputs is None or self.test_y is None:
            return
        if rows_in(self.test_inputs) != len(self.test_y):
            raise InputError(
                f"{rows_in(self.test_inputs)} test inputs do not match "
                f"{len(self.test_y)} test labels."
            )

    @property
    def row_bytes(self) -> int:
        """The memory that a training row takes, in bytes."""
        return sum(map(row_bytes, parts_of(self.inputs)))

    def digest(self) -> str:
        """A digest that identifies the data: their size, evenly spaced rows, and the views."""
        found = hashlib.sha256(_ADDRESS.sub("", repr(self.views)).encode())
        tested = () if self.test_inputs is None else parts_of(self.test_inputs)
        for part in (*parts_of(self.inputs), *tested):
            rows = part[:: max(1, len(part) // _DIGEST_ROWS)].cpu().contiguous()
            found.update(f"{tuple(part.shape)} {part.dtype}".encode())
            found.update(rows.view(torch.uint8).numpy().tobytes())
        if self.test_y is not None:
            found.update(np.ascontiguousarray(self.test_y).tobytes())
        return found.hexdigest()


@dataclass(frozen=True)
class DeviceData:
    """The inputs, shared by all students of a run: training rows, then test rows.

    They are on the device, or with a ``window`` the training rows alone are here, on the host.
    """

    inputs: Inputs
    views: Views
    classes: int
    train_rows: int
    test_inputs: Inputs | None  # on the host
    test_y: np.ndarray  # (t,), empty without a test part
    device: torch.device
    window: int | None = None  # how many rows each student has on the device at a time

    @classmethod
    def build(cls, data: TrainData, device: torch.device, window: int | None = None) -> DeviceData:
        test_y = np.empty(0, np.int64) if data.test_y is None else np.asarray(data.test_y)
        parts = [data.inputs] if data.test_inputs is None else [data.inputs, data.test_inputs]
        return cls(
            to_device(parts, device) if window is None else data.inputs,
            data.views,
            data.classes,
            rows_in(data.inputs),
            data.test_inputs,
            test_y,
            device,
            window,
        )

    def rows(self, positions: Tensor) -> Inputs:
        """Training rows on the device."""
        if self.window is None:
            return gather_rows(self.inputs, positions)
        return to_device([gather_rows(self.inputs, positions.cpu())], self.device)


class BuildsModel(Protocol):
    """Settings that build a model: those of ``models``, or a user's own."""

    def build(self) -> nn.Module: ...


def check_model(
    model: BuildsModel,
    data: TrainData,
    methods: Iterable[Method] = (),
    device: torch.device | str = "cpu",
) -> None:
    """Raise an error if a network cannot read the data or lacks what a method needs.

    This is for networks of the user's own, and for callers that first train other students;
    ``train`` itself checks each student again.
    """
    if not isinstance(model, CustomModel):
        return
    some = gather_rows(data.inputs, torch.arange(min(2, rows_in(data.inputs))))
    wanting = [repr(method) for method in methods if EMBEDDINGS in method.needs]
    with torch.random.fork_rng(devices=[]):
        network = replace(model, classes=data.classes).build().to(device)
        network.check(
            data.views.plain(to_device([some], torch.device(device))),
            embedding_for=wanting[0] if wanting else None,
            training=True,
        )


@dataclass(frozen=True, eq=False)
class Job:
    """One student to train. All positions are positions in ``TrainData.inputs``."""

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
    title: str = ""  # what progress calls it: its method, and which fold or trial
    weight_decay: float | None = None  # of this student; None: that of the training

    def __post_init__(self) -> None:
        if not self.name or set(self.name) & set("/\\\0"):
            raise InputError(f"A job's name is also a file name; {self.name!r} cannot be one.")
        if len(self.selection) != len(self.selection_y):
            raise InputError(
                f"{len(self.selection)} selection rows do not match {len(self.selection_y)} labels."
            )
        if PRETRAINED in self.method.needs and self.init is None:
            raise InputError(
                f"{self.method!r} needs a student pre-trained on A: train one with GoldOnly() on A "
                "and give its weights as init."
            )
        both = np.intersect1d(self.selection, self.positions)
        if len(both):
            raise InputError(
                f"{len(both)} selection rows are also trained on (positions {first_few(both)})."
            )

    def fingerprint(self, settings: object) -> str:
        """What a checkpoint and this job must have in common, so that the job can continue it."""
        digest = hashlib.sha256()
        columns = self.prepared.columns
        parts = [self.model, self.method, self.seed, settings, columns.rows_per_epoch]
        parts += [] if self.weight_decay is None else [self.weight_decay]
        for part in parts:
            # A user's own model may have no better name than its type and where it lies.
            digest.update(_ADDRESS.sub("", repr(part)).encode() + b"\0")
        rows = (self.positions, self.val_positions, self.selection, self.selection_y)
        for array in (columns.index.numpy(), columns.y.numpy(), *rows):
            digest.update(np.ascontiguousarray(array).tobytes())
        # Other teacher labels, or another noise model, show here and nowhere else.
        prepared = {"weight": columns.weight, **columns.values, **columns.constants}
        for tensors in (prepared, self.init or {}):
            for name, tensor in sorted(tensors.items()):
                digest.update(name.encode() + b"\0")
                for part in tensor.detach().split(1 << 16) if tensor.ndim else (tensor,):
                    digest.update(part.cpu().float().numpy().tobytes())
        return digest.hexdigest()


@dataclass(frozen=True, eq=False)
class Problem:
    """One trial on one dataset: what the students of a comparison have in common.

    ``ids`` and ``y`` belong to the rows of ``data.inputs``; ``y`` is -1 if unknown.
    """

    data: TrainData
    ids: np.ndarray  # (n,)
    y: np.ndarray  # (n,) int64
    split: Split
    model: BuildsModel
    init: dict[str, Tensor] | None = None
    _seen_labels: set[int] = field(default_factory=set, init=False, repr=False)

    def job(
        self,
        name: str,
        method: Method,
        labels: TeacherLabels | None,
        *,
        seed: int = 0,
        val_role: ValRole = "gold",
        title: str = "",
        weight_decay: float | None = None,
    ) -> Job:
        """A student for this problem, whose method is fitted on V and prepared.

        ``val_role`` says how V takes part in training: with its gold labels, with teacher labels
        like the pool (as in a first generation), or not at all.
        """
        rows, positions = self._rows(val_role)
        parts = self.split
        if labels is not None:
            self._warn_of_strangers(labels)
        return Job(
            name=name,
            model=self.model,
            method=method,
            prepared=fit_and_prepare(method, rows, labels),
            positions=positions,
            val_positions=np.asarray(parts.val, np.int64),
            selection=np.asarray(parts.selection, np.int64),
            selection_y=np.asarray(self.y[parts.selection], np.int64),
            seed=seed,
            init=self.init,
            title=title or f"{method!r}",
            weight_decay=weight_decay,
        )

    def _warn_of_strangers(self, labels: TeacherLabels) -> None:
        """Labels of examples that are not here: harmless, unless it is the wrong store."""
        if id(labels) in self._seen_labels:
            return
        self._seen_labels.add(id(labels))
        strangers = labels.ids[~are_among(labels.ids, self.ids)]
        if len(strangers):
            warn(
                f"{len(strangers)} of {len(labels)} labeled ids are not in the data "
                f"({first_few(strangers.tolist())}); they are not used.",
            )

    def _rows(self, val_role: ValRole) -> tuple[Rows, np.ndarray]:
        if val_role not in get_args(ValRole):
            raise InputError(f'val_role is "gold", "pool" or "out", not {val_role!r}.')
        parts, classes = self.split, self.data.classes
        parts.check(len(self.ids))
        labeled = [parts.gold, parts.val] if val_role == "gold" else [parts.gold]
        unlabeled = [parts.val, parts.pool] if val_role == "pool" else [parts.pool]
        positions = np.concatenate([*labeled, *unlabeled]).astype(np.int64)
        known = sum(len(part) for part in labeled)
        y = np.full(len(positions), -1, np.int64)
        y[:known] = self.y[positions[:known]]
        wrong = positions[:known][(y[:known] < 0) | (y[:known] >= classes)]
        if len(wrong):
            raise InputError(
                f"Gold labels must lie in 0..{classes - 1}; those of "
                f"{first_few(self.ids[wrong].tolist())} do not."
            )
        val_y = np.asarray(self.y[parts.val], np.int64)
        return Rows(self.ids[positions], y, self.ids[parts.val], val_y, classes), positions
