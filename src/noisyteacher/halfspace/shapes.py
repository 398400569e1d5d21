"""Where the points lie: distributions in the unit ball with a margin γ around a halfspace.

All shapes but ``Points`` stand in a frame with w* = e₁. That is no loss: the learners start at 0
and only ever add multiples of the points they see, so turning the data turns the learner with it.
A shape fills blocks of (steps, dim, runs): every entry of every run is a fresh draw.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from noisyteacher.core.errors import InputError
from noisyteacher.halfspace.conditions import (
    as_float32,
    check_dim,
    check_margin,
    check_points,
    normalize_points,
)

# Knots of the table that turns uniforms into components along w*. It is exact at the knots, so
# its distribution function is nowhere wrong by more than one part in this many.
_KNOTS = 2**14


@dataclass(frozen=True)
class Shape:
    """A distribution of points with |w*·x| ≥ margin and ‖x‖ ≤ 1."""

    dim: int
    margin: float

    def __post_init__(self) -> None:
        check_dim(self.dim)
        check_margin(self.margin)

    @property
    def normal(self) -> Tensor:
        """w*, (dim,)."""
        first = torch.zeros(self.dim)
        first[0] = 1.0
        return first

    def fill(self, x: Tensor, generator: torch.Generator) -> None:
        """Overwrite x (steps, dim, runs) with fresh points."""
        raise TypeError(f"{type(self).__name__} does not implement fill()")

    def positive(self, x: Tensor) -> Tensor:
        """(steps, dim, runs) -> (steps, runs) bool: is the true label +1?"""
        return x[:, 0] > 0


@dataclass(frozen=True)
class _Round(Shape):
    """Shapes that look the same in every direction across w*.

    The component along w* comes from a table of its distribution; the rest is a Gaussian
    direction, scaled. No draw is ever rejected.
    """

    def log_weight(self, angle: np.ndarray) -> np.ndarray:
        """Log density, up to a constant, of the angle between a point's axis and ±w*.

        The angle has the point's component along w* as its cosine. Angles keep the density
        smooth where the component's own density is not (a circle's is infinite at 1).
        """
        raise TypeError(f"{type(self).__name__} does not implement log_weight()")

    def across(self, x: Tensor, room: Tensor, generator: torch.Generator) -> None:
        """Scale the Gaussian x (steps, dim − 1, runs) to norms of at most room (steps, runs)."""
        raise TypeError(f"{type(self).__name__} does not implement across()")

    def fill(self, x: Tensor, generator: torch.Generator) -> None:
        x.normal_(generator=generator)
        along = torch.empty_like(x[:, 0]).uniform_(-1.0, 1.0, generator=generator)
        component = self._component(along.abs())
        self.across(x[:, 1:], (1.0 - component.square()).clamp_(min=0.0).sqrt_(), generator)
        x[:, 0] = component.copysign_(along)

    def _component(self, uniform: Tensor) -> Tensor:
        """Uniforms in [0, 1] -> components along w* in [margin, 1]."""
        table = self._quantiles.to(uniform.device)
        place = uniform.mul(_KNOTS)
        cell = place.long().clamp_(max=_KNOTS - 1)
        low = table[cell]
        return low.add_((table[cell + 1] - low).mul_(place - cell)).clamp_(self.margin, 1.0)

    @cached_property
    def _quantiles(self) -> Tensor:
        """(_KNOTS + 1,) components along w*, from margin to 1, with equal mass between any two."""
        if self.margin == 1.0:
            return torch.ones(_KNOTS + 1)
        widest = math.acos(self.margin)
        angle, weight = self._weights(0.0, widest)
        # In many dimensions nearly all mass sits next to the margin: look there again, closer.
        angle, weight = self._weights(float(angle[weight > 1e-9][0]), widest)
        mass = np.concatenate([[0.0], np.cumsum(weight[1:] + weight[:-1])])
        angles = np.interp(np.linspace(1.0, 0.0, _KNOTS + 1), mass / mass[-1], angle)
        return torch.from_numpy(np.cos(angles).astype(np.float32))

    def _weights(self, narrowest: float, widest: float) -> tuple[np.ndarray, np.ndarray]:
        angle = np.linspace(narrowest, widest, 2**15)
        with np.errstate(divide="ignore"):
            log_weight = self.log_weight(angle)
        return angle, np.exp(log_weight - log_weight.max())


@dataclass(frozen=True)
class Sphere(_Round):
    """Uniform on the unit sphere, less the strip |w*·x| < margin."""

    def log_weight(self, angle: np.ndarray) -> np.ndarray:
        if self.dim == 2:
            return np.zeros_like(angle)
        return np.asarray((self.dim - 2) * np.log(np.sin(angle)))

    def across(self, x: Tensor, room: Tensor, generator: torch.Generator) -> None:
        x.mul_((room / x.norm(dim=1)).unsqueeze(1))


@dataclass(frozen=True)
class Ball(_Round):
    """Uniform in the unit ball, less the strip |w*·x| < margin."""

    def log_weight(self, angle: np.ndarray) -> np.ndarray:
        return np.asarray(self.dim * np.log(np.sin(angle)))

    def across(self, x: Tensor, room: Tensor, generator: torch.Generator) -> None:
        # g / √(‖g‖² + 2E) with E exponential is uniform in the ball (Barthe et al. 2005).
        squares = x.square().sum(1)
        exponential = torch.empty_like(squares).exponential_(generator=generator)
        x.mul_((room * squares.add_(exponential, alpha=2.0).rsqrt_()).unsqueeze(1))


@dataclass(frozen=True)
class Gaussian(_Round):
    """Gaussian of covariance I/(2d): along w* cut to [margin, 1], the rest free.

    The few points that stick out of the unit ball are drawn back to its surface.
    """

    def log_weight(self, angle: np.ndarray) -> np.ndarray:
        return np.asarray(np.log(np.sin(angle)) - self.dim * np.cos(angle) ** 2)

    def across(self, x: Tensor, room: Tensor, generator: torch.Generator) -> None:
        spread = 1.0 / math.sqrt(2.0 * self.dim)
        x.mul_(torch.clamp(room / x.norm(dim=1), max=spread).unsqueeze(1))


@dataclass(frozen=True)
class NearMargin(Shape):
    """The hard one: every point lies exactly at the margin, with norm 1.

    A share ``rare`` of the points has a random direction across w*; all others are the two points
    ±(margin·e₁ + √(1−margin²)·e₂). The frequent pair says little about w*, yet its noise is added
    to the weights at every step; the rare points must be learned against that noise. With
    dim ≈ 1/margin² and rare ≈ 4ε this is where SLaM needs its 1/(γ²ε²).
    """

    rare: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0.0 < self.rare <= 1.0:
            raise InputError(f"rare is a share of the points, in (0, 1], not {self.rare}.")

    def fill(self, x: Tensor, generator: torch.Generator) -> None:
        reach = math.sqrt(1.0 - self.margin**2)
        x.normal_(generator=generator)
        across = x[:, 1:]
        across.mul_((reach / across.norm(dim=1)).unsqueeze(1))
        chance = torch.empty_like(x[:, 0]).uniform_(-1.0, 1.0, generator=generator)
        side = torch.ones_like(chance).copysign_(chance)
        if self.rare < 1.0:
            seldom = chance.abs() < self.rare
            across.mul_(seldom.unsqueeze(1))
            x[:, 1] = torch.where(seldom, x[:, 1], side * reach)
        x[:, 0] = side * self.margin


@dataclass(frozen=True)
class Points(Shape):
    """A finite support, given: each draw takes one row of the points (m, dim) at random."""

    points: Tensor = field(compare=False, repr=False)
    w_star: Tensor = field(compare=False, repr=False)

    @classmethod
    def of(cls, points: object, normal: object, margin: float, *, rescale: bool = False) -> Points:
        """From points (m, d) and a normal (d,) of any length; rescale puts points on the sphere."""
        table, direction = as_float32("points", points), as_float32("normal", normal)
        if table.ndim != 2 or direction.shape != table.shape[1:] or not len(table):
            raise InputError(
                "points must have shape (m, d) with m ≥ 1 and normal (d,), not "
                f"{tuple(table.shape)} and {tuple(direction.shape)}."
            )
        check_dim(table.shape[1])
        check_margin(margin)
        direction = normalize_points(direction)
        table = normalize_points(table) if rescale else table
        check_points(table, direction, margin)
        return cls(dim=table.shape[1], margin=margin, points=table, w_star=direction)

    @property
    def normal(self) -> Tensor:
        return self.w_star

    def fill(self, x: Tensor, generator: torch.Generator) -> None:
        steps, _, runs = x.shape
        row = torch.empty((steps, runs), dtype=torch.int64, device=x.device)
        row.random_(0, len(self.points), generator=generator)
        x.copy_(self.points.to(x.device)[row].movedim(2, 1))

    def positive(self, x: Tensor) -> Tensor:
        return torch.einsum("sdr,d->sr", x, self.w_star.to(x.device)) > 0


def long_servedio(margin: float) -> Points:
    """Long & Servedio's four points in the plane, and their mirror images: w* = e₁.

    One far point, one that pulls towards e₂ and two that pay for it. Under random noise every
    convex loss on the labels alone, the logistic one included, gets the two wrong when the margin
    is small: a quarter of the mass each.
    """
    if not 0.0 < margin <= 1.0 / 6.0:
        raise InputError(f"This set needs a margin in (0, 1/6], not {margin}.")
    half = np.array([[1.0, 0.0], [margin, 5 * margin], [margin, -margin], [margin, -margin]])
    return Points.of(np.concatenate([half, -half]), [1.0, 0.0], margin)
