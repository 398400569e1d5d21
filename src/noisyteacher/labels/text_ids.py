"""Ids in text files: numbers where they are written as numbers are, and else text."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from noisyteacher.errors import InputError

# Without a sign and without leading zeros, and small enough for 64 bits.
WHOLE_NUMBER = r"^(0|[1-9][0-9]{0,17})$"


def with_whole_ids(table: Any, column: str) -> Any:
    """An Arrow table read with its ids as text: now numbers, if every one is a whole number."""
    if column not in table.column_names:
        return table
    ids = table[column]
    if empty := ids.null_count + (pc.sum(pc.equal(ids, "")).as_py() or 0):
        raise InputError(f"The id column {column!r} has {empty} empty values.")
    if not pc.all(pc.match_substring_regex(ids, WHOLE_NUMBER)).as_py():
        return table
    place = table.column_names.index(column)
    return table.set_column(place, column, ids.cast(pa.int64()))
