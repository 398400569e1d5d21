"""Checks of points, labels, margins and noise rates: what cannot be learned is refused."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from noisyteacher.core.errors import InputError

# Float32 rounding of a point on the unit sphere or exactly at the margin.
ROUNDING = 1e-5


def check_dim(dim: int) -> None:
    """A direction needs at least two dimensions."""
    if dim < 2:
        raise InputError(
            f"The dimension must be at least 2, not {dim}: on a line a halfspace through the "
            "origin is only a sign, and there is no direction to learn."
        )


def check_margin(margin: float) -> None:
    """γ lies in (0, 1] because ‖w*‖ = 1 and ‖x‖ ≤ 1."""
    if not 0.0 < margin <= 1.0:
        raise InputError(
            f"The margin must lie in (0, 1], not {margin}: |w*·x| cannot pass 1 for unit vectors, "
            "and without a positive margin none of the guarantees hold."
        )


def check_noise(eta: float) -> None:
    """A label that is wrong half of the time says nothing."""
    if not math.isfinite(eta) or eta < 0.0:
        raise InputError(f"The noise rate must lie in [0, 0.5), not {eta}.")
    if eta >= 0.5:
        raise InputError(
            f"The noise rate must lie in [0, 0.5), not {eta}: from ½ on the noisy labels fit the "
            "opposite halfspace at least as well as the true one, so no number of samples helps."
        )


def check_alpha(alpha: Tensor) -> None:
    """α may lie below ½ (the label is then turned round), but ½ itself is a coin flip."""
    outside = ~((alpha >= 0.0) & (alpha <= 1.0))
    if bool(outside.any()):
        raise InputError(f"alpha must lie in [0, 1], and {alpha[outside].flatten()[0]:g} does not.")
    coins = int((alpha == 0.5).sum())
    if coins:
        raise InputError(
            f"alpha is exactly 0.5 for {coins} of {alpha.numel()} labels: a teacher that is right "
            "half of the time is a coin flip and gives no gradient, so leave those labels out."
        )


def check_fraction(name: str, value: float) -> None:
    """For ε, δ and masses: strictly between 0 and 1."""
    if not 0.0 < value < 1.0:
        raise InputError(f"{name} must lie strictly between 0 and 1, not {value}.")


def check_gap(gap: float) -> None:
    """|2α − 1|, the distance of a label from a coin flip."""
    if not 0.0 < gap <= 1.0:
        raise InputError(f"The gap |2α−1| must lie in (0, 1], not {gap}.")


def check_count(name: str, value: int) -> None:
    """For runs, steps and sizes: at least 1."""
    if value < 1:
        raise InputError(f"{name} must be at least 1, not {value}.")


def check_ball(norms: Tensor) -> None:
    """The step size of every learner here assumes ‖x‖ ≤ 1."""
    largest = float(norms.max())
    if not math.isfinite(largest):
        raise InputError("The points hold a NaN or an infinity.")
    if largest > 1.0 + ROUNDING:
        outside = int((norms > 1.0 + ROUNDING).sum())
        raise InputError(
            f"{outside} of {norms.numel()} points lie outside the unit ball (largest norm "
            f"{largest:.4g}); pass rescale=True to divide each point by its norm, which changes "
            "no label."
        )


def check_points(points: Tensor, normal: Tensor, margin: float) -> None:
    """Points (n, d) in the unit ball, at least ``margin`` away from the plane of ``normal``."""
    check_ball(points.norm(dim=1))
    distance = (points @ normal).abs()
    close = distance < margin - ROUNDING
    if bool(close.any()):
        row = int(distance.argmin())
        raise InputError(
            f"{int(close.sum())} of {len(points)} points are closer than the margin {margin:g} to "
            f"the plane (row {row} at {float(distance[row]):.4g}); lower the margin, leave them "
            "out, or pass rescale=True, which moves short points away from the plane."
        )


def normalize_points(points: Tensor) -> Tensor:
    """Divide each point by its norm, (..., d) -> (..., d): the labels stay as they are.

    The distance to the plane becomes |w*·x| / ‖x‖, larger for points that were inside the ball.
    """
    norms = points.norm(dim=-1, keepdim=True)
    if bool((norms == 0).any()):
        raise InputError("A point at the origin lies on every halfspace's plane: leave it out.")
    return torch.div(points, norms)


def as_float32(name: str, values: object) -> Tensor:
    """NumPy array, tensor or nested list -> float32 tensor without gradient."""
    try:
        if isinstance(values, Tensor):
            return values.detach().to(torch.float32)
        return torch.from_numpy(np.array(values, dtype=np.float32))
    except (TypeError, ValueError) as error:
        raise InputError(f"{name} is not an array of numbers: {error}.") from None
