"""Users' tables, CSV, TSV, JSONL or Parquet, as Arrow tables: one reader for every command.

CSV and TSV have no types of their own. There ids, labels and texts are text, as they are written:
an id 007 is not 7, the classes true and 01 are names, and 1e3 may be all of a text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import chain
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from noisyteacher.core.errors import InputError, first_few
from noisyteacher.io.classes import WHOLE_NUMBER, may_be_labels
from noisyteacher.io.formats import (
    JSON_LINES,
    PARQUET,
    TABLES,
    LineBlock,
    check_name,
    check_utf8,
    in_one_line,
    is_table,
    is_untyped,
    kind_of,
    no_garbage,
    raw_lines,
)
from noisyteacher.io.uniform_lines import uniform_lines

# How a message calls the values of JSON.
_JSON_KINDS = {
    str: "text",
    int: "numbers",
    float: "numbers",
    bool: "true or false",
    list: "lists",
    dict: "objects",
}
# As few as fill an Arrow array well: Python's objects take much more memory.
_ROWS_AT_ONCE, _BYTES_AT_ONCE = 500, 1 << 24


def with_capitals(*names: str) -> tuple[str, ...]:
    """The names, and then with capitals: Label, LABEL. Not those of one letter: Y is beside X."""
    long = [name for name in names if len(name) > 1]
    return (*names, *(name.capitalize() for name in long), *(name.upper() for name in long))


# The usual names of columns; the first that is there counts.
ID_COLUMNS = with_capitals("id")
LABEL_COLUMNS = with_capitals("label", "fine_label", "target", "class", "y")
TEXT_COLUMNS = with_capitals("text")
IMAGE_COLUMNS = ("img", "image")
_USUAL = {"id": ID_COLUMNS, "label": LABEL_COLUMNS, "text": TEXT_COLUMNS}


@dataclass(frozen=True)
class FileOptions:
    """How to read users' files: names of columns (None: the default names) and the image size."""

    id_column: str | None = None
    text_column: str | None = None
    label_column: str | None = None
    image_size: int | None = None

    def names(self, what: str) -> tuple[str, ...]:
        """The names that the column of ids, texts or labels may have."""
        return candidates(getattr(self, f"{what}_column"), _USUAL[what])

    def column(self, what: str, columns: Sequence[str], where: str) -> str:
        """The column of ids, texts or labels, which must be there."""
        return find_column(what, getattr(self, f"{what}_column"), _USUAL[what], columns, where)

    def optional_column(self, what: str, columns: Sequence[str], where: str) -> str | None:
        """The same, or None where the user names no column and there is none of the usual ones."""
        given = getattr(self, f"{what}_column") is not None
        found = given or first_present(_USUAL[what], columns) is not None
        return self.column(what, columns, where) if found else None


def candidates(given: str | None, usual: Sequence[str]) -> tuple[str, ...]:
    """The names that a column may have: the one that the user gives, or else the usual ones."""
    return tuple(usual) if given is None else (given,)


def first_present(wanted: Sequence[str], columns: Sequence[str]) -> str | None:
    """The first of the wanted names that is a column."""
    return next((name for name in wanted if name in columns), None)


def find_column(
    what: str, given: str | None, usual: Sequence[str], columns: Sequence[str], where: str
) -> str:
    """The column that the user names, or the first of the usual ones; one of them must be there.

    ``what`` is "id", "text", "label" or the like, as in the options ``id_column=`` and so on.
    """
    wanted = candidates(given, usual)
    found = first_present(wanted, columns)
    if found is None:
        shown = [name for name in wanted if name.islower() or name.lower() not in wanted]
        raise InputError(
            f"{where} has no {what} column: looked for {first_few(shown, 10)} among "
            f"{first_few(columns, 10)}; name it with {what}_column= (--{what}-column)."
        )
    return found


def read_table(
    paths: Path | Sequence[Path], id_columns: Sequence[str], *text_columns: Sequence[str]
) -> Any:
    """One file, or several under each other, as an Arrow table.

    Ids in CSV files are numbers where all of them are written as whole numbers are.

    Args:
        paths: files whose names end in one of ``TABLES``; those of text also with ``.gz`` behind.
        id_columns: names that the column of ids may have; the first that is there counts.
        text_columns: the same for every other column that stays text, as labels and texts do.
    """
    files = [paths] if isinstance(paths, Path) else list(paths)
    untyped = [is_untyped(file) for file in files]
    tables = [_read_file(file, id_columns, text_columns) for file in files]
    if not all(untyped):
        # Beside files that know whether their ids are numbers, each file of text has to decide.
        tables = [
            _with_whole_ids(table, id_columns, file) if text else table
            for table, file, text in zip(tables, files, untyped, strict=True)
        ]
    table = tables[0]
    if len(tables) > 1:
        table = _under_each_other(tables, id_columns, files)
    return _with_whole_ids(table, id_columns, files[0]) if all(untyped) else table


def _read_file(path: Path, id_columns: Sequence[str], text_columns: Sequence[Sequence[str]]) -> Any:
    kind = _kind_of_table(path)
    with _as_input_errors(path):
        if kind in PARQUET:
            with pq.ParquetFile(path, pre_buffer=False) as file:
                table = file.read()
        elif kind in JSON_LINES:
            table = _read_json_lines(path)
        else:
            table = _read_csv(path, (id_columns, *text_columns))
    _check_names(table.column_names, path)
    return table


def _kind_of_table(path: Path) -> str:
    kind = kind_of(path)
    if kind not in TABLES:
        if is_table(path):
            raise InputError(f"{path} is compressed; decompress it first.")
        raise InputError(f"{path} is not a table: its name must end in {', '.join(TABLES)}.")
    check_name(path)
    return kind


@contextmanager
def open_parquet(path: Path) -> Iterator[Any]:
    """A Parquet file of which only some columns or rows are to be read."""
    with _as_input_errors(path), pq.ParquetFile(path) as file:
        yield file


@contextmanager
def _as_input_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, OverflowError, UnicodeDecodeError, pa.ArrowException) as error:
        if path.is_file() and path.stat().st_size == 0:
            raise InputError(f"{path} is empty.") from error
        if isinstance(error, UnicodeDecodeError) or "UTF8" in str(error):
            raise InputError(f"{path} is not UTF-8; save the file as UTF-8.") from error
        raise InputError(f"{path} cannot be read as a table: {in_one_line(error)}.") from error


def _read_csv(path: Path, text_columns: Sequence[Sequence[str]]) -> Any:
    table = pa_csv.read_csv(_unpacked(path), **_csv_options(path, text_columns))
    for name in table.column_names:
        if pa.types.is_binary(table[name].type):
            raise InputError(f"{path}: the column {name!r} is not UTF-8; save the file as UTF-8.")
    return table


def no_formulas(texts: Any) -> Any:
    """An Arrow array of texts that no spreadsheet takes for formulas.

    Texts that begin with =, +, -, @, a tab or a line break get an apostrophe in front, unless they
    are numbers.
    """
    risky = pc.match_substring_regex(texts, r"^[=+\-@\t\r\n]")
    number = pc.match_substring_regex(texts, r"^[-+]?[0-9]+(\.[0-9]+)?$")
    return pc.if_else(pc.and_not(risky, number), pc.binary_join_element_wise("'", texts, ""), texts)


def csv_bytes(columns: Mapping[str, Any]) -> bytes:
    """A CSV file of some columns, without formulas."""
    arrays = {name: pa.array(values) for name, values in columns.items()}
    arrays = {n: no_formulas(a) if pa.types.is_string(a.type) else a for n, a in arrays.items()}
    sink = pa.BufferOutputStream()
    pa_csv.write_csv(pa.table(arrays), sink)
    return bytes(sink.getvalue().to_pybytes())


def _csv_options(path: Path, text_columns: Sequence[Sequence[str]]) -> dict[str, Any]:
    """How Arrow is to read the file: those of ``text_columns`` that it has as text."""
    with _unpacked(path) as file:
        start = file.read(1000)
    check_utf8(start, path)
    parsing = pa_csv.ParseOptions(delimiter=_delimiter(start, path), newlines_in_values=True)
    names = pa_csv.open_csv(_unpacked(path), parse_options=parsing).schema.names
    _check_names(names, path)
    texts = {first_present(wanted, names) for wanted in text_columns} - {None}
    converting = pa_csv.ConvertOptions(column_types=dict.fromkeys(texts, pa.string()))
    return {"parse_options": parsing, "convert_options": converting}


def _delimiter(start: bytes, path: Path) -> str:
    """What separates the columns: a comma, or what a header without commas has in its place."""
    if kind_of(path) == ".tsv":
        return "\t"
    header = re.sub(rb'"[^"]*"?', b"", start).split(b"\n")[0]
    return next((mark for mark in ",;\t" if mark.encode() in header), ",")


def _unpacked(path: Path) -> Any:
    """The file's bytes, or those that a .gz file holds."""
    return pa.input_stream(str(path), "gzip" if path.suffix.lower() == ".gz" else None)


def _check_names(names: Sequence[str], path: Path) -> None:
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise InputError(f"{path} has several columns named {first_few(repeated)}.")


def _read_json_lines(path: Path) -> Any:
    with no_garbage():
        tables = list(_json_tables(path))
    if not tables:
        raise InputError(f"{path} is empty.")
    whole = {}
    for name in dict.fromkeys(name for table in tables for name in table.column_names):
        parts = [
            table.select([name])
            if name in table.column_names
            else pa.table({name: pa.nulls(len(table))})
            for table in tables
        ]
        try:
            whole[name] = pa.concat_tables(parts, promote_options="permissive").column(0)
        except pa.ArrowException as error:
            raise _not_one_kind(name, path, error) from error
    return pa.table(whole)


def _json_tables(path: Path) -> Iterator[Any]:
    """The rows of a file as tables of some thousand each."""
    for rows in _json_rows(path):
        if isinstance(rows, pa.RecordBatch):
            yield pa.Table.from_batches([rows])
            continue
        if not any(rows):
            raise InputError(f"{path} has rows that are empty objects.")
        arrays = {}
        for name, values in by_name(rows).items():
            try:
                arrays[name] = _json_array(values)
            except (pa.ArrowException, OverflowError) as error:
                raise _not_one_kind(name, path, error) from error
        yield pa.table(arrays)


def _not_one_kind(name: str, path: Path, error: Exception) -> InputError:
    """What to tell of a column that is none; the whole file is read again for it."""
    rows = (row for rows in _json_rows(path, columns=False) for row in rows)
    values = (row.get(name) for row in rows)
    kinds = dict.fromkeys(_JSON_KINDS[type(value)] for value in values if value is not None)
    mixed = f"holds {' and '.join(kinds)}" if len(kinds) > 1 else f"cannot be read: {error}"
    rule = "; ids are all text or all whole numbers" if name in ID_COLUMNS else ""
    return InputError(f"{path}: the column {name!r} {mixed}{rule}.")


def by_name(rows: list[dict[str, Any]]) -> dict[str, list[Any]]:
    """The values of every key that one of the rows has."""
    with suppress(KeyError):
        if set(map(len, rows)) == {len(rows[0])}:
            return {name: list(map(itemgetter(name), rows)) for name in rows[0]}
    names = dict.fromkeys(chain.from_iterable(rows))
    return {name: [row.get(name) for row in rows] for name in names}


def _json_array(values: list[Any]) -> Any:
    """An Arrow array; lists and objects of numbers, over which Arrow takes long, as float64."""
    first = values[0]
    kind = type(first)
    if kind not in (list, dict) or len(first) < 2 or set(map(type, values)) != {kind}:
        return pa.array(values)
    try:
        rows = values if kind is list else list(map(itemgetter(*first), values))
        numbers = list(chain.from_iterable(rows))
    except KeyError:
        return pa.array(values)
    if set(map(len, values)) != {len(first)} or not set(map(type, numbers)) <= {int, float}:
        return pa.array(values)
    flat = np.array(numbers, np.float64)
    if kind is list:
        ends = np.arange(0, len(flat) + 1, len(first), dtype=np.int32)
        return pa.ListArray.from_arrays(ends, flat)
    by_name = flat.reshape(len(values), -1).T
    return pa.StructArray.from_arrays(list(map(pa.array, by_name)), names=list(first))


def _json_rows(path: Path, *, columns: bool = True) -> Iterator[Any]:
    """The rows, some thousand at a time, or fewer long ones; lines that are alike as a batch."""
    rows: list[dict[str, Any]] = []
    size = 0
    for raw in raw_lines(path):
        batch = uniform_lines(raw.data) if columns else None
        for block in () if batch is not None else raw.blocks():
            rows += parsed_at_once(block.lines) or _parsed_one_by_one(block, path)
            size += sum(map(len, block.lines))
            if len(rows) > _ROWS_AT_ONCE or size > _BYTES_AT_ONCE:
                yield rows
                rows, size = [], 0
        if batch is not None:
            yield from filter(None, (rows, batch))
            rows, size = [], 0
    if rows:
        yield rows


def parsed_at_once(lines: Sequence[bytes]) -> list[dict[str, Any]]:
    """The rows, if every line holds one and nothing else."""
    try:
        rows = orjson.loads(b"[" + b",".join(lines) + b"]")
    except orjson.JSONDecodeError:
        return []
    return rows if len(rows) == len(lines) and set(map(type, rows)) == {dict} else []


def _parsed_one_by_one(block: LineBlock, path: Path) -> Iterator[dict[str, Any]]:
    for number, line in enumerate(block.lines, block.first):
        if not line.strip():
            continue
        try:
            row = orjson.loads(line)
        except orjson.JSONDecodeError as error:
            raise InputError(f"{path}, line {number}, is not JSON: {error}.") from error
        if not isinstance(row, dict):
            raise InputError(f"{path}, line {number}, is not a JSON object.")
        yield row


def _under_each_other(
    tables: Sequence[Any], id_columns: Sequence[str], files: Sequence[Path]
) -> Any:
    """One table; a column that is text in one file is text, but ids must be of one kind."""
    for name in dict.fromkeys(name for table in tables for name in table.column_names):
        kinds = {t.schema.field(name).type for t in tables if name in t.column_names}
        if len(kinds) > 1 and name not in id_columns and pa.string() in kinds:
            tables = [_as_text(table, name) for table in tables]
    return concatenate(tables, files)


def concatenate(tables: Sequence[Any], files: Sequence[Path]) -> Any:
    """The tables of some files under each other."""
    try:
        return pa.concat_tables(tables, promote_options="permissive")
    except pa.ArrowException as error:
        names = first_few([str(file) for file in files])
        raise InputError(f"The columns of {names} differ: {in_one_line(error)}.") from error


def _as_text(table: Any, name: str) -> Any:
    if name not in table.column_names or not may_be_labels(table[name].type):
        return table
    values = table[name]
    if pa.types.is_dictionary(values.type):
        values = values.cast(values.type.value_type)
    return table.set_column(table.column_names.index(name), name, values.cast(pa.string()))


def _with_whole_ids(table: Any, id_columns: Sequence[str], path: Path) -> Any:
    """A table read with its ids as text: now numbers, if every one is a whole number."""
    column = first_present(id_columns, table.column_names)
    if column is None:
        return table
    ids = table[column]
    if empty := ids.null_count + (pc.sum(pc.equal(ids, "")).as_py() or 0):
        raise InputError(f"{path}: the id column {column!r} has {empty} empty values.")
    if not pc.all(pc.match_substring_regex(ids, f"^{WHOLE_NUMBER}$")).as_py():
        return table
    return table.set_column(table.column_names.index(column), column, ids.cast(pa.int64()))


def table_blocks(
    path: Path, id_columns: Sequence[str], *text_columns: Sequence[str]
) -> Iterator[Any]:
    """A table's rows in order, some ten thousand at a time; ids in CSV files stay text."""
    kind = _kind_of_table(path)
    with _as_input_errors(path):
        if kind in PARQUET:
            # Else Arrow keeps what it has read of the file until the end.
            with pq.ParquetFile(path, pre_buffer=False) as file:
                for batch in file.iter_batches(50_000):
                    yield pa.Table.from_batches([batch])
        elif kind in JSON_LINES:
            yield from _json_tables(path)
        else:
            reading = pa_csv.ReadOptions(block_size=1 << 23)
            options = _csv_options(path, (id_columns, *text_columns))
            for batch in pa_csv.open_csv(_unpacked(path), reading, **options):
                yield pa.Table.from_batches([batch])
