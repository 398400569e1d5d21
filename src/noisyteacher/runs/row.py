"""A results row: what one finished student leaves, the same of ``distill`` and of ``bench``."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, fields
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

import orjson

from noisyteacher.core.errors import InputError
from noisyteacher.core.files import append_line
from noisyteacher.core.machine import commit, versions
from noisyteacher.methods import Method, parse


@dataclass(frozen=True)
class Row:
    """One finished student. Accuracies in percent. Rows that agree up to ``epochs`` are one."""

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
        """What makes two rows duplicates of each other."""
        values = {f.name: getattr(self, f.name) for f in fields(self)[:_KEY_FIELDS]}
        return tuple((values | {"method": named_method(self.method)}).values())


_KEY_FIELDS = [f.name for f in fields(Row)].index("epochs") + 1


@lru_cache(maxsize=4096)
def named_method(name: str) -> Method | str:
    """The method a row names, so that ``t_a=1`` and ``t_a=1.0`` are one; else the name itself."""
    try:
        return parse(name)
    except InputError:
        # Rows of other versions may name methods that this one does not have.
        return name


def append_row(path: str | Path, row: Row) -> None:
    """Add a row; once this returns it is on disk."""
    append_line(path, orjson.dumps(asdict(row)))
