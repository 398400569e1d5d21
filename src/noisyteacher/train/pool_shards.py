"""A pool that does not fit in memory: sparse features and teacher labels in shards on disk.

A shard is read when its turn comes and dropped afterwards, so that a linear student of any number
of rows needs the memory of one shard. What a method makes of the labels (targets, α, k) is computed
once, shard by shard, and kept beside them.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from scipy.sparse import csr_matrix, issparse

from noisyteacher.core.errors import InputError
from noisyteacher.labels import TeacherLabels
from noisyteacher.methods import Columns, Method, Rows, fit_and_prepare
from noisyteacher.methods.method import inner_methods
from noisyteacher.train.solver import Block, Design, Features

_LABELS = ("topk_index", "topk_logprob", "stored_tail", "missing")


def check_streamable(method: Method) -> None:
    """Refuse a method that compares the rows of the pool with each other."""
    for one in inner_methods(method):
        if one.whole_pool:
            raise InputError(
                f"{one!r} needs the whole pool in memory and cannot read it in shards; leave it "
                "out, or use a smaller pool without --stream."
            )


class PoolShards:
    """The pool, written once with ``add``, and read as often as needed; rows keep their order."""

    def __init__(self, folder: Path, width: int, labels: TeacherLabels) -> None:
        """``labels`` are any of the teacher's; their classes and k hold for all shards."""
        self._folder, self.width = folder, width
        self._like = labels.at(slice(0, 0))
        self._sizes: list[int] = []
        self._squares = np.zeros(width)
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)

    @property
    def rows(self) -> int:
        """How many pool rows there are."""
        return sum(self._sizes)

    def add(self, x: csr_matrix, labels: TeacherLabels) -> None:
        """Write the next shard: (n, width) features and the labels of the same rows."""
        if not len(labels):
            return
        folder = self._folder / f"shard-{len(self._sizes):06d}"
        folder.mkdir()
        x = x.copy()
        x.eliminate_zeros()  # padding
        np.save(folder / "data.npy", x.data)
        np.save(folder / "indices.npy", x.indices.astype(np.int32))
        np.save(folder / "indptr.npy", x.indptr.astype(np.int32))
        for name in _LABELS:
            np.save(folder / f"{name}.npy", getattr(labels, name))
        self._squares += np.asarray(x.multiply(x).sum(0)).ravel()
        self._sizes.append(len(labels))

    def __len__(self) -> int:
        return len(self._sizes)

    def features(self, shard: int) -> csr_matrix:
        """(n, width) features of a shard, memory-mapped."""
        parts = [self._array(shard, name) for name in ("data", "indices", "indptr")]
        return csr_matrix(tuple(parts), shape=(self._sizes[shard], self.width))

    def labels(self, shard: int) -> TeacherLabels:
        """The labels of a shard; a row's id is its number in the pool."""
        first = sum(self._sizes[:shard])
        return replace(
            self._like,
            ids=np.arange(first, first + self._sizes[shard]),
            topk_index=self._array(shard, "topk_index"),
            topk_logprob=self._array(shard, "topk_logprob"),
            stored_tail=self._array(shard, "stored_tail"),
            missing=self._array(shard, "missing"),
            extras={},
        )

    def design(self, gold: Features) -> Design:
        """The coordinates of the search, from the gold rows (g, width) and the whole pool."""
        assert issparse(gold)
        squares = self._squares + np.asarray(gold.multiply(gold).sum(0)).ravel()
        return Design(gold, squares / (self.rows + gold.shape[0]))

    def prepare(self, method: Method, rows: Rows, labels: TeacherLabels) -> PreparedPool:
        """What a method makes of the pool; ``rows`` and ``labels`` hold V, which fits are made on.

        The noise model is fitted on the same rows for every shard, and so is the same.
        """
        check_streamable(method)
        # Rows of the pool are numbered from 0 on, those of V below 0.
        val_ids = -1 - np.arange(len(rows.val_ids))
        val = replace(labels.take(rows.val_ids), ids=val_ids, extras={})
        folder = self._folder / "columns"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        constants = {}
        for shard in range(len(self)):
            own = self.labels(shard)
            unknown = np.full(len(own), -1, np.int64)
            some = Rows(own.ids, unknown, val_ids, rows.val_y, rows.classes)
            columns = fit_and_prepare(method, some, own.followed_by([val])).columns
            constants = columns.constants
            place = folder / f"shard-{shard:06d}"
            place.mkdir()
            np.save(place / "index.npy", columns.index.numpy())
            np.save(place / "weight.npy", columns.weight.numpy())
            for name, value in columns.values.items():
                np.save(place / f"value-{name}.npy", value.numpy())
        return PreparedPool(self, folder, constants)

    def _array(self, shard: int, name: str) -> np.ndarray:
        path = self._folder / f"shard-{shard:06d}" / f"{name}.npy"
        found: np.ndarray = np.load(path, mmap_mode="r")
        return found


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
