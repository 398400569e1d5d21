"""The list of answers that were no plain label, beside the store."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import orjson

_LONGEST_ANSWER = 500


def rejected_path(store: Path) -> Path:
    """Where the list of a label store stands: ``labels`` has ``labels.rejected.jsonl``."""
    return store.with_name(f"{store.name}.rejected.jsonl")


class RejectedList:
    """A JSON Lines file that appears under its name only by ``commit``, whole.

    Without a path nothing is written.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._lines = 0
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
            self._file = os.fdopen(handle, "wb")
            self._temporary = Path(name)

    def add(
        self, name: Any, file: Path, line: int, reason: str, answer: str, kept: bool = False
    ) -> None:
        """One example; ``kept`` says that it has a label in the store all the same."""
        if self._path is None:
            return
        entry = {
            "id": name,
            "file": str(file),
            "line": line,
            "reason": reason,
            "answer": answer[:_LONGEST_ANSWER],
            "kept": kept,
        }
        self._file.write(orjson.dumps(entry, option=orjson.OPT_APPEND_NEWLINE))
        self._lines += 1

    def commit(self) -> None:
        """Put the list in its place; an empty one removes what an earlier import left there."""
        if self._path is None:
            return
        if not self._lines:
            self._path.unlink(missing_ok=True)
            return
        self._file.flush()
        os.fsync(self._file.fileno())
        self._temporary.chmod(0o644)  # mkstemp makes it private to its owner
        self._temporary.replace(self._path)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._path is not None:
            self._file.close()
            self._temporary.unlink(missing_ok=True)
