"""One view of what the teacher said, dense or stored: its rows, largest probabilities first."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeAlias

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy.typing import ArrayLike
from scipy.special import xlogy
from torch import Tensor

from noisyteacher.errors import InputError
from noisyteacher.labels import TeacherLabels

LabelsOrProbs: TypeAlias = TeacherLabels | Tensor | ArrayLike
Index: TypeAlias = slice | np.ndarray

ROW_SUM_TOLERANCE = 1e-3
CHUNK_BYTES = 1 << 23


class DenseRows:
    """Validated dense probabilities, shape (n, L)."""

    def __init__(self, probs: np.ndarray) -> None:
        self._probs = _check_probs(probs)
        self.num_classes = self._probs.shape[1]
        self.stored = self.num_classes

    def __len__(self) -> int:
        return len(self._probs)

    @property
    def cheap_width(self) -> int:
        """How many of the top probabilities are had for much less than a whole sort."""
        return max(2, min(8, self.num_classes // 64))

    def top(self, rows: Index, width: int) -> Float[np.ndarray, "m width"]:
        """The ``width`` largest probabilities of each row, largest first."""
        probs = self._probs[rows]
        if width <= self.cheap_width:
            return torch.topk(torch.from_numpy(probs), width, dim=1).values.numpy()
        return np.sort(probs, axis=1)[:, : -width - 1 : -1]

    def plogp(self, rows: Index) -> Float[np.ndarray, " m"]:
        """Sum over all classes of p log p, float64."""
        probs = self._probs[rows].astype(np.float64)
        return np.asarray(xlogy(probs, probs).sum(axis=1))

    def top_class(self) -> Int[np.ndarray, " n"]:
        """The teacher's first choice; of equal ones, the lower index."""
        return self._probs.argmax(axis=1)

    def rank(self, y: Int[np.ndarray, " n"]) -> Int[np.ndarray, " n"]:
        """The place of class y in the teacher's order, 0 first; of equal ones, the lower index."""
        rank = np.empty(len(y), dtype=np.int64)
        columns = np.arange(self.num_classes)
        for rows in chunks(len(y), self._probs[:1].nbytes):
            probs, truth = self._probs[rows], y[rows, None]
            p_truth = np.take_along_axis(probs, truth, axis=1)
            ahead = (probs > p_truth) | ((probs == p_truth) & (columns < truth))
            rank[rows] = ahead.sum(axis=1)
        return rank


class StoredRows:
    """The rows of a label store: the top K probabilities and the mass of all other classes."""

    def __init__(self, labels: TeacherLabels) -> None:
        self.num_classes = labels.num_classes
        self.stored = labels.k
        self._prob = labels.topk_prob
        self._index = labels.topk_index
        self._tail = labels.tail

    def __len__(self) -> int:
        return len(self._prob)

    @property
    def cheap_width(self) -> int:
        """How many of the top probabilities are had for much less than a whole sort."""
        return self.stored

    def top(self, rows: Index, width: int) -> Float[np.ndarray, "m width"]:
        """The ``width`` largest probabilities of each row, largest first."""
        return self._prob[rows, :width]

    def plogp(self, rows: Index) -> Float[np.ndarray, " m"]:
        """Sum over all classes of p log p, the tail spread evenly, float64."""
        prob = self._prob[rows].astype(np.float64)
        tail = self._tail[rows].astype(np.float64)
        spread = max(1, self.num_classes - self.stored)
        return np.asarray(xlogy(prob, prob).sum(axis=1) + xlogy(tail, tail / spread))

    def top_class(self) -> Int[np.ndarray, " n"]:
        """The teacher's first choice."""
        return self._index[:, 0].astype(np.int64)

    def rank(self, y: Int[np.ndarray, " n"]) -> Int[np.ndarray, " n"]:
        """The place of class y in the teacher's order, 0 first; K when it is not stored."""
        found = self._index == y[:, None]
        return np.where(found.any(axis=1), found.argmax(axis=1), self.stored)


TeacherRows: TypeAlias = DenseRows | StoredRows


def read_rows(labels_or_probs: LabelsOrProbs) -> TeacherRows:
    """Check what the user gave and make its rows readable."""
    if isinstance(labels_or_probs, TeacherLabels):
        return StoredRows(labels_or_probs)
    if isinstance(labels_or_probs, Tensor):
        tensor = labels_or_probs.detach().cpu()
        # NumPy has no bfloat16, and float16 is too coarse to sum in.
        tensor = tensor.float() if tensor.dtype in (torch.float16, torch.bfloat16) else tensor
        return DenseRows(tensor.numpy())
    return DenseRows(np.asarray(labels_or_probs))


def chunks(rows: int, row_bytes: int) -> Iterator[slice]:
    """Slices of a size that stays in the processor's cache."""
    step = max(1, CHUNK_BYTES // max(1, row_bytes))
    return (slice(start, min(start + step, rows)) for start in range(0, rows, step))


def each_chunk(work: Callable[[slice], None], rows: int, row_bytes: int) -> None:
    """Call ``work`` on every chunk, on as many threads as torch may use."""
    # NumPy lets go of the interpreter lock while it sorts and adds.
    threads = min(torch.get_num_threads(), os.cpu_count() or 1)
    with ThreadPoolExecutor(threads) as pool:
        for _ in pool.map(work, chunks(rows, row_bytes)):
            pass


def _check_probs(probs: np.ndarray) -> np.ndarray:
    if probs.ndim != 2:
        raise InputError(
            f"Teacher probabilities must have shape (n, L), but they have shape {probs.shape}."
        )
    if probs.shape[1] < 2:
        raise InputError(f"Teacher probabilities need at least 2 classes, not {probs.shape[1]}.")
    if probs.dtype.kind != "f":
        raise InputError(f"Teacher probabilities must be floats, but they are {probs.dtype}.")
    if probs.dtype not in (np.float32, np.float64):
        probs = probs.astype(np.float32)
    probs = np.ascontiguousarray(probs)
    each_chunk(lambda rows: _check_chunk(probs[rows], rows.start), len(probs), probs[:1].nbytes)
    return probs


def _check_chunk(probs: np.ndarray, first_row: int) -> None:
    total = probs.sum(axis=1)
    off = ~(np.abs(total - 1) <= ROW_SUM_TOLERANCE)
    if off.any():
        row = int(off.argmax())
        if not np.isfinite(probs[row]).all():
            raise InputError(f"Row {first_row + row} of the teacher probabilities is not finite.")
        if not (probs[row] < 0).any():
            raise InputError(
                f"Row {first_row + row} of the teacher probabilities sums to {total[row]:.6g}, "
                "not to 1."
            )
    if probs.min() < 0:
        row = int((probs < 0).any(axis=1).argmax())
        raise InputError(f"Row {first_row + row} of the teacher probabilities has a negative entry.")
