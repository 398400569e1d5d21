"""Find a dataset on disk, recognise its layout and read it."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from noisyteacher.core.errors import InputError, first_few
from noisyteacher.data.cache import cache_folder, fingerprint, locked, open_cache, write_cache
from noisyteacher.data.dataset import Dataset
from noisyteacher.data.readers import celeba, cifar, csv, digits, folders, imdb, npz, parquet
from noisyteacher.data.source import EncodedImages, Found, ReadOptions, Source
from noisyteacher.data.statistics import feature_statistics

BUNDLED = "digits"

# The first that recognises a place reads it: from the most particular layout to the least.
_FINDERS = (cifar.find, celeba.find, imdb.find, parquet.find, npz.find, csv.find, folders.find)
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
    label: str | None = "auto",
    id_column: str | None = "auto",
    attribute: str = "Male",
    image_size: int | None = None,
    numbers_are_names: bool = False,
) -> Dataset:
    """Read a dataset: a name inside the data folder, a path, or the bundled ``"digits"``.

    ``data`` is the data folder (else the variable ``NOISYTEACHER_DATA``), ``cache`` the folder for
    decoded images (else ``NOISYTEACHER_CACHE``, else ``~/.cache/noisyteacher``). ``label`` and
    ``id_column`` name columns of tables and Parquet files; "auto" finds ``label``, ``fine_label``,
    ``target``, ``class`` or ``y``, and ``id``; None says there is none. Rows without ids get
    "train/0", "train/1", ... ``attribute`` is CelebA's label. ``image_size`` is the side of stored
    images; by default the size that a source's images share, else 256, or 32 where all are below 64
    (64 for CelebA). ``numbers_are_names`` takes the labels 0, 1, ... of tables and archives for
    class names, as text is, and -1 too, which is else unknown.
    """
    if image_size is not None and image_size < 1:
        raise InputError(f"image_size must be at least 1, not {image_size}.")
    if str(name_or_path) == BUNDLED:
        return _dataset(BUNDLED, digits.read())
    place = _locate(name_or_path, data)
    options = ReadOptions(label, id_column, attribute, image_size, numbers_are_names)
    found = _recognise(place, options)
    name = place.resolve().name
    if place.is_file():
        name = name.removesuffix(".tar.gz").removesuffix(place.suffix)
    folder = cache_folder(cache) / f"{name}-{fingerprint(found, place, options)[:16]}"
    if (cached := open_cache(folder)) is not None:
        return cached
    source = found.read()
    if len(source.train.ids) == 0:
        raise InputError(f"{place} ({found.layout}) has no training rows.")
    if source.kind != "image":
        return _dataset(name, source)
    with locked(folder):
        if (cached := open_cache(folder)) is None:  # another process may have made it meanwhile
            write_cache(folder, name, source, image_size)
            cached = open_cache(folder)
    assert cached is not None
    return cached


def _locate(name_or_path: str | Path, data: str | Path | None) -> Path:
    folder = data or os.environ.get("NOISYTEACHER_DATA")
    names = (str(name_or_path), *_OTHER_NAMES.get(str(name_or_path), ()))
    places = [Path(folder).expanduser() / name for name in names] if folder else []
    places.append(Path(name_or_path).expanduser())
    for place in places:
        if place.exists():
            return place
    looked = ", ".join(str(place) for place in places)
    hint = "" if folder else "; give the data folder (data=, --data or NOISYTEACHER_DATA)"
    raise InputError(f"No dataset {str(name_or_path)!r}: looked for {looked}{hint}.")


def _recognise(place: Path, options: ReadOptions) -> Found:
    for find in _FINDERS:
        found = find(place, options)
        if found is not None:
            return found
    if place.is_dir():
        entries = sorted(entry.name for entry in place.iterdir())
        seen = f"it holds {first_few(entries)}" if entries else "it is empty"
    else:
        seen = f"it is a file that ends in {place.suffix!r}"
    raise InputError(f"{place} is no dataset of a known layout ({_LAYOUTS}): {seen}.")


def _dataset(name: str, source: Source) -> Dataset:
    inputs, test_inputs = source.train.inputs, source.test.inputs
    assert not isinstance(inputs, EncodedImages)
    assert not isinstance(test_inputs, EncodedImages)
    mean, std = feature_statistics(inputs) if isinstance(inputs, np.ndarray) else ((), ())
    return Dataset(
        name=name,
        kind=source.kind,
        ids=source.train.ids,
        inputs=inputs,
        y=source.train.y,
        test_ids=source.test.ids,
        test_inputs=test_inputs,
        test_y=source.test.y,
        classes=source.classes,
        mean=mean,
        std=std,
        features=source.features,
    )
