"""The losses of the paper's second half for a linear student, and their gradients in closed form.

Notation: s = w·x, f = σ(s) the student's chance of the label +1, y0 = 1 for a label +1 and 0 for
−1, m = mix(f; α) = α·f + (1−α)·(1−f). All functions work elementwise on s, y0 and α; a gradient
with respect to w is the returned derivative times x.
"""

from __future__ import annotations

import torch
from torch import Tensor


def gap(alpha: float | Tensor) -> float | Tensor:
    """|2α − 1|: how far a label is from a coin flip."""
    return (2 * alpha - 1).abs() if isinstance(alpha, Tensor) else abs(2 * alpha - 1)


def mix(chance: Tensor, alpha: float | Tensor) -> Tensor:
    """The chance that the noisy label is +1 when the true one is with ``chance``."""
    return alpha * chance + (1 - alpha) * (1 - chance)


def slam_loss(s: Tensor, y0: Tensor, alpha: float | Tensor) -> Tensor:
    """ce(y, mix(f; α)). A soft y0, as an expected label, is welcome."""
    mixed = mix(torch.sigmoid(s), alpha)
    # xlogy: a label of weight 0 costs nothing, also where the student gives it no chance at all.
    return -torch.xlogy(y0, mixed) - torch.xlogy(1 - y0, 1 - mixed)


def slam_rate(s: Tensor, alpha: float | Tensor) -> Tensor:
    """The lemma's r(f; α) = f(1−f) / (m(1−m)) · |2α−1|; Algorithm 3 takes the step size 1/r."""
    chance = torch.sigmoid(s)
    mixed = mix(chance, alpha)
    return chance * (1 - chance) / (mixed * (1 - mixed)) * gap(alpha)


def slam_slope(s: Tensor, y0: Tensor, alpha: float | Tensor) -> Tensor:
    """Lemma "SLaM gradient": ∂loss/∂s = r(f; α) · sgn(2α−1) · (m − y0)."""
    sign = torch.sign(torch.as_tensor(2 * alpha - 1, dtype=s.dtype))
    return slam_rate(s, alpha) * sign * (mix(torch.sigmoid(s), alpha) - y0)


def expected_slam_slope(s: Tensor, truth0: Tensor, alpha: float | Tensor) -> Tensor:
    """The lemma's second part: the mean over the noisy label, r(f; α) · |2α−1| · (f − g₀)."""
    return slam_rate(s, alpha) * gap(alpha) * (torch.sigmoid(s) - truth0)


def leaky_relu_loss(s: Tensor, y: Tensor, leak: float) -> Tensor:
    """Backward correction's loss: LeakyReLU_λ(−y·s), with (1−λ)z for z ≥ 0 and λz below; y = ±1."""
    z = -y * s
    return torch.where(z >= 0, (1 - leak) * z, leak * z)
