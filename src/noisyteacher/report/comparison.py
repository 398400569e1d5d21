"""Teacher and student side by side: whom they take for what, and where they disagree."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import orjson
from PIL import Image

from noisyteacher.core.errors import InputError
from noisyteacher.core.files import write_atomic

FILE = "comparison.json"
_MOST_EXAMPLES = 150
_SIDE = 64  # pixels of a thumbnail
_TINY = 16  # a picture up to this side is smaller, and exact, as PNG
_LONGEST_TEXT = 400
_SHOWN_NUMBERS = 8


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

    def save(self, folder: str | Path) -> None:
        write_atomic(Path(folder) / FILE, orjson.dumps(asdict(self)))


def read_comparison(folder: str | Path) -> Comparison | None:
    """The comparison that a run left, if it did."""
    path = Path(folder) / FILE
    if not path.exists():
        return None
    try:
        stored = orjson.loads(path.read_bytes())
        stored["confusions"] = [Confusion(**one) for one in stored["confusions"]]
        stored["examples"] = [Example(**one) for one in stored["examples"]]
        return Comparison(**stored)
    except (orjson.JSONDecodeError, KeyError, TypeError) as error:
        raise InputError(f"{path} is not a comparison of teacher and student: {error}.") from error


def count_confusions(who: str, rows_of: str, truth: np.ndarray, said: np.ndarray) -> Confusion:
    """Count pairs of (n,) true and (n,) said classes; rows of unknown truth (-1) are left out."""
    known = truth >= 0
    pairs, rows = np.unique(np.stack([truth[known], said[known]]), axis=1, return_counts=True)
    counts = [(int(t), int(s), int(n)) for (t, s), n in zip(pairs.T, rows, strict=True)]
    return Confusion(who, rows_of, counts)


def find_examples(
    ids: np.ndarray,
    inputs: np.ndarray | Sequence[str],
    teacher: np.ndarray,
    student: np.ndarray,
    classes: Sequence[str],
    truth: np.ndarray | None = None,
    picture_shape: tuple[int, int] | None = None,
) -> tuple[int, list[Example]]:
    """How many rows teacher and student (n, L) disagree on, and those the teacher is surest of.

    ``truth`` (n,) is -1 where unknown. ``picture_shape`` tells that rows of a table are pictures.
    """
    says, answers = teacher.argmax(1), student.argmax(1)
    apart = np.flatnonzero(says != answers)
    surest = apart[np.argsort(-teacher[apart, says[apart]], kind="stable")][:_MOST_EXAMPLES]
    examples = [
        Example(
            id=str(ids[i]),
            teacher=classes[says[i]],
            teacher_sure=round(float(teacher[i, says[i]]), 4),
            student=classes[answers[i]],
            student_sure=round(float(student[i, answers[i]]), 4),
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
