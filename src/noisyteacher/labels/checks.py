"""What users hand in to make teacher labels, checked once; probabilities a block at a time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from numbers import Real
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from noisyteacher.core.errors import InputError
from noisyteacher.core.probabilities import check_probabilities
from noisyteacher.labels.topk import LogAndProbs, TopK, compress_given, logs, row_blocks

ArrayLike = npt.ArrayLike | Tensor
Numbers = npt.NDArray[Any] | Tensor

COLUMNS = ("id", "topk_index", "topk_logprob", "tail", "missing")
_VIEW_TEMPERATURES = 2


def as_array(values: ArrayLike, name: str) -> Numbers:
    """Numbers as a NumPy array or a detached tensor, on whatever device they are."""
    if isinstance(values, Tensor):
        if values.is_complex():
            raise InputError(f"{name} must be real numbers, got {values.dtype}.")
        return values.detach()
    if isinstance(values, np.ma.MaskedArray) and (masked := int(np.sum(values.mask))):
        raise InputError(
            f"{name} has {masked} masked values; give every row all its numbers, or leave it out."
        )
    try:
        array = np.asarray(values)
    except ValueError:
        raise InputError(f"{name} must be an array whose rows have one length.") from None
    if array.dtype.kind not in "fiub":
        raise InputError(f"{name} must be real numbers, got {array.dtype}.")
    return array


def as_float(array: Numbers) -> npt.NDArray[np.floating[Any]]:
    """A copy as float64 if it was float64, else as float32."""
    if isinstance(array, Tensor):
        kind = torch.float64 if array.dtype == torch.float64 else torch.float32
        return array.to("cpu", kind, copy=True).numpy()
    return np.array(array, dtype=np.float64 if array.dtype == np.float64 else np.float32)


def check_shape(array: Numbers, name: str, shape: tuple[int | str, ...]) -> None:
    """Compare with a shape whose free sides are names, as in ``(5, "L")``."""
    actual = tuple(array.shape)
    wanted = [a if isinstance(s, str) else s for s, a in zip(shape, actual, strict=False)]
    if len(actual) != len(shape) or wanted != list(actual):
        sides = ", ".join(map(str, shape)) + ("," if len(shape) == 1 else "")
        raise InputError(f"{name} must have shape ({sides}), got {actual}.")


def row_name(name: str, row: int, ids: npt.NDArray[Any]) -> str:
    """How error messages call a row: ``"probs row 3 (id 'b')"``."""
    return f"{name} row {row} (id {ids[row : row + 1].tolist()[0]!r})"


def clean_k(k: int | None, classes: int) -> int:
    """How many classes to store per row; all of them by default."""
    if k is None:
        return classes
    if isinstance(k, bool) or not isinstance(k, int | np.integer) or not 1 <= k <= classes:
        raise InputError(f"k must be an integer between 1 and {classes}, got {k!r}.")
    return int(k)


def clean_temperature(temperature: Any) -> float | None:
    """A positive number, or None where it is not known."""
    if temperature is None:
        return None
    number = isinstance(temperature, Real) and not isinstance(temperature, bool)
    if not number or not np.isfinite(temperature) or temperature <= 0:
        raise InputError(f"temperature must be a positive number, got {temperature!r}.")
    return float(temperature)


def clean_mass(
    values: ArrayLike, ids: npt.NDArray[Any], name: str
) -> npt.NDArray[np.floating[Any]]:
    """(n,) numbers between 0 and 1."""
    array = as_array(values, name)
    check_shape(array, name, (len(ids),))
    mass = as_float(array)
    outside = ~((mass >= 0) & (mass <= 1))
    if outside.any():
        row = int(outside.argmax())
        raise InputError(f"{row_name(name, row, ids)} is {mass[row]:.6g}, not between 0 and 1.")
    return mass


def clean_extras(
    extras: Mapping[str, ArrayLike] | None, ids: npt.NDArray[Any], classes: int
) -> dict[str, npt.NDArray[Any]]:
    """The extra columns: finite numbers, one entry per row, any shape behind that."""
    return {name: _clean_extra(name, v, ids, classes) for name, v in (extras or {}).items()}


def _clean_extra(
    name: str, values: ArrayLike, ids: npt.NDArray[Any], classes: int
) -> npt.NDArray[Any]:
    if not isinstance(name, str) or not name.isidentifier() or name in COLUMNS:
        raise InputError(f"{name!r} cannot be the name of an extra column.")
    label = f"extras[{name!r}]"
    given = as_array(values, label)
    if name in ("view_mean", "view_std"):
        check_shape(given, label, (len(ids), _VIEW_TEMPERATURES, classes))
    elif name == "embedding":
        check_shape(given, label, (len(ids), "d"))
    if given.ndim == 0 or len(given) != len(ids) or 0 in given.shape[1:]:
        raise InputError(
            f"{label} must hold values for {len(ids)} rows, got shape {tuple(given.shape)}."
        )
    array = _storable(given)
    if array.dtype.kind == "b" or array.dtype.itemsize > 8:
        raise InputError(f"{label} must be integers or floats of at most 64 bits.")
    _check_finite(array, label, ids)
    return array


def _storable(given: Numbers) -> npt.NDArray[Any]:
    if isinstance(given, Tensor):
        on_cpu = given.cpu()
        given = (on_cpu.float() if on_cpu.dtype == torch.bfloat16 else on_cpu).numpy()
    return np.ascontiguousarray(given, dtype=given.dtype.newbyteorder("="))


def _check_finite(array: npt.NDArray[Any], label: str, ids: npt.NDArray[Any]) -> None:
    width = int(np.prod(array.shape[1:]))
    for rows in row_blocks(len(array), width):
        finite = np.isfinite(array[rows]).reshape(-1, width).all(axis=1)
        if not finite.all():
            row = rows.start + int(finite.argmin())
            raise InputError(f"{row_name(label, row, ids)} holds NaN or infinity.")


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
