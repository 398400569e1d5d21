"""Many runs of several rules on the same fresh examples, with the true errors along the way."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from noisyteacher.core.errors import InputError
from noisyteacher.halfspace.checks import check_count
from noisyteacher.halfspace.learner import HalfspaceLearner
from noisyteacher.halfspace.rules import Rule
from noisyteacher.halfspace.selection import (
    Chosen,
    best_of_repeats,
    holdout_errors,
    least_error,
)
from noisyteacher.halfspace.stream import Block, NoisyHalfspace

# Streams of one seed that never meet.
_EXAMPLES, _TEST, _HOLDOUT, _GOLD = range(4)


@dataclass(frozen=True)
class Trace:
    """What one rule did: axis 0 is the kept iterates, axis 1 the runs."""

    errors: np.ndarray  # (c, runs): chance to disagree with the truth
    correlation: np.ndarray  # (c, runs): w·w*
    norm: np.ndarray  # (c, runs): ‖w‖

    @property
    def best(self) -> np.ndarray:
        """(c, runs): the least error of any iterate so far."""
        return np.minimum.accumulate(self.errors, axis=0)


@dataclass(frozen=True)
class Simulation:
    """The rules saw the same examples, so they may be compared run by run."""

    steps: np.ndarray  # (c,)
    traces: dict[str, Trace]
    chosen_errors: dict[str, np.ndarray]  # (learners,): see ``repeats`` below; empty without it


@contextmanager
def _one_thread_per_worker() -> Iterator[None]:
    """The stream's workers share the cores already; more threads inside each would only wait."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


@torch.no_grad()
@_one_thread_per_worker()
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
        told = _tell(block, alpha)
        for learner in learners.values():
            learner.advance(told)
    test = _TestSet.draw(data, test_points, seed, device)
    traces = {name: test.trace(learner) for name, learner in learners.items()}
    chosen_errors = {}
    if holdout:
        chosen = _choose(data, learners, alpha, holdout, repeats, seed, device)
        chosen_errors = {name: test.errors(c.weights).cpu().numpy() for name, c in chosen.items()}
    kept = next(iter(learners.values())).history_.steps
    return Simulation(kept, traces, chosen_errors)


def _tell(block: Block, alpha: Tensor | None) -> Block:
    return block if alpha is None else replace(block, alpha=alpha.expand_as(block.y0))


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
