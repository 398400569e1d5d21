"""Hugging Face-style Parquet shards, and any other Parquet table.

Images stand in ``img`` or ``image`` as encoded bytes, or as a struct of ``bytes`` and ``path``;
text in ``text``; everything else is a table of numbers. Class names come from the Hugging Face
metadata where there are any.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from noisyteacher.core.errors import InputError
from noisyteacher.data.columns import (
    IMAGE_COLUMNS,
    id_column,
    ids_from,
    label_column,
    labels_from,
    source_from_tables,
)
from noisyteacher.data.readers.parts import PartFiles, by_part
from noisyteacher.data.source import EncodedImages, Found, Part, ReadOptions, Source, no_rows
from noisyteacher.labels.importers.user_tables import first_present

_ROWS_AT_ONCE = 256


def find(place: Path, options: ReadOptions) -> Found | None:
    """A Parquet file, or a folder that holds some, up to two levels down."""
    if place.is_file():
        files = [place] if place.suffix == ".parquet" else []
    else:
        levels = (place.glob(pattern) for pattern in ("*.parquet", "*/*.parquet", "*/*/*.parquet"))
        files = next((found for level in levels if (found := list(level))), [])
    if not files:
        return None
    parts = PartFiles((place,), (), ()) if place.is_file() else by_part(files)
    return Found("Parquet", parts.all, lambda: _read(parts, options))


def _read(parts: PartFiles, options: ReadOptions) -> Source:
    with _opened(parts.train[0]) as first:
        schema = first.schema_arrow
    image = first_present(IMAGE_COLUMNS, schema.names)
    where = str(parts.train[0])
    if image is None:
        label = label_column(schema.names, options, where)
        train = _table(parts.train, None)
        test = _test_table(parts, label, None)[1]
        return source_from_tables(train, test, options, where, _class_names(schema, label))
    label, key = label_column(schema.names, options, where), id_column(schema.names, options, where)
    wanted = [name for name in (label, key) if name]
    train = _table(parts.train, wanted)
    test_files, test = _test_table(parts, label, wanted)
    names = _class_names(schema, label)
    y, test_y, classes = labels_from(train, test, label, names, options)
    train_part = Part(ids_from(train, key, "train"), y, _images(parts.train, image, len(y)))
    if test is None:
        return Source("image", classes, train_part, no_rows(train_part.inputs))
    images = _images(test_files, image, test.num_rows)
    return Source("image", classes, train_part, Part(ids_from(test, key, "test"), test_y, images))


@contextmanager
def _opened(file: Path) -> Iterator[pq.ParquetFile]:
    try:
        with pq.ParquetFile(file) as opened:
            yield opened
    except (OSError, pa.ArrowException) as error:
        raise InputError(f"{file} is not a readable Parquet file: {error}.") from error


def _table(files: Sequence[Path], columns: list[str] | None) -> pa.Table:
    """The shards under each other: the wanted columns that are there, or all of them."""
    shards: list[pa.Table] = []
    for file in files:
        # One at a time: a dataset may have more shards than a process may have open files.
        with _opened(file) as opened:
            if columns is not None and not shards:
                columns = [name for name in columns if name in opened.schema_arrow.names]
            if columns == []:
                # Arrow forgets the number of rows of a table without columns.
                shards.append(pa.table({"": pa.nulls(opened.metadata.num_rows)}))
            else:
                shards.append(opened.read(columns=columns))
    try:
        return pa.concat_tables(shards)
    except pa.ArrowException as error:
        names = ", ".join(file.name for file in files)
        raise InputError(f"The columns of {names} differ: {error}") from error


def _test_table(
    parts: PartFiles, label: str | None, columns: list[str] | None
) -> tuple[tuple[Path, ...], pa.Table | None]:
    """The test part's files and columns; the validation part's where the test has no labels."""
    candidates = [files for files in (parts.test, parts.validation) if files]
    tables = [(files, _table(files, columns)) for files in candidates]
    for files, table in tables:
        if label is None or (label in table.column_names and _any_known(table[label])):
            return files, table
    return tables[0] if tables else ((), None)


def _any_known(labels: pa.ChunkedArray) -> bool:
    values = labels.drop_null()
    if pa.types.is_integer(values.type):
        return bool((np.asarray(values.to_numpy()) >= 0).any())
    return len(values) > 0


def _class_names(schema: pa.Schema, label: str | None) -> tuple[str, ...]:
    """The names of a Hugging Face ``ClassLabel`` column, empty where there are none."""
    raw = (schema.metadata or {}).get(b"huggingface")
    if raw is None or label is None:
        return ()
    try:
        feature = orjson.loads(raw)["info"]["features"][label]
    except (orjson.JSONDecodeError, KeyError, TypeError):
        return ()  # other tools write other things there
    names = feature.get("names") if isinstance(feature, dict) else None
    return tuple(str(name) for name in names) if isinstance(names, list) else ()


def _images(files: Sequence[Path], column: str, count: int) -> EncodedImages:
    def stream() -> Iterator[tuple[str, bytes]]:
        for file in files:
            row = 0
            with _opened(file) as opened:
                for batch in opened.iter_batches(_ROWS_AT_ONCE, columns=[column]):
                    for value in batch.column(0).to_pylist():
                        yield _named_bytes(value, f"{file.name}, row {row}")
                        row += 1

    return EncodedImages(count, stream)


def _named_bytes(value: object, place: str) -> tuple[str, bytes]:
    path = None
    if isinstance(value, dict):
        path, value = value.get("path"), value.get("bytes")
    name = f"{path} ({place})" if path else f"in {place}"
    if not isinstance(value, bytes):
        raise InputError(f"Image {name} has no bytes stored in the file.")
    return name, value
