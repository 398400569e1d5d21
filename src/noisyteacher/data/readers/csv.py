"""Tables in text files: one label column, perhaps an id column, and text or numeric features.

A single file, CSV, TSV or JSONL, is all training; ``train.csv`` and ``test.csv`` in a folder are
the two parts.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from noisyteacher.core.errors import InputError
from noisyteacher.data.columns import source_from_tables
from noisyteacher.data.readers.parts import PartFiles, by_part
from noisyteacher.data.source import Found, ReadOptions, Source
from noisyteacher.labels.importers.user_tables import (
    ID_COLUMNS,
    LABEL_COLUMNS,
    TEXT_COLUMNS,
    first_present,
    is_untyped,
    kind_of,
    read_table,
)
from noisyteacher.labels.text_ids import with_whole_ids

_SUFFIXES = (".csv", ".tsv", ".jsonl", ".ndjson")
# Or empty; 01 is neither, but a name.
_WHOLE = r"^(-?(0|[1-9][0-9]{0,17}))?$"
_DECIMAL = r"^(-?(0|[1-9][0-9]{0,17})(\.[0-9]*)?)?$"


def find(place: Path, options: ReadOptions) -> Found | None:
    """A file of text with a table, or a folder that holds CSV files."""
    files = [place] if place.is_file() else list(place.glob("*.csv"))
    if not files or kind_of(files[0]) not in _SUFFIXES:
        return None
    parts = PartFiles((place,), (), ()) if place.is_file() else by_part(files)
    return Found("CSV", parts.all, lambda: _read(parts, options))


def _read(parts: PartFiles, options: ReadOptions) -> Source:
    train = _table(parts.train, options)
    test_files = parts.test or parts.validation
    test = _table(test_files, options) if test_files else None
    return source_from_tables(train, test, options, str(parts.train[0]))


def _table(files: Sequence[Path], options: ReadOptions) -> pa.Table:
    """The files under each other; ids and labels are numbers only if all are written as such."""
    keys, labels = _named(options.id_column, ID_COLUMNS), _named(options.label, LABEL_COLUMNS)
    tables = [read_table(file, keys, labels, TEXT_COLUMNS, whole_ids=False) for file in files]
    try:
        table = pa.concat_tables(tables)
    except pa.ArrowException as error:
        names = ", ".join(str(file) for file in files)
        raise InputError(f"The columns of {names} differ: {error}") from error
    if not is_untyped(files[0]):
        return table
    key, label = (first_present(names, table.column_names) for names in (keys, labels))
    table = table if key is None else with_whole_ids(table, key)
    if label is None or options.numbers_are_names:
        return table
    return _with_numbers(table, label)


def _named(option: str | None, usual: tuple[str, ...]) -> tuple[str, ...]:
    if option == "auto":
        return usual
    return () if option is None else (option,)


def _with_numbers(table: pa.Table, label: str) -> pa.Table:
    """Labels 0, 1, ... as class numbers; decimal numbers as such, so that they are refused."""
    texts = table[label]
    for pattern, kind in ((_WHOLE, pa.int64()), (_DECIMAL, pa.float64())):
        if pc.all(pc.match_substring_regex(texts, pattern)).as_py():
            numbers = pc.if_else(pc.equal(texts, ""), None, texts).cast(kind)
            return table.set_column(table.column_names.index(label), label, numbers)
    return table
