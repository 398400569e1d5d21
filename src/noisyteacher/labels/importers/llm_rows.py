"""What an import of answers gathers: the rows with a label, and a list of the others."""

from __future__ import annotations

import os
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import orjson

from noisyteacher.core.errors import InputError
from noisyteacher.core.files import temporary_sibling
from noisyteacher.io.ids import repeated_ids, whole_numbers

_LONGEST_ANSWER = 500


class GatheredRows(NamedTuple):
    """Unique ids (n,), and which of the m different labels each has."""

    ids: npt.NDArray[Any]
    label: npt.NDArray[np.int32]  # (n,)
    probs: npt.NDArray[np.float32]  # (m, L), sum to 1
    missing: npt.NDArray[np.float32]  # (m,), mass that no class got
    repeated: int  # ids with several rows, of which the mean counts


class LlmRows:
    """Ids and labels of the rows that have one.

    Answers repeat, so that a label which many rows share is kept once. Rows come in blocks, each of
    which becomes arrays: memory holds few Python objects.
    """

    def __init__(self, classes: int) -> None:
        self._classes = classes
        self._ids: list[npt.NDArray[Any]] = []
        self._labels = [np.empty(0, np.int32)]
        self._new: list[float] = []  # mass of labels kept since the last block
        self._mass: list[npt.NDArray[np.float32]] = []
        self._different = 0

    def keep(self, mass: list[float]) -> int:
        """A label that rows may share: L probabilities that need not sum to 1; gives its number."""
        self._new += mass
        self._different += 1
        return self._different - 1

    def add(self, ids: npt.NDArray[Any], labels: npt.NDArray[np.int32]) -> None:
        """A block of rows: clean ids, and the numbers of their labels."""
        if not len(ids):
            return
        if self._ids and self._ids[0].dtype.kind != ids.dtype.kind:
            raise InputError("ids must be all strings or all integers, got a mix of both.")
        self._ids.append(ids)
        self._labels.append(labels)
        self._mass.append(np.array(self._new, np.float32).reshape(-1, self._classes))
        self._new = []

    def __len__(self) -> int:
        return sum(map(len, self._ids))

    def counts(self) -> npt.NDArray[np.int64]:
        """(m,) how many rows have each label."""
        return np.bincount(np.concatenate(self._labels), minlength=self._different)

    def take(self, *, int_ids: bool = False) -> GatheredRows:
        """All rows; those of one id become their mean, at the place of the first.

        They are held no longer here. ``int_ids``: ids such as "17" are numbers.
        """
        new = np.array(self._new, np.float32).reshape(-1, self._classes)
        ids, label = np.concatenate(self._ids), np.concatenate(self._labels)
        mass = np.concatenate([*self._mass, new])
        for blocks in (self._ids, self._labels, self._mass):
            blocks.clear()
        if int_ids:
            ids = whole_numbers(ids)
        repeats = 0
        if repeated_ids(ids):
            first: dict[Any, int] = {}
            group = np.array([first.setdefault(name, len(first)) for name in ids.tolist()])
            counts = np.bincount(group)
            sums = np.zeros((len(counts), self._classes))
            np.add.at(sums, group, mass[label])
            mass = (sums / counts[:, None]).astype(np.float32)
            label = np.arange(len(counts), dtype=np.int32)
            ids, repeats = ids[np.unique(group, return_index=True)[1]], int((counts > 1).sum())
        total = mass.sum(axis=1)
        mass /= total[:, None]
        return GatheredRows(ids, label, mass, np.clip(1 - total, 0, 1), repeats)


def rejected_path(store: Path) -> Path:
    """The path of a store's rejected examples: ``labels.rejected.jsonl`` for ``labels``."""
    return store.with_name(f"{store.name}.rejected.jsonl")


class RejectedList(ExitStack):
    """A JSON Lines file that appears under its name only by ``commit``, whole.

    Without a path nothing is written.
    """

    def __init__(self, path: Path | None) -> None:
        super().__init__()
        self._path = path
        self.lines = 0  # so far
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._temporary = self.enter_context(temporary_sibling(path))
            self._file = self.enter_context(self._temporary.open("wb"))

    def add(
        self, name: Any, file: Path, line: int, reason: str, answer: str, kept: bool = False
    ) -> None:
        """One example; ``kept`` says that it has a label in the store all the same."""
        if self._path is None:
            return
        entry = {"id": name, "file": str(file), "line": line, "reason": reason}
        entry |= {"answer": answer[:_LONGEST_ANSWER], "kept": kept}
        self._file.write(orjson.dumps(entry, option=orjson.OPT_APPEND_NEWLINE))
        self.lines += 1

    def commit(self) -> None:
        """Put the list in its place; an empty one removes what an earlier import left there."""
        if self._path is None:
            return
        if not self.lines:
            self._path.unlink(missing_ok=True)
            return
        self._file.flush()
        os.fsync(self._file.fileno())
        self._temporary.replace(self._path)
