"""What an import of answers gathers: the rows with a label, and a list of the others."""

from __future__ import annotations

import os
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import orjson

from noisyteacher.core.errors import InputError
from noisyteacher.core.files import temporary_sibling
from noisyteacher.io.ids import clean_ids

_LONGEST_ANSWER = 500


class LlmRows:
    """Ids, class probabilities and missing mass of the rows with a label.

    They are packed into arrays block by block, so that memory holds no Python objects.
    """

    def __init__(self, classes: int) -> None:
        self._classes = classes
        self._names: list[Any] = []
        self._mass: list[float] = []
        self._packed_ids: list[npt.NDArray[Any]] = []
        self._packed_mass: list[npt.NDArray[np.float32]] = []
        self._count = 0

    def add(self, name: str | int, mass: list[float]) -> None:
        """One row: L probabilities that need not sum to 1."""
        self._names.append(name)
        self._mass += mass

    def pack(self, at_least: int = 1) -> None:
        """Turn the rows added since the last time into arrays, if there are so many."""
        if len(self._names) < at_least:
            return
        ids = clean_ids(self._names)
        if self._packed_ids and self._packed_ids[0].dtype.kind != ids.dtype.kind:
            raise InputError("ids must be all strings or all integers, got a mix of both.")
        self._packed_ids.append(ids)
        self._packed_mass.append(np.array(self._mass, np.float32).reshape(-1, self._classes))
        self._count += len(ids)
        self._names, self._mass = [], []

    def __len__(self) -> int:
        return self._count + len(self._names)

    def take_ids(self) -> npt.NDArray[Any]:
        """(n,) int64 or str; they are held no longer here."""
        self.pack()
        ids = np.concatenate(self._packed_ids)
        self._packed_ids.clear()
        return ids

    def take_probs(
        self, ids: npt.NDArray[Any]
    ) -> tuple[npt.NDArray[Any], npt.NDArray[np.float32], npt.NDArray[np.float32], int]:
        """Unique ids, (n, L) probabilities that sum to 1, (n,) mass that no class got, and repeats.

        Rows of one id are averaged, at the place of the first; the last value counts such ids. The
        rows are held no longer here.
        """
        mass = np.concatenate(self._packed_mass)
        self._packed_mass.clear()
        repeats = 0
        if len(set(ids.tolist())) < len(ids):
            first: dict[Any, int] = {}
            group = np.array([first.setdefault(name, len(first)) for name in ids.tolist()])
            counts = np.bincount(group)
            sums = np.zeros((len(counts), self._classes))
            np.add.at(sums, group, mass)
            mass = (sums / counts[:, None]).astype(np.float32)
            ids, repeats = ids[np.unique(group, return_index=True)[1]], int((counts > 1).sum())
        total = mass.sum(axis=1)
        mass /= total[:, None]
        return ids, mass, np.clip(1 - total, 0, 1), repeats


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
            self._open = ExitStack()
            self._temporary = self._open.enter_context(temporary_sibling(path))
            self._file = self._open.enter_context(self._temporary.open("wb"))

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
            self._open.close()
