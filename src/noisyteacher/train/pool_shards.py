"""A pool that does not fit in memory: its inputs and teacher labels on disk.

What a method makes of the labels (targets, α, k) is computed once, shard by shard, and kept beside
them. Linear students read sparse features: a shard when its turn comes, dropped afterwards, so that
any number of rows needs the memory of one shard. Networks read rows of memory-mapped files.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.sparse import csr_matrix, issparse

from noisyteacher.core.errors import InputError
from noisyteacher.data import Inputs
from noisyteacher.data.tensors import parts_of, rows_in
from noisyteacher.labels import TeacherLabels
from noisyteacher.labels.manifest import LABEL_COLUMNS
from noisyteacher.methods import EXTRAS, Columns, Method, Rows, fit_and_prepare
from noisyteacher.methods.method import inner_methods
from noisyteacher.train.solver import Block, Design, Features


def is_streamable(method: Method) -> bool:
    """Whether a method needs no more than the labels of one shard at a time."""
    return not any(one.whole_pool or one.needs & EXTRAS for one in inner_methods(method))


def check_streamable(method: Method) -> None:
    """Refuse a method that compares the rows of the pool, or needs more of them than labels."""
    if not is_streamable(method):
        raise InputError(
            f"{method!r} needs the whole pool in memory and cannot read it in shards; leave it "
            "out, or use a smaller pool without --stream."
        )


class _LabelShards:
    """The teacher's labels of a pool, written once; rows keep their order."""

    def __init__(self, folder: Path, labels: TeacherLabels) -> None:
        """``labels`` are any of the teacher's; their classes and k hold for all shards."""
        self._folder = folder
        self._like = labels.at(slice(0, 0))
        self._sizes: list[int] = []
        self._written = hashlib.sha256()
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)

    @property
    def rows(self) -> int:
        """How many pool rows there are."""
        return sum(self._sizes)

    def __len__(self) -> int:
        return len(self._sizes)

    def digest(self) -> bytes:
        """Tells the pool from another one: of all that was written so far."""
        return self._written.digest()

    def _write(self, path: Path, array: np.ndarray) -> None:
        np.save(path, array)
        self._written.update(np.ascontiguousarray(array).data)

    def _add_labels(self, labels: TeacherLabels) -> Path:
        """Write the labels of the next shard; gives its folder."""
        folder = self._folder / f"shard-{len(self._sizes):06d}"
        folder.mkdir()
        for name in LABEL_COLUMNS:
            self._write(folder / f"{name}.npy", getattr(labels, name))
        self._sizes.append(len(labels))
        return folder

    def labels(self, shard: int) -> TeacherLabels:
        """The labels of a shard; a row's id is its number in the pool."""
        first = sum(self._sizes[:shard])
        ids = np.arange(first, first + self._sizes[shard])
        columns: dict[str, Any] = {name: self._array(shard, name) for name in LABEL_COLUMNS}
        return replace(self._like, ids=ids, extras={}, **columns)

    def _columns(self, method: Method, rows: Rows, labels: TeacherLabels) -> Iterator[Columns]:
        """What a method makes of each shard; ``rows`` and ``labels`` hold V, for the fits.

        The noise model is fitted on the same rows for every shard, and so is the same.
        """
        check_streamable(method)
        # Rows of the pool are numbered from 0 on, those of V below 0.
        val_ids = -1 - np.arange(len(rows.val_ids))
        val = replace(labels.take(rows.val_ids), ids=val_ids, extras={})
        for shard in range(len(self)):
            own = self.labels(shard)
            unknown = np.full(len(own), -1, np.int64)
            some = Rows(own.ids, unknown, val_ids, rows.val_y, rows.classes)
            yield fit_and_prepare(method, some, own.followed_by([val])).columns

    def _array(self, shard: int, name: str) -> np.ndarray:
        path = self._folder / f"shard-{shard:06d}" / f"{name}.npy"
        found: np.ndarray = np.load(path, mmap_mode="r")
        return found


class PoolShards(_LabelShards):
    """A pool of sparse features, written once with ``add``, and read as often as needed."""

    def __init__(self, folder: Path, width: int, labels: TeacherLabels) -> None:
        super().__init__(folder, labels)
        self.width = width
        self._squares = np.zeros(width)

    def add(self, x: csr_matrix, labels: TeacherLabels) -> None:
        """Write the next shard: (n, width) features and the labels of the same rows."""
        if not len(labels):
            return
        folder = self._add_labels(labels)
        x = x.copy()
        x.eliminate_zeros()  # padding
        self._write(folder / "data.npy", x.data)
        self._write(folder / "indices.npy", x.indices.astype(np.int32))
        self._write(folder / "indptr.npy", x.indptr.astype(np.int32))
        self._squares += np.asarray(x.multiply(x).sum(0)).ravel()

    def features(self, shard: int) -> csr_matrix:
        """(n, width) features of a shard, memory-mapped."""
        parts = [self._array(shard, name) for name in ("data", "indices", "indptr")]
        return csr_matrix(tuple(parts), shape=(self._sizes[shard], self.width))

    def design(self, gold: Features) -> Design:
        """The coordinates of the search, from the gold rows (g, width) and the whole pool."""
        assert issparse(gold)
        squares = self._squares + np.asarray(gold.multiply(gold).sum(0)).ravel()
        return Design(gold, squares / (self.rows + gold.shape[0]))

    def prepare(self, method: Method, rows: Rows, labels: TeacherLabels) -> PreparedPool:
        """What a method makes of the pool; ``rows`` and ``labels`` hold V, for the fits."""
        folder = self._folder / "columns"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        constants = {}
        for shard, columns in enumerate(self._columns(method, rows, labels)):
            constants = columns.constants
            place = folder / f"shard-{shard:06d}"
            place.mkdir()
            np.save(place / "index.npy", columns.index.numpy())
            np.save(place / "weight.npy", columns.weight.numpy())
            for name, value in columns.values.items():
                np.save(place / f"value-{name}.npy", value.numpy())
        return PreparedPool(self, folder, constants)


class PoolTensors(_LabelShards):
    """A pool as a network reads it, in memory-mapped files that begin with the gold rows."""

    def __init__(self, folder: Path, gold: Inputs, labels: TeacherLabels) -> None:
        super().__init__(folder, labels)
        self.first = rows_in(gold)  # the place of the first pool row
        self._several = isinstance(gold, tuple)
        self._files: list[_RowFile] = []
        self._append(gold)

    def add(self, inputs: Inputs, labels: TeacherLabels) -> None:
        """Write the next rows and their labels."""
        if len(labels):
            self._append(inputs)
            self._add_labels(labels)

    def _append(self, inputs: Inputs) -> None:
        parts = [part.numpy() for part in parts_of(inputs)]
        if not self._files:
            names = (self._folder / f"inputs-{i}.bin" for i in range(len(parts)))
            self._files = [_RowFile(*each) for each in zip(names, parts, strict=True)]
        for file, part in zip(self._files, parts, strict=True):
            file.append(part)
            self._written.update(np.ascontiguousarray(part).data)

    def inputs(self) -> Inputs:
        """Gold rows, then pool rows."""
        parts = tuple(file.read() for file in self._files)
        return parts if self._several else parts[0]

    def prepare(self, method: Method, rows: Rows, labels: TeacherLabels) -> Columns:
        """What a method makes of the gold ``rows`` and, after them, of the pool."""
        gold = fit_and_prepare(method, rows, labels).columns
        files = {
            name: _RowFile(self._folder / f"value-{name}.bin", value.numpy())
            for name, value in gold.values.items()
        }
        index, weight, drops, first = [gold.index], [gold.weight], False, len(rows)
        for file, value in zip(files.values(), gold.values.values(), strict=True):
            file.append(value.numpy())
        for size, some in zip(self._sizes, self._columns(method, rows, labels), strict=True):
            index.append(some.index + first)
            weight.append(some.weight)
            for name, file in files.items():
                file.append(some.values[name].numpy())
            drops |= some.rows_per_epoch > 0
            first += size
        kept = torch.cat(index)
        y = torch.full((len(kept),), -1)
        y[: len(gold)] = gold.y
        values = {name: file.read() for name, file in files.items()}
        return Columns(kept, y, torch.cat(weight), values, gold.constants, first if drops else 0)


class _RowFile:
    """Rows of one shape and type, appended to a file and read memory-mapped."""

    def __init__(self, path: Path, like: np.ndarray) -> None:
        self._path, self._dtype, self._shape = path, like.dtype, like.shape[1:]
        path.write_bytes(b"")

    def append(self, rows: np.ndarray) -> None:
        """Bags of words may be narrower, and wider ones end with the smallest values."""
        if rows.shape[1:] != self._shape:
            fitting = np.zeros((len(rows), *self._shape), self._dtype)
            width = min(rows.shape[1], self._shape[0])
            fitting[:, :width] = rows[:, :width]
            rows = fitting
        with self._path.open("ab") as file:
            file.write(np.ascontiguousarray(rows, self._dtype).data)

    def read(self) -> torch.Tensor:
        # Copy-on-write: nothing is written, and tensors of read-only memory give warnings.
        flat = np.memmap(self._path, self._dtype, "c")
        return torch.from_numpy(flat.reshape(-1, *self._shape))


class PreparedPool:
    """The blocks of a pool for one method, read from disk in every pass."""

    def __init__(
        self, shards: PoolShards, folder: Path, constants: dict[str, torch.Tensor]
    ) -> None:
        self._shards, self._folder, self._constants = shards, folder, constants

    def __iter__(self) -> Iterator[Block]:
        for shard in range(len(self._shards)):
            place = self._folder / f"shard-{shard:06d}"
            index, weight = np.load(place / "index.npy"), np.load(place / "weight.npy")
            values = {
                file.stem.removeprefix("value-"): torch.from_numpy(np.load(file))
                for file in sorted(place.glob("value-*.npy"))
            }
            x = self._shards.features(shard)
            if len(index) < x.shape[0]:
                x = x[index]
            columns = Columns(
                torch.arange(len(index)),
                torch.full((len(index),), -1),
                torch.from_numpy(weight),
                values,
                self._constants,
            )
            yield Block(x, x.T, columns)
