"""What users hand in beside the probabilities, checked once, at the door."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Real
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from noisyteacher.core.errors import InputError
from noisyteacher.labels.topk import row_blocks

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
        return array.to("cpu", kind, copy=True).numpy()
    return np.array(array, dtype=np.float64 if array.dtype == np.float64 else np.float32)


def check_shape(array: npt.NDArray[Any] | Tensor, name: str, shape: tuple[int | str, ...]) -> None:
    """Compare with a shape whose free sides are names, as in ``(5, "L")``."""
    actual = tuple(array.shape)
    fits = len(actual) == len(shape) and all(
        isinstance(wanted, str) or wanted == side
        for wanted, side in zip(shape, actual, strict=True)
    )
    if not fits:
        sides = ", ".join(map(str, shape)) + ("," if len(shape) == 1 else "")
        raise InputError(f"{name} must have shape ({sides}), got {actual}.")


def row_name(name: str, row: int, ids: npt.NDArray[Any]) -> str:
    """How error messages call a row: ``"probs row 3 (id 'b')"``."""
    return f"{name} row {row} (id {ids[row].item()!r})"


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


def _storable(given: npt.NDArray[Any] | Tensor) -> npt.NDArray[Any]:
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
