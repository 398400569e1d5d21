"""Names of files, and writing so that a killed process leaves the old or the new, never half."""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from glob import escape
from pathlib import Path
from typing import BinaryIO

import orjson

try:
    import fcntl
except ImportError:  # Windows: left-overs of killed processes stay there
    fcntl = None  # type: ignore[assignment]

_TOKEN_BYTES = 4
_TOKEN = "[0-9a-f]" * (2 * _TOKEN_BYTES)


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
    with temporary_sibling(path) as temporary:
        with temporary.open("wb") as file:
            file.write(content)
            sync(file)
        temporary.replace(path)


def sync(file: BinaryIO) -> None:
    """Bring what was written onto the disk."""
    file.flush()
    os.fsync(file.fileno())


@contextmanager
def temporary_sibling(path: Path, *, folder: bool = False) -> Iterator[Path]:
    """An empty file or folder beside ``path`` under a hidden name, to be renamed to ``path``.

    Its writer holds a lock on it, which the system releases when the process ends. So whoever
    writes ``path`` next can tell what a killed writer has left behind, and removes it first.
    """
    remove_leftovers(path.parent, path.name)
    while True:
        temporary = path.with_name(f".{path.name}.tmp-{secrets.token_hex(_TOKEN_BYTES)}")
        if folder:
            temporary.mkdir()
        else:
            temporary.touch(0o644, exist_ok=False)
        lock = _lock(temporary, wait=True)
        if lock is None or os.path.lexists(temporary):
            break
        os.close(lock)  # removed as a left-over before it was locked
    try:
        yield temporary
    finally:
        _remove(temporary)
        if lock is not None:
            os.close(lock)


def remove_leftovers(folder: Path, name: str | None = None) -> None:
    """Remove what killed writers of ``name``, or of any name, left in a folder."""
    for left in folder.glob(f".{'*' if name is None else escape(name)}.tmp-{_TOKEN}"):
        lock = _lock(left, wait=False)
        if lock is not None:
            _remove(left)
            os.close(lock)


def _lock(path: Path, *, wait: bool) -> int | None:
    """A handle that holds the lock; None where another process does, or none can be had."""
    if fcntl is None:
        return None  # type: ignore[unreachable]
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    except OSError:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except OSError:
        os.close(handle)
        return None
    return handle


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):
            path.unlink(missing_ok=True)


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
        sync(file)


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
