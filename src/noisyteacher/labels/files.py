"""Files that are either there, whole, or not there."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO


def temporary_sibling(path: Path) -> Path:
    """An unused hidden name in the same folder, from which ``path`` can be renamed into place."""
    return path.with_name(f".{path.name}.tmp-{secrets.token_hex(4)}")


def write_durably(path: Path, write: Callable[[BinaryIO], object]) -> None:
    """Let ``write`` fill a new file, and return once its bytes are on the disk."""
    with path.open("xb") as file:
        write(file)
        file.flush()
        os.fsync(file.fileno())


def replace_file(path: Path, content: bytes) -> None:
    """Write ``path`` in one step: a reader, or a crash, finds the old content or the new."""
    temporary = temporary_sibling(path)
    try:
        write_durably(temporary, lambda file: file.write(content))
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Make renames inside ``folder`` durable, where the system has a way to."""
    if os.name == "nt":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
