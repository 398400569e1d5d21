"""Lines of JSON that differ in nothing but their texts and numbers, as columns of Arrow.

Most files of short lines are written by one program, so that every line has the same keys and
spaces as the first. Cut at its commas, such a line is the same bits of JSON around other values,
which Arrow's reader of CSV finds several times faster than any parser of JSON.

Nothing is guessed. A block is read this way only if every line is proved to be the first one with
other values; any other block is refused as a whole, and left to a parser of JSON.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv

from noisyteacher.io.formats import SHORT_LINE

_TOKEN = re.compile(rb'"([^"\\]*)"(\s*:)?|(-?[0-9][-+.eE0-9]*)|,')
# What orjson reads as int and as float, as far as no digit and no sign of a zero can get lost.
_WHOLE = "^(0|-?[1-9][0-9]{0,17})$"
_EITHER = (
    r"^(0|-?[1-9][0-9]{0,14}"
    r"|-?(0|[1-9][0-9]{0,14})(\.[0-9]+([eE][-+]?[0-9]{1,2})?|[eE][-+]?[0-9]{1,2}))$"
)
_NUMBERS = frozenset((int, float))


class _Piece(NamedTuple):
    """What stands before and after a value, up to the next comma."""

    before: bytes
    after: bytes


def uniform_lines(data: bytes) -> Any:
    """Some whole lines as a batch of Arrow, one column for each key; None if they are not alike.

    Texts are strings, numbers int64 where all are whole and float64 otherwise; lists and objects of
    at least two numbers hold float64.
    """
    first = data[: data.find(b"\n")]
    # With many values in a line a parser of JSON is faster.
    if len(first) > SHORT_LINE or not data.startswith(b"{") or b"\\" in data:
        return None
    try:
        row = orjson.loads(first)
        leaves, pieces = list(_leaves(row)), list(_pieces(first))
        if len(leaves) != len(pieces) or not {str, *_NUMBERS}.issuperset(map(type, leaves)):
            return None
        cut = _cut_at_commas(data, len(pieces))
        if not _no_other_signs(data, first, len(cut)):
            return None
        chunks = [chunk for column in cut.columns for chunk in column.chunks]  # one of each
        texts = [_inner(chunk, piece) for chunk, piece in zip(chunks, pieces, strict=True)]
        values = iter(texts)
        columns = [_column(value, values) for value in row.values()]
        return pa.RecordBatch.from_arrays(columns, list(row))
    except (ValueError, TypeError, AttributeError):  # of orjson and of Arrow too
        return None


def _leaves(row: dict[str, Any]) -> Iterator[Any]:
    """The values in the order of the line."""
    for value in row.values():
        if isinstance(value, list | dict):
            inner = list(value.values() if isinstance(value, dict) else value)
            if len(inner) < 2 or not _NUMBERS.issuperset(map(type, inner)):
                raise ValueError("not a list or an object of numbers")
            yield from inner
        else:
            yield value


def _pieces(line: bytes) -> Iterator[_Piece]:
    """A line cut at its commas; of a key that stands there twice there are too many pieces."""
    start, value = 0, None
    for token in _TOKEN.finditer(line + b","):
        if token[0] == b",":
            if value is None:
                raise ValueError("no text and no number")
            yield _Piece(line[start : value[0]], line[value[1] : token.start()])
            start, value = token.end(), None
        elif token[2] is None:  # not a key
            value = token.span(1 if token[3] is None else 3)


def _cut_at_commas(data: bytes, pieces: int) -> Any:
    """A table of the pieces; an error where a line has more or fewer."""
    names = [str(number) for number in range(pieces)]
    return pa_csv.read_csv(
        pa.py_buffer(data),
        pa_csv.ReadOptions(use_threads=False, block_size=len(data) + 1, column_names=names),
        pa_csv.ParseOptions(quote_char=False),
        pa_csv.ConvertOptions(column_types=dict.fromkeys(names, pa.binary())),
    )


def _no_other_signs(data: bytes, first: bytes, lines: int) -> bool:
    """Whether nothing but line feeds ends the lines, and no value holds a quotation mark."""
    signs = np.frombuffer(data, np.uint8)
    quotes = np.count_nonzero(signs == ord('"'))
    ends = np.count_nonzero(signs == ord("\n"))
    whole = data.endswith(b"\n") and ends == lines == np.count_nonzero(signs < ord(" "))
    return bool(whole and quotes == lines * first.count(b'"'))


def _inner(column: Any, piece: _Piece) -> Any:
    """The texts between what stands before and after them in every line."""
    around = len(piece.before) + len(piece.after)
    same = pc.and_(pc.starts_with(column, piece.before), pc.ends_with(column, piece.after))
    if not pc.all(same).as_py() or pc.min(pc.binary_length(column)).as_py() < around:
        raise ValueError("another line")
    # An end is always given, because without one some versions of Arrow fail.
    end = -len(piece.after) or np.iinfo(np.int32).max
    return pc.binary_slice(column, len(piece.before), end).cast(pa.string())


def _column(first: Any, texts: Iterator[Any]) -> Any:
    """The next texts as what the first line has there."""
    if isinstance(first, str):
        return next(texts)
    if isinstance(first, list):
        columns = [_numbers(next(texts)).to_numpy() for _ in first]
        ends = np.arange(0, len(columns) * len(columns[0]) + 1, len(columns), dtype=np.int32)
        return pa.ListArray.from_arrays(ends, np.stack(columns, axis=1).reshape(-1))
    if isinstance(first, dict):
        return pa.StructArray.from_arrays([_numbers(next(texts)) for _ in first], list(first))
    numbers = next(texts)
    if isinstance(first, int) and pc.all(pc.match_substring_regex(numbers, _WHOLE)).as_py():
        return numbers.cast(pa.int64())
    return _numbers(numbers)


def _numbers(texts: Any) -> Any:
    # A regular expression takes longer than all the rest, and most probabilities are plain.
    if not (_all_plain(texts) or pc.all(pc.match_substring_regex(texts, _EITHER)).as_py()):
        raise ValueError("not a number")
    return texts.cast(pa.float64())


def _all_plain(texts: Any) -> bool:
    """Whether each begins with a digit, a point and a digit, and what Arrow reads of it is JSON.

    Arrow would read "5." and "007" too, but nothing else that JSON has not. Exponents have to be
    negative, so that no number is too large.
    """
    _, ends, signs = texts.buffers()
    places = np.frombuffer(ends, np.int32)[texts.offset :][: len(texts) + 1]
    if np.diff(places).min() < 3:
        return False
    inside = np.frombuffer(signs, np.uint8)
    first, point, second = (inside[places[:-1] + number] for number in range(3))
    inside = inside[places[0] : places[-1]]
    digits, points, *exponents = (
        np.count_nonzero(mask) for mask in (_digit(inside), *(inside == ord(s) for s in ".e-"))
    )
    return bool(
        points == len(texts)
        and digits + points + sum(exponents) == len(inside)
        and exponents[0] == exponents[1]
        and (point == ord(".")).all()
        and (_digit(first) & _digit(second)).all()
    )


def _digit(signs: npt.NDArray[np.uint8]) -> npt.NDArray[np.bool_]:
    return signs - np.uint8(ord("0")) < 10  # what is below "0" becomes large
