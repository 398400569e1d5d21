"""Find a data set on disk, recognize its layout and read it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, cast

import numpy as np
import pyarrow as pa

from noisyteacher.core.errors import InputError, first_few
from noisyteacher.core.locks import hold_lock
from noisyteacher.data.cache import cache_folder, fingerprint, open_cache, write_cache
from noisyteacher.data.dataset import Dataset, feature_statistics
from noisyteacher.data.downloads import find_celeba, find_cifar, find_imdb, read_digits
from noisyteacher.data.layouts import (
    Found,
    RawData,
    RawPart,
    ReadOptions,
    find_class_folders,
    find_images,
    find_npz,
    find_parquet,
    find_text_tables,
)
from noisyteacher.io.classes import number_classes
from noisyteacher.io.formats import stem_of
from noisyteacher.io.ids import row_ids
from noisyteacher.io.images import EncodedImages
from noisyteacher.io.user_tables import FileOptions

BUNDLED = "digits"

# The first that recognizes a place reads it: from the most particular layout to the least.
_FINDERS = (
    find_cifar,
    find_celeba,
    find_imdb,
    find_parquet,
    find_npz,
    find_text_tables,
    find_class_folders,
)
_LAYOUTS = (
    "Parquet shards, a CIFAR python archive, train/ and val/ with class folders, CelebA's lists, "
    "aclImdb, an .npz file, CSV files"
)
# Names under which the official downloads lie in a data folder.
_OTHER_NAMES = {
    "cifar10": ("cifar-10-batches-py", "cifar-10-python.tar.gz"),
    "cifar100": ("cifar-100-python", "cifar-100-python.tar.gz"),
    "imdb": ("aclImdb",),
    "celeba": ("CelebA",),
    "imagenet": ("ImageNet", "ILSVRC2012"),
}


def load_dataset(
    name_or_path: str | Path,
    data: str | Path | None = None,
    cache: str | Path | None = None,
    *,
    label_column: str | None = None,
    id_column: str | None = None,
    text_column: str | None = None,
    labeled: bool = True,
    attribute: str = "Male",
    image_size: int | None = None,
) -> Dataset:
    """Read a dataset: a name inside the data folder, a path, or the bundled ``"digits"``.

    Whole numbers in tables and archives are class numbers, -1 if the class is unknown.

    Args:
        name_or_path: what to read.
        data: the data folder; by default the environment variable ``NOISYTEACHER_DATA``.
        cache: the folder for decoded images; by default ``NOISYTEACHER_CACHE``, or
            ``~/.cache/noisyteacher``.
        label_column, id_column, text_column: columns of tables. By default the label is ``label``,
            ``fine_label``, ``target``, ``class`` or ``y``, the id is ``id``, and the text is
            ``text``. Rows without ids get "train/0", "train/1", ...
        labeled: whether to read labels; with False, the tables need not have any.
        attribute: the attribute of CelebA that is the label.
        image_size: the side of the stored images; by default the size that all images share,
            otherwise 256, or 32 if all are below 64 (64 for CelebA).
    """
    if image_size is not None and image_size < 1:
        raise InputError(f"image_size must be at least 1, not {image_size}.")
    options = ReadOptions(
        id_column, text_column, label_column, image_size, labeled=labeled, attribute=attribute
    )
    if str(name_or_path) == BUNDLED:
        return _dataset(BUNDLED, read_digits(), options, BUNDLED)
    place = _locate(name_or_path, data)
    name = place.resolve().name.removesuffix(".tar.gz")
    name = stem_of(Path(name)) if place.is_file() else name
    return _load(place, _recognize(place, options), name, options, cache)


def read_examples(
    path: str | Path,
    options: FileOptions | None = None,
    *,
    labeled: bool = True,
    features: Sequence[str] = (),
) -> Dataset:
    """Read a user's file or folder as a dataset whose rows are all in the training part.

    Labels are class names, also if they are whole numbers: only the teacher's labels tell the names
    of the classes. Rows without ids are named after their file, "pool/0", "pool/1", ..., so that
    they have the same ids when a file is labeled and when it is used for distillation.

    ``labeled=False`` reads no labels: y is -1. A column that is usually a label is then left out,
    unless it is one of ``features``, the columns that a labeled file has.
    """
    place, files = Path(path).expanduser(), options or FileOptions()
    if not place.exists():
        raise InputError(f"There is no file or folder {place}.")
    if place.is_dir() and files.text_column is not None:
        raise InputError(
            f"{place} is a folder; text_column= (--text-column) applies to files: name one."
        )
    name = stem_of(place)
    reading = ReadOptions(
        **asdict(files),
        labeled=labeled,
        features=tuple(features),
        rows_named=name,
        numbers_are_names=True,
    )
    found = find_images(place, reading) or _recognize(place, reading)
    read = _load(place, found, name, reading)
    if len(read.test_ids):
        raise InputError(
            f"{place} has a training part of {len(read)} rows and a test part of "
            f"{len(read.test_ids)}: name the one that is meant, as a file or folder of its own."
        )
    return read


def _locate(name_or_path: str | Path, data: str | Path | None) -> Path:
    folder = data or os.environ.get("NOISYTEACHER_DATA")
    names = (str(name_or_path), *_OTHER_NAMES.get(str(name_or_path), ()))
    places = [Path(folder).expanduser() / name for name in names] if folder else []
    places += [Path(folder).expanduser()] if folder and Path(folder).name in names else []
    places.append(Path(name_or_path).expanduser())
    for place in places:
        if place.exists():
            return place
    looked = ", ".join(str(place) for place in places)
    hint = (
        "The folder may be the data set's own, called by one of these names, or the one above it."
        if folder
        else "Give its folder, or the one above it, as data=, --data or NOISYTEACHER_DATA."
    )
    raise InputError(f"No dataset {str(name_or_path)!r}: looked for {looked}. {hint}")


def _recognize(place: Path, options: ReadOptions) -> Found:
    for find in _FINDERS:
        found = find(place, options)
        if found is not None:
            return found
    if place.is_dir():
        entries = sorted(entry.name for entry in place.iterdir())
        seen = f"it holds {first_few(entries)}" if entries else "it is empty"
    else:
        seen = f"it is a file that ends in {place.suffix!r}"
    raise InputError(f"{place} is not a dataset in a known layout ({_LAYOUTS}): {seen}.")


def _load(
    place: Path, found: Found, name: str, options: ReadOptions, cache: str | Path | None = None
) -> Dataset:
    folder = cache_folder(cache) / f"{name}-{fingerprint(found, place, options)[:16]}"
    if (cached := open_cache(folder)) is not None:
        return cached
    raw = found.read()
    if len(raw.train.inputs) == 0:
        raise InputError(f"{place} ({found.layout}) has no training rows.")
    made = _dataset(name, raw, options, place)
    if raw.kind != "image":
        return made
    with hold_lock(folder.with_name(f".{folder.name}.lock"), wait=True):
        if (cached := open_cache(folder)) is None:  # another process may have made it meanwhile
            write_cache(folder, made, options.image_size or raw.image_size)
            cached = open_cache(folder)
    assert cached is not None
    return cached


def _dataset(name: str, raw: RawData, options: ReadOptions, place: Path | str) -> Dataset:
    """Number the classes, and name rows without ids; images stay encoded."""
    inputs: Any = raw.train.inputs
    nothing = EncodedImages(0, lambda: iter(())) if raw.kind == "image" else inputs[:0]
    parts = (raw.train, raw.test or RawPart(nothing))
    y, classes = [np.full(len(part.inputs), -1) for part in parts], raw.names
    if options.labeled and raw.train.labels is not None:
        y, classes = number_classes(
            [pa.nulls(len(p.inputs)) if p.labels is None else p.labels for p in parts],
            f"{place}: the label column",
            raw.names,
            numbers_are_names=options.numbers_are_names,
        )
    ids = [
        row_ids(options.rows_named or part, len(p.inputs)) if p.ids is None else p.ids
        for p, part in zip(parts, ("train", "test"), strict=True)
    ]
    mean, std = feature_statistics(inputs) if raw.kind == "table" else ((), ())
    return Dataset(
        name=name,
        kind=raw.kind,
        ids=ids[0],
        inputs=inputs,
        y=y[0],
        test_ids=ids[1],
        test_inputs=cast(Any, parts[1].inputs),
        test_y=y[1],
        classes=classes,
        mean=mean,
        std=std,
        features=raw.features,
        class_label=raw.class_label,
    )
