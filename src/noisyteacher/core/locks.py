"""A lock between processes that the system releases when its holder dies."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from noisyteacher.core.errors import InputError

try:
    import fcntl
except ImportError:  # Windows: without it nothing is locked
    fcntl = None  # type: ignore[assignment]

_UNSUPPORTED = (errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP)  # some network file systems


def rank() -> int:
    """The number of this process among those that torchrun started; the first, 0, writes files."""
    return int(os.environ.get("RANK", "0"))


@contextmanager
def hold_lock(
    path: str | Path, what: str = "", remedy: str = "", *, wait: bool = False
) -> Iterator[None]:
    """Hold the lock file ``path``; where another process holds it, refuse at once, or ``wait``.

    ``what`` names the locked thing and ``remedy`` what else the user can do. The file is removed
    at the end; one that a killed process left behind locks nothing.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    file = None if fcntl is None else _lock(path, what, remedy, wait)
    try:
        yield
    finally:
        if file is not None:
            try:
                path.unlink(missing_ok=True)
            finally:
                os.close(file)


def _lock(path: Path, what: str, remedy: str, wait: bool) -> int | None:
    while True:
        file = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
            if _is_file(path, file):
                os.truncate(file, 0)
                os.write(file, str(os.getpid()).encode())
                return file
        except BlockingIOError:
            holder = os.read(file, 20).decode(errors="replace")
            os.close(file)
            process = f"another process ({holder})" if holder else "another process"
            raise InputError(
                f"{what} is in use by {process}; wait until it has ended, or {remedy}."
            ) from None
        except OSError as error:
            os.close(file)
            if error.errno not in _UNSUPPORTED:
                raise
            return None
        # Its former holder removed the file between our opening and locking it.
        os.close(file)


def _is_file(path: Path, file: int) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(file))
    except FileNotFoundError:
        return False
