"""What users hand in, checked once: everything behind this file may assume clean arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from noisyteacher.errors import InputError, first_few
from noisyteacher.labels.topk import LogAndProbs, logs, row_blocks

ArrayLike = npt.ArrayLike | Tensor

COLUMNS = ("id", "topk_index", "topk_logprob", "tail", "missing")
_VIEW_TEMPERATURES = 2


def as_array(values: ArrayLike, name: str) -> npt.NDArray[Any] | Tensor:
    """Numbers as a NumPy array or a detached tensor, on whatever device they are."""
    if isinstance(values, Tensor):
        if values.is_complex():
            raise InputError(f"{name} must be real numbers, got {values.dtype}.")
        return values.detach()
    try:
        array = np.asarray(values)
    except ValueError:
        raise InputError(f"{name} must be an array whose rows have one length.") from None
    if array.dtype.kind not in "fiub":
        raise InputError(f"{name} must be real numbers, got {array.dtype}.")
    return array


def as_float(array: npt.NDArray[Any] | Tensor) -> npt.NDArray[np.floating[Any]]:
    """A copy as float64 if it was float64, else as float32."""
    if isinstance(array, Tensor):
        kind = torch.float64 if array.dtype == torch.float64 else torch.float32
        return np.array(array.to("cpu", kind))
    return np.array(array, dtype=np.float64 if array.dtype == np.float64 else np.float32)


def check_shape(array: npt.NDArray[Any] | Tensor, name: str, shape: tuple[int | str, ...]) -> None:
    """Compare with a shape whose free sides are names, as in ``(5, "L")``."""
    actual = tuple(array.shape)
    fits = len(actual) == len(shape) and all(
        isinstance(wanted, str) or wanted == side
        for wanted, side in zip(shape, actual, strict=True)
    )
    if not fits:
        wanted = ", ".join(map(str, shape)) + ("," if len(shape) == 1 else "")
        raise InputError(f"{name} must have shape ({wanted}), got {actual}.")


def clean_classes(classes: Sequence[str] | None, count: int, name: str) -> tuple[str, ...]:
    """Unique class names, one per column of ``name``; "0", "1", ... when none are given."""
    if count < 2:
        raise InputError(f"{name} must have at least 2 classes, got {count}.")
    if classes is None:
        return tuple(map(str, range(count)))
    if len(classes) != count:
        raise InputError(f"{len(classes)} classes were named, but {name} has {count}.")
    return clean_class_names(classes)


def clean_class_names(classes: Sequence[str]) -> tuple[str, ...]:
    """Unique names, valid text, at least two."""
    if isinstance(classes, str):
        raise InputError(f"classes must be a sequence of strings, got {classes!r}.")
    odd = [name for name in classes if not isinstance(name, str)]
    if odd:
        raise InputError(f"classes must be strings, got {first_few(odd)}.")
    names = tuple(map(str, classes))
    if len(names) < 2:
        raise InputError(f"at least 2 classes are needed, got {len(names)}.")
    if len(set(names)) < len(names):
        repeated = dict.fromkeys(name for name in names if names.count(name) > 1)
        raise InputError(f"classes must be unique; repeated: {first_few(repeated)}.")
    try:
        "".join(names).encode()
    except UnicodeEncodeError:
        raise InputError("classes must be valid Unicode text.") from None
    return names


def clean_k(k: int | None, classes: int) -> int:
    """How many classes to store per row; all of them by default."""
    if k is None:
        return classes
    if isinstance(k, bool) or not isinstance(k, int | np.integer) or not 1 <= k <= classes:
        raise InputError(f"k must be an integer between 1 and {classes}, got {k!r}.")
    return int(k)


def clean_temperature(temperature: float | None) -> float | None:
    """A positive number, or None where it is not known."""
    if temperature is None:
        return None
    if not np.isfinite(temperature) or temperature <= 0:
        raise InputError(f"temperature must be a positive number, got {temperature!r}.")
    return float(temperature)


def clean_missing(missing: ArrayLike | None, ids: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
    """(n,) mass on no class at all; 0 by default."""
    if missing is None:
        return np.zeros(len(ids), np.float32)
    return clean_mass(missing, ids, "missing").astype(np.float32)


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
        raise InputError(f"{_place(name, row, ids)} is {mass[row]:.6g}, not between 0 and 1.")
    return mass


def clean_extras(
    extras: Mapping[str, ArrayLike] | None, rows: int, classes: int
) -> dict[str, npt.NDArray[Any]]:
    """Copies of the extra columns: finite numbers, one entry per row, any shape behind that."""
    return {
        name: _clean_extra(name, values, rows, classes)
        for name, values in (extras or {}).items()
    }


def _clean_extra(name: str, values: ArrayLike, rows: int, classes: int) -> npt.NDArray[Any]:
    if not isinstance(name, str) or not name.isidentifier() or name in COLUMNS:
        raise InputError(f"{name!r} cannot be the name of an extra column.")
    label = f"extras[{name!r}]"
    array = as_array(values, label)
    if isinstance(array, Tensor):
        array = np.array(array.float().cpu() if array.dtype == torch.bfloat16 else array.cpu())
    array = np.array(array, dtype=array.dtype.newbyteorder("="), order="C")
    if array.ndim == 0 or array.dtype.kind == "b" or array.dtype.itemsize > 8:
        raise InputError(f"{label} must be numbers with one entry per row.")
    if name in ("view_mean", "view_std"):
        check_shape(array, label, (rows, _VIEW_TEMPERATURES, classes))
    elif name == "embedding":
        check_shape(array, label, (rows, "d"))
    if len(array) != rows or 0 in array.shape[1:]:
        raise InputError(f"{label} must have {rows} rows of values, got shape {array.shape}.")
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        row = int((~np.isfinite(array.reshape(rows, -1)).all(axis=1)).argmax())
        raise InputError(f"{label} row {row} holds NaN or infinity.")
    return array


def sum_tolerance(array: npt.NDArray[Any] | Tensor) -> float:
    """How far from 1 a row may sum: bfloat16 keeps only 8 bits of each probability."""
    return 1e-2 if array.dtype == torch.bfloat16 else 1e-3


def blocks_of_probs(
    probs: npt.NDArray[Any] | Tensor, ids: npt.NDArray[Any]
) -> Iterator[LogAndProbs]:
    """Check (n, L) probabilities and normalise their rows, a block at a time."""
    tolerance = sum_tolerance(probs)
    for rows in row_blocks(*probs.shape):
        block = as_float(probs[rows])
        total = block.sum(axis=1, dtype=np.float64)
        check_masses("probs", block, total, tolerance, ids[rows], rows.start)
        block /= total.astype(block.dtype)[:, None]
        yield LogAndProbs(logs(block), block)


def check_masses(
    name: str,
    block: npt.NDArray[np.floating[Any]],
    total: npt.NDArray[np.float64],
    tolerance: float,
    ids: npt.NDArray[Any],
    first_row: int,
) -> None:
    """Refuse NaN, infinity, negative values and rows whose ``total`` is not 1."""

    def refuse(bad_rows: npt.NDArray[np.bool_], problem: Callable[[int], str]) -> None:
        if bad_rows.any():
            row = int(bad_rows.argmax())
            raise InputError(f"{_place(name, first_row + row, ids, row)} {problem(row)}.")

    if not np.isfinite(total).all():
        # A total of infinity may also come from finite values that are far too large.
        finite = np.isfinite(block).all(axis=1)
        refuse(~finite, lambda row: "holds NaN or infinity")
    if block.size and block.min() < 0:
        refuse(
            block.min(axis=1) < 0,
            lambda row: f"holds a negative probability, {block[row].min():.6g}",
        )
    refuse(
        ~(np.abs(total - 1) <= tolerance), lambda row: f"sums to {total[row]:.6g} instead of 1"
    )


def blocks_of_logits(
    logits: npt.NDArray[Any] | Tensor, ids: npt.NDArray[Any], temperature: float
) -> Iterator[LogAndProbs]:
    """Check (n, L) logits, -inf allowed, and take their softmax, a block at a time."""
    for rows in row_blocks(*logits.shape):
        block = as_float(logits[rows])
        highest = block.max(axis=1, keepdims=True)
        bad = ~np.isfinite(highest[:, 0])
        if bad.any():
            row = int(bad.argmax())
            problem = "has no finite logit" if highest[row] == -np.inf else "holds NaN or +infinity"
            raise InputError(f"{_place('logits', rows.start + row, ids[rows], row)} {problem}.")
        block -= highest
        block /= block.dtype.type(temperature)
        probs = np.exp(block)
        total = probs.sum(axis=1, dtype=np.float64)[:, None]
        block -= np.log(total).astype(block.dtype)
        probs /= total.astype(block.dtype)
        yield LogAndProbs(block, probs)


def _place(name: str, row: int, ids: npt.NDArray[Any], position: int | None = None) -> str:
    return f"{name} row {row} (id {ids[row if position is None else position].item()!r})"
