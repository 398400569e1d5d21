"""What a place on disk holds: tables, NumPy archives, folders of images; and how to read it.

A layout has a training part and perhaps a test part, told apart by the names of files and folders.
Readers give back what they find; ``load.py`` numbers the classes and decodes the images.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from noisyteacher.core.errors import InputError, first_few
from noisyteacher.data.dataset import Kind, as_inputs
from noisyteacher.io.classes import UNKNOWN, class_label_names, label_texts
from noisyteacher.io.columns import InputColumns, feature_names, ids_in, input_columns
from noisyteacher.io.formats import is_table, read_arrays
from noisyteacher.io.ids import text_array
from noisyteacher.io.images import IMAGE_SUFFIXES, EncodedImages, image_files
from noisyteacher.io.user_tables import (
    IMAGE_COLUMNS,
    FileOptions,
    concatenate,
    first_present,
    open_parquet,
    read_table,
)

_VALIDATION_NAMES = ("validation", "valid", "val")
_ARRAY_KEYS = (
    ("x_train", "y_train", "x_test", "y_test"),
    ("inputs", "labels", "test_inputs", "test_labels"),
)
_ROWS_AT_ONCE = 256


@dataclass(frozen=True)
class ReadOptions(FileOptions):
    """What a reader is told: the user's options, and what is wanted of the file.

    With ``labeled=False`` no labels are needed, and a table's usual column of labels is left out
    unless it is one of ``features``. ``rows_named`` is what rows without ids are named after, as in
    "pool/0"; by default it is their part, as in "train/0". ``numbers_are_names`` reads whole
    numbers as class names.
    """

    labeled: bool = True
    features: tuple[str, ...] = ()
    rows_named: str | None = None
    numbers_are_names: bool = False
    attribute: str = "Male"  # CelebA's label


@dataclass(frozen=True)
class RawPart:
    """One part as it was read; images are encoded, or uint8 (n, H, W, 3) already."""

    inputs: np.ndarray | list[str] | EncodedImages
    labels: Any = None  # an Arrow column; None where there are none
    ids: np.ndarray | None = None  # (n,); None where rows have none


@dataclass(frozen=True)
class RawData:
    """Both parts as they were read."""

    kind: Kind
    train: RawPart
    test: RawPart | None = None
    names: tuple[str, ...] = ()  # of the classes, in order, where the source tells them
    class_label: tuple[str, ...] = ()  # the same where a teacher may call them otherwise
    image_size: int | None = None  # the usual side of this source's images, if it has one
    features: tuple[str, ...] = ()  # a table's columns


@dataclass(frozen=True)
class Found:
    """A layout that was recognized: the files it is made of, and how to read them."""

    layout: str
    files: tuple[Path, ...]
    read: Callable[[], RawData]


# -- tables --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class FilesByPart:
    """Files by part. A validation part serves as the test part where that has no labels."""

    train: tuple[Path, ...]
    test: tuple[Path, ...] = ()
    validation: tuple[Path, ...] = ()


def find_parquet(place: Path, options: ReadOptions) -> Found | None:
    """A Parquet file, or a folder that holds some, up to two levels down."""
    if place.is_file():
        files = [place] if place.suffix.lower() == ".parquet" else []
    else:
        levels = (place.glob(pattern) for pattern in ("*.parquet", "*/*.parquet", "*/*/*.parquet"))
        files = next((found for level in levels if (found := list(level))), [])
    return _found_tables("Parquet", place, files, options)


def find_text_tables(place: Path, options: ReadOptions) -> Found | None:
    """A file of text with a table, or a folder that holds CSV files."""
    if place.is_file():
        return _found_tables("CSV", place, [place] if is_table(place) else [], options)
    return _found_tables("CSV", place, list(place.glob("*.csv")), options)


def _found_tables(
    layout: str, place: Path, files: Sequence[Path], options: ReadOptions
) -> Found | None:
    if not files:
        return None
    parts = FilesByPart((place,)) if place.is_file() else _by_part(files)
    every = parts.train + parts.test + parts.validation
    return Found(layout, every, lambda: _read_tables(parts, options))


def _by_part(files: Sequence[Path]) -> FilesByPart:
    """Sort "train-00000-of-00002.parquet", "test/0000.parquet" and the like.

    Where no file is named after a part, all are training files; where some are, the others (such
    as "unsupervised") are left out.
    """
    train, test, validation = (
        _of_part(files, names) for names in (("train",), ("test",), _VALIDATION_NAMES)
    )
    if not (train or test or validation):
        return FilesByPart(tuple(sorted(files)))
    if not train:
        names = first_few(sorted(f.name for f in files))
        raise InputError(f"{files[0].parent} has no training files; it has {names}.")
    return FilesByPart(train, test, validation)


def _of_part(files: Sequence[Path], names: tuple[str, ...]) -> tuple[Path, ...]:
    starts = tuple(name + mark for name in names for mark in "-_.")
    return tuple(sorted(f for f in files if f.name.startswith(starts) or f.parent.name in names))


def _read_tables(parts: FilesByPart, options: ReadOptions) -> RawData:
    """Images where there is a column of them, texts where there is one of texts, else numbers."""
    where = str(parts.train[0])
    image, columns = _image_columns(parts.train[0], options)
    read = partial(_read_part, beside_images=columns, options=options)
    train = read(parts.train)
    if train.num_rows == 0:
        raise InputError(f"{where} has no rows.")
    if columns is None:
        columns = input_columns(
            train, options, where, labeled=options.labeled, features=options.features
        )

    def part(files: tuple[Path, ...], table: Any) -> RawPart:
        label, key = (
            name if name in table.column_names else None for name in (columns.label, columns.id)
        )
        return RawPart(
            columns.inputs(table, where) if image is None else _images(files, image, len(table)),
            None if label is None else table[label],
            None if key is None else ids_in(table, key, where),
        )

    test = _test_part(parts, columns.label, read)
    names = class_label_names(train.schema, columns.label)
    by_teacher = options.numbers_are_names and image is None
    return RawData(
        kind="image" if image is not None else "table" if columns.text is None else "text",
        train=part(parts.train, train),
        test=None if test is None else part(*test),
        names=() if by_teacher else names,
        class_label=names if by_teacher else (),
        features=feature_names(train, columns.features),
    )


def _image_columns(file: Path, options: ReadOptions) -> tuple[str | None, InputColumns | None]:
    """The column of images, and those of ids and labels beside it; Nones in other tables."""
    if file.suffix.lower() != ".parquet":
        return None, None
    with open_parquet(file) as opened:
        names, where = opened.schema_arrow.names, str(file)
    image = first_present(IMAGE_COLUMNS, names)
    if image is None:
        return None, None
    key = options.optional_column("id", names, where)
    label = options.column("label", names, where) if options.labeled else None
    return image, InputColumns(key, label, None)


def _read_part(
    files: Sequence[Path], beside_images: InputColumns | None, options: ReadOptions
) -> Any:
    """All columns of some files, or those beside the images, which are read when decoded."""
    if beside_images is None:
        labels = [name for name in options.names("label") if name not in options.features]
        return read_table(files, options.names("id"), labels, options.names("text"))
    shards, wanted = [], (beside_images.id, beside_images.label)
    for file in files:
        # One at a time: a dataset may have more shards than a process may have open files.
        with open_parquet(file) as opened:
            columns = [name for name in wanted if name in opened.schema_arrow.names]
            if columns:
                shards.append(opened.read(columns=columns))
            else:  # Arrow forgets the number of rows of a table without columns.
                shards.append(pa.table({"": pa.nulls(opened.metadata.num_rows)}))
    return concatenate(shards, files)


def _test_part(
    parts: FilesByPart, label: str | None, read: Callable[[tuple[Path, ...]], Any]
) -> tuple[tuple[Path, ...], Any] | None:
    """The test part's files and rows; the validation part's where the test has no labels."""
    found = [(files, read(files)) for files in (parts.test, parts.validation) if files]
    for files, table in found:
        if label is None:
            return files, table
        texts = label_texts(table[label], "The label column") if label in table.column_names else ()
        if any(text not in (None, UNKNOWN) for text in texts):
            return files, table
    return found[0] if found else None


def _images(files: Sequence[Path], column: str, count: int) -> EncodedImages:
    """Encoded bytes, or structs of ``bytes`` and ``path``, as Hugging Face stores images."""

    def stream() -> Iterator[tuple[str, bytes]]:
        for file in files:
            row = 0
            with open_parquet(file) as opened:
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


# -- NumPy archives ------------------------------------------------------------------------------


def find_npz(place: Path, options: ReadOptions) -> Found | None:
    """An ``.npz`` file, or a folder with exactly one."""
    files = [place] if place.is_file() else sorted(place.glob("*.npz"))
    if len(files) != 1 or files[0].suffix != ".npz":
        return None
    return Found("NumPy archive", (files[0],), lambda: _read_npz(files[0]))


def _read_npz(file: Path) -> RawData:
    """Keys: ``x_train``, ``y_train`` and, for a test part, ``x_test``, ``y_test``; or ``inputs``,
    ``labels``, ``test_inputs``, ``test_labels``. Optional: ``ids``, ``test_ids``, ``classes``.
    Inputs are uint8 images (n, H, W, 3), (n, H, W, 1) or (n, H, W); tables (n, d); or n strings.
    """
    arrays = read_arrays(file)
    keys = next((keys for keys in _ARRAY_KEYS if keys[0] in arrays), None)
    if keys is None:
        raise InputError(f"{file} has neither 'x_train' nor 'inputs'; it has {first_few(arrays)}.")
    x, y, x_test, y_test = keys

    def part(x: str, y: str, ids: str) -> tuple[Kind, RawPart]:
        try:
            kind, inputs = as_inputs(arrays[x])
        except InputError as error:
            raise InputError(f"{file}, {x!r}: {error}") from None
        labels = pa.array(arrays[y].reshape(-1)) if y in arrays else None
        return kind, RawPart(inputs, labels, arrays[ids].reshape(-1) if ids in arrays else None)

    kind, train = part(x, y, "ids")
    test_kind, test = part(x_test, y_test, "test_ids") if x_test in arrays else (kind, None)
    if test_kind != kind:
        raise InputError(f"{file}: {x_test!r} and {x!r} are not of the same kind.")
    names = tuple(str(name) for name in arrays.get("classes", ()))
    return RawData(kind, train, test, names)


# -- folders of images ---------------------------------------------------------------------------


def find_class_folders(place: Path, options: ReadOptions) -> Found | None:
    """Images sorted into one folder per class, as ImageNet comes.

    ``train/<class>/*`` and ``test/<class>/*`` or ``val/<class>/*``; or the class folders alone,
    which are then all training. An image's id is its path inside the dataset's folder.
    """
    if not place.is_dir():
        return None
    train = place / "train"
    if not (train.is_dir() and any(class_files(train).values())):
        train = place  # "train" may be a class, beside "bus" and "plane"
    classes = class_files(train)
    if not any(classes.values()):
        return None
    test: dict[str, list[Path]] = {}
    if train != place:
        names = ("test", *_VALIDATION_NAMES)
        folder = next((place / name for name in names if (place / name).is_dir()), None)
        test = class_files(folder) if folder else {}
        _check_test(folder, test, classes)
    files = tuple(file for part in (classes, test) for group in part.values() for file in group)

    def part(groups: dict[str, list[Path]]) -> RawPart:
        files = [file for group in groups.values() for file in group]
        ids = text_array([file.relative_to(place).as_posix() for file in files])
        number = {name: i for i, name in enumerate(classes)}
        y = np.repeat([number[name] for name in groups], [len(g) for g in groups.values()])
        return RawPart(image_files(files), pa.array(y), ids)

    def read() -> RawData:
        test_part = part(test) if any(test.values()) else None
        return RawData("image", part(classes), test_part, tuple(classes))

    return Found("class folders", files, read)


def find_images(place: Path, options: ReadOptions) -> Found | None:
    """Unlabeled images side by side in one folder; an image's id is the name of its file."""
    if not place.is_dir():
        return None
    files = [Path(e.path) for e in os.scandir(place) if e.is_file() and _is_image(e.name)]
    if not files:
        return None
    files.sort()
    if any(class_files(place).values()):
        raise InputError(
            f"{place} holds {len(files)} images beside folders of images, such as {files[0].name}; "
            "put all of them into folders, or none."
        )
    if options.labeled:
        raise InputError(
            f"{place} holds images but no class folders; put the images of each class into a "
            "folder with its name."
        )
    ids = text_array([file.name for file in files])
    return Found(
        "image files",
        tuple(files),
        lambda: RawData("image", RawPart(image_files(files), None, ids)),
    )


def class_files(folder: Path) -> dict[str, list[Path]]:
    """Each subfolder's images, those of its own subfolders too, all in order of their names."""
    entries = sorted(os.scandir(folder), key=lambda e: e.name)
    return {
        entry.name: _images_below(entry.path)
        for entry in entries
        if entry.is_dir() and not entry.name.startswith(".")
    }


def _is_image(name: str) -> bool:
    return name.lower().endswith(IMAGE_SUFFIXES)


def _images_below(folder: str) -> list[Path]:
    found = []
    # walk, not glob: there may be a million files.
    for inside, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        found += [Path(inside, name) for name in sorted(filter(_is_image, names))]
    return found


def _check_test(
    folder: Path | None, test: dict[str, list[Path]], classes: dict[str, list[Path]]
) -> None:
    if folder is None:
        return
    strange = [name for name in test if name not in classes]
    if strange:
        raise InputError(f"{folder} has classes that train/ lacks: {first_few(strange)}.")
    if not any(test.values()) and any(_is_image(e.name) for e in folder.iterdir()):
        raise InputError(f"{folder} holds images, not class folders; sort them into their classes.")
