"""Files of results rows: one JSON line per finished student; files merge by concatenation."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import orjson

from noisyteacher.core.errors import InputError
from noisyteacher.runs.row import Row, append_row, named_method

__all__ = ["Row", "append_row", "merge", "named_method", "read_rows"]


def read_rows(path: str | Path) -> list[Row]:
    """The rows of one file, duplicates dropped; empty where there is no file yet."""
    path = Path(path)
    if not path.exists():
        return []
    rows = []
    lines = path.read_bytes().split(b"\n")
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            rows.append(Row(**orjson.loads(line)))
        except (orjson.JSONDecodeError, TypeError) as error:
            if number == len(lines):
                # The writer was killed inside its last line; that student is trained again.
                break
            raise InputError(f"{path}, line {number}, is not a results row: {error}.") from error
    return merge(rows)


def merge(rows: Iterable[Row]) -> list[Row]:
    """Drop duplicates; the first stands."""
    seen: dict[tuple[object, ...], Row] = {}
    for row in rows:
        seen.setdefault(row.key, row)
    return list(seen.values())
