"""How sure the teacher seems of its top k: the margin, and the entropy with the top k as one.

Both are functions of the probabilities sorted downwards, p_(1) >= p_(2) >= ...:

    margin_k = p_(1) + ... + p_(k) - p_(k+1)
    H_k = -P_k log P_k - sum of p_(i) log p_(i) over i > k,   P_k = p_(1) + ... + p_(k)

Where a teacher put mass m on no class (an LLM's off-list answers), its probabilities were divided
by the rest, 1 - m. That mass is doubt: the margin is (1 - m) margin_k, and the entropy is
(1 - m) H_k + m log L, as if the teacher had no opinion in the share m.

Labels are read in blocks that fit the processor's cache, so a store is never made dense and no
array of pool rows x classes is ever built beside the one that was given.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Literal, TypeAlias

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from noisyteacher.core.errors import InputError
from noisyteacher.core.probabilities import check_probabilities
from noisyteacher.labels import TeacherLabels
from noisyteacher.labels.checks import as_array, check_shape
from noisyteacher.noise.isotonic import ArrayLike

Metric: TypeAlias = Literal["margin", "entropy"]
LabelsOrProbs: TypeAlias = TeacherLabels | Tensor | ArrayLike
RowIndex: TypeAlias = slice | np.ndarray

_BLOCK_BYTES = 1 << 23
ALL_ROWS = slice(None)


def confidence(
    labels_or_probs: LabelsOrProbs, k: int = 1, metric: str = "margin"
) -> np.ndarray | Tensor:
    """The covariate of the noise model, margin_k or -H_k of each row; higher is more confident.

    margin_k is the sum of the k highest probabilities minus the next one. H_k is the entropy with
    the k most probable classes counted as one class.

    Args:
        labels_or_probs: TeacherLabels, or dense probabilities of shape (n, L).
        k: from 1 to L-1, and below the number of stored probabilities.
        metric: "margin" or "entropy".

    Returns:
        float64, shape (n,); a torch tensor on the same device if the input is one.
    """
    checked = check_metric(metric)
    rows = read_teacher_rows(labels_or_probs)
    if not 1 <= k < rows.stored:
        raise InputError(
            f"k must be from 1 to {rows.stored - 1}, as each row has {rows.stored} probabilities, "
            f"but it is {k}."
        )
    values = np.array(covariates_by_size(rows, k, checked)[k - 1])
    if isinstance(labels_or_probs, Tensor):
        return torch.from_numpy(values).to(labels_or_probs.device)
    return values


def margin(labels_or_probs: LabelsOrProbs, k: int = 1) -> np.ndarray | Tensor:
    """margin_k of each row: the sum of its k highest probabilities minus the next, float64 (n,)."""
    return confidence(labels_or_probs, k, "margin")


def entropy(labels_or_probs: LabelsOrProbs, k: int = 1) -> np.ndarray | Tensor:
    """H_k of each row (see ``confidence``), float64 (n,); the tail is spread evenly."""
    return -confidence(labels_or_probs, k, "entropy")


def check_metric(metric: Any) -> Metric:
    """Refuse a metric that does not exist."""
    if metric == "margin":
        return "margin"
    if metric == "entropy":
        return "entropy"
    raise InputError(f'metric must be "margin" or "entropy", but it is {metric!r}.')


def covariates_by_size(
    rows: TeacherRows, sizes: int, metric: Metric
) -> Float[np.ndarray, "sizes n"]:
    """The covariates of every row, one array row for each k from 1 to ``sizes``."""
    by_size = np.empty((sizes, len(rows)))

    def fill(part: slice, block: Block) -> None:
        by_size[:, part] = covariates(block, sizes, metric).T

    rows.each_block(fill)
    return by_size


def covariates(
    block: Block, sizes: int, metric: Metric, rows: RowIndex = ALL_ROWS
) -> Float[np.ndarray, "m sizes"]:
    """What the isotonic fits look at: margin_k or -H_k for k = 1 to ``sizes``, float64.

    Sums run from the largest probability down in float64, so a row gives the same bits whatever
    the block it comes in and however many sizes are asked for.
    """
    top = block.top(sizes + 1, rows)
    mass = np.cumsum(top[:, :-1], axis=1, dtype=np.float64)
    missing = None if block.missing is None else block.missing[rows, None].astype(np.float64)
    if metric == "margin":
        mass -= top[:, 1:]
        return mass if missing is None else (1 - missing) * mass
    ahead = top[:, :-1].astype(np.float64)
    behind = block.plogp(rows)[:, None] - np.cumsum(times_log(ahead, ahead), axis=1)
    found = np.asarray(times_log(mass, mass) + behind)
    if missing is None:
        return found
    return np.asarray((1 - missing) * found - missing * np.log(block.num_classes))


# -- teacher labels, block by block --------------------------------------------------------------


def times_log(weight: np.ndarray, prob: np.ndarray) -> np.ndarray:
    """weight * log(prob), 0 where both are 0; several times faster than scipy's xlogy."""
    return np.asarray(weight * np.log(np.maximum(prob, np.finfo(np.float64).tiny)))


class DenseBlock:
    """Dense probabilities, clean and in C order, shape (m, L)."""

    missing = None  # all mass is on classes

    def __init__(self, probs: np.ndarray) -> None:
        self._probs = probs
        self.num_classes = probs.shape[1]
        # Up to here torch keeps a small heap per row; beyond it, a whole sort costs no more.
        self.cheap_width = max(2, min(8, probs.shape[1] // 64))

    def top(self, width: int, rows: RowIndex = ALL_ROWS) -> Float[np.ndarray, "m width"]:
        """The ``width`` largest probabilities of each row, largest first."""
        probs = self._probs[rows]
        if width <= self.cheap_width:
            return torch.topk(torch.from_numpy(probs), width, dim=1).values.numpy()
        return np.sort(probs, axis=1)[:, : -width - 1 : -1]

    def plogp(self, rows: RowIndex = ALL_ROWS) -> Float[np.ndarray, " m"]:
        """Sum over all classes of p log p, float64."""
        probs = self._probs[rows].astype(np.float64)
        return np.asarray(times_log(probs, probs).sum(axis=1))

    def top_class(self) -> Int[np.ndarray, " m"]:
        """The teacher's first choice; of equal ones, the lower index."""
        return np.asarray(self._probs.argmax(axis=1))

    def rank(self, y: Int[np.ndarray, " m"]) -> Int[np.ndarray, " m"]:
        """The place of class y in the teacher's order, 0 first; of equal ones, the lower index."""
        truth = y[:, None]
        p_truth = np.take_along_axis(self._probs, truth, axis=1)
        before = np.arange(self._probs.shape[1]) < truth
        ahead = (self._probs > p_truth) | ((self._probs == p_truth) & before)
        return np.asarray(ahead.sum(axis=1))


class StoredBlock:
    """Rows of a label store: the top K probabilities and the mass of all other classes."""

    def __init__(self, labels: TeacherLabels) -> None:
        self._index = labels.topk_index
        self._prob = labels.topk_prob
        self._tail = labels.tail
        self.num_classes = labels.num_classes
        self._spread = max(1, labels.num_classes - labels.k)
        # Mass on no class, before the rest was divided by its sum; None where there is none.
        self.missing = labels.missing if labels.missing.any() else None
        self.cheap_width = min(32, labels.k)

    def top(self, width: int, rows: RowIndex = ALL_ROWS) -> Float[np.ndarray, "m width"]:
        """The ``width`` largest probabilities of each row, largest first."""
        return self._prob[rows, :width]

    def plogp(self, rows: RowIndex = ALL_ROWS) -> Float[np.ndarray, " m"]:
        """Sum over all classes of p log p, the tail spread evenly, float64."""
        prob = self._prob[rows].astype(np.float64)
        tail = self._tail[rows].astype(np.float64)
        return np.asarray(times_log(prob, prob).sum(axis=1) + times_log(tail, tail / self._spread))

    def top_class(self) -> Int[np.ndarray, " m"]:
        """The teacher's first choice."""
        return np.asarray(self._index[:, 0], dtype=np.int64)

    def rank(self, y: Int[np.ndarray, " m"]) -> Int[np.ndarray, " m"]:
        """The place of class y in the teacher's order, 0 first; K when it is not stored."""
        found = self._index == y[:, None]
        return np.asarray(np.where(found.any(axis=1), found.argmax(axis=1), self._index.shape[1]))


Block: TypeAlias = DenseBlock | StoredBlock


class TeacherRows:
    """What the teacher said of ``len(rows)`` examples, to be read block by block."""

    def __init__(self, source: TeacherLabels | np.ndarray) -> None:
        self._source = source
        self.classes: tuple[str, ...] | None = None  # their names, where the labels have any
        if isinstance(source, TeacherLabels):
            self.num_classes, self.stored, self.classes = (
                source.num_classes,
                source.k,
                source.classes,
            )
        else:
            self.num_classes = self.stored = source.shape[1]

    def __len__(self) -> int:
        return len(self._source)

    def each_block(self, work: Callable[[slice, Block], None]) -> None:
        """Call ``work(rows, block)`` on every block, on as many threads as torch may use."""
        size = max(1, _BLOCK_BYTES // (8 * self.stored))

        def run(start: int, piece: TeacherLabels | np.ndarray) -> None:
            block = StoredBlock(piece) if isinstance(piece, TeacherLabels) else DenseBlock(piece)
            work(slice(start, start + len(piece)), block)

        starts, pieces = range(0, len(self), size), self._pieces(size)
        # NumPy lets go of the interpreter lock while it sorts and adds.
        with ThreadPoolExecutor(torch.get_num_threads()) as pool:
            apply = pool.map if len(starts) > 1 else map
            for _ in apply(run, starts, pieces):
                pass

    def _pieces(self, size: int) -> Iterator[TeacherLabels] | Iterator[np.ndarray]:
        source = self._source
        if isinstance(source, TeacherLabels):
            return source.chunks(size)
        return (source[start : start + size] for start in range(0, len(source), size))


def read_teacher_rows(labels_or_probs: LabelsOrProbs) -> TeacherRows:
    """Check what the user gave and make its rows readable."""
    if isinstance(labels_or_probs, TeacherLabels):
        return TeacherRows(labels_or_probs)
    given = as_array(labels_or_probs, "Teacher probabilities")
    check_shape(given, "Teacher probabilities", ("n", "L"))
    if given.shape[1] < 2:
        raise InputError(f"Teacher probabilities need at least 2 classes, got {given.shape[1]}.")
    if isinstance(given, Tensor):
        given = (given if given.dtype == torch.float64 else given.float()).cpu().numpy()
    elif given.dtype != np.float64:
        given = given.astype(np.float32, copy=False)
    probs = np.ascontiguousarray(given)
    rows = TeacherRows(probs)

    def check(part: slice, _: Block) -> None:
        named = "Teacher probabilities row {}".format
        check_probabilities(probs[part], named, first_row=part.start)

    rows.each_block(check)
    return rows
