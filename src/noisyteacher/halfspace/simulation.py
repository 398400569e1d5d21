"""Many runs of several rules on the same fresh examples, their true errors along the way, the
samples until the error is at most ε, and the power laws fitted to those."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from scipy import stats
from torch import Tensor

from noisyteacher.core.errors import InputError
from noisyteacher.core.machine import one_thread
from noisyteacher.core.reprs import ShortRepr
from noisyteacher.halfspace.conditions import check_count
from noisyteacher.halfspace.learner import (
    Chosen,
    HalfspaceLearner,
    best_of_repeats,
    holdout_errors,
    least_error,
)
from noisyteacher.halfspace.rules import Rule
from noisyteacher.halfspace.stream import NoisyHalfspace

# Streams of one seed that never meet.
_EXAMPLES, _TEST, _HOLDOUT, _GOLD = range(4)
_BOOTSTRAP = 200


@dataclass(frozen=True, repr=False)
class Trace(ShortRepr):
    """What one rule did: axis 0 is the kept iterates, axis 1 the runs."""

    errors: np.ndarray  # (c, runs): chance to disagree with the truth
    correlation: np.ndarray  # (c, runs): w·w*
    norm: np.ndarray  # (c, runs): ‖w‖

    @property
    def best(self) -> np.ndarray:
        """(c, runs): the least error of any iterate so far."""
        return np.minimum.accumulate(self.errors, axis=0)


@dataclass(frozen=True, repr=False)
class Simulation(ShortRepr):
    """The rules saw the same examples, so they may be compared run by run."""

    steps: np.ndarray  # (c,)
    traces: dict[str, Trace]
    chosen_errors: dict[str, np.ndarray]  # (learners,): see ``repeats`` below; empty without it


@torch.no_grad()
@one_thread()  # the stream's workers share the cores already
def simulate(
    data: NoisyHalfspace,
    rules: Mapping[str, Rule],
    *,
    runs: int,
    steps: int,
    seed: int = 0,
    keep: float = 1.1,
    test_points: int = 10_000,
    holdout: int = 0,
    repeats: int = 1,
    gold: int | None = None,
    device: torch.device | str = "cpu",
) -> Simulation:
    """Run every rule ``runs`` times for ``steps`` steps, each step on a fresh example.

    ``holdout`` > 0: an iterate of each run is chosen on that many noisy labels that no run has
    seen; of ``repeats`` neighbouring runs, which share their hold-out labels, the best is kept.
    ``gold``: instead of α(x) the rules are told one α a run, estimated from so many labels of both
    kinds (made odd, lest it be ½). True errors are measured on ``test_points`` fresh points.
    """
    check_count("runs", runs)
    check_count("test_points", test_points)
    check_count("repeats", repeats)
    if not rules or runs % repeats:
        raise InputError(f"Give at least one rule, and runs ({runs}) as a multiple of {repeats}.")
    learners = {
        name: HalfspaceLearner(rule, keep=keep, device=device) for name, rule in rules.items()
    }
    for learner in learners.values():
        learner.start(runs, data.shape.dim)
    alpha = None if gold is None else _estimated_alpha(data, runs, gold | 1, seed, device)
    for block in data.stream(runs, steps, (seed, _EXAMPLES), device):
        known = block if alpha is None else replace(block, alpha=alpha.expand_as(block.y0))
        for learner in learners.values():
            learner.advance(known)
    test = _TestSet.draw(data, test_points, seed, device)
    traces = {name: test.trace(learner) for name, learner in learners.items()}
    chosen_errors = {}
    if holdout:
        chosen = _choose(data, learners, alpha, holdout, repeats, seed, device)
        chosen_errors = {name: test.errors(c.weights).cpu().numpy() for name, c in chosen.items()}
    kept = next(iter(learners.values())).history_.steps
    return Simulation(kept, traces, chosen_errors)


def _estimated_alpha(
    data: NoisyHalfspace, runs: int, gold: int, seed: int, device: torch.device | str
) -> Tensor:
    """(runs,): the smoothed share of ``gold`` labels on which the teacher was right."""
    agree = torch.zeros(runs, device=device)
    for block in data.stream(runs, gold, (seed, _GOLD), device):
        agree += (data.shape.positive(block.x) == (block.y0 > 0)).sum(0)
    return (agree + 0.5) / (gold + 1.0)


def _choose(
    data: NoisyHalfspace,
    learners: Mapping[str, HalfspaceLearner],
    alpha: Tensor | None,
    holdout: int,
    repeats: int,
    seed: int,
    device: torch.device | str,
) -> dict[str, Chosen]:
    histories = {name: learner.history_ for name, learner in learners.items()}
    total = {name: torch.zeros(h.weights.shape[:2], device=device) for name, h in histories.items()}
    runs = next(iter(histories.values())).weights.shape[1]
    for block in data.stream(runs // repeats, holdout, (seed, _HOLDOUT), device):
        x = block.x.movedim(2, 1).repeat_interleave(repeats, dim=1)
        y0 = block.y0.repeat_interleave(repeats, dim=1)
        trust = block.alpha
        if alpha is not None:
            trust = alpha.expand_as(y0)
        elif isinstance(trust, Tensor):
            trust = trust.repeat_interleave(repeats, dim=1)
        for name, history in histories.items():
            total[name] += holdout_errors(history.weights, x, 2 * y0 - 1, trust) * len(block)
    return {
        name: best_of_repeats(least_error(histories[name], total[name] / holdout), repeats)
        for name in learners
    }


@dataclass(frozen=True)
class _TestSet:
    x: Tensor  # (n, dim)
    positive: Tensor  # (n, 1) bool
    normal: Tensor  # (dim,)

    @classmethod
    def draw(cls, data: NoisyHalfspace, n: int, seed: int, device: torch.device | str) -> _TestSet:
        sample = data.sample(n, (seed, _TEST))
        positive = torch.from_numpy(sample.truth > 0).unsqueeze(1)
        return cls(
            torch.from_numpy(sample.x).to(device),
            positive.to(device),
            data.shape.normal.to(device),
        )

    def errors(self, weights: Tensor) -> Tensor:
        """(runs, dim) -> (runs,)."""
        return ((self.x @ weights.T > 0) != self.positive).float().mean(0)

    def trace(self, learner: HalfspaceLearner) -> Trace:
        weights = learner.history_.weights
        return Trace(
            errors=torch.stack([self.errors(iterate) for iterate in weights]).cpu().numpy(),
            correlation=(weights @ self.normal).cpu().numpy(),
            norm=weights.norm(dim=2).cpu().numpy(),
        )


# -- samples until the error is at most ε ----------------------------------------------------------


@dataclass(frozen=True)
class Reached:
    """When half of the runs had error at most ε; None: not within the steps that were run."""

    steps: int | None
    low: int | None  # 95% bootstrap interval over the runs
    high: int | None
    share: float  # of the runs that have it after the last step


def steps_to_error(steps: np.ndarray, errors: np.ndarray, epsilon: float, seed: int = 0) -> Reached:
    """First of the kept ``steps`` (c,) at which half of the ``errors`` (c, runs) are at most ε.

    Pass the errors of the iterates themselves, or the best so far: then it is the theorem's "some
    iterate is good".
    """
    good = errors <= epsilon
    runs = good.shape[1]
    draws = np.random.default_rng(seed).multinomial(runs, np.full(runs, 1 / runs), size=_BOOTSTRAP)
    again = np.sort(_first_half(good.astype(float) @ draws.T / runs))
    last = len(steps) - 1

    def at(index: float) -> int | None:
        return int(steps[int(index)]) if index <= last else None

    return Reached(
        steps=at(_first_half(good.mean(1, keepdims=True))[0]),
        low=at(again[int(0.025 * _BOOTSTRAP)]),
        high=at(again[int(0.975 * _BOOTSTRAP)]),
        share=float(good[-1].mean()),
    )


def _first_half(share: np.ndarray) -> np.ndarray:
    """(c, b) -> (b,): the first row with at least one half, c where there is none."""
    enough = share >= 0.5
    return np.where(enough.any(0), enough.argmax(0), len(share))


@dataclass(frozen=True)
class Exponent:
    """n ≈ constant · (1/variable)^slope, with a 95% interval of the slope."""

    slope: float
    low: float
    high: float
    constant: float
    points: int


def fit_exponent(variable: Sequence[float], reached: Sequence[Reached]) -> Exponent | None:
    """Least squares of log n on log(1/variable); cells that were not reached are left out.

    The interval takes the larger of two errors: the bootstrap error of the medians, and the
    scatter around the line. None with fewer than three points.
    """
    if len(variable) != len(reached):
        raise InputError(f"{len(variable)} values and {len(reached)} measurements do not match.")
    kept = [
        (value, r.steps, _log_error(r.steps, r))
        for value, r in zip(variable, reached, strict=True)
        if r.steps is not None
    ]
    if len(kept) < 3:
        return None
    values, steps, noise = (np.array(column) for column in zip(*kept, strict=True))
    x, y = -np.log(values), np.log(steps)
    centred = x - x.mean()
    spread = float(centred @ centred)
    slope = float(centred @ y) / spread
    offset = float(y.mean() - slope * x.mean())
    scatter = float(((y - offset - slope * x) ** 2).sum()) / (len(kept) - 2) / spread
    sampling = float((centred**2) @ noise**2) / spread**2
    reach = float(stats.t.ppf(0.975, len(kept) - 2)) * math.sqrt(max(scatter, sampling))
    return Exponent(slope, slope - reach, slope + reach, math.exp(offset), len(kept))


def _log_error(steps: int, reached: Reached) -> float:
    """Standard error of log n from the bootstrap interval, mirrored where its upper end is open."""
    low = reached.low or steps
    high = reached.high or steps * steps / low
    return math.log(high / low) / (2 * 1.96)
