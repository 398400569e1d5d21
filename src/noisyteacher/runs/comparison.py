"""Teacher and student compared: which classes each confuses, and where the two disagree."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from safetensors import SafetensorError
from safetensors.numpy import load, save

from noisyteacher.core.errors import InputError
from noisyteacher.core.files import write_atomic
from noisyteacher.core.integrity import check_tensors, read_json, seal_tensors, sealed_json
from noisyteacher.core.reprs import notebook_html

COMPARISON = "comparison.json"
_MOST_ROWS = 5_000
_MOST_EXAMPLES = 150
_SIDE = 64  # pixels of a thumbnail
_TINY = 16  # a picture up to this side is smaller, and exact, as PNG
_LONGEST_TEXT = 400
_SHOWN_NUMBERS = 8
_MOST_CLASSES = 25  # of a confusion matrix


@dataclass(frozen=True)
class Confusion:
    """How often ``who`` takes one class for another."""

    who: str
    rows_of: str  # which rows, in words
    counts: list[tuple[int, int, int]]  # true class, said class, rows


@dataclass(frozen=True)
class Example:
    """One input on which teacher and student disagree; probabilities of what each says."""

    id: str
    teacher: str
    teacher_sure: float
    student: str
    student_sure: float
    truth: str | None = None
    text: str | None = None
    image: str | None = None  # a data: address


@dataclass(frozen=True, eq=False)
class Predictions:
    """The most probable class of each row, and its probability."""

    top: np.ndarray  # (n,) int64
    probability: np.ndarray  # (n,) float32

    @classmethod
    def of(cls, probs: np.ndarray) -> Predictions:
        """Of class probabilities (n, L)."""
        top = probs.argmax(1)
        return cls(top, probs[np.arange(len(top)), top])

    def save(self, path: Path) -> None:
        content = save({"top": self.top, "probability": self.probability})
        write_atomic(path, seal_tensors(content))

    @classmethod
    def load(cls, path: Path) -> Predictions:
        check_tensors(path, "delete it")
        try:
            return cls(**load(path.read_bytes()))
        except (SafetensorError, TypeError) as error:
            raise InputError(f"{path} does not hold predictions ({error}); delete it.") from error


@dataclass(frozen=True)
class Comparison:
    """What ``comparison.json`` in a run's folder holds."""

    student: str
    classes: list[str]
    rows_of: str  # which rows were compared, in words
    rows: int
    disagreements: int
    confusions: list[Confusion]
    examples: list[Example]

    def __repr__(self) -> str:
        return (
            f"Comparison({self.student!r}, {self.disagreements} disagreements in {self.rows} rows "
            f"of {self.rows_of})"
        )

    def _repr_html_(self) -> str:
        rows = [(e.id, e.teacher, e.student, e.truth or "", e.text or "") for e in self.examples]
        header = ("id", "teacher", "student", "truth", "text")
        return notebook_html(repr(self), header=header, rows=rows[:10])

    def save(self, folder: str | Path) -> None:
        write_atomic(Path(folder) / COMPARISON, sealed_json(asdict(self), 0))


def read_comparison(folder: str | Path) -> Comparison | None:
    """The comparison that a run left, if it did."""
    path = Path(folder) / COMPARISON
    if not path.exists():
        return None
    stored = read_json(path, "delete it")
    try:
        stored["confusions"] = [Confusion(**one) for one in stored["confusions"]]
        stored["examples"] = [Example(**one) for one in stored["examples"]]
        return Comparison(**stored)
    except (KeyError, TypeError) as error:
        raise InputError(
            f"{path} is not a comparison of teacher and student; delete it."
        ) from error


def count_confusions(who: str, rows_of: str, truth: np.ndarray, predicted: np.ndarray) -> Confusion:
    """Count pairs of (n,) true and (n,) predicted classes where the truth is known (not -1)."""
    known = truth >= 0
    pairs, rows = np.unique(np.stack([truth[known], predicted[known]]), axis=1, return_counts=True)
    counts = [(int(t), int(s), int(n)) for (t, s), n in zip(pairs.T, rows, strict=True)]
    return Confusion(who, rows_of, counts)


def confused_classes(confusions: Sequence[Confusion], classes: int) -> list[int]:
    """All classes, or those with the most mistakes where they are too many to draw."""
    wrong = np.zeros(classes, np.int64)
    for confusion in confusions:
        for truth, said, rows in confusion.counts:
            if truth != said:
                wrong[[truth, said]] += rows
    if classes <= _MOST_CLASSES:
        return list(range(classes))
    return sorted(np.argsort(-wrong, kind="stable")[:_MOST_CLASSES].tolist())


def sample_rows(positions: np.ndarray) -> np.ndarray:
    """At most 5 000 rows to compare on, the same ones every time, in order."""
    if len(positions) <= _MOST_ROWS:
        return positions
    return np.sort(np.random.default_rng(0).choice(positions, _MOST_ROWS, replace=False))


def find_examples(
    ids: np.ndarray,
    inputs: np.ndarray | Sequence[str],
    teacher: Predictions,
    student: Predictions,
    classes: Sequence[str],
    truth: np.ndarray | None = None,
    picture_shape: tuple[int, int] | None = None,
) -> tuple[int, list[Example]]:
    """How many of n rows teacher and student disagree on, and those the teacher is surest of.

    ``truth`` (n,) is -1 where unknown. ``picture_shape`` tells that rows of a table are pictures.
    """
    apart = np.flatnonzero(teacher.top != student.top)
    surest = apart[np.argsort(-teacher.probability[apart], kind="stable")][:_MOST_EXAMPLES]
    examples = [
        Example(
            id=str(ids[i]),
            teacher=classes[teacher.top[i]],
            teacher_sure=round(float(teacher.probability[i]), 4),
            student=classes[student.top[i]],
            student_sure=round(float(student.probability[i]), 4),
            truth=None if truth is None or truth[i] < 0 else classes[truth[i]],
            **_shown(inputs[i], picture_shape),
        )
        for i in surest.tolist()
    ]
    return len(apart), examples


def _shown(value: Any, picture_shape: tuple[int, int] | None) -> dict[str, str]:
    if isinstance(value, str):
        short = value if len(value) <= _LONGEST_TEXT else f"{value[:_LONGEST_TEXT]}…"
        return {"text": short}
    row = np.asarray(value)
    if row.ndim == 1 and picture_shape is not None:
        spread = max(float(row.max() - row.min()), 1e-9)
        row = (255 * (row - row.min()) / spread).astype(np.uint8).reshape(picture_shape)
    if row.ndim == 1:
        more = ", …" if len(row) > _SHOWN_NUMBERS else ""
        return {"text": ", ".join(f"{x:.3g}" for x in row[:_SHOWN_NUMBERS]) + more}
    return {"image": thumbnail(row)}


def thumbnail(pixels: np.ndarray) -> str:
    """(H, W) or (H, W, 3) uint8 as a small picture inside a data: address."""
    picture, file = Image.fromarray(np.ascontiguousarray(pixels)), BytesIO()
    kind = "png" if max(picture.size) <= _TINY else "jpeg"
    picture.thumbnail((_SIDE, _SIDE))
    picture.save(file, kind, quality=75)
    return data_address(kind, file.getvalue())


def data_address(kind: str, picture: bytes) -> str:
    """A picture, "png" or "jpeg", inside its own address."""
    return f"data:image/{kind};base64,{base64.b64encode(picture).decode()}"
