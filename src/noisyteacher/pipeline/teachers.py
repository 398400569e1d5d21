"""The models that label files: a saved student, a text classifier or a function of the user's."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from noisyteacher.core.errors import InputError, first_few
from noisyteacher.core.hub import LOADING_ERRORS, check_model_name, without_tilde
from noisyteacher.core.machine import choose_device
from noisyteacher.core.user_code import import_extra, import_named
from noisyteacher.data import Dataset, Tokens
from noisyteacher.data.input_format import InputFormat
from noisyteacher.labels import TeacherLabels
from noisyteacher.models import ModelLike, Network, TextEncoder
from noisyteacher.pipeline.matching import with_features
from noisyteacher.pipeline.student import Student, is_student, load_student
from noisyteacher.train.predict import label as predict_labels


class Teacher(Protocol):
    """Anything that labels some examples, a batch at a time."""

    name: str
    classes: tuple[str, ...] | None
    # Rows that the last call of ``label`` left out: id to the reason and the answer. None: it
    # leaves out none but raises an error, and whoever called it looks for the rows.
    rejected: dict[Any, tuple[str, str]] | None

    def fingerprint(self) -> str:
        """Another one for other weights, as far as that can be seen."""
        ...

    def arrange(self, source: Dataset) -> Dataset:
        """The examples as it reads them, a table's columns in its own order; else refused."""
        ...

    def label(
        self, ids: np.ndarray, inputs: np.ndarray | list[str], batch_size: int, seed: int
    ) -> TeacherLabels:
        """Labels of these examples."""
        ...


@dataclass(eq=False)
class ModelTeacher:
    """A student (or a classifier loaded as one) on a device."""

    student: Student
    name: str
    device: torch.device
    k: int | None = None
    embeddings: bool = False
    view_passes: int = 0
    classes: tuple[str, ...] | None = field(init=False)
    rejected: dict[Any, tuple[str, str]] | None = None

    def __post_init__(self) -> None:
        self.classes = self.student.classes
        if self.view_passes == 1:
            raise InputError("A spread over views needs at least 2 view passes.")
        if self.view_passes and not hasattr(self.student.inputs.views(), "crop"):
            kind = self.student.inputs.kind
            raise InputError(f"Per-view statistics need images, and this model reads {kind}s.")

    def fingerprint(self) -> str:
        digest = hashlib.sha256()
        for name, value in sorted(self.student.network.state_dict().items()):
            digest.update(name.encode() + value.cpu().contiguous().view(-1).numpy().tobytes())
        return digest.hexdigest()

    def arrange(self, source: Dataset) -> Dataset:
        inputs = self.student.inputs
        if source.kind != inputs.kind:
            raise InputError(f"{self.name} reads {inputs.kind}s, not {source.kind}s.")
        return with_features(source, inputs.columns, f"what {self.name} was trained on")

    def label(
        self, ids: np.ndarray, inputs: np.ndarray | list[str], batch_size: int, seed: int
    ) -> TeacherLabels:
        format_ = self.student.inputs
        return predict_labels(
            self.student.network,
            format_.tensors(inputs),
            format_.views(),
            ids=ids,
            classes=self.classes,
            k=self.k,
            device=self.device,
            batch_size=batch_size,
            embeddings=self.embeddings,
            view_passes=self.view_passes,
            seed=seed,
            name=self.name,
        )


Function = Callable[[list[Any], Any], Any]


class FunctionTeacher:
    """A function of the user's own: (ids, inputs) of one batch -> logits (b, L)."""

    rejected: dict[Any, tuple[str, str]] | None = None

    def __init__(
        self, function: Function, name: str, classes: Sequence[str] | None, k: int | None = None
    ) -> None:
        self.name, self.classes = name, None if classes is None else tuple(classes)
        self._function, self._k = function, k
        self._columns: int | None = None  # of what it returns

    def fingerprint(self) -> str:
        """Its name and the file it stands in; what that imports cannot be seen from here."""
        try:
            source = inspect.getsourcefile(self._function)
            code = Path(source).read_bytes() if source else b""
        except (OSError, TypeError):
            code = b""
        return f"{self.name} {hashlib.sha256(code).hexdigest()}"

    def arrange(self, source: Dataset) -> Dataset:
        """It gets whatever the files hold."""
        return source

    def label(
        self, ids: np.ndarray, inputs: np.ndarray | list[str], batch_size: int, seed: int
    ) -> TeacherLabels:
        parts = []
        for start in range(0, len(ids), batch_size):
            some = slice(start, start + batch_size)
            parts.append(self._logits(ids[some].tolist(), inputs[some]))
        logits = np.concatenate(parts)
        return TeacherLabels.from_logits(ids, logits, self.classes, self._k, teacher=self.name)

    def _logits(self, ids: list[Any], inputs: np.ndarray | list[str]) -> np.ndarray:
        try:
            said = self._function(ids, inputs)
        except SystemExit as error:
            raise InputError(
                f"{self.name} ended the program with sys.exit({error.code!r}); it must return "
                "logits."
            ) from error
        try:
            given = said.detach().cpu() if isinstance(said, Tensor) else said
            logits = np.asarray(given, np.float32)
        except (TypeError, ValueError) as error:
            raise InputError(
                f"{self.name} must return an array of numbers, logits ({len(ids)}, classes), not "
                f"{type(said).__name__}: {error}."
            ) from error
        if logits.ndim != 2 or len(logits) != len(ids):
            raise InputError(
                f"{self.name} must return logits ({len(ids)}, classes) for {len(ids)} inputs, not "
                f"an array of shape {logits.shape}."
            )
        self._columns = self._columns or logits.shape[1]
        if logits.shape[1] != self._columns:
            raise InputError(
                f"{self.name} returned {self._columns} columns first and {logits.shape[1]} later; "
                "every call must return one column for each class."
            )
        return logits


def open_teacher(
    model: str,
    *,
    device: torch.device | str | None = None,
    classes: Sequence[str] | None = None,
    k: int | None = None,
    embeddings: bool = False,
    view_passes: int = 0,
    max_length: int = 256,
    network: ModelLike | None = None,
) -> Teacher:
    """The model that a folder, a Hugging Face name or ``package.module:function`` names.

    ``network`` is that of a student's folder where it is one of the caller's own. Without a
    ``device``, a GPU is used where there is one.
    """
    model = without_tilde(model)
    if ":" in model and not Path(model).exists():
        if embeddings or view_passes:
            raise InputError("Embeddings and view statistics need a model, not a function.")
        function = import_named(model)
        if not callable(function):
            raise InputError(f"{model} is not a function.")
        return FunctionTeacher(function, model, classes, k)
    if is_student(model):
        student = load_student(model, network)
    elif network is not None:
        raise InputError(f"{model} is not a student's folder, which a network could be read into.")
    else:
        student = _hugging_face(model, max_length)
    if classes is not None:
        student.classes = _renamed(student.classes, classes, model)
    return ModelTeacher(
        student,
        model,
        device=choose_device(device),
        k=k,
        embeddings=embeddings,
        view_passes=view_passes,
    )


def _renamed(own: tuple[str, ...], names: Sequence[str], model: str) -> tuple[str, ...]:
    """Other names for a model's classes, in its order; names that it has keep their places."""
    if len(names) != len(own):
        raise InputError(f"{model} has {len(own)} classes, and {len(names)} were named.")
    if set(names) == set(own):
        return own
    shared = sorted(set(names) & set(own))
    if shared:
        raise InputError(
            f"{model} has the classes {first_few(own, 5)}. Some of the names given are among them "
            f"({first_few(shared, 5)}), others are not: give all its own names, or all new ones in "
            "its order."
        )
    return tuple(names)


def _hugging_face(model: str, max_length: int) -> Student:
    """A Hugging Face sequence classifier, by folder or name, as a student of texts."""
    told = f"{model} is not a student's folder; Hugging Face classifiers need transformers"
    transformers = import_extra("transformers", "hf", told)
    try:
        check_model_name(model)
        config = transformers.AutoConfig.from_pretrained(model, trust_remote_code=False)
    except LOADING_ERRORS as error:
        raise InputError(
            f"{model} is neither a saved student, nor a Hugging Face classifier, nor "
            "package.module:function."
        ) from error
    names = tuple(str(config.id2label[i]) for i in range(config.num_labels))
    network: Network = TextEncoder(model, len(names)).build()
    student = Student(
        network.spec, network.state_dict(), names, InputFormat("text", Tokens(model, max_length))
    )
    student.__dict__["network"] = network.eval()
    return student
