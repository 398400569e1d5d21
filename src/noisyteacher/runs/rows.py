"""Results rows: one JSON line per finished student; files merge by concatenation."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import MISSING, asdict, dataclass, field, fields
from datetime import UTC, datetime
from pathlib import Path
from types import UnionType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

import orjson

from noisyteacher.core.errors import InputError
from noisyteacher.core.files import append_line
from noisyteacher.core.integrity import seal, unseal
from noisyteacher.core.machine import commit, versions
from noisyteacher.methods import Method, parse

T = TypeVar("T")

_REMEDY = "remove the line or choose another folder"


@dataclass(frozen=True)
class Row:
    """One finished student; accuracies are in percent. Rows that agree up to ``epochs`` are one."""

    recipe: str
    dataset: str
    distillation: str | None  # "soft", "hard", None without a teacher
    labeled: int
    method: str
    gold_repeat: int
    generation: int
    trial: int
    epochs: int
    accuracy: dict[str, float | None]  # last, selected, best_test
    macro_f1: float | None
    teacher_accuracy: float | None
    curve: list[dict[str, Any]]
    seconds: float
    images_per_second: float
    seeds: dict[str, int]
    hardware: str
    versions: dict[str, str] = field(default_factory=versions)
    commit: str | None = field(default_factory=commit)
    finished_at: str = field(
        default_factory=lambda: datetime.now(UTC).isoformat(timespec="seconds")
    )

    @property
    def key(self) -> tuple[object, ...]:
        """The fields in which two duplicates agree."""
        values = {f.name: getattr(self, f.name) for f in fields(self)[:_KEY_FIELDS]}
        return tuple((values | {"method": named_method(self.method)}).values())

    @property
    def best_on_selection(self) -> float | None:
        """The accuracy on S at the epoch selected on S; None without S."""
        seen = [point["selection"] for point in self.curve if point["selection"] is not None]
        return max(seen, default=None)


_KEY_FIELDS = [f.name for f in fields(Row)].index("epochs") + 1


def named_method(name: str) -> Method | str:
    """The method that a row names, so that ``t_a=1`` and ``t_a=1.0`` are equal; else the name."""
    try:
        return parse(name)
    except InputError:
        # A method of another version, or of a user's module that is not imported here.
        return name


def append_row(path: str | Path, row: Row) -> None:
    """Append a row to a file, and flush it to disk."""
    append_line(path, orjson.dumps(seal(asdict(row))))


def read_rows(path: str | Path) -> list[Row]:
    """The rows of a file without duplicates; empty if there is no file."""
    return merge(read_lines(path, _parse_row))


def _parse_row(value: Any) -> Row:
    for name in _REQUIRED:
        if name not in value:
            raise TypeError(f"it has no {name}")
    for name in value:
        if name not in _KINDS:
            raise TypeError(f"{name!r} is not one of its fields")
    row = Row(**value)
    for name, kinds in _KINDS.items():
        if not isinstance(getattr(row, name), kinds):
            raise TypeError(f"its {name} is {getattr(row, name)!r}")
    return row


def _kinds(hint: Any) -> tuple[type, ...]:
    """The types of JSON values that a field takes; whole numbers pass for floats."""
    parts = get_args(hint) if isinstance(hint, UnionType) else (hint,)
    kinds = tuple(get_origin(part) or part for part in parts)
    return (*kinds, int) if float in kinds else kinds


_REQUIRED = [f.name for f in fields(Row) if f.default is f.default_factory is MISSING]
_KINDS = {name: _kinds(hint) for name, hint in get_type_hints(Row).items()}


def merge(rows: Iterable[Row]) -> list[Row]:
    """Drop duplicates and keep the first of them."""
    seen: dict[tuple[object, ...], Row] = {}
    for row in rows:
        seen.setdefault(row.key, row)
    return list(seen.values())


def read_lines(path: str | Path, parse_row: Callable[[Any], T]) -> list[T]:
    """The rows of a JSONL file, as ``parse_row`` makes them; it raises TypeError for bad ones.

    A last line that a killed writer left unfinished is ignored, and overwritten by the next row;
    any other bad line is refused.
    """
    path = Path(path)
    lines = path.read_bytes().split(b"\n") if path.exists() else []
    rows = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            value = orjson.loads(line)
            if not isinstance(value, dict):
                raise TypeError("it is not a JSON object")
            rows.append(parse_row(unseal(value, f"{path}, line {number},", _REMEDY)))
        except (orjson.JSONDecodeError, TypeError) as error:
            unfinished = number == len(lines) and isinstance(error, orjson.JSONDecodeError)
            if unfinished and not _is_json(line[:-1]):  # else its line break is damaged
                break
            raise InputError(
                f"{path}, line {number}, is not a results row ({error}); {_REMEDY}."
            ) from error
    return rows


def _is_json(text: bytes) -> bool:
    try:
        orjson.loads(text)
    except orjson.JSONDecodeError:
        return False
    return True
