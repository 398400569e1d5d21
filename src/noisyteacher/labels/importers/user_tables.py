"""Users' tables, CSV, TSV, JSONL or Parquet, as Arrow tables: one reader for every command.

CSV and TSV have no types of their own. There ids, labels and texts are text, as they are written:
an id 007 is not 7, the classes true and 01 are names, and 1e3 may be all of a text.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy.typing as npt
import orjson
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from noisyteacher.core.errors import InputError, first_few
from noisyteacher.labels.ids import clean_ids
from noisyteacher.labels.importers.lines import line_blocks
from noisyteacher.labels.text_ids import with_whole_ids

_TEXT, _JSON, _PARQUET = (".csv", ".tsv"), (".jsonl", ".ndjson"), (".parquet",)
SUFFIXES = (*_TEXT, *_JSON, *_PARQUET)
_PACKED = (".gz", ".bz2", ".xz", ".zst", ".zip", ".7z")
# How a message calls the values of JSON.
_JSON_KINDS = {
    str: "text",
    int: "numbers",
    float: "numbers",
    bool: "true or false",
    list: "lists",
    dict: "objects",
}
# The usual names of columns; the first that is there counts.
ID_COLUMNS = ("id", "ID", "Id")
LABEL_COLUMNS = ("label", "fine_label", "target", "class", "y")
TEXT_COLUMNS = ("text",)


def kind_of(path: Path) -> str:
    """The suffix that tells the format, in lower case: of ``pool.csv.gz`` it is ``.csv``."""
    inner = Path(path.stem).suffix.lower()
    packed = path.suffix.lower() == ".gz" and inner in (*_TEXT, *_JSON)
    return inner if packed else path.suffix.lower()


def stem_of(path: Path) -> str:
    """What rows without ids are named after: the name without the suffixes of format and .gz."""
    return path.stem if kind_of(path) == path.suffix.lower() else Path(path.stem).stem


def is_untyped(path: Path) -> bool:
    """Whether the file cannot say itself which of its values are numbers."""
    return kind_of(path) in _TEXT


def is_table(path: Path) -> bool:
    """Whether the name is that of a table, packed or not."""
    inner = Path(path.stem).suffix.lower() if path.suffix.lower() in _PACKED else None
    return inner in SUFFIXES or path.suffix.lower() in SUFFIXES


def read_table(
    path: Path,
    id_columns: Sequence[str],
    *text_columns: Sequence[str],
    whole_ids: bool = True,
) -> Any:
    """The file as an Arrow table.

    Args:
        path: a file whose name ends in one of ``SUFFIXES``; of text also with ``.gz`` behind.
        id_columns: names that the column of ids may have; the first that is there counts.
        text_columns: the same for every other column that stays text, as labels and texts do.
        whole_ids: make ids of a CSV numbers where all are written as whole numbers are.
    """
    kind = kind_of(path)
    if kind not in SUFFIXES:
        if is_table(path):
            raise InputError(f"{path} is packed; unpack it first.")
        raise InputError(f"{path} is no table: its name must end in {', '.join(SUFFIXES)}.")
    try:
        if kind in _PARQUET:
            table = pq.ParquetFile(path).read()
        elif kind in _JSON:
            table = _read_json_lines(path, id_columns)
        else:
            return _read_csv(path, id_columns, text_columns, whole_ids)
        _check_names(table.column_names, path)
        return table
    except (OSError, OverflowError, UnicodeDecodeError, pa.ArrowException) as error:
        if path.is_file() and path.stat().st_size == 0:
            raise InputError(f"{path} is empty.") from error
        if isinstance(error, UnicodeDecodeError) or "UTF8" in str(error):
            raise InputError(f"{path} is not UTF-8; save the file as UTF-8.") from error
        reason = " ".join(str(error).split()).rstrip(".")
        raise InputError(f"{path} cannot be read as a table: {reason}.") from error


def first_present(candidates: Sequence[str], columns: Sequence[str]) -> str | None:
    """The first candidate that is a column."""
    return next((name for name in candidates if name in columns), None)


def is_list(kind: Any) -> bool:
    """Whether an Arrow type is one of lists, of whatever kind."""
    return bool(
        pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)
    )


def ids_in(table: Any, column: str, where: str) -> npt.NDArray[Any]:
    """(n,) ids: integers stay integers, everything else is text."""
    values = table[column]
    if values.null_count:
        raise InputError(f"{where}: the id column {column!r} has {values.null_count} empty values.")
    try:
        if pa.types.is_integer(values.type):
            return clean_ids(values.to_numpy())
        return clean_ids(values.cast(pa.string()).to_pylist())
    except pa.ArrowException as error:
        raise InputError(f"{where}: the id column {column!r} holds {values.type}.") from error


def _read_csv(
    path: Path, id_columns: Sequence[str], text_columns: Sequence[Sequence[str]], whole_ids: bool
) -> Any:
    parsing = pa_csv.ParseOptions(
        delimiter="\t" if kind_of(path) == ".tsv" else ",", newlines_in_values=True
    )
    names = pa_csv.open_csv(_unpacked(path), parse_options=parsing).schema.names
    _check_names(names, path)
    key = first_present(id_columns, names)
    texts = (key, *(first_present(candidates, names) for candidates in text_columns))
    converting = pa_csv.ConvertOptions(
        column_types={name: pa.string() for name in texts if name is not None}
    )
    table = pa_csv.read_csv(_unpacked(path), parse_options=parsing, convert_options=converting)
    for name in table.column_names:
        if pa.types.is_binary(table[name].type):
            raise InputError(f"{path}: the column {name!r} is not UTF-8; save the file as UTF-8.")
    return with_whole_ids(table, key) if whole_ids and key is not None else table


def _unpacked(path: Path) -> Any:
    """The file, or what a .gz file holds."""
    packed = path.suffix.lower() == ".gz"
    return pa.input_stream(str(path), compression="gzip") if packed else path


def _check_names(names: Sequence[str], path: Path) -> None:
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise InputError(f"{path} has several columns {first_few(repeated)}.")


def _read_json_lines(path: Path, id_columns: Sequence[str]) -> Any:
    rows = _json_objects(path)
    # Of all rows: the first may lack some, and must not hide them.
    names = list(dict.fromkeys(name for row in rows for name in row))
    key, columns = first_present(id_columns, names), {}
    for name in names:
        values = [row.get(name) for row in rows]
        try:
            columns[name] = pa.array(values)
        except (pa.ArrowException, OverflowError) as error:
            rule = "; ids are all text or all whole numbers" if name == key else ""
            kinds = dict.fromkeys(_JSON_KINDS[type(v)] for v in values if v is not None)
            mixed = f"holds {' and '.join(kinds)}" if len(kinds) > 1 else f"cannot be read: {error}"
            raise InputError(f"{path}: the column {name!r} {mixed}{rule}.") from error
    return pa.table(columns)


def _json_objects(path: Path) -> list[dict[str, Any]]:
    rows = []
    for block in line_blocks(path):
        for number, line in enumerate(block.lines, block.first):
            if not line.strip():
                continue
            try:
                row = orjson.loads(line)
            except orjson.JSONDecodeError as error:
                raise InputError(f"{path}, line {number}, is not JSON: {error}.") from error
            if not isinstance(row, dict):
                raise InputError(f"{path}, line {number}, is not a JSON object.")
            rows.append(row)
    if not rows:
        raise InputError(f"{path} is empty.")
    return rows
