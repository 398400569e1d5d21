"""Ids in a file of their own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from noisyteacher.core.errors import InputError, first_few
from noisyteacher.labels.ids import clean_ids
from noisyteacher.labels.importers.lines import line_blocks


def read_ids(path: Path) -> npt.NDArray[Any]:
    """(n,) ids from a ``.npy`` file, or from a text file with one id on each line."""
    if path.suffix == ".npy":
        try:
            return clean_ids(np.load(path, allow_pickle=False))
        except (OSError, ValueError, EOFError) as error:
            raise InputError(f"{path} holds no ids: {error}") from error
    listed: list[str] = []
    try:
        for block in line_blocks(path):
            listed += [line.decode().rstrip("\r\n") for line in block.lines]
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}.") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not UTF-8 text: {error.reason}.") from error
    empty = [number for number, name in enumerate(listed, 1) if not name.strip()]
    if empty:
        raise InputError(f"{path} has no id on lines {first_few(empty)}.")
    if not listed:
        raise InputError(f"{path} is empty.")
    return clean_ids(listed)


def whole_numbers(ids: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """Ids such as "17" as the integers they spell."""
    try:
        return ids.astype(np.int64)
    except (ValueError, OverflowError):
        odd = [name for name in ids.tolist() if not _spells_int64(name)]
        raise InputError(f"the ids {first_few(odd)} are not whole numbers of 64 bits.") from None


def _spells_int64(name: str) -> bool:
    try:
        return -(2**63) <= int(name) < 2**63
    except ValueError:
        return False
