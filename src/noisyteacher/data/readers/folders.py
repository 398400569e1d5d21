"""Images sorted into one folder per class, as ImageNet comes.

``train/<class>/*`` and ``test/<class>/*`` or ``val/<class>/*``; or the class folders alone, which
are then all training. An image's id is its path inside the dataset's folder.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from noisyteacher.core.errors import InputError, first_few
from noisyteacher.data.readers.parts import VALIDATION_NAMES
from noisyteacher.data.source import EncodedImages, Found, Part, ReadOptions, Source, no_rows

IMAGE_SUFFIXES = (
    *(".jpg", ".jpeg", ".jfif"),
    *(".png", ".webp", ".bmp", ".ppm", ".tif", ".tiff", ".gif"),
)


def find(place: Path, options: ReadOptions) -> Found | None:
    """A folder of class folders with images in them."""
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
        names = ("test", *VALIDATION_NAMES)
        folder = next((place / name for name in names if (place / name).is_dir()), None)
        test = class_files(folder) if folder else {}
        _check_test(folder, test, classes)
    files = tuple(file for part in (classes, test) for group in part.values() for file in group)
    return Found("class folders", files, lambda: _read(place, classes, test))


def class_files(folder: Path) -> dict[str, list[Path]]:
    """Each subfolder's images, those of its own subfolders too, all in order of their names."""
    entries = sorted(os.scandir(folder), key=lambda e: e.name)
    return {
        entry.name: _images_below(entry.path)
        for entry in entries
        if entry.is_dir() and not entry.name.startswith(".")
    }


def _images_below(folder: str) -> list[Path]:
    found = []
    # walk, not glob: there may be a million files.
    for inside, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        images = sorted(name for name in names if name.lower().endswith(IMAGE_SUFFIXES))
        found += [Path(inside, name) for name in images]
    return found


def _check_test(
    folder: Path | None, test: dict[str, list[Path]], classes: dict[str, list[Path]]
) -> None:
    if folder is None:
        return
    strange = [name for name in test if name not in classes]
    if strange:
        raise InputError(f"{folder} has classes that train/ lacks: {first_few(strange)}.")
    if not any(test.values()) and any(
        e.name.lower().endswith(IMAGE_SUFFIXES) for e in os.scandir(folder)
    ):
        raise InputError(f"{folder} holds images, not class folders; sort them into their classes.")


def _read(place: Path, train: dict[str, list[Path]], test: dict[str, list[Path]]) -> Source:
    classes = tuple(train)
    part = _part(place, train, classes)
    test_part = _part(place, test, classes) if any(test.values()) else no_rows(part.inputs)
    return Source("image", classes, part, test_part)


def _part(place: Path, groups: dict[str, list[Path]], classes: Sequence[str]) -> Part:
    files = [file for group in groups.values() for file in group]
    ids = np.array([file.relative_to(place).as_posix() for file in files], np.str_)
    y = np.repeat([classes.index(name) for name in groups], [len(g) for g in groups.values()])
    return Part(ids, y.astype(np.int64), image_files(files))


def image_files(files: Sequence[Path]) -> EncodedImages:
    """Image files, read one by one as they are decoded."""

    def stream() -> Iterator[tuple[str, bytes]]:
        for file in files:
            try:
                data = file.read_bytes()
            except OSError as error:
                raise InputError(f"Image {file} cannot be read: {error.strerror}.") from error
            yield str(file), data

    return EncodedImages(len(files), stream)
