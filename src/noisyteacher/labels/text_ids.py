"""Ids in text files: numbers where they are written as numbers are, and else text."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from noisyteacher.core.errors import InputError, first_few
from noisyteacher.io.classes import WHOLE_NUMBER


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


def ids_like(ids: npt.NDArray[Any], known: npt.NDArray[Any], where: str) -> npt.NDArray[Any]:
    """``ids`` as text or as numbers, whichever ``known`` are: a CSV cannot tell "17" from 17."""
    if ids.dtype.kind == known.dtype.kind:
        return ids
    if known.dtype.kind == "U":
        return ids.astype(np.str_)
    if not all(map(_spells_int64, ids.tolist())):
        raise InputError(
            f"The ids of {where} are text ({first_few(ids.tolist(), 2)}), those of the teacher's "
            f"labels are numbers ({first_few(known.tolist(), 2)})."
        )
    return ids.astype(np.int64)


def _spells_int64(key: str) -> bool:
    """Whether the text is how a number of 64 bits is written, and no other text is."""
    return re.fullmatch(r"0|-?[1-9][0-9]{0,18}", key) is not None and -(2**63) <= int(key) < 2**63
