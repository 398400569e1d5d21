"""What a learner does with one example: one update family, five rules.

Every rule adds ``s · sgn(2α−1) · (y0 − M) · x`` to the weights, with M = α·p + (1−α)·(1−p) the mix
of the student's prediction p with the teacher's noise. The rules differ in p (a sigmoid or a step
of w·x), in the step s, in a projection to the unit ball, and in whether they use α at all.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from noisyteacher.core.errors import InputError
from noisyteacher.halfspace.conditions import check_count, check_margin


def step_function(margin: Tensor) -> Tensor:
    """1 where w·x > 0, else 0: a point on the plane counts as negative, here and everywhere."""
    return (margin > 0).to(margin.dtype)


@dataclass(frozen=True)
class Rule:
    """What a learner does with one example. ``margin`` below is w·x, one value a run."""

    uses_alpha: ClassVar[bool] = True
    projects: ClassVar[bool] = False  # keep ‖w‖ ≤ 1

    def predict(self, margin: Tensor) -> Tensor:
        """p: the student's chance of the label +1."""
        return torch.sigmoid(margin)

    def trusted(self, alpha: float | Tensor) -> float | Tensor:
        """The α that enters the mix."""
        return alpha

    def step(self, margin: Tensor, time: int) -> float | Tensor:
        """s at the step number ``time`` = 1, 2, …"""
        return 1.0

    def target(self, y0: Tensor, alpha: float | Tensor) -> tuple[Tensor, float | Tensor]:
        """Write sgn(2α−1)·(y0 − M) as target − slope·p: all that does not depend on w."""
        alpha = self.trusted(alpha)
        if isinstance(alpha, Tensor):
            return (2 * alpha - 1).sign() * (y0 - (1 - alpha)), (2 * alpha - 1).abs()
        return math.copysign(1.0, 2 * alpha - 1) * (y0 - (1 - alpha)), abs(2 * alpha - 1)

    def push(self, margin: Tensor, y0: Tensor, alpha: float | Tensor, time: int = 1) -> Tensor:
        """The multiple of x that is added to w."""
        target, slope = self.target(y0, alpha)
        return self.step(margin, time) * (target - slope * self.predict(margin))


@dataclass(frozen=True)
class Slam(Rule):
    """The paper's Algorithm 3: gradient steps on the SLaM loss with step size 1/r.

    1/r is never computed: it cancels against the gradient's own factor r, which tends to 0 for a
    saturated student.
    """


@dataclass(frozen=True)
class Logistic(Rule):
    """Plain logistic regression on the noisy labels: SLaM that believes every label."""

    uses_alpha = False

    def trusted(self, alpha: float | Tensor) -> float | Tensor:
        return 1.0


@dataclass(frozen=True)
class Perceptron(Logistic):
    """Rosenblatt's rule on the noisy labels."""

    def predict(self, margin: Tensor) -> Tensor:
        return step_function(margin)


@dataclass(frozen=True)
class Backward(Rule):
    """Backward correction (Bylander 1994): projected SGD on the LeakyReLU loss.

    λ = η + slack. At λ = η the population loss is minimal at w = 0, so λ stands a little above.
    ``horizon`` is the number of steps T for the fixed step 1/√T; None takes 1/√t at step t.
    """

    slack: float = 0.01
    horizon: int | None = None

    projects = True

    def __post_init__(self) -> None:
        _check_horizon(self.horizon)
        if not 0.0 <= self.slack < 0.5:
            raise InputError(f"slack must lie in [0, 0.5), not {self.slack}.")

    def predict(self, margin: Tensor) -> Tensor:
        return step_function(margin)

    def trusted(self, alpha: float | Tensor) -> float | Tensor:
        if isinstance(alpha, Tensor):
            return alpha - self.slack * (2 * alpha - 1).sign()
        return alpha - math.copysign(self.slack, 2 * alpha - 1)

    def step(self, margin: Tensor, time: int) -> float | Tensor:
        return 1.0 / math.sqrt(self.horizon or time)


@dataclass(frozen=True)
class Perspectron(Rule):
    """Perceptron-like steps, divided by |w·x| + γ: holds for Massart noise too.

    Derived for this package from the abstract of Chandrasekaran et al. (NeurIPS 2024). ``margin``
    is γ, or a lower bound of it; under Massart noise α is 1 minus the bound on the noise.
    """

    margin: float
    horizon: int | None = None

    projects = True

    def __post_init__(self) -> None:
        check_margin(self.margin)
        _check_horizon(self.horizon)

    def predict(self, margin: Tensor) -> Tensor:
        return step_function(margin)

    def step(self, margin: Tensor, time: int) -> float | Tensor:
        scale = self.margin / math.sqrt(self.horizon or time)
        return scale / (margin.abs() + self.margin)


def _check_horizon(horizon: int | None) -> None:
    if horizon is not None:
        check_count("horizon", horizon)
