"""The theory: gradients in closed form, the guarantee, and the consistency proposition tried out.

**Gradients.** s = w·x, f = σ(s) the student's chance of the label +1, y0 = 1 for a label +1 and 0
for −1, m = noisy_chance(f, α) = α·f + (1−α)·(1−f). These functions work elementwise on s, y0 and α;
a gradient with respect to w is the returned derivative times x.

**The guarantee**, with its constants as the corrected proof gives them. ``gap`` is the least
|2α(x) − 1|, the quantity the proof calls β; the theorem's own condition reads |½ − α(x)| ≥ β once
its sign is put right, which gives twice the gap the proof asks for.

**Proposition "SLaM consistency"**: is the truth what minimises the population loss? On a finite
support a student that can say anything is a table of probabilities, one row a point, and the
population loss splits into rows. Each row is minimised over the simplex from many starts (the loss
is convex with ``normalize`` "k-1" and "none", not with "sum"). The proposition as printed asks for
α·k ≠ 1. That is not enough when k < L: below α = 1/k the form "k-1" does better with all mass on a
class *outside* the shortlist, because the noise term then feeds the wrong classes most. What is
true: α > 1/k for "k-1", and α > ½ for "none".
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from scipy.optimize import minimize
from torch import Tensor

from noisyteacher.core.errors import InputError
from noisyteacher.core.reprs import ShortRepr
from noisyteacher.halfspace.conditions import check_fraction, check_gap, check_margin
from noisyteacher.losses import check_normalize, mix

# -- gradients ------------------------------------------------------------------------------------


def gap(alpha: float | Tensor) -> float | Tensor:
    """|2α − 1|: how far a label is from a coin flip."""
    return (2 * alpha - 1).abs() if isinstance(alpha, Tensor) else abs(2 * alpha - 1)


def noisy_chance(chance: Tensor, alpha: float | Tensor) -> Tensor:
    """The chance that the noisy label is +1 when the true one is with ``chance``."""
    return alpha * chance + (1 - alpha) * (1 - chance)


def slam_loss(s: Tensor, y0: Tensor, alpha: float | Tensor) -> Tensor:
    """ce(y, noisy_chance(f, α)). A soft y0, as an expected label, is welcome."""
    mixed = noisy_chance(torch.sigmoid(s), alpha)
    # xlogy: a label of weight 0 costs nothing, also where the student gives it no chance at all.
    return -torch.xlogy(y0, mixed) - torch.xlogy(1 - y0, 1 - mixed)


def slam_rate(s: Tensor, alpha: float | Tensor) -> Tensor:
    """The lemma's r(f; α) = f(1−f) / (m(1−m)) · |2α−1|; Algorithm 3 takes the step size 1/r."""
    chance = torch.sigmoid(s)
    mixed = noisy_chance(chance, alpha)
    return chance * (1 - chance) / (mixed * (1 - mixed)) * gap(alpha)


def slam_slope(s: Tensor, y0: Tensor, alpha: float | Tensor) -> Tensor:
    """Lemma "SLaM gradient": ∂loss/∂s = r(f; α) · sgn(2α−1) · (m − y0)."""
    sign = torch.sign(torch.as_tensor(2 * alpha - 1, dtype=s.dtype))
    return slam_rate(s, alpha) * sign * (noisy_chance(torch.sigmoid(s), alpha) - y0)


def expected_slam_slope(s: Tensor, truth0: Tensor, alpha: float | Tensor) -> Tensor:
    """The lemma's second part: the mean over the noisy label, r(f; α) · |2α−1| · (f − g₀)."""
    return slam_rate(s, alpha) * gap(alpha) * (torch.sigmoid(s) - truth0)


# -- the guarantee --------------------------------------------------------------------------------

# E‖w‖² ≤ NORM_GROWTH · T for Algorithm 3 (second claim): 1 from the steps, 2/e from their drift.
NORM_GROWTH = 2 / math.e + 1


def slam_steps(margin: float, epsilon: float, gap: float, delta: float = 0.01) -> int:
    """Steps after which, with chance 1 − δ, some iterate of Algorithm 3 has error at most ε.

    A tenth of δ goes to the first claim (Azuma: w·w* ≥ (gap·γ·ε/4)·T while all iterates are
    bad), the rest to the second (Markov: ‖w‖² ≤ NORM_GROWTH·T/δ); together they contradict
    Cauchy–Schwarz.
    """
    check_margin(margin)
    check_fraction("epsilon", epsilon)
    check_fraction("delta", delta)
    check_gap(gap)
    correlation = 128 * math.log(10 / delta)
    norm = 16 * NORM_GROWTH / (0.9 * delta)
    return math.floor(max(correlation, norm) / (gap * margin * epsilon) ** 2) + 1


def drift(margin: float, gap: float) -> float:
    """First claim, one step: E[u]·w* is at least this times the iterate's error."""
    return gap * margin / 2


# Exponents of 1/γ, 1/ε and 1/gap in the proved number of samples; None where nothing is proved.
PROVED: dict[str, dict[str, float | None]] = {
    "Slam": {"margin": 2.0, "epsilon": 2.0, "gap": 2.0},
    "Backward": {"margin": 4.0, "epsilon": 2.0, "gap": None},
    "Backward, λ = η": {"margin": None, "epsilon": None, "gap": None},
    "Perspectron": {"margin": 2.0, "epsilon": 2.0, "gap": None},
    "Logistic": {"margin": None, "epsilon": None, "gap": None},
    "Perceptron": {"margin": None, "epsilon": None, "gap": None},
}


# -- consistency ----------------------------------------------------------------------------------

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


@dataclass(frozen=True, repr=False)
class ConsistencyCheck(ShortRepr):
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
) -> ConsistencyCheck:
    """Minimise the population SLaM loss on the support and compare with the truth."""
    check_normalize(normalize)
    for point in support:
        _check_point(point, classes)
    if not support:
        raise InputError("The support needs at least one point.")
    rows = [_minimise(point, classes, normalize, seed) for point in support]
    minimiser, loss, truth_loss, unique = (np.array(column) for column in zip(*rows, strict=True))
    mass = np.array([point.mass for point in support])
    return ConsistencyCheck(
        minimiser=minimiser,
        loss=loss,
        truth_loss=truth_loss,
        truth_is_minimal=truth_loss <= loss + _SAME_LOSS,
        truth_is_unique=unique,
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
