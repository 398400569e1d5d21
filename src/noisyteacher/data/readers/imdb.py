"""The ``aclImdb`` folder of the Large Movie Review Dataset: one text file per review."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np

from noisyteacher.core.errors import InputError
from noisyteacher.data.source import Found, Part, ReadOptions, Source, no_rows

CLASSES = ("neg", "pos")


def find(place: Path, options: ReadOptions) -> Found | None:
    """``train/neg`` and ``train/pos`` with text files, here or in a folder ``aclImdb`` here."""
    for folder in (place, place / "aclImdb"):
        train, test = _files(folder / "train"), _files(folder / "test")
        if train:
            files = tuple(train + test)
            return Found("aclImdb", files, partial(_read, folder, train, test))
    return None


def _files(folder: Path) -> list[Path]:
    return [file for name in CLASSES for file in sorted((folder / name).glob("*.txt"))]


def _read(folder: Path, train: list[Path], test: list[Path]) -> Source:
    part = _part(folder, train)
    return Source("text", CLASSES, part, _part(folder, test) if test else no_rows(part.inputs))


def _part(folder: Path, files: list[Path]) -> Part:
    ids = [file.relative_to(folder).with_suffix("").as_posix() for file in files]
    y = np.array([CLASSES.index(file.parent.name) for file in files], np.int64)
    return Part(np.array(ids, np.str_), y, [_text(file) for file in files])


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{file} cannot be read as text: {error}.") from error
