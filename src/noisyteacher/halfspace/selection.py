"""Which iterate to keep, and how sure to be: noisy hold-out data and repetition.

The theorem says that *some* iterate is good; noisy labels that the learner has not seen find it.
If a label of x is right with chance α, then (1{label ≠ prediction} − (1−α)) / (2α−1) has the true
error as its mean, so the least average over held-out labels is a fair choice.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from noisyteacher.core.errors import InputError
from noisyteacher.halfspace.checks import check_alpha, check_count, check_fraction

_WORKING_FLOATS = 2**22  # margins held at once


@dataclass(frozen=True)
class History:
    """Iterates kept on the way: after ``steps[i]`` examples the weights were ``weights[i]``."""

    steps: np.ndarray  # (c,) int64, growing
    weights: Tensor  # (c, runs, dim)


@dataclass(frozen=True)
class Chosen:
    """One iterate a run."""

    weights: Tensor  # (runs, dim)
    steps: np.ndarray  # (runs,) int64: when it was the iterate
    error: np.ndarray  # (runs,) its error, estimated from the noisy hold-out labels


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
    history: History, x: Tensor, y: Tensor, alpha: float | Tensor | None = None
) -> Chosen:
    """Take, for each run, the kept iterate with the least hold-out error (arguments as above)."""
    return least_error(history, holdout_errors(history.weights, x, y, alpha))


def least_error(history: History, errors: Tensor) -> Chosen:
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
    """How many independent repeats make the chance of failure at most δ, if one fails with 1 %."""
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
    if not 0.0 < gap <= 1.0:
        raise InputError(f"The gap |2α−1| must lie in (0, 1], not {gap}.")
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
