"""Losses of the paper's baselines and of newer rivals that are no base losses.

All are torch functions for training loops and CUDA graphs: their input is not checked, and teacher
quantities never receive gradient. Each is the formula of one class in ``methods``.
"""

from __future__ import annotations

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F

from noisyteacher.losses.base_losses import safe_log
from noisyteacher.losses.validation import Number, log_softmax, working_dtype

LABEL_FLOOR = 1e-4  # symmetric cross-entropy: replaces the 0 of a class that is not the label
NEGATIVE_FLOOR = 1e-7  # UPS: floor of 1 - f
VID_VARIANCE_FLOOR = 1e-5


def symmetric_ce_from_log(
    target: Float[Tensor, "n L"], log_probs: Float[Tensor, "n L"], alpha: Number, beta: Number
) -> Float[Tensor, " n"]:
    """Symmetric cross-entropy ``alpha * CE(target, probs) + beta * CE(probs, target)``.

    In the second term, zeros of the target are replaced by 1e-4.
    """
    target = target.detach()
    reverse = log_probs.exp() * target.clamp(min=LABEL_FLOOR).log()
    return -(alpha * target * log_probs + beta * reverse).sum(-1)


def forward_correction_from_log(
    target: Float[Tensor, "n L"],
    log_probs: Float[Tensor, "n L"],
    transition: Float[Tensor, "L L"],
) -> Float[Tensor, " n"]:
    """Cross-entropy after adding the teacher's noise, ``CE(target, probs @ transition)``.

    Row i of ``transition`` has the probabilities of the teacher's labels if the true class is i.
    """
    probs = log_probs.exp()
    with torch.autocast(probs.device.type, enabled=False):  # it would halve the precision
        noisy = probs @ transition.detach().to(probs)
    return -(target.detach() * safe_log(noisy)).sum(-1)


def negative_cross_entropy_from_log(
    negatives: Float[Tensor, "n L"], log_probs: Float[Tensor, "n L"]
) -> Float[Tensor, " n"]:
    """UPS: mean of ``-log(1 - probs_c)`` over the classes that are marked as not the label.

    ``negatives`` has ones for these classes. A row without any has loss 0.
    """
    chosen = negatives.detach()
    log_miss = (-torch.expm1(log_probs)).clamp(min=NEGATIVE_FLOOR).log()
    return -(chosen * log_miss).sum(-1) / (chosen.sum(-1) + NEGATIVE_FLOOR)


def selected_binary_ce_from_log(
    target: Float[Tensor, "n L"],
    selected: Float[Tensor, "n L"],
    log_probs: Float[Tensor, "n L"],
) -> Float[Tensor, " n"]:
    """UPS in its multi-label form: mean binary cross-entropy over the selected classes.

    ``target`` has ones for classes taken as positive, ``selected`` for those selected as positive
    or as negative; a row with nothing selected has loss 0. The equation was not verified against
    the UPS paper.
    """
    target, chosen = target.detach(), selected.detach()
    log_miss = (-torch.expm1(log_probs)).clamp(min=NEGATIVE_FLOOR).log()
    per_class = target * log_probs + (1 - target) * log_miss
    return -(chosen * per_class).sum(-1) / chosen.sum(-1).clamp(min=1)


def vid_nll(
    mean: Float[Tensor, "n d"], embedding: Float[Tensor, "n d"], rho: Float[Tensor, " d"]
) -> Float[Tensor, " n"]:
    """Variational information distillation: Gaussian NLL of the teacher's embedding.

    ``½[(embedding - mean)² / var + log var]`` with ``var = softplus(rho) + 1e-5``, averaged over
    the coordinates, without the constant ``½ log 2π``, so it can be negative. ``mean`` and ``rho``
    carry gradients.
    """
    dtype = working_dtype(mean.dtype)
    variance = F.softplus(rho.to(dtype)) + VID_VARIANCE_FLOOR
    error = embedding.detach().to(dtype) - mean.to(dtype)
    return (error.square() / variance + variance.log()).mean(-1) / 2


def vid_rho(variance: float = 5.0) -> float:
    """The rho at which ``vid_nll`` has this variance; the reference starts at 5."""
    return math.log(math.expm1(variance - VID_VARIANCE_FLOOR))


def dkd(
    logits: Float[Tensor, "n L"],
    teacher_logits: Float[Tensor, "n L"],
    target: Int[Tensor, " n"],
    alpha: Number = 1.0,
    beta: Number = 8.0,
    temperature: Number = 4.0,
) -> Float[Tensor, " n"]:
    """Decoupled KD: ``T² [alpha * KL(target or not) + beta * KL(among the others)]``.

    ``teacher_logits`` may be log-probabilities, -inf where the teacher excludes a class. For a
    one-hot teacher the second term is 0. If the true class is unknown, ``target`` is the teacher's
    top class.
    """
    others = torch.arange(logits.shape[1], device=logits.device) != target[:, None]
    student = _split_target(logits, target, others, temperature)
    teacher = _split_target(teacher_logits.detach(), target, others, temperature)
    between, among = (_kl(p, q) for p, q in zip(teacher, student, strict=True))
    return temperature**2 * (alpha * between + beta * among)


def _split_target(
    logits: Tensor, target: Tensor, others: Tensor, temperature: Number
) -> tuple[Tensor, Tensor]:
    """Log-probabilities of (target, not target), (n, 2), and of each class given not target."""
    log_p = log_softmax(logits.to(working_dtype(logits.dtype)) / temperature)
    log_rest = log_p.masked_fill(~others, -math.inf).logsumexp(-1, keepdim=True)
    pair = torch.cat([log_p.gather(1, target[:, None]), log_rest], dim=-1)
    possible = others & (log_rest > -math.inf)
    return pair, torch.where(possible, log_p - log_rest, -math.inf)


def _kl(log_p: Tensor, log_q: Tensor) -> Tensor:
    """(n,) KL divergence; what has no probability under p adds nothing, whatever q says."""
    p = log_p.exp()
    return (p * torch.where(p > 0, log_p - log_q, 0)).sum(-1)
