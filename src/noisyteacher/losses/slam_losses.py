"""The SLaM loss: a base loss on the mix instead of on the student's own prediction.

``SLaMLoss`` checks its input and fits into any training loop. ``slam_loss`` (dense labels and a
mask) and ``sparse_slam_loss`` (top-K labels) are the unchecked functions behind it: static shapes,
no host sync, so they can be captured in a CUDA graph.
"""

from __future__ import annotations

from typing import Literal, get_args

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from noisyteacher.core.errors import InputError
from noisyteacher.losses.base_losses import BaseFunction, BaseLoss, apply_base, resolve_base
from noisyteacher.losses.mixing import (
    check_normalize,
    class_ranks,
    log_mix,
    log_mix_unnormalized,
)
from noisyteacher.losses.validation import (
    ROUNDING,
    AnyArray,
    PerRow,
    as_tensor,
    can_read_values,
    check_range,
    log_softmax,
    per_row,
    shortlist_size,
    teacher_matrix,
    trust_alpha,
    working_dtype,
)

Reduction = Literal["mean", "sum", "none"]


def slam_loss(
    logits: Float[Tensor, "n L"],
    target: Float[Tensor, "n L"],
    alpha: Float[Tensor, " n"],
    mask: Bool[Tensor, "n L"],
    k: Int[Tensor, " n"],
    base: BaseFunction,
    normalize: str,
) -> Float[Tensor, " n"]:
    """``base(target, mix(softmax(logits)))`` of each example; alpha = 1 gives the plain loss.

    ``target`` is the teacher's soft label or one-hot; in both cases ``mask`` is computed from the
    soft label.
    """
    return apply_base(base, target, log_mix(logits, alpha, mask, k, normalize))


def sparse_slam_loss(
    logits: Float[Tensor, "n L"],
    topk_index: Int[Tensor, "n K"],
    topk_prob: Float[Tensor, "n K"],
    tail: Float[Tensor, " n"],
    alpha: Float[Tensor, " n"],
    k: Int[Tensor, " n"],
    base: BaseLoss,
    normalize: str,
    hard: bool = False,
) -> Float[Tensor, " n"]:
    """``slam_loss`` on stored top-K labels, without making (n, L) teacher labels or masks.

    The stored classes are sorted, most probable first; ``tail`` is spread evenly over the others.
    Each k is at most K, or it is L. So the shortlist consists of the first k stored classes or of
    all classes, and the classes that are not stored are either all outside it or all inside.
    """
    classes, stored = logits.shape[1], topk_index.shape[1]
    index = topk_index.long()
    log_f = log_softmax(logits)
    a = alpha.detach().to(log_f.dtype)[:, None]
    size = k[:, None]
    everything = size == classes
    inside = torch.arange(stored, device=logits.device) < size
    stored_log_f = log_f.gather(1, index)
    log_m = log_mix_unnormalized(stored_log_f, a, inside, size, normalize)
    log_total = torch.zeros_like(a)
    if normalize == "sum":
        mass = torch.where(everything, 1, (stored_log_f.exp() * inside).sum(-1, keepdim=True))
        log_total = (a + (1 - a) * (size - mass)).log()
    if hard:
        return base.log_cost(log_m[:, 0] - log_total[:, 0])
    losses = base.from_log(topk_prob.to(log_f.dtype), log_m - log_total)
    if stored == classes:
        return losses
    others_log_m = log_mix_unnormalized(log_f, a, everything, size, normalize) - log_total
    others_cost = base.log_cost(others_log_m).scatter(1, index, 0.0).sum(-1)
    return losses + tail.detach() / (classes - stored) * others_cost


class SLaMLoss(nn.Module):
    """Student-label mixing as a loss for any training loop.

    Args:
        base: the loss on the mix: "ce", "taylor_ce", "poly1", a ``BaseLoss`` such as
            ``TaylorCE(3)``, or any torch function ``f(target, probs) -> (n,)``.
        normalize: the form of the mix: "sum", "none" or "k-1".
        hard: whether to train on the teacher's top class instead of its probabilities.
        reduction: "mean", "sum", or "none" for one loss per example.

    Shapes are always checked; values are checked only if they are in the CPU's memory.
    """

    def __init__(
        self,
        base: str | BaseFunction = "ce",
        normalize: str = "sum",
        hard: bool = False,
        reduction: str = "mean",
    ) -> None:
        super().__init__()
        check_normalize(normalize)
        if reduction not in get_args(Reduction):
            names = ", ".join(map(repr, get_args(Reduction)))
            raise InputError(f"reduction must be one of {names}, not {reduction!r}.")
        self.base = resolve_base(base)
        self.normalize = normalize
        self.hard = hard
        self.reduction = reduction

    def forward(self, logits: Tensor, teacher_probs: AnyArray, alpha: PerRow, k: PerRow) -> Tensor:
        """The loss of a batch.

        Args:
            logits: (n, L) of the student, any floating dtype; computed in float32 at least.
            teacher_probs: (n, L) soft labels; the shortlist comes from them also when ``hard``.
            alpha: a number or (n,), in (0, 1].
            k: a number or (n,), 2 ≤ k ≤ L.

        Returns:
            A scalar, or (n,) with reduction "none". Only ``logits`` receive gradient.
        """
        logits = _checked_logits(logits)
        given = as_tensor("teacher_probs", teacher_probs, logits.device).detach()
        probs = teacher_matrix("teacher_probs", given, like=logits)
        size = shortlist_size(k, logits, smallest=2)
        ranks = class_ranks(given)  # as given: rounding to the student's dtype could make ties
        target = (ranks == 0).to(probs.dtype) if self.hard else probs
        weight = trust_alpha(alpha, logits)
        mask = ranks < size[:, None]
        return self._reduce(
            slam_loss(logits, target, weight, mask, size, self.base, self.normalize)
        )

    def sparse(
        self,
        logits: Tensor,
        topk_index: AnyArray,
        topk_prob: AnyArray,
        tail: PerRow,
        alpha: PerRow,
        k: PerRow,
    ) -> Tensor:
        """The loss of a batch from stored top-K labels, never made dense.

        Args:
            logits: (n, L) of the student.
            topk_index: (n, K) integers, the stored classes, most probable first.
            topk_prob: (n, K) their probabilities.
            tail: (n,) mass on the classes not stored, spread evenly over them.
            alpha: a number or (n,), in (0, 1].
            k: a number or (n,), 2 ≤ k ≤ K, or L.
        """
        if not isinstance(self.base, BaseLoss):
            raise InputError(f"top-K labels need one of our base losses, not {self.base!r}.")
        logits = _checked_logits(logits)
        index, prob, mass = _checked_topk(topk_index, topk_prob, tail, logits)
        size = shortlist_size(k, logits, smallest=2)
        _check_reachable(size, stored=index.shape[1], classes=logits.shape[1])
        weight = trust_alpha(alpha, logits)
        return self._reduce(
            sparse_slam_loss(
                logits, index, prob, mass, weight, size, self.base, self.normalize, self.hard
            )
        )

    def extra_repr(self) -> str:
        return (
            f"base={self.base!r}, normalize={self.normalize!r}, hard={self.hard}, "
            f"reduction={self.reduction!r}"
        )

    def _reduce(self, losses: Tensor) -> Tensor:
        if self.reduction == "none":
            return losses
        return losses.mean() if self.reduction == "mean" else losses.sum()


def _checked_logits(logits: object) -> Tensor:
    """The logits in the dtype that the loss is computed in, gradient kept."""
    if not isinstance(logits, Tensor) or not logits.is_floating_point():
        raise InputError("logits must be a floating-point torch tensor.")
    if logits.ndim != 2 or logits.shape[1] < 2:
        raise InputError(f"logits must have shape (n, L) with L ≥ 2, not {tuple(logits.shape)}.")
    return logits.to(working_dtype(logits.dtype))


def _checked_topk(
    topk_index: AnyArray, topk_prob: AnyArray, tail: PerRow, like: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Stored labels as (n, K) int64, (n, K) and (n,) on the device of ``like`` (n, L)."""
    rows, classes = like.shape
    index = as_tensor("topk_index", topk_index, like.device)
    if index.ndim != 2 or len(index) != rows or not 1 <= index.shape[1] <= classes:
        raise InputError(
            f"topk_index must have shape ({rows}, K) with K ≤ {classes}, not {tuple(index.shape)}."
        )
    if index.dtype == torch.bool or index.is_floating_point():
        raise InputError(f"topk_index must hold integers, not {index.dtype}.")
    index = index.long()
    check_range("topk_index", index, 0, classes - 1)
    template = like.new_empty(()).expand(index.shape)
    mass = per_row("tail", as_tensor("tail", tail).to(like.dtype), like)
    check_range("tail", mass, 0, 1)
    prob = teacher_matrix("topk_prob", topk_prob, like=template, tail=mass)
    if can_read_values(prob) and bool((prob.diff(dim=-1) > ROUNDING).any()):
        raise InputError("topk_prob must be sorted in each row, most probable class first.")
    return index, prob, mass


def _check_reachable(k: Tensor, stored: int, classes: int) -> None:
    """A shortlist between the stored classes and all classes is not known."""
    if not can_read_values(k):
        return
    unknown = k[(k > stored) & (k < classes)]
    if len(unknown):
        raise InputError(
            f"k must be at most the {stored} stored classes, or all {classes}; "
            f"found {int(unknown[0])}."
        )
