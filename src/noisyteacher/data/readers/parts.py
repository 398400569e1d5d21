"""Which files are the training part and which the test part, by their names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from noisyteacher.core.errors import InputError, first_few

VALIDATION_NAMES = ("validation", "valid", "val")


@dataclass(frozen=True)
class PartFiles:
    """Files by part. A validation part serves as the test part where that has no labels."""

    train: tuple[Path, ...]
    test: tuple[Path, ...]
    validation: tuple[Path, ...]

    @property
    def all(self) -> tuple[Path, ...]:
        return self.train + self.test + self.validation


def by_part(files: Sequence[Path]) -> PartFiles:
    """Sort "train-00000-of-00002.parquet", "test/0000.parquet" and the like.

    Where no file is named after a part, all are training files; where some are, the others (such
    as "unsupervised") are left out.
    """
    train = _of_part(files, ("train",))
    test = _of_part(files, ("test",))
    validation = _of_part(files, VALIDATION_NAMES)
    if not (train or test or validation):
        return PartFiles(tuple(sorted(files)), (), ())
    if not train:
        names = first_few(sorted(f.name for f in files))
        raise InputError(f"{files[0].parent} has no training files; it has {names}.")
    return PartFiles(train, test, validation)


def _of_part(files: Sequence[Path], names: tuple[str, ...]) -> tuple[Path, ...]:
    starts = tuple(name + mark for name in names for mark in "-_.")
    return tuple(sorted(f for f in files if f.name.startswith(starts) or f.parent.name in names))
