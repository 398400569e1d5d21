"""Who gives the labels: random classification noise, Massart noise, a teacher with α(x).

``accuracy`` is the true chance that a label is right; ``told`` is what the learner knows of it.
Functions of x take points (..., d) and give (...).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from noisyteacher.core.errors import InputError
from noisyteacher.halfspace.checks import check_alpha, check_noise

PointFunction = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class RandomNoise:
    """Every label is turned round with the same chance ``eta`` (RCN)."""

    eta: float

    def __post_init__(self) -> None:
        check_noise(self.eta)

    def accuracy(self, x: Tensor) -> float | Tensor:
        """1 − η, whatever the point."""
        return 1.0 - self.eta

    def told(self, x: Tensor) -> float | Tensor:
        """1 − η."""
        return 1.0 - self.eta


@dataclass(frozen=True)
class MassartNoise:
    """The label of x is turned round with chance η(x) ≤ ``bound``; only the bound is known."""

    eta: PointFunction
    bound: float

    def __post_init__(self) -> None:
        check_noise(self.bound)

    def accuracy(self, x: Tensor) -> float | Tensor:
        """1 − η(x), checked against the bound; x is (..., d)."""
        rate = _values(self.eta, x, "eta")
        if bool(((rate < 0.0) | (rate > self.bound)).any()):
            raise InputError(
                f"eta(x) gave values from {float(rate.min()):g} to {float(rate.max()):g}, outside "
                f"[0, bound={self.bound:g}]."
            )
        return 1.0 - rate

    def told(self, x: Tensor) -> float | Tensor:
        """1 − bound."""
        return 1.0 - self.bound


@dataclass(frozen=True)
class NoisyTeacher:
    """The paper's teacher: right with chance α(x), which is known and is never ½."""

    alpha: PointFunction

    def accuracy(self, x: Tensor) -> float | Tensor:
        """α(x); x is (..., d)."""
        alpha = _values(self.alpha, x, "alpha")
        check_alpha(alpha)
        return alpha

    def told(self, x: Tensor) -> float | Tensor:
        """α(x)."""
        return _values(self.alpha, x, "alpha")


Noise = RandomNoise | MassartNoise | NoisyTeacher


def _values(function: PointFunction, x: Tensor, name: str) -> Tensor:
    values = torch.as_tensor(function(x), dtype=torch.float32, device=x.device)
    if values.shape not in (x.shape[:-1], torch.Size()):
        raise InputError(
            f"{name}(x) must give one value a point, shape {tuple(x.shape[:-1])}, not "
            f"{tuple(values.shape)}."
        )
    return values.expand(x.shape[:-1])
