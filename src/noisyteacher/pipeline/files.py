"""The user's files to examples: CSV, JSONL and Parquet tables, image folders, NumPy archives.

Rows without ids are named after their file, "pool/0", "pool/1", ..., so that labelling a file and
distilling from it later agree.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from noisyteacher.core.errors import InputError, first_few
from noisyteacher.data import Dataset, load_dataset
from noisyteacher.data.cache import cache_folder, fingerprint, locked, open_cache, write_cache
from noisyteacher.data.columns import IMAGE_COLUMNS, id_column, source_from_tables
from noisyteacher.data.readers.folders import IMAGE_SUFFIXES, class_files, image_files
from noisyteacher.data.source import EncodedImages, Found, Part, ReadOptions, Source, no_rows
from noisyteacher.labels.importers.user_tables import (
    ID_COLUMNS,
    LABEL_COLUMNS,
    TEXT_COLUMNS,
    first_present,
    is_table,
    read_table,
    stem_of,
)


@dataclass(frozen=True)
class FileOptions:
    """How to read users' files: names of columns (None: the usual ones) and the image size."""

    id_column: str | None = None
    text_column: str | None = None
    label_column: str | None = None
    image_size: int | None = None


def read_examples(
    path: str | Path,
    options: FileOptions | None = None,
    *,
    labelled: bool = True,
    features: Sequence[str] = (),
) -> Dataset:
    """One file or folder as a dataset whose rows all stand in the training part.

    ``labelled=False`` reads no labels: y is -1, whatever columns there are. A column that is
    usually a label is dropped then, unless a labelled file beside it has it in its ``features``.
    """
    place, options = Path(path).expanduser(), options or FileOptions()
    if not place.exists():
        raise InputError(f"There is no file or folder {place}.")
    if place.is_dir():
        return _from_folder(place, options, labelled)
    if is_table(place) and not _holds_images(place):
        return _from_table(place, options, labelled, features)
    found = load_dataset(
        place.absolute(), label=_label(place, options, labelled), **_common(options)
    )
    return _whole(found, place, labelled)


def _common(options: FileOptions) -> dict[str, Any]:
    return {
        "id_column": options.id_column or "auto",
        "image_size": options.image_size,
        "numbers_are_names": True,  # the teacher says later what its classes are called
    }


def _named(given: str | None, usual: tuple[str, ...]) -> tuple[str, ...]:
    return usual if given is None else (given,)


def _label(place: Path, options: FileOptions, labelled: bool) -> str | None:
    """What to tell the reader about the label; Parquet files of a pool may well have none."""
    if labelled:
        return options.label_column or "auto"
    shards = [place] if place.is_file() else sorted(place.rglob("*.parquet"))
    if shards and shards[0].suffix == ".parquet":
        candidates = _named(options.label_column, LABEL_COLUMNS)
        return first_present(candidates, _open_parquet(shards[0]).schema_arrow.names)
    return "auto"


def _from_table(
    place: Path, options: FileOptions, labelled: bool, features: Sequence[str]
) -> Dataset:
    where, usual = str(place), _named(options.label_column, LABEL_COLUMNS)
    labels = tuple(name for name in usual if name not in features)
    keys, texts = _named(options.id_column, ID_COLUMNS), _named(options.text_column, TEXT_COLUMNS)
    table = read_table(place, keys, labels, texts)
    label = _label_column(table, labels, where) if labelled and table.num_rows else None
    if label is not None and set(labels) & set(table.column_names) > {label}:
        # A class's name is read as written; the other columns of a usual name are features.
        table = read_table(place, keys, (label,), texts)
    if table.num_rows == 0:
        raise InputError(f"{where} has no rows.")
    if options.text_column is not None:
        table = _with_text(table, options.text_column, where)
    reading = ReadOptions(label, options.id_column or "auto", numbers_are_names=True)
    if not labelled:
        # An unused label must not be read as a feature.
        unused = first_present(labels, table.column_names)
        table = table if unused is None else table.drop_columns([unused])
    key = id_column(table.column_names, reading, where)
    source = source_from_tables(_checked_text(table, key, label, where), None, reading, where)
    part = source.train
    assert not isinstance(part.inputs, EncodedImages)
    ids = _row_names(place, len(part.y)) if key is None else part.ids
    made = _dataset(stem_of(place), source.kind, ids, part.inputs, part.y, source.classes)
    return replace(made, features=source.features)


def _label_column(table: pa.Table, candidates: Sequence[str], where: str) -> str:
    found = first_present(candidates, table.column_names)
    if found is None:
        raise InputError(
            f"{where} has no label column: looked for {first_few(candidates, 10)} among "
            f"{first_few(table.column_names, 10)}; name it with "
            "files=FileOptions(label_column=...) (--label-column)."
        )
    return found


def _with_text(table: pa.Table, column: str, where: str) -> pa.Table:
    if column not in table.column_names:
        raise InputError(
            f"{where} has no text column {column!r} among {first_few(table.column_names, 10)}."
        )
    others = [name for name in table.column_names if name not in TEXT_COLUMNS or name == column]
    table = table.select(others)
    return table.rename_columns([TEXT_COLUMNS[0] if n == column else n for n in others])


def _checked_text(table: pa.Table, key: str | None, label: str | None, where: str) -> pa.Table:
    """Say what to do with a column of strings, which would be refused as a feature."""
    names = table.column_names
    if first_present(TEXT_COLUMNS, names) is not None:
        return table
    strings = [n for n in names if n not in (key, label) and _holds_strings(table[n].type)]
    for name in strings:
        values = [value for value in table[name].to_pylist() if value]
        if values and all(value.lower().endswith(IMAGE_SUFFIXES) for value in values):
            raise InputError(
                f"{where}: {name!r} holds paths of images, such as {values[0]!r}, which are not "
                "followed; put the images of each class into a folder with its name (those of the "
                "pool into one folder), or their bytes into the column 'image' of a Parquet file."
            )
    if strings:
        raise InputError(
            f"{where} has no column {TEXT_COLUMNS[0]!r}, and {first_few(strings)} "
            f"{'holds' if len(strings) == 1 else 'hold'} strings; name the text column with "
            "files=FileOptions(text_column=...) (--text-column), or drop or encode what is no text."
        )
    return table


def _holds_strings(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _holds_images(path: Path) -> bool:
    if path.suffix.lower() != ".parquet":
        return False
    return first_present(IMAGE_COLUMNS, _open_parquet(path).schema_arrow.names) is not None


def _open_parquet(path: Path) -> pq.ParquetFile:
    try:
        return pq.ParquetFile(path)
    except (OSError, pa.ArrowException) as error:
        raise InputError(f"{path} is not a readable Parquet file: {error}.") from error


def _from_folder(place: Path, options: FileOptions, labelled: bool) -> Dataset:
    if options.text_column is not None:
        raise InputError(
            f"{place} is a folder; text_column= (--text-column) belongs to a file: name that."
        )
    files = sorted(
        Path(entry.path)
        for entry in os.scandir(place)
        if entry.is_file() and entry.name.lower().endswith(IMAGE_SUFFIXES)
    )
    sorted_into_classes = any(class_files(place).values())
    if files and sorted_into_classes:
        raise InputError(
            f"{place} holds {len(files)} images beside folders of images, such as {files[0].name}; "
            "put all of them into folders, or none."
        )
    if not files:
        found = load_dataset(
            place.absolute(), label=_label(place, options, labelled), **_common(options)
        )
        return _whole(found, place, labelled)
    if labelled:
        raise InputError(
            f"{place} holds images but no class folders; put the images of each class into a "
            "folder with its name."
        )
    return _whole(_flat_images(place, files, options), place, labelled)


def _flat_images(place: Path, files: Sequence[Path], options: FileOptions) -> Dataset:
    """Unlabelled images side by side in one folder, decoded into the cache."""

    def read() -> Source:
        ids = np.array([file.name for file in files], np.str_)
        part = Part(ids, np.full(len(files), -1, np.int64), image_files(files))
        return Source("image", (), part, no_rows(part.inputs))

    found = Found("image files", tuple(files), read)
    reading = ReadOptions(None, None, image_size=options.image_size)
    folder = cache_folder(None) / f"{place.name}-{fingerprint(found, place, reading)[:16]}"
    with locked(folder):
        if (cached := open_cache(folder)) is None:
            write_cache(folder, place.name, read(), options.image_size)
            cached = open_cache(folder)
    assert cached is not None
    return cached


def _whole(found: Dataset, place: Path, labelled: bool) -> Dataset:
    """A loaded dataset without a test part, its rows named after the file where unnamed."""
    if len(found.test_ids):
        raise InputError(
            f"{place} has a training part of {len(found.ids)} rows and a test part of "
            f"{len(found.test_ids)}: name the one that is meant, as a file or folder of its own."
        )
    ids = found.ids
    if len(ids) and str(ids[0]) == "train/0" and str(ids[-1]) == f"train/{len(ids) - 1}":
        ids = _row_names(place, len(ids))
    y = found.y if labelled else np.full(len(ids), -1, np.int64)
    made = _dataset(stem_of(place), found.kind, ids, found.inputs, y, found.classes)
    return replace(made, features=found.features)


def _row_names(place: Path, count: int) -> np.ndarray:
    return np.array([f"{stem_of(place)}/{row}" for row in range(count)], np.str_)


def _dataset(
    name: str,
    kind: Any,
    ids: np.ndarray,
    inputs: np.ndarray | list[str],
    y: np.ndarray,
    classes: tuple[str, ...],
) -> Dataset:
    return Dataset(
        name=name,
        kind=kind,
        ids=ids,
        inputs=inputs,
        y=y,
        test_ids=np.empty(0, np.str_),
        test_inputs=inputs[:0],
        test_y=np.empty(0, np.int64),
        classes=classes,
    )
