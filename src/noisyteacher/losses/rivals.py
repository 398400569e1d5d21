"""Losses of the paper's baselines and of newer rivals, as pure functions.

Those of probabilities are checked doors for NumPy and torch. Those of logits, log-probabilities
or embeddings are unchecked torch for training loops and CUDA graphs. Teacher quantities never
receive gradient. Generalised cross-entropy lives with the base losses.
"""

from __future__ import annotations

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F

from noisyteacher.core.errors import InputError
from noisyteacher.losses.base import safe_log
from noisyteacher.losses.validation import (
    AnyArray,
    Array,
    Number,
    as_tensor,
    check_distributions,
    checked_pair,
    like_input,
    log_softmax,
    probability_matrix,
    working_dtype,
)

LABEL_FLOOR = 1e-4  # symmetric cross-entropy: stands for log 0 of a class that is not the label
NEGATIVE_FLOOR = 1e-7  # UPS: floor of 1 - f
VID_VARIANCE_FLOOR = 1e-5


def symmetric_ce(target: AnyArray, probs: Array, alpha: Number = 0.1, beta: Number = 1.0) -> Array:
    """Symmetric cross-entropy ``alpha * CE(target, probs) + beta * CE(probs, target)``, (n,).

    The reverse term raises target zeros to 1e-4. Its authors use (0.1, 1) on CIFAR-10 and (6, 1)
    on CIFAR-100.
    """
    y, f = checked_pair(target, probs)
    return like_input(_symmetric(y, f, safe_log(f), alpha, beta), probs)


def symmetric_ce_from_log(
    target: Float[Tensor, "n L"], log_probs: Float[Tensor, "n L"], alpha: Number, beta: Number
) -> Float[Tensor, " n"]:
    """Symmetric cross-entropy from log-probabilities. Unchecked."""
    return _symmetric(target, log_probs.exp(), log_probs, alpha, beta)


def _symmetric(
    target: Tensor, probs: Tensor, log_probs: Tensor, alpha: Number, beta: Number
) -> Tensor:
    target = target.detach()
    reverse = probs * target.clamp(min=LABEL_FLOOR).log()
    return -(alpha * target * log_probs + beta * reverse).sum(-1)


def forward_correction(target: AnyArray, probs: Array, transition: AnyArray) -> Array:
    """Cross-entropy of the prediction sent through the noise, ``CE(target, probs @ transition)``.

    ``transition`` (L, L): row i holds the chances of each teacher label when the truth is i.
    """
    y, f = checked_pair(target, probs)
    return like_input(_forward(y, f, _checked_transition(transition, f)), probs)


def forward_correction_from_log(
    target: Float[Tensor, "n L"],
    log_probs: Float[Tensor, "n L"],
    transition: Float[Tensor, "L L"],
) -> Float[Tensor, " n"]:
    """Forward correction from log-probabilities. Unchecked."""
    return _forward(target, log_probs.exp(), transition)


def _forward(target: Tensor, probs: Tensor, transition: Tensor) -> Tensor:
    with torch.autocast(probs.device.type, enabled=False):  # it would halve the precision
        noisy = probs @ transition.detach().to(probs)
    return -(target.detach() * safe_log(noisy)).sum(-1)


def backward_correction(target: AnyArray, probs: Array, transition: AnyArray) -> Array:
    """Unbiased loss ``CE(target @ transition⁻¹, probs)``, (n,); it can be negative."""
    y, f = checked_pair(target, probs)
    inverse, failed = torch.linalg.inv_ex(_checked_transition(transition, f).double())
    if failed:
        raise InputError("transition must be invertible for backward correction.")
    return like_input(backward_correction_from_log(y, safe_log(f), inverse), probs)


def backward_correction_from_log(
    target: Float[Tensor, "n L"],
    log_probs: Float[Tensor, "n L"],
    inverse: Float[Tensor, "L L"],
) -> Float[Tensor, " n"]:
    """Backward correction from log-probabilities and the inverted transition. Unchecked."""
    with torch.autocast(log_probs.device.type, enabled=False):
        clean = target.detach().to(log_probs.dtype) @ inverse.detach().to(log_probs.dtype)
    return -(clean * log_probs).sum(-1)


def negative_cross_entropy(negatives: AnyArray, probs: Array) -> Array:
    """UPS: mean of ``-log(1 - probs_c)`` over the classes marked as not the label.

    Args:
        negatives: (n, L) zeros and ones, or bools.
        probs: (n, L).

    Returns:
        (n,); 0 for a row without negatives.
    """
    chosen, f = checked_pair(negatives, probs, name="negatives")
    return like_input(_negative(chosen, 1 - f), probs)


def negative_cross_entropy_from_log(
    negatives: Float[Tensor, "n L"], log_probs: Float[Tensor, "n L"]
) -> Float[Tensor, " n"]:
    """Negative cross-entropy from log-probabilities. Unchecked."""
    return _negative(negatives, -torch.expm1(log_probs))


def _negative(negatives: Tensor, miss: Tensor) -> Tensor:
    chosen = negatives.detach()
    log_miss = miss.clamp(min=NEGATIVE_FLOOR).log()
    return -(chosen * log_miss).sum(-1) / (chosen.sum(-1) + NEGATIVE_FLOOR)


def selected_binary_ce(target: AnyArray, selected: AnyArray, probs: Array) -> Array:
    """UPS in its multi-label form: mean binary cross-entropy over the selected classes.

    Args:
        target: (n, L) ones for classes taken as positive, else zeros.
        selected: (n, L) ones for classes selected as positive or as negative, else zeros.
        probs: (n, L).

    Returns:
        (n,); 0 for a row with nothing selected. The equation is recalled, not verified against
        the UPS paper.
    """
    y, f = checked_pair(target, probs)
    chosen = probability_matrix("selected", selected, like=f)
    return like_input(_binary(y, chosen, safe_log(f), 1 - f), probs)


def selected_binary_ce_from_log(
    target: Float[Tensor, "n L"],
    selected: Float[Tensor, "n L"],
    log_probs: Float[Tensor, "n L"],
) -> Float[Tensor, " n"]:
    """Binary cross-entropy over the selected classes, from log-probabilities. Unchecked."""
    return _binary(target, selected, log_probs, -torch.expm1(log_probs))


def _binary(target: Tensor, selected: Tensor, log_probs: Tensor, miss: Tensor) -> Tensor:
    target, chosen = target.detach(), selected.detach()
    log_miss = miss.clamp(min=NEGATIVE_FLOOR).log()
    per_class = target * log_probs + (1 - target) * log_miss
    return -(chosen * per_class).sum(-1) / chosen.sum(-1).clamp(min=1)


def vid_nll(
    mean: Float[Tensor, "n d"], embedding: Float[Tensor, "n d"], rho: Float[Tensor, " d"]
) -> Float[Tensor, " n"]:
    """Variational information distillation: Gaussian NLL of the teacher's embedding. Unchecked.

    ``½[(embedding - mean)² / var + log var]`` with ``var = softplus(rho) + 1e-5``, mean over the
    coordinates, without the constant ``½ log 2π``: it can be negative. Gradient reaches ``mean``
    and ``rho``.
    """
    dtype = working_dtype(mean.dtype)
    variance = F.softplus(rho.to(dtype)) + VID_VARIANCE_FLOOR
    error = embedding.detach().to(dtype) - mean.to(dtype)
    return (error.square() / variance + variance.log()).mean(-1) / 2


def vid_rho(variance: float = 5.0) -> float:
    """The rho at which ``vid_nll`` has this variance; 5 is the reference's start."""
    return math.log(math.expm1(variance - VID_VARIANCE_FLOOR))


def dkd(
    logits: Float[Tensor, "n L"],
    teacher_logits: Float[Tensor, "n L"],
    target: Int[Tensor, " n"],
    alpha: Number = 1.0,
    beta: Number = 8.0,
    temperature: Number = 4.0,
) -> Float[Tensor, " n"]:
    """Decoupled KD: ``T² [alpha * KL(target or not) + beta * KL(among the others)]``. Unchecked.

    ``teacher_logits`` may be log-probabilities; ``target`` is the teacher's top class where the
    truth is unknown. All in log space, so nothing needs a floor.
    """
    others = torch.arange(logits.shape[1], device=logits.device) != target[:, None]
    student_pair, student_others = _split_target(logits, target, others, temperature)
    teacher_pair, teacher_others = _split_target(
        teacher_logits.detach(), target, others, temperature
    )
    between = (teacher_pair.exp() * (teacher_pair - student_pair)).sum(-1)
    weight = torch.where(others, teacher_others.exp(), 0)
    among = (weight * (teacher_others - student_others)).sum(-1)
    return temperature**2 * (alpha * between + beta * among)


def ttm(
    logits: Float[Tensor, "n L"], teacher_logits: Float[Tensor, "n L"], temperature: Number
) -> Float[Tensor, " n"]:
    """Transformed teacher matching: CE of the plain student to the tempered teacher. Unchecked."""
    target = _tempered(teacher_logits.detach(), temperature).exp()
    return -(target * log_softmax(logits)).sum(-1)


def dist(
    logits: Float[Tensor, "n L"],
    teacher_logits: Float[Tensor, "n L"],
    beta: Number = 1.0,
    gamma: Number = 1.0,
) -> Float[Tensor, ""]:
    """DIST: one minus the correlation with the teacher, over classes and over the batch. Unchecked.

    A scalar, because the ``gamma`` term correlates each class over the whole batch (n ≥ 3).
    """
    student, teacher = log_softmax(logits).exp(), log_softmax(teacher_logits.detach()).exp()
    rows = _pearson(student, teacher).mean()
    columns = _pearson(student.T, teacher.T).mean()
    return beta * (1 - rows) + gamma * (1 - columns)


def _tempered(logits: Tensor, temperature: Number) -> Tensor:
    return log_softmax(logits.to(working_dtype(logits.dtype)) / temperature)


def _split_target(
    logits: Tensor, target: Tensor, others: Tensor, temperature: Number
) -> tuple[Tensor, Tensor]:
    """Log-probabilities of (target, not target), (n, 2), and of each class given not target."""
    log_p = _tempered(logits, temperature)
    log_rest = log_p.masked_fill(~others, -math.inf).logsumexp(-1, keepdim=True)
    pair = torch.cat([log_p.gather(1, target[:, None]), log_rest], dim=-1)
    return pair, log_p - log_rest


def _pearson(a: Float[Tensor, "r c"], b: Float[Tensor, "r c"]) -> Float[Tensor, " r"]:
    a = a - a.mean(-1, keepdim=True)
    b = b - b.mean(-1, keepdim=True)
    # Unlike sqrt, the norm has a finite gradient at a uniform prediction.
    norms: Tensor = torch.linalg.vector_norm(a, dim=-1) * torch.linalg.vector_norm(b, dim=-1)
    return (a * b).sum(-1) / (norms + 1e-8)


def _checked_transition(transition: AnyArray, like: Tensor) -> Tensor:
    """An (L, L) tensor whose rows are distributions, in the dtype of ``like`` (n, L)."""
    tensor = as_tensor("transition", transition, like.device).to(like.dtype)
    classes = like.shape[1]
    if tuple(tensor.shape) != (classes, classes):
        raise InputError(
            f"transition must have shape ({classes}, {classes}), not {tuple(tensor.shape)}."
        )
    check_distributions("transition", tensor)
    return tensor
