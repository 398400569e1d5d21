"""Top-k selection, float16 rounding and the one normalization that every reader shares.

Log-probabilities are rounded to float16 once, when labels are made. From then on the rounded values
are the labels: order, ties, probabilities and files all follow from them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch

# float32 holds exp(-87) at full precision and not much less; below it two stored values could
# differ while their probabilities tie, so such classes count as impossible.
LOWEST_LOGPROB = -87.0

_BLOCK_VALUES = 1 << 20

# exp of every float16 that is <= 0, looked up by its bits without the sign. A table gives the same
# probabilities on every machine, and is faster than exp.
_EXP_OF_MINUS_HALF = np.exp(
    -np.arange(0x7C01, dtype=np.uint16).view(np.float16).astype(np.float64)
).astype(np.float32)


class TopK(NamedTuple):
    """The stored part of some rows.

    ``indices`` (n, k) unsigned; ``logprobs`` (n, k) float16, descending, the lower class first in a
    tie; ``tail`` (n,) float32. ``exp(logprobs)`` and ``tail`` sum to 1 only up to the rounding.
    """

    indices: npt.NDArray[Any]
    logprobs: npt.NDArray[np.float16]
    tail: npt.NDArray[np.float32]


class LogAndProbs(NamedTuple):
    """A block of rows, both ways: (b, L) log-probabilities and (b, L) probabilities."""

    log_probs: npt.NDArray[np.floating[Any]]
    probs: npt.NDArray[np.floating[Any]]


def index_dtype(classes: int) -> np.dtype[Any]:
    """The smallest unsigned type that can name every class."""
    return np.min_scalar_type(classes - 1)


def row_blocks(rows: int, width: int) -> Iterator[slice]:
    """Cut ``rows`` rows of ``width`` values into slices small enough for the processor's cache."""
    size = max(1, _BLOCK_VALUES // width)
    for start in range(0, rows, size):
        yield slice(start, min(start + size, rows))


def compress(blocks: Iterable[LogAndProbs], rows: int, classes: int, k: int) -> TopK:
    """Keep the top ``k`` classes and the tail of every row; ``blocks`` cover the rows in order.

    The ``probs`` of the blocks are used as scratch space.
    """
    top = TopK(
        np.empty((rows, k), index_dtype(classes)),
        np.empty((rows, k), np.float16),
        np.zeros(rows, np.float32),
    )
    start = 0
    for block in blocks:
        stop = start + len(block.probs)
        kept = _keep_top(block, k)
        top.indices[start:stop] = kept.indices
        top.logprobs[start:stop] = kept.logprobs
        top.tail[start:stop] = kept.tail
        start = stop
    return top


def _keep_top(block: LogAndProbs, k: int) -> TopK:
    classes = block.probs.shape[1]
    keys = _sort_keys(block.log_probs, np.arange(classes), classes)
    if k < classes:
        keys = np.partition(keys, k - 1, axis=1)[:, :k]
    index, logprob = _read_keys(np.sort(keys, axis=1), classes)
    if k == classes:
        return TopK(index, logprob, np.zeros(len(index), np.float32))
    where = index.astype(np.intp)
    kept_mass = np.take_along_axis(block.probs, where, axis=1).sum(axis=1, dtype=np.float64)
    # The rest is summed itself: 1 - kept would leave rounding noise where the rest is exactly 0.
    np.put_along_axis(block.probs, where, 0.0, axis=1)
    tail_mass = block.probs.sum(axis=1, dtype=np.float64)
    return TopK(index, logprob, _storable_tail(logprob, kept_mass, tail_mass, classes - k))


def compress_given(
    index: npt.NDArray[Any],
    probs: npt.NDArray[np.floating[Any]],
    tail_mass: npt.NDArray[np.float64],
    classes: int,
) -> TopK:
    """Order and round classes that somebody else selected; rows with their tail sum to 1."""
    keys = _sort_keys(logs(probs), index, classes)
    ordered, logprob = _read_keys(np.sort(keys, axis=1), classes)
    kept_mass = probs.sum(axis=1, dtype=np.float64)
    tail = _storable_tail(logprob, kept_mass, tail_mass, classes - index.shape[1])
    return TopK(ordered, logprob, tail)


def logs(probs: npt.NDArray[np.floating[Any]]) -> npt.NDArray[np.floating[Any]]:
    """Logarithms; that of 0 is -inf."""
    with np.errstate(divide="ignore"):
        result: npt.NDArray[np.floating[Any]] = np.log(probs)
    return result


def _sort_keys(
    log_probs: npt.NDArray[np.floating[Any]], index: npt.NDArray[Any], classes: int
) -> npt.NDArray[Any]:
    """One integer per entry whose ascending order is: higher float16 first, then lower class.

    Without the sign, the bits of float16 values <= 0 grow as the value falls. With the class in
    the low bits no two keys of a row are equal, so that a partition cannot break ties wrongly.
    """
    clipped = np.minimum(log_probs, 0.0)
    clipped[clipped < LOWEST_LOGPROB] = -np.inf
    # The same rounding as NumPy's, several times faster.
    halves: npt.NDArray[np.float16] = torch.from_numpy(clipped).half().numpy()
    key_type, shift = _key_layout(classes)
    keys: npt.NDArray[Any] = _bits_without_sign(halves).astype(key_type)
    keys <<= shift
    keys |= index.astype(key_type)
    return keys


def _read_keys(
    keys: npt.NDArray[Any], classes: int
) -> tuple[npt.NDArray[Any], npt.NDArray[np.float16]]:
    key_type, shift = _key_layout(classes)
    index = (keys & ((key_type(1) << shift) - key_type(1))).astype(index_dtype(classes))
    bits = (keys >> shift).astype(np.uint16)
    # A probability of 1 stays +0, not -0.
    return index, np.where(bits == 0, bits, bits | np.uint16(0x8000)).view(np.float16)


def _key_layout(classes: int) -> tuple[type[np.uint32] | type[np.uint64], Any]:
    if classes <= 1 << 16:
        return np.uint32, np.uint32(16)
    return np.uint64, np.uint64(32)


def _storable_tail(
    logprob: npt.NDArray[np.float16],
    kept_mass: npt.NDArray[np.float64],
    tail_mass: npt.NDArray[np.float64],
    classes_not_stored: int,
) -> npt.NDArray[np.float32]:
    """The tail in the units of the rounded values, so that normalizing gives back its share.

    Spread over the classes not stored it stays below the last stored class: rounding may have
    lowered that one, and the order of the dense probabilities must remain the stored order.
    """
    rounded = exp_of(logprob)
    tail = tail_mass * rounded.sum(axis=1, dtype=np.float64) / kept_mass
    highest = rounded[:, -1].astype(np.float64) * classes_not_stored * (1 - 1e-6)
    storable: npt.NDArray[np.float32] = np.minimum(tail, highest).astype(np.float32)
    return storable


def exp_of(logprob: npt.NDArray[np.float16]) -> npt.NDArray[np.float32]:
    """exp of stored log-probabilities, not yet normalized."""
    result: npt.NDArray[np.float32] = _EXP_OF_MINUS_HALF.take(_bits_without_sign(logprob))
    return result


def _bits_without_sign(halves: npt.NDArray[np.float16]) -> npt.NDArray[np.uint16]:
    return halves.view(np.uint16) & np.uint16(0x7FFF)


def row_mass(
    logprob: npt.NDArray[np.float16], tail: npt.NDArray[np.float32]
) -> npt.NDArray[np.float32]:
    """(n,) what the stored values of each row sum to: 1 up to the float16 rounding."""
    mass = tail.astype(np.float64)
    for rows in row_blocks(*logprob.shape):
        mass[rows] += exp_of(logprob[rows]).sum(axis=1, dtype=np.float64)
    return mass.astype(np.float32)


def normalized(
    logprob: npt.NDArray[np.float16], mass: npt.NDArray[np.float32]
) -> npt.NDArray[np.float32]:
    """(n, k) probabilities of the stored classes; with the normalized tail they sum to 1."""
    probs = np.empty(logprob.shape, np.float32)
    for rows in row_blocks(*logprob.shape):
        np.divide(exp_of(logprob[rows]), mass[rows, None], out=probs[rows])
    return probs


def dense(
    index: npt.NDArray[Any],
    probs: npt.NDArray[np.float32],
    tail: npt.NDArray[np.float32],
    classes: int,
) -> npt.NDArray[np.float32]:
    """(n, L) probabilities, the tail spread evenly over the classes not stored."""
    k = index.shape[1]
    full = np.empty((len(index), classes), np.float32)
    for rows in row_blocks(len(index), classes):
        full[rows] = 0.0 if k == classes else (tail[rows] / np.float32(classes - k))[:, None]
        np.put_along_axis(full[rows], index[rows].astype(np.intp), probs[rows], axis=1)
    return full
