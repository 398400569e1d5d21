"""What a reader finds and gives back, before images are decoded into the cache."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from noisyteacher.data.dataset import Kind


@dataclass(frozen=True)
class ReadOptions:
    """How to read a source.

    ``label`` and ``id_column`` name columns; "auto" looks for the usual names, None says there is
    none. ``attribute`` is CelebA's. ``image_size`` is the side of the stored images.
    ``numbers_are_names`` reads whole numbers as class names, for a teacher's classes to meet.
    """

    label: str | None = "auto"
    id_column: str | None = "auto"
    attribute: str = "Male"
    image_size: int | None = None
    numbers_are_names: bool = False


@dataclass(frozen=True)
class EncodedImages:
    """Image files as bytes, in order; ``stream`` opens a fresh pass of (name, bytes)."""

    count: int
    stream: Callable[[], Iterator[tuple[str, bytes]]]

    def __len__(self) -> int:
        return self.count


@dataclass(frozen=True)
class Part:
    """One part of a source; images are encoded, or uint8 (n, H, W, 3) already."""

    ids: np.ndarray
    y: np.ndarray
    inputs: np.ndarray | list[str] | EncodedImages


@dataclass(frozen=True)
class Source:
    """Both parts as read; ``image_size`` is the reader's own default side, if it has one."""

    kind: Kind
    classes: tuple[str, ...]
    train: Part
    test: Part
    image_size: int | None = None
    features: tuple[str, ...] = ()  # a table's columns


@dataclass(frozen=True)
class Found:
    """A layout that was recognised: the files it is made of, and how to read them."""

    layout: str
    files: tuple[Path, ...]
    read: Callable[[], Source]


def row_ids(part: str, count: int) -> np.ndarray:
    """(count,) ids for rows that have none: "train/0", "train/1", ..."""
    return np.array([f"{part}/{row}" for row in range(count)], dtype=np.str_)


def no_rows(like: np.ndarray | list[str] | EncodedImages) -> Part:
    """The test part of a dataset that has none."""
    nothing: np.ndarray | list[str] | EncodedImages
    if isinstance(like, EncodedImages):
        nothing = EncodedImages(0, lambda: iter(()))
    elif isinstance(like, list):
        nothing = []
    else:
        nothing = like[:0]
    return Part(np.empty(0, np.str_), np.empty(0, np.int64), nothing)
