"""The mix: the student's prediction with the teacher's noise added.

``m_i = alpha * f_i + (1 - alpha) * mask_i * (1 - f_i) / n`` with three ways to choose n:
"k-1" (n = k - 1, the paper's equation, for theory), "none" (n = 1, the paper's experiments) and
"sum" (as "none", then divided by its sum; the default for training). Of the first two, "k-1" sums
to 1 where k = L, and "none" only where k = L = 2.

``top_mask`` and ``mix`` take NumPy or torch and check it. ``log_mix`` is the unchecked torch form
for training: from logits, in log space, safe in a CUDA graph.
"""

from __future__ import annotations

from typing import Literal, TypeAlias, get_args

import torch
from jaxtyping import Bool, Float, Int, Num
from torch import Tensor

from noisyteacher.core.errors import InputError
from noisyteacher.losses.validation import (
    AnyArray,
    Array,
    PerRow,
    as_tensor,
    can_read_values,
    check_range,
    like_input,
    log_softmax,
    probability_matrix,
    shortlist_size,
    teacher_matrix,
    trust_alpha,
)

Normalize: TypeAlias = Literal["sum", "none", "k-1"]


def check_normalize(normalize: str) -> None:
    """Raise an error if the form of the mix is unknown."""
    if normalize not in get_args(Normalize):
        names = ", ".join(map(repr, get_args(Normalize)))
        raise InputError(f"normalize must be one of {names}, not {normalize!r}.")


def top_mask(probs: Array, k: PerRow) -> Array:
    """Mark the k most probable classes of each row.

    Args:
        probs: (n, L) teacher probabilities.
        k: the size of the shortlist, a number or (n,), 1 ≤ k ≤ L.

    Returns:
        (n, L) bool with k true entries in each row. If probabilities are equal, the
            lower index comes first.
    """
    checked = teacher_matrix("probs", probs)
    size = shortlist_size(k, checked, smallest=1)
    return like_input(class_ranks(checked) < size[:, None], probs)


def mix(
    student_probs: Array, alpha: PerRow, mask: AnyArray, k: PerRow, normalize: str = "sum"
) -> Array:
    """Add the teacher's noise to the student's prediction.

    Args:
        student_probs: (n, L) probabilities f; the only argument that carries gradients.
        alpha: the probability that the teacher's top class is right, a number or (n,), in (0, 1].
        mask: (n, L) shortlist, from ``top_mask(teacher_probs, k)``.
        k: the size of the shortlist, a number or (n,), 2 ≤ k ≤ L; only "k-1" uses it.
        normalize: "sum", "none" or "k-1".

    Returns:
        (n, L) mix, NumPy or torch as ``student_probs``. With "sum" the rows sum to 1; with "k-1"
            they do so only if k = L.
    """
    check_normalize(normalize)
    f = probability_matrix("student_probs", student_probs)
    a = trust_alpha(alpha, f)[:, None]
    size = shortlist_size(k, f, smallest=2)[:, None]
    inside = _checked_mask(mask, f)
    mixed = a * f + _spread(a, size, normalize) * inside * (1 - f)
    if normalize == "sum":
        mixed = mixed / mixed.sum(-1, keepdim=True)
    return like_input(mixed, student_probs)


def log_mix(
    logits: Float[Tensor, "n L"],
    alpha: Float[Tensor, " n"],
    mask: Bool[Tensor, "n L"],
    k: Int[Tensor, " n"],
    normalize: str,
) -> Float[Tensor, "n L"]:
    """Log of the mix, from logits; value and gradient are finite where probabilities underflow."""
    log_f = log_softmax(logits)
    a = alpha.detach().to(log_f.dtype)[:, None]
    log_m = log_mix_unnormalized(log_f, a, mask, k[:, None], normalize)
    return torch.log_softmax(log_m, dim=-1) if normalize == "sum" else log_m


def log_mix_unnormalized(
    log_f: Float[Tensor, "n C"],
    alpha: Float[Tensor, "n 1"],
    inside: Bool[Tensor, "n _C"],
    k: Int[Tensor, "n 1"],
    normalize: str,
) -> Float[Tensor, "n C"]:
    """Log of the mix of some classes before "sum" divides.

    ``inside`` marks those of the shortlist, per class or, with one column, per row.
    Outside the shortlist m = alpha * f, whose log is exact. A floor under m instead would kill
    the gradient of every class below it, which with many classes is most of them.
    """
    f = log_f.exp()
    noisy = inside & (alpha < 1)
    mixed = alpha * f + _spread(alpha, k, normalize) * (1 - f)
    # At alpha = 1 f may underflow, and where() would pass on the NaN gradient of log(0).
    return torch.where(noisy, torch.where(noisy, mixed, 1).log(), alpha.log() + log_f)


def class_ranks(probs: Num[Tensor, "n L"]) -> Int[Tensor, "n L"]:
    """Rank of each class in its row, 0 the most probable; among equals the lower index first."""
    order = probs.detach().argsort(dim=-1, descending=True, stable=True)
    ranks = torch.arange(probs.shape[1], device=probs.device).expand_as(order)
    return torch.empty_like(order).scatter_(1, order, ranks)


def _spread(alpha: Tensor, k: Tensor, normalize: str) -> Tensor:
    """The share of 1 - f that a class of the shortlist is given, (n, 1)."""
    return (1 - alpha) / (k - 1) if normalize == "k-1" else 1 - alpha


def _checked_mask(mask: AnyArray, like: Tensor) -> Tensor:
    """A mask of bools, or of zeros and ones, as (n, L) bool."""
    tensor = as_tensor("mask", mask, like.device)
    if tensor.shape != like.shape:
        raise InputError(f"mask must have shape {tuple(like.shape)}, not {tuple(tensor.shape)}.")
    if tensor.dtype != torch.bool:
        check_range("mask", tensor, 0, 1)
        if can_read_values(tensor) and bool(((tensor != 0) & (tensor != 1)).any()):
            raise InputError("mask must hold bools, or zeros and ones, and nothing between.")
    return tensor.bool()
