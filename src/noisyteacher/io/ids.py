"""Ids of examples: strings or integers, checked when they come in and found fast afterwards.

Ids that are text are arrays of Python strings (dtype object), not NumPy's strings of one width,
where a single id of 100 000 characters makes every row that long.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from torch import Tensor

from noisyteacher.core.errors import InputError, MissingIdsError, first_few
from noisyteacher.io.formats import line_blocks, read_arrays

IdsLike = Iterable[str] | Iterable[int] | npt.NDArray[Any] | Tensor


def clean_ids(ids: IdsLike) -> npt.NDArray[Any]:
    """A copy of ``ids`` as an (n,) array of int64 or of str; repeats are not looked for."""
    if type(ids) is list and set(map(type, ids)) == {str}:
        return _clean_texts(ids)
    array = _as_array(ids)
    if array.ndim != 1:
        raise InputError(f"ids must be one-dimensional, got shape {array.shape}.")
    if array.dtype.kind in "iu" and array.dtype != np.uint64:
        return array.astype(np.int64)
    cleaned = _clean_objects(array.tolist())
    return cleaned if len(cleaned) or array.dtype.kind != "U" else text_array(())


def is_text(ids: npt.NDArray[Any]) -> bool:
    """Whether ids are strings; otherwise they are integers."""
    return ids.dtype.kind in "OU"


def text_array(listed: Iterable[Any]) -> npt.NDArray[np.object_]:
    """(n,) strings as an array."""
    return np.fromiter(listed, object)


def _as_array(ids: IdsLike) -> npt.NDArray[Any]:
    if isinstance(ids, str | bytes) or not isinstance(ids, Iterable):
        raise InputError(f"ids must be a sequence of strings or integers, got {ids!r}.")
    if isinstance(ids, Tensor):
        return ids.detach().cpu().numpy()
    if hasattr(ids, "__array__"):
        return np.asarray(ids)
    # NumPy would turn a mixed list into strings; as objects every id keeps its type.
    # Iterating over a tensor, as a dataset of them does, gives tensors of no dimension.
    return text_array(i.item() if isinstance(i, Tensor) and i.ndim == 0 else i for i in ids)


def _clean_objects(listed: list[Any]) -> npt.NDArray[Any]:
    types = set(map(type, listed))
    if all(issubclass(t, str) for t in types) and types:
        return _clean_texts(listed if types == {str} else list(map(str, listed)))
    if all(issubclass(t, int | np.integer) and t is not bool for t in types):
        try:
            return np.array(listed, dtype=np.int64)
        except OverflowError:
            raise InputError("integer ids must fit into signed 64-bit integers.") from None
    odd = [i for i in listed if isinstance(i, bool) or not isinstance(i, str | int | np.integer)]
    found = f"{odd[0]!r}" if odd else "a mix of both"
    raise InputError(f"ids must be all strings or all integers, got {found}.")


def _clean_texts(listed: list[str]) -> npt.NDArray[np.object_]:
    together = "".join(listed)
    try:
        together.encode()
    except UnicodeEncodeError:
        # Only lone surrogates cannot be written as UTF-8.
        broken = [text for text in listed if re.search("[\ud800-\udfff]", text)]
        raise InputError(f"ids must be valid Unicode text: {first_few(broken)}.") from None
    if "\0" in together and (padded := [text for text in listed if text.endswith("\0")]):
        raise InputError(f"ids must not end in a NUL character: {first_few(padded)}.")
    return text_array(listed)


def repeated_ids(ids: npt.NDArray[Any]) -> list[Any]:
    """The ids that stand there more than once."""
    # A sort of hashes is faster than a set, and needs less memory.
    ordered = np.sort(_keys(ids))
    if not (ordered[1:] == ordered[:-1]).any():
        return []
    return [name for name, count in Counter(ids.tolist()).items() if count > 1]


def _keys(ids: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """(n,) integers to sort by: those of texts are hashes, which differ from process to process."""
    return np.fromiter(map(hash, ids.tolist()), np.int64, len(ids)) if is_text(ids) else ids


def check_unique(ids: npt.NDArray[Any]) -> None:
    """Refuse repeated ids, and name the first few."""
    if repeated := repeated_ids(ids):
        raise InputError(f"ids must be unique; repeated: {first_few(repeated)}.")


class IdLookup:
    """Finds the rows of ids, by sorted numbers or hashes: a dictionary takes longer, and memory."""

    def __init__(self, ids: npt.NDArray[Any]) -> None:
        self._ids, self._text = ids, is_text(ids)
        keys = _keys(ids)
        self._order = np.argsort(keys, kind="stable")
        self._sorted = keys[self._order]
        self._row_of: dict[str, int] | None = None
        if self._text and (self._sorted[1:] == self._sorted[:-1]).any():
            # An id stands there twice, of which the last counts, or two have the same hash.
            self._row_of = dict(zip(ids.tolist(), range(len(ids)), strict=True))

    def find(self, ids: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
        """(m,) row of each id, -1 where there is none."""
        if min(len(ids), len(self._ids)) == 0 or is_text(ids) != self._text:
            return np.full(len(ids), -1, np.int64)
        if self._row_of is not None:
            rows = map(self._row_of.get, ids.tolist(), [-1] * len(ids))
            return np.fromiter(rows, np.int64, len(ids))
        keys = _keys(ids)
        # Keys in no order would jump about in memory, which takes longer than to sort them.
        order = np.argsort(keys)
        place = np.empty(len(keys), np.int64)
        place[order] = np.searchsorted(self._sorted, keys[order])
        np.minimum(place, len(self._sorted) - 1, out=place)
        found = np.where(self._sorted[place] == keys, self._order[place], -1)
        if self._text:
            found[self._ids[found] != ids] = -1  # another text of the same hash, or none
        return found

    def rows(self, ids: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
        """(m,) row of each id; ids that are not there are named in the error."""
        found = self.find(ids)
        missing = ids[found < 0]
        if len(missing) == 0:
            return found
        hint = ""
        if is_text(ids) != self._text:
            hint = f"; the ids here are {'strings' if self._text else 'integers'}"
        names = dict.fromkeys(missing.tolist())
        raise MissingIdsError(f"no teacher labels for ids {first_few(names)}{hint}.")


def are_among(ids: npt.NDArray[Any], others: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """(n,) whether each id is one of the others.

    Not ``np.isin``, which compares every string with every other one.
    """
    return IdLookup(others).find(ids) >= 0


def read_ids(path: Path) -> npt.NDArray[Any]:
    """(n,) ids from a ``.npy`` file, or from a text file with one id on each line."""
    if path.suffix == ".npy":
        return clean_ids(read_arrays(path)["array"])
    listed: list[str] = []
    try:
        for block in line_blocks(path):
            listed += [line.decode().rstrip("\r\n") for line in block.lines]
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}.") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not UTF-8 text: {error.reason}.") from error
    empty = [number for number, name in enumerate(listed, 1) if not name.strip()]
    if empty:
        raise InputError(f"{path} has no id on lines {first_few(empty)}.")
    if not listed:
        raise InputError(f"{path} is empty.")
    return clean_ids(listed)


def row_ids(prefix: str, count: int) -> npt.NDArray[np.object_]:
    """(count,) ids for rows that have none: "pool/0", "pool/1", ..."""
    return text_array(f"{prefix}/{row}" for row in range(count))


def ids_like(ids: npt.NDArray[Any], known: npt.NDArray[Any], where: str) -> npt.NDArray[Any]:
    """``ids`` as text or as numbers, whichever ``known`` are: a CSV cannot tell "17" from 17."""
    if is_text(ids) == is_text(known):
        return ids
    if is_text(known):
        return as_text(ids)
    # Written as numbers are: "007" and "7" would become one.
    written = all(re.fullmatch(r"0|-?[1-9][0-9]{0,18}", key) for key in ids.tolist())
    if not (written and _fit_int64(ids.tolist())):
        raise InputError(
            f"The ids of {where} are text ({first_few(ids.tolist(), 2)}), those of the teacher's "
            f"labels are numbers ({first_few(known.tolist(), 2)})."
        )
    return ids.astype(np.int64)


def as_text(ids: npt.NDArray[Any]) -> npt.NDArray[np.object_]:
    """Ids as strings: 17 as "17"."""
    return text_array(map(str, ids.tolist()))


def whole_numbers(ids: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """Ids such as "17" as the integers they spell."""
    odd = [] if ids.dtype.kind == "i" else [key for key in ids.tolist() if not _fit_int64([key])]
    if odd:
        raise InputError(f"the ids {first_few(odd)} are not whole numbers of 64 bits.")
    return ids.astype(np.int64)


def _fit_int64(texts: list[str]) -> bool:
    try:
        return all(-(2**63) <= int(text) < 2**63 for text in texts)
    except ValueError:
        return False
