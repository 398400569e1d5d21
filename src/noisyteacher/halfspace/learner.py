"""The estimator, many independent runs of one rule side by side, and which iterate to keep.

The theorem says that *some* iterate is good; noisy labels that the learner has not seen find it.
If a label of x is right with chance α, then (1{label ≠ prediction} − (1−α)) / (2α−1) has the true
error as its mean, so the least average over held-out labels is a fair choice.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import repeat
from typing import Self

import numpy as np
import torch
from torch import Tensor

from noisyteacher.core.errors import InputError
from noisyteacher.core.reprs import ShortRepr
from noisyteacher.halfspace.conditions import (
    as_float32,
    check_alpha,
    check_ball,
    check_count,
    check_dim,
    check_fraction,
    check_gap,
    normalize_points,
)
from noisyteacher.halfspace.rules import Rule, step_function
from noisyteacher.halfspace.stream import Block

_WORKING_FLOATS = 2**22  # margins held at once


@dataclass(frozen=True, repr=False)
class Iterates(ShortRepr):
    """Iterates kept on the way: after ``steps[i]`` examples the weights were ``weights[i]``."""

    steps: np.ndarray  # (c,) int64, growing
    weights: Tensor  # (c, runs, dim)


@dataclass(frozen=True, repr=False)
class Chosen(ShortRepr):
    """One iterate a run."""

    weights: Tensor  # (runs, dim)
    steps: np.ndarray  # (runs,) int64: when it was the iterate
    error: np.ndarray  # (runs,) its error, estimated from the noisy hold-out labels


class HalfspaceLearner:
    """Learns ±1 labels of points in the unit ball, one example at a time.

    ``keep`` is the ratio between the steps at which an iterate is kept: 1.1 keeps about 100
    of 40 000. ``rescale`` divides each point by its norm instead of refusing points outside the
    unit ball.

    >>> from noisyteacher.halfspace import Ball, HalfspaceLearner, NoisyHalfspace, RandomNoise, Slam
    >>> data = NoisyHalfspace(Ball(dim=5, margin=0.2), RandomNoise(0.2)).sample(2000)
    >>> learner = HalfspaceLearner(Slam()).fit(data.x, data.y, alpha=0.8)
    >>> bool((learner.predict(data.x) == data.truth).mean() > 0.95)
    True
    """

    def __init__(
        self,
        rule: Rule,
        *,
        keep: float = 1.1,
        rescale: bool = False,
        device: torch.device | str = "cpu",
    ) -> None:
        self.rule = rule
        self.keep = keep
        self.rescale = rescale
        self.device = device
        self._weights: Tensor | None = None  # (dim, runs): the runs last, as in Block

    def __repr__(self) -> str:
        return f"HalfspaceLearner({self.rule!r}, keep={self.keep}, rescale={self.rescale})"

    def fit(self, x: object, y: object, alpha: object = None) -> Self:
        """Start at w = 0 and take one step for each example, in order.

        x is (n, d), or (n, runs, d) for one sequence a run; y, in {-1, +1}, is (n,) or (n, runs);
        alpha, the chance that a label is right, is one number or has the shape of y.
        """
        self._weights = None
        return self.partial_fit(x, y, alpha)

    def partial_fit(self, x: object, y: object, alpha: object = None) -> Self:
        """Go on from the present weights; arguments as in ``fit``."""
        points, labels, trust = self._check(x, y, alpha)
        if trust is None and self.rule.uses_alpha:
            raise InputError(
                f"{self.rule!r} needs alpha, the chance that a label is right: pass it, or "
                "estimate it from some gold labels with estimate_alpha()."
            )
        one_run = points.ndim == 2
        if one_run:
            points, labels = points.unsqueeze(1), labels.unsqueeze(1)
            trust = trust.unsqueeze(1) if isinstance(trust, Tensor) else trust
        _, runs, dim = points.shape
        if self._weights is None:
            self.start(runs, dim)
            self._one_run = one_run
        elif self._weights.shape != (dim, runs):
            raise InputError(
                f"The learner has {self._weights.shape[1]} runs in {self._weights.shape[0]} "
                f"dimensions, and these examples {runs} in {dim}."
            )
        x_block = points.movedim(1, 2).contiguous()
        self.advance(Block(x_block, (labels + 1) / 2, 1.0 if trust is None else trust))
        return self

    def select(self, x: object, y: object, alpha: object = None) -> Self:
        """Choose, for each run, the kept iterate with the least error on noisy hold-out data.

        Arguments as in ``fit``; points of shape (m, d) are shared by all runs.
        """
        points, labels, trust = self._check(x, y, alpha)
        runs, dim = self.weights_.shape
        if points.shape[-1] != dim or points.shape[1:-1] not in ((), (runs,)):
            raise InputError(
                f"Hold-out points must have shape (m, {dim}) or (m, {runs}, {dim}), not "
                f"{_shape(points)}."
            )
        self.chosen_: Chosen | None = choose_iterate(self.history_, points, labels, trust)
        return self

    def predict(self, x: object) -> np.ndarray | Tensor:
        """Labels -1 or +1 of points (n, d): (n,) for one run, (n, runs) for several.

        Uses the iterate that ``select`` chose, unless steps were taken since then.
        """
        weights = self.weights_ if self.chosen_ is None else self.chosen_.weights
        points = as_float32("x", x).to(weights.device)
        if points.ndim != 2 or points.shape[1] != weights.shape[1]:
            raise InputError(f"x must have shape (n, {weights.shape[1]}), not {_shape(points)}.")
        labels = step_function(points @ weights.T).mul_(2).sub_(1).to(torch.int64)
        labels = labels[:, 0] if self._one_run else labels
        return labels if isinstance(x, Tensor) else labels.cpu().numpy()

    @property
    def weights_(self) -> Tensor:
        """The present iterates, (runs, d)."""
        if self._weights is None:
            raise InputError("This learner has seen no examples: call fit() first.")
        return self._weights.T

    @property
    def history_(self) -> Iterates:
        """The kept iterates, the present one last."""
        present = self.weights_
        steps, weights = list(self._kept_steps), list(self._kept_weights)
        if not steps or steps[-1] != self.steps_:
            steps.append(self.steps_)
            weights.append(present)
        return Iterates(np.array(steps), torch.stack(weights))

    def start(self, runs: int, dim: int) -> None:
        """Set all weights to 0. With ``advance``, the way in for streams of checked blocks."""
        if not self.keep > 1.0:
            raise InputError(f"keep is a ratio of steps and must be above 1, not {self.keep}.")
        self._weights = torch.zeros((dim, runs), device=self.device)
        self._one_run = False
        self._kept_steps: list[int] = []
        self._kept_weights: list[Tensor] = []
        self._next_kept = 1
        self.steps_ = 0
        self.chosen_ = None

    @torch.no_grad()
    def advance(self, block: Block) -> None:
        """Take one step a run for each step of the block. Assumes clean input."""
        assert self._weights is not None
        rule, weights = self.rule, self._weights
        products, margin = torch.empty_like(weights), torch.empty_like(weights[0])
        target, slope = rule.target(block.y0, block.alpha)
        slopes: Iterable[float | Tensor] = (
            slope.unbind(0) if isinstance(slope, Tensor) else repeat(slope)
        )
        self.chosen_ = None
        for x, goal, weight in zip(block.x.unbind(0), target.unbind(0), slopes, strict=False):
            self.steps_ += 1
            torch.mul(x, weights, out=products)
            torch.sum(products, 0, out=margin)
            push = rule.step(margin, self.steps_) * (goal - weight * rule.predict(margin))
            weights.addcmul_(x, push)
            if rule.projects:
                torch.mul(weights, weights, out=products)
                weights.mul_(products.sum(0).clamp_(min=1.0).rsqrt_())
            if self.steps_ == self._next_kept:
                self._kept_steps.append(self.steps_)
                self._kept_weights.append(weights.T.clone())
                self._next_kept = max(self.steps_ + 1, math.ceil(self.steps_ * self.keep))

    def _check(
        self, x: object, y: object, alpha: object
    ) -> tuple[Tensor, Tensor, float | Tensor | None]:
        """Points, labels and α as clean tensors on the device, in the shapes they came in."""
        points = as_float32("x", x).to(self.device)
        labels = as_float32("y", y).to(self.device)
        if points.ndim not in (2, 3) or labels.shape != points.shape[:-1] or not len(points):
            raise InputError(
                "x must have shape (n, d) with y (n,), or (n, runs, d) with y (n, runs), not "
                f"{_shape(points)} with {_shape(labels)}."
            )
        check_dim(points.shape[-1])
        if self.rescale:
            points = normalize_points(points)
        check_ball(points.norm(dim=-1))
        strange = labels.abs() != 1
        if bool(strange.any()):
            raise InputError(f"Labels must be -1 or +1, not {float(labels[strange][0]):g}.")
        return points, labels, None if alpha is None else self._check_trust(alpha, labels)

    def _check_trust(self, alpha: object, labels: Tensor) -> float | Tensor:
        trust = as_float32("alpha", alpha).to(self.device)
        check_alpha(trust)
        if trust.ndim == 0:
            return float(trust)
        if trust.shape != labels.shape:
            raise InputError(
                f"alpha must be one number or have the shape of y, {_shape(labels)}, not "
                f"{_shape(trust)}."
            )
        return trust


def _shape(values: Tensor) -> tuple[int, ...]:
    return tuple(values.shape)


@torch.no_grad()
def holdout_errors(
    weights: Tensor, x: Tensor, y: Tensor, alpha: float | Tensor | None = None
) -> Tensor:
    """Estimate true errors from noisy labels: weights (c, runs, d) -> (c, runs).

    x is (m, d), the same for all runs, or (m, runs, d); y, in {-1, +1}, and alpha have the shape
    of x without its last axis. Without alpha it is the plain disagreement with the noisy labels,
    which under random classification noise has its minimum at the same iterate.
    """
    candidates, runs, _ = weights.shape
    columns = weights.permute(1, 2, 0)  # (runs, d, c)
    total = torch.zeros((candidates, runs), device=weights.device)
    length = max(1, _WORKING_FLOATS // (candidates * runs))
    for start in range(0, len(x), length):
        part = slice(start, start + length)
        points = x[part] if x.ndim == 3 else x[part].unsqueeze(1).expand(-1, runs, -1)
        margins = torch.matmul(points.movedim(1, 0), columns)  # (runs, part, c)
        wrong = ((margins > 0) != (_by_run(y[part]) > 0)).float()
        if alpha is not None:
            trust = _by_run(alpha[part]) if isinstance(alpha, Tensor) else alpha
            wrong = (wrong - (1 - trust)) / (2 * trust - 1)
        total += wrong.sum(1).T
    return total / len(x)


def _by_run(values: Tensor) -> Tensor:
    """(m,) or (m, runs) -> (1 or runs, m, 1)."""
    return values.reshape(len(values), -1).T.unsqueeze(2)


def choose_iterate(
    history: Iterates, x: Tensor, y: Tensor, alpha: float | Tensor | None = None
) -> Chosen:
    """Take, for each run, the kept iterate with the least hold-out error (arguments as above)."""
    return least_error(history, holdout_errors(history.weights, x, y, alpha))


def least_error(history: Iterates, errors: Tensor) -> Chosen:
    """The iterate with the least of the estimated errors (c, runs), run by run."""
    best = errors.argmin(0)
    runs = torch.arange(errors.shape[1], device=errors.device)
    return Chosen(
        weights=history.weights[best, runs],
        steps=history.steps[best.cpu().numpy()],
        error=errors[best, runs].cpu().numpy(),
    )


def best_of_repeats(chosen: Chosen, repeats: int) -> Chosen:
    """Amplify: of every ``repeats`` neighbouring runs keep the one with the least error.

    The repeats of one learner must have been judged on the same hold-out data.
    """
    check_count("repeats", repeats)
    if len(chosen.steps) % repeats:
        raise InputError(f"{len(chosen.steps)} runs cannot be split into groups of {repeats}.")
    best = chosen.error.reshape(-1, repeats).argmin(1)
    index = np.arange(len(best)) * repeats + best
    return Chosen(chosen.weights[torch.from_numpy(index)], chosen.steps[index], chosen.error[index])


def repeats_for(delta: float, failure: float = 0.01) -> int:
    """How many independent repeats make the chance of failure at most δ, if one fails with 1%."""
    check_fraction("delta", delta)
    check_fraction("failure", failure)
    return max(1, math.ceil(math.log(delta) / math.log(failure)))


def holdout_size(epsilon: float, gap: float, candidates: int, delta: float = 0.01) -> int:
    """Labels needed to tell all candidates' errors within ε, with chance 1 − δ (Hoeffding).

    ``gap`` is the least |2α(x) − 1|: one label's estimate then spans an interval of length 1/gap.
    """
    check_fraction("epsilon", epsilon)
    check_fraction("delta", delta)
    check_count("candidates", candidates)
    check_gap(gap)
    return math.ceil(math.log(2 * candidates / delta) / (2 * (gap * epsilon) ** 2))


def estimate_alpha(teacher: object, gold: object) -> float:
    """Estimate a constant α from labels of both kinds, (n,) each: the smoothed share that agree.

    For an α that depends on the point, fit ``noisyteacher.TeacherNoise`` to the teacher's two
    probabilities and pass its per-example alpha to the learner.
    """
    given, true = np.asarray(teacher), np.asarray(gold)
    if given.shape != true.shape or given.ndim != 1 or not len(given):
        raise InputError(
            f"teacher and gold must be label vectors of one length, not of shapes {given.shape} "
            f"and {true.shape}."
        )
    alpha = (float((given == true).sum()) + 0.5) / (len(given) + 1.0)
    check_alpha(torch.tensor(alpha, dtype=torch.float64))
    return alpha
