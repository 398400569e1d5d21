"""Proposition "SLaM consistency", tried out: is the truth what minimises the population loss?

On a finite support a student that can say anything is a table of probabilities, one row a point,
and the population loss splits into rows. Each row is minimised over the simplex from many starts
(the loss is convex with ``normalize`` "k-1" and "none", not with "sum").

The proposition as printed asks for α·k ≠ 1. That is not enough when k < L: below α = 1/k the form
"k-1" does better with all mass on a class *outside* the shortlist, because the noise term then
feeds the wrong classes most. What is true: α > 1/k for "k-1", and α > ½ for "none".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from scipy.optimize import minimize
from torch import Tensor

from noisyteacher.core.errors import InputError
from noisyteacher.losses import check_normalize, mix

_SAME_LOSS = 1e-7  # two minima are one if their losses differ by less
_SAME_POINT = 1e-2  # and a minimiser is the truth if no probability is further off


@dataclass(frozen=True)
class SupportPoint:
    """One x: its true class, the teacher's accuracy, and the shortlist that holds the truth.

    The teacher names the true class with chance α, else another class of the shortlist, all
    equally likely. ``mass`` is the point's share of the population.
    """

    truth: int
    alpha: float
    shortlist: tuple[int, ...]
    mass: float = 1.0

    def mask(self, classes: int) -> np.ndarray:
        """(L,) bool."""
        return np.isin(np.arange(classes), self.shortlist)

    def expected_label(self, classes: int) -> np.ndarray:
        """E[y | x], (L,)."""
        label = np.where(self.mask(classes), (1 - self.alpha) / (len(self.shortlist) - 1), 0.0)
        label[self.truth] = self.alpha
        return label


@dataclass(frozen=True)
class Consistency:
    """The minimisers beside the truth; all arrays have one entry a point."""

    minimiser: np.ndarray  # (n, L)
    loss: np.ndarray  # (n,) at the minimiser
    truth_loss: np.ndarray  # (n,) at the true class
    truth_is_minimal: np.ndarray  # (n,) bool: the proposition's first claim
    truth_is_unique: np.ndarray  # (n,) bool: its second, no other minimiser was found
    population_loss: float

    @property
    def holds(self) -> bool:
        """Both claims, at every point."""
        return bool((self.truth_is_minimal & self.truth_is_unique).all())


def check_consistency(
    support: Sequence[SupportPoint], classes: int, normalize: str = "k-1", seed: int = 0
) -> Consistency:
    """Minimise the population SLaM loss on the support and compare with the truth."""
    check_normalize(normalize)
    for point in support:
        _check_point(point, classes)
    if not support:
        raise InputError("The support needs at least one point.")
    rows = [_minimise(point, classes, normalize, seed) for point in support]
    mass = np.array([point.mass for point in support])
    loss = np.array([row[1] for row in rows])
    truth_loss = np.array([row[2] for row in rows])
    return Consistency(
        minimiser=np.stack([row[0] for row in rows]),
        loss=loss,
        truth_loss=truth_loss,
        truth_is_minimal=truth_loss <= loss + _SAME_LOSS,
        truth_is_unique=np.array([row[3] for row in rows]),
        population_loss=float(mass @ loss / mass.sum()),
    )


def row_loss(
    probs: np.ndarray, point: SupportPoint, normalize: str = "k-1"
) -> tuple[float, np.ndarray]:
    """Expected SLaM loss of the prediction (L,) at one point, and its gradient (L,)."""
    prediction = torch.tensor(probs, dtype=torch.float64).requires_grad_()
    loss = _loss(prediction, point, normalize)
    (gradient,) = torch.autograd.grad(loss, prediction)
    return float(loss.detach()), gradient.numpy()


def _loss(prediction: Tensor, point: SupportPoint, normalize: str) -> Tensor:
    classes = len(prediction)
    mask = torch.from_numpy(point.mask(classes)[None])
    mixed = mix(prediction[None], point.alpha, mask, len(point.shortlist), normalize)[0]
    label = torch.from_numpy(point.expected_label(classes))
    # A class that never occurs costs nothing, also where its mix is 0; the floor keeps the others'
    # loss finite at the rim of the simplex.
    return -(label * mixed.clamp(min=1e-12).log()).sum()


def _minimise(
    point: SupportPoint, classes: int, normalize: str, seed: int
) -> tuple[np.ndarray, float, float, bool]:
    """(minimiser, its loss, the loss of the truth, whether no other minimiser was found)."""
    truth = np.eye(classes)[point.truth]
    truth_loss, _ = row_loss(truth, point, normalize)
    found = [truth, *np.eye(classes)]
    for start in _starts(classes, seed):
        result = minimize(
            lambda p: row_loss(_onto_simplex(p), point, normalize),
            start,
            jac=True,
            bounds=[(0.0, 1.0)] * classes,
            constraints={"type": "eq", "fun": lambda p: p.sum() - 1.0, "jac": np.ones_like},
            method="SLSQP",
            options={"ftol": 1e-12, "maxiter": 300},
        )
        found.append(_onto_simplex(result.x))
    losses = np.array([row_loss(p, point, normalize)[0] for p in found])
    minimal = [
        p for p, loss in zip(found, losses, strict=True) if loss <= losses.min() + _SAME_LOSS
    ]
    # The truth where it is among the minima, else the best that was found.
    best = min(minimal, key=lambda p: float(np.abs(p - truth).max()))
    unique = all(np.abs(p - truth).max() < _SAME_POINT for p in minimal)
    return best, float(losses.min()), truth_loss, unique


def _starts(classes: int, seed: int) -> np.ndarray:
    """The centre, a point near each corner, and some at random, (starts, L)."""
    near_corners = 0.9 * np.eye(classes) + 0.1 / classes
    inside = np.random.default_rng(seed).dirichlet(np.ones(classes), size=4)
    return np.concatenate([np.full((1, classes), 1 / classes), near_corners, inside])


def _onto_simplex(point: np.ndarray) -> np.ndarray:
    """SLSQP leaves the simplex by rounding."""
    clipped = np.clip(point, 0.0, 1.0)
    return np.asarray(clipped / clipped.sum())


def _check_point(point: SupportPoint, classes: int) -> None:
    if not 0.0 < point.alpha <= 1.0:
        raise InputError(f"alpha must lie in (0, 1], not {point.alpha}.")
    listed = set(point.shortlist)
    if len(listed) != len(point.shortlist) or len(listed) < 2 or not listed <= set(range(classes)):
        raise InputError(
            f"The shortlist must hold at least two different classes below {classes}, not "
            f"{point.shortlist}."
        )
    if point.truth not in listed:
        raise InputError(f"The true class {point.truth} must stand in the shortlist.")
    if not point.mass > 0:
        raise InputError(f"A point's mass must be positive, not {point.mass}.")
