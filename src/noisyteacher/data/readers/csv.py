"""CSV tables: one label column, perhaps an id column, and text or numeric features.

A single file is all training; ``train.csv`` and ``test.csv`` in a folder are the two parts.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.csv as pa_csv

from noisyteacher.data.columns import source_from_tables
from noisyteacher.data.readers.parts import PartFiles, by_part
from noisyteacher.data.source import Found, ReadOptions, Source
from noisyteacher.errors import InputError


def find(place: Path, options: ReadOptions) -> Found | None:
    """A CSV file, or a folder that holds some."""
    files = [place] if place.is_file() else list(place.glob("*.csv"))
    if not files or files[0].suffix != ".csv":
        return None
    parts = PartFiles((place,), (), ()) if place.is_file() else by_part(files)
    return Found("CSV", parts.all, lambda: _read(parts, options))


def _read(parts: PartFiles, options: ReadOptions) -> Source:
    train = _table(parts.train)
    test_files = parts.test or parts.validation
    test = _table(test_files) if test_files else None
    return source_from_tables(train, test, options, str(parts.train[0]))


def _table(files: tuple[Path, ...]) -> pa.Table:
    reading = pa_csv.ParseOptions(newlines_in_values=True)
    try:
        return pa.concat_tables([pa_csv.read_csv(file, parse_options=reading) for file in files])
    except (OSError, pa.ArrowException) as error:
        names = ", ".join(str(file) for file in files)
        raise InputError(f"{names} cannot be read as a table: {error}") from error
