"""Validation of what public losses are given: NumPy or torch in, the same kind out.

Shapes are always checked. Values are checked where reading them needs no host sync: Python
numbers, NumPy arrays and CPU tensors; never on a GPU, never inside a compiled graph.
"""

from __future__ import annotations

from typing import TypeAlias, TypeVar

import numpy as np
import torch
from torch import Tensor

from noisyteacher.core.errors import InputError
from noisyteacher.core.probabilities import check_probabilities

AnyArray: TypeAlias = np.ndarray | Tensor
PerRow: TypeAlias = float | int | np.generic | np.ndarray | Tensor  # a number, or shape (n,)
# Run-time type checkers do not take an int for a float.
Number: TypeAlias = float | int
Array = TypeVar("Array", np.ndarray, Tensor)

ROUNDING = 1e-5  # how far outside its range a computed number, such as a mix, may be


def working_dtype(dtype: torch.dtype) -> torch.dtype:
    """Losses are computed in float32 at least, whatever comes in."""
    return torch.promote_types(dtype, torch.float32)


def log_softmax(logits: Tensor) -> Tensor:
    """Log-probabilities in float32 at least."""
    return torch.log_softmax(logits.to(working_dtype(logits.dtype)), dim=-1)


def as_tensor(name: str, value: PerRow, device: torch.device | None = None) -> Tensor:
    """A tensor of the same values; gradient is kept where there is one."""
    if isinstance(value, Tensor):
        return value if device is None else value.to(device)
    array = np.array(value)  # a copy: stores hand out read-only memory, which torch warns about
    if array.dtype.kind not in "biuf":
        raise InputError(f"{name} must hold numbers, not {array.dtype}.")
    return torch.from_numpy(array).to(device)


def probability_matrix(name: str, value: AnyArray, *, like: Tensor | None = None) -> Tensor:
    """``value`` as an (n, L) tensor of numbers in [0, 1]; rows need not sum to 1 (mixes do not).

    ``like`` gives the shape it must have, and the dtype and device it will have.
    """
    tensor = _as_matrix(name, value, like)
    check_range(name, tensor, 0, 1)
    return tensor


def teacher_matrix(
    name: str, value: AnyArray, *, like: Tensor | None = None, tail: Tensor | None = None
) -> Tensor:
    """Teacher probabilities as ``probability_matrix`` gives them, refused where labels refuse them.

    ``tail`` (n,) is the probability of the classes that have no column; rows sum to 1 with it.
    """
    given = as_tensor(name, value).detach()
    tensor = _as_matrix(name, given, like)
    if can_read_values(given) and (tail is None or can_read_values(tail)):
        # As given: rounding to another dtype could change a sum.
        whole = name if tail is None else f"{name} and tail of"
        check_probabilities(given, f"{whole} row {{}}".format, tail)
    return tensor


def _as_matrix(name: str, value: AnyArray, like: Tensor | None) -> Tensor:
    tensor = as_tensor(name, value, None if like is None else like.device)
    if tensor.ndim != 2 or tensor.shape[1] == 0:
        raise InputError(f"{name} must have shape (n, L), not {tuple(tensor.shape)}.")
    if like is not None and tensor.shape != like.shape:
        raise InputError(f"{name} must have shape {tuple(like.shape)}, not {tuple(tensor.shape)}.")
    return tensor.to(working_dtype(tensor.dtype) if like is None else like.dtype)


def checked_pair(target: AnyArray, probs: AnyArray) -> tuple[Tensor, Tensor]:
    """(target, probs) as (n, L) tensors of one shape, dtype and device."""
    predicted = probability_matrix("probs", probs)
    return probability_matrix("target", target, like=predicted), predicted


def per_row(name: str, value: Tensor, like: Tensor) -> Tensor:
    """A number, or one per row, as a detached (n,) tensor on the device of ``like`` (n, L)."""
    rows = len(like)
    if value.ndim != 0 and tuple(value.shape) != (rows,):
        raise InputError(
            f"{name} must be a number or have shape ({rows},), not {tuple(value.shape)}."
        )
    return value.detach().to(like.device).expand(rows)


def trust_alpha(value: PerRow, like: Tensor) -> Tensor:
    """alpha as (n,), each in (0, 1], in the dtype and on the device of ``like`` (n, L)."""
    given = as_tensor("alpha", value).to(like.dtype)  # checked where it lies, before it moves
    for seen in _extremes(given):
        if not 0 < seen <= 1:
            raise InputError(f"alpha must lie in (0, 1]; found {seen:g}.")
    return per_row("alpha", given, like)


def shortlist_size(value: PerRow, like: Tensor, *, smallest: int) -> Tensor:
    """k as (n,) int64, each in [smallest, L], on the device of ``like`` (n, L)."""
    given = as_tensor("k", value)
    if given.dtype == torch.bool or given.dtype.is_floating_point:
        raise InputError(f"k must be an integer, not {given.dtype}.")
    given = given.long()
    check_range("k", given, smallest, like.shape[1])
    return per_row("k", given, like)


def check_range(name: str, tensor: Tensor, low: int, high: int) -> None:
    """Refuse NaN and numbers outside [low, high]; rounding is forgiven."""
    for seen in _extremes(tensor):
        if not low - ROUNDING <= seen <= high + ROUNDING:  # false for NaN as well
            raise InputError(f"{name} must lie in [{low}, {high}]; found {seen:g}.")


def can_read_values(tensor: Tensor) -> bool:
    """Whether reading values needs no host sync and breaks no compiled graph."""
    return tensor.device.type == "cpu" and not torch.compiler.is_compiling()


def _extremes(tensor: Tensor) -> tuple[float, ...]:
    """The smallest and the largest value, NaN if there is one; nothing if unreadable."""
    if tensor.numel() == 0 or not can_read_values(tensor):
        return ()
    low, high = tensor.detach().aminmax()
    return float(low), float(high)


def like_input(result: Tensor, given: Array) -> Array:
    """The result as the kind of array that was given."""
    return result if isinstance(given, Tensor) else result.numpy()
