"""Probabilities and logits from outside, checked and normalized a block of rows at a time."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
from torch import Tensor

from noisyteacher.core.errors import InputError
from noisyteacher.core.probabilities import check_probabilities
from noisyteacher.labels.checks import (
    ArrayLike,
    as_array,
    as_float,
    check_shape,
    clean_mass,
    row_name,
)
from noisyteacher.labels.topk import LogAndProbs, TopK, compress_given, logs, row_blocks

Numbers = npt.NDArray[Any] | Tensor


def blocks_of_probs(probs: Numbers, ids: npt.NDArray[Any]) -> Iterator[LogAndProbs]:
    """Check (n, L) probabilities and make their rows sum to 1."""
    for rows in row_blocks(*probs.shape):
        block = as_float(probs[rows])
        named = partial(row_name, "probs", ids=ids)
        total = check_probabilities(block, named, first_row=rows.start)
        block /= total.astype(block.dtype)[:, None]
        yield LogAndProbs(logs(block), block)


def blocks_of_logits(
    logits: Numbers, ids: npt.NDArray[Any], temperature: float
) -> Iterator[LogAndProbs]:
    """Check (n, L) logits, of which some may be -inf, and take their softmax."""
    for rows in row_blocks(*logits.shape):
        block = as_float(logits[rows])
        highest = block.max(axis=1, keepdims=True)
        finite = np.isfinite(highest[:, 0])
        if not finite.all():
            row = int(finite.argmin())
            problem = "has no finite logit" if highest[row] == -np.inf else "holds NaN or +infinity"
            raise InputError(f"{row_name('logits', rows.start + row, ids)} {problem}.")
        block -= highest
        block /= block.dtype.type(temperature)
        probs = np.exp(block)
        total = probs.sum(axis=1, dtype=np.float64)[:, None]
        block -= np.log(total).astype(block.dtype)
        probs /= total.astype(block.dtype)
        yield LogAndProbs(block, probs)


def compress_topk(
    index: ArrayLike, prob: ArrayLike, tail: ArrayLike, ids: npt.NDArray[Any], classes: int
) -> TopK:
    """Check (n, k) classes, their (n, k) probabilities and the (n,) mass of all others."""
    given_prob = as_array(prob, "prob")
    check_shape(given_prob, "prob", (len(ids), "k"))
    k = given_prob.shape[1]
    if not 1 <= k <= classes:
        raise InputError(f"prob must have between 1 and {classes} columns, got {k}.")
    given_index = _clean_index(index, ids, (len(ids), k), classes)
    tail_mass = clean_mass(tail, ids, "tail").astype(np.float64)
    probs = as_float(given_prob)
    total = check_probabilities(probs, partial(row_name, "prob and tail of", ids=ids), tail_mass)
    probs /= total.astype(probs.dtype)[:, None]
    tail_mass /= total
    _check_tail(probs, tail_mass, ids, classes)
    return compress_given(given_index, probs, tail_mass, classes)


def _clean_index(
    index: ArrayLike, ids: npt.NDArray[Any], shape: tuple[int, int], classes: int
) -> npt.NDArray[Any]:
    given = as_array(index, "index")
    check_shape(given, "index", shape)
    array = given.cpu().numpy() if isinstance(given, Tensor) else given
    if array.dtype.kind not in "iu":
        raise InputError(f"index must be integers, got {array.dtype}.")
    outside = ((array < 0) | (array >= classes)).any(axis=1)
    if outside.any():
        row = int(outside.argmax())
        raise InputError(f"{row_name('index', row, ids)} names a class outside 0 to {classes - 1}.")
    ordered = np.sort(array, axis=1)
    repeated = (ordered[:, 1:] == ordered[:, :-1]).any(axis=1)
    if repeated.any():
        row = int(repeated.argmax())
        raise InputError(f"{row_name('index', row, ids)} names a class twice.")
    return array


def _check_tail(
    probs: npt.NDArray[np.floating[Any]],
    tail_mass: npt.NDArray[np.float64],
    ids: npt.NDArray[Any],
    classes: int,
) -> None:
    """The stored classes are the top ones only if the tail fits below the last of them."""
    room = probs.min(axis=1).astype(np.float64) * (classes - probs.shape[1])
    too_much = tail_mass > room * 1.01 + 1e-3
    if too_much.any():
        row = int(too_much.argmax())
        raise InputError(
            f"{row_name('tail', row, ids)} is {tail_mass[row]:.6g}, more than the "
            f"{classes - probs.shape[1]} classes not stored can hold below the lowest stored "
            f"probability, {probs[row].min():.6g}."
        )
