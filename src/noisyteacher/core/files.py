"""Names of files, and writing so that a killed process leaves the old or the new, never half."""

from __future__ import annotations

import hashlib
import os
import re
import tempfile
from pathlib import Path
from typing import BinaryIO

import orjson


def plain_name(text: str) -> str:
    """Text as (a part of) a file name; other texts may share it."""
    return re.sub(r"[^A-Za-z0-9.]+", "-", text).strip("-")


def slug(text: str) -> str:
    """As ``plain_name``; a hash tells apart what differs only in signs that were lost."""
    plain = plain_name(text)
    return f"{plain[:80]}-{hashlib.sha256(text.encode()).hexdigest()[:6]}" if plain else ""


def write_atomic(path: str | Path, content: bytes) -> None:
    """Write ``content`` under a temporary name in the same folder, flush it, then rename."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).chmod(0o644)  # mkstemp makes it private to its owner
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def append_line(path: str | Path, line: bytes) -> None:
    """Append a line of JSON and flush it to disk: a row that was written stays written.

    What a writer that was killed inside the last line left of it is dropped first: a row appended
    to it would be lost with it.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+b") as file:
        _end_last_line(file)
        file.write(line.rstrip(b"\n") + b"\n")
        file.flush()
        os.fsync(file.fileno())


def _end_last_line(file: BinaryIO) -> None:
    size = file.seek(0, os.SEEK_END)
    if size == 0:
        return
    file.seek(size - 1)
    if file.read(1) == b"\n":
        return
    file.seek(0)
    content = file.read()
    whole = content.rfind(b"\n") + 1
    try:
        orjson.loads(content[whole:])
    except orjson.JSONDecodeError:
        file.truncate(whole)
    else:
        file.write(b"\n")  # only its end was missing
