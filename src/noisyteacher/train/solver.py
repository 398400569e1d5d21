"""Linear students trained to convergence: L-BFGS on the method's own loss, with an L2 penalty.

The gradient comes from ``method.loss`` on the logits, so every method that looks at nothing but
logits can be solved. The objective is scikit-learn's: the sum of the rows' losses plus
``|W|² / (2 C)``, the bias unpenalized; two classes share one vector, as they do there.

The solution does not depend on how it is found. To find it in few steps, the search runs in
coordinates in which the loss curves about alike in every direction: dense features are centered
(the bias absorbs that) and rotated to their principal axes, and every column is scaled by its
second moment.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import torch
from scipy.optimize import minimize
from scipy.sparse import issparse

from noisyteacher.core.errors import InputError
from noisyteacher.core.machine import one_thread
from noisyteacher.core.threads import end_if_stopped
from noisyteacher.methods import Batch, Columns, Method, Output

Features: TypeAlias = Any  # (n, d) np.ndarray or scipy.sparse.csr_matrix

MAX_ITERATIONS = 300
TOLERANCE = 1e-5  # of the largest gradient entry, in the coordinates of the search
_MOST_AXES = 1024  # above this many dense columns the rotation costs more than it saves
# Above this many weights L-BFGS spends its time on what it remembers of earlier steps, not on the
# loss, and takes hardly more steps if it remembers fewer.
_MANY_WEIGHTS, _FEW_MEMORIES, _MEMORIES = 100_000, 5, 10


@dataclass(frozen=True, eq=False)
class LinearFit:
    """A linear student: ``logits = x @ weight.T + bias``."""

    weight: np.ndarray  # (L, d)
    bias: np.ndarray  # (L,)

    def logits(self, x: Features) -> np.ndarray:
        """(n, L) in the dtype of the weights."""
        return np.asarray(np.asarray(x @ self.weight.T) + self.bias)


@dataclass(frozen=True, eq=False)
class Block:
    """Some rows, which are in memory together."""

    x: Features  # (n, d)
    transposed: Features  # (d, n)
    columns: Columns  # of all n rows, in order


@dataclass(frozen=True, eq=False)
class Design:
    """Features in the coordinates of the search; made once, for all students on these rows."""

    x: Features  # (n, d)
    moments: np.ndarray  # (d,) mean squares of the columns
    center: np.ndarray | None = None  # (d,) subtracted from dense features
    axes: np.ndarray | None = None  # (d, d) orthogonal: x is (features - center) @ axes

    @classmethod
    def of(cls, features: Features) -> Design:
        """Dense or CSR features of all rows, without any label."""
        if issparse(features):
            squares = np.asarray(features.multiply(features).mean(0)).ravel()
            return cls(features.tocsr(), squares)
        center = features.mean(0)
        x = features - center
        if x.shape[1] > _MOST_AXES:
            return cls(x, np.square(x).mean(0), center)
        moments, axes = np.linalg.eigh((x.T @ x).astype(np.float64) / len(x))
        return cls(x @ axes.astype(x.dtype), moments.clip(min=0), center, axes)

    def take(self, rows: np.ndarray) -> Design:
        return Design(self.x[rows], self.moments, self.center, self.axes)

    @cached_property
    def used(self) -> np.ndarray | None:
        """(d,) which sparse columns have entries; None where all have, or features are dense."""
        if not issparse(self.x):
            return None
        found = np.bincount(self.x.indices, minlength=self.x.shape[1]) > 0
        return None if found.all() else found

    @cached_property
    def narrow(self) -> Design:
        """The columns with entries alone; with a penalty the weights of the others are 0."""
        return self if self.used is None else Design(self.x[:, self.used], self.moments[self.used])

    @cached_property
    def transposed(self) -> Features:
        return self.x.T.tocsr() if issparse(self.x) else self.x.T

    def inside(self, fit: LinearFit) -> LinearFit:
        """A student of the features as one of the search's coordinates."""
        weight, bias = fit.weight, fit.bias
        if self.center is not None:
            bias = bias + weight @ self.center
        return LinearFit(weight if self.axes is None else weight @ self.axes, bias)

    def outside(self, fit: LinearFit) -> LinearFit:
        """The other way round."""
        weight = fit.weight if self.axes is None else fit.weight @ self.axes.T
        bias = fit.bias if self.center is None else fit.bias - weight @ self.center
        return LinearFit(weight, bias - bias.mean())


def is_solvable(method: Method) -> bool:
    """Whether the method's loss is a function of the logits of one view alone."""
    return method.views == ("weak",) and method.refresh_every() == 0


def solve_linear(
    x: Features | Design,
    method: Method,
    columns: Columns,
    classes: int,
    *,
    strength: float,
    gold_weight: float = 1.0,
    start: LinearFit | None = None,
    tolerance: float = TOLERANCE,
) -> LinearFit:
    """Minimize the method's loss over all rows, and the penalty.

    Args:
        x: (n, d) features of the rows that ``columns.index`` points into, dense or CSR, or their
            ``Design``; products are computed in its dtype.
        method, columns: as ``fit_and_prepare`` made them.
        classes: how many there are.
        strength: scikit-learn's C; smaller values penalize more.
        gold_weight: how many pool rows a gold row counts for.
        start: where to begin, for losses that are not convex, and to save iterations.
        tolerance: stop once no entry of the mean loss's gradient is larger.
    """
    design = x if isinstance(x, Design) else Design.of(x)
    index = columns.index.numpy()
    if len(index) != design.x.shape[0] or not np.array_equal(index, np.arange(len(index))):
        design = design.take(index)
    narrow, used = design.narrow, design.used
    if used is not None and start is not None:
        start = LinearFit(start.weight[:, used], start.bias)
    found = solve_blocks(
        [Block(narrow.x, narrow.transposed, columns)],
        narrow,
        method,
        classes,
        strength=strength,
        gold_weight=gold_weight,
        start=start,
        tolerance=tolerance,
    )
    if used is None:
        return found
    weight = np.zeros((classes, len(used)))
    weight[:, used] = found.weight
    return LinearFit(weight, found.bias)


def solve_blocks(
    blocks: Iterable[Block],
    design: Design,
    method: Method,
    classes: int,
    *,
    strength: float,
    gold_weight: float = 1.0,
    start: LinearFit | None = None,
    tolerance: float = TOLERANCE,
) -> LinearFit:
    """As ``solve_linear``, of rows that are read block by block, once for every step.

    Args:
        blocks: iterated over many times; they must be the same rows every time.
        design: the coordinates of the search, in which the blocks' features are; its own rows are
            not looked at.
    """
    if not strength > 0:
        raise InputError(f"strength must be above 0, not {strength}.")
    objective = _Objective(blocks, design, method, classes, strength, gold_weight)
    begin = objective.flat(start)
    with one_thread():
        found = minimize(
            objective,
            begin,
            method="L-BFGS-B",
            jac=True,
            options={
                "gtol": tolerance,
                "ftol": 64 * np.finfo(np.float64).eps,
                "maxiter": MAX_ITERATIONS,
                "maxls": 50,
                "maxcor": _FEW_MEMORIES if len(begin) > _MANY_WEIGHTS else _MEMORIES,
            },
        )
    return objective.fit_at(found.x)


class _Objective:
    """The mean loss and its gradient as a function of one flat vector (weights, then biases)."""

    def __init__(
        self,
        blocks: Iterable[Block],
        design: Design,
        method: Method,
        classes: int,
        strength: float,
        gold_weight: float,
    ) -> None:
        self.blocks, self.design, self.gold_weight = blocks, design, gold_weight
        self.method, self.classes = method, classes
        self.vectors = 1 if classes == 2 else classes
        # Divided by the total weight, the tolerance means the same for ten rows and a million.
        self.total = max(sum(float(self._weight(b.columns).sum()) for b in blocks), 1e-12)
        self.penalty = 1.0 / (strength * self.total)
        # About the curvature of cross-entropy where the student knows nothing yet.
        curvature = 0.25 if self.vectors == 1 else (classes - 1) / classes**2
        self.scale = 1 / np.sqrt(curvature * design.moments + self.penalty)
        self.bias_scale = 1 / np.sqrt(curvature)
        self.progress = torch.ones(())

    def _weight(self, columns: Columns) -> torch.Tensor:
        if self.gold_weight == 1.0:
            return columns.weight
        return torch.where(columns.y >= 0, columns.weight * self.gold_weight, columns.weight)

    def flat(self, start: LinearFit | None) -> np.ndarray:
        if start is None:
            return np.zeros(self.vectors * (len(self.scale) + 1))
        start = self.design.inside(start)
        weight, bias = start.weight, start.bias
        if self.vectors == 1:
            weight, bias = weight[1:] - weight[:1], bias[1:] - bias[:1]
        return np.concatenate([(weight / self.scale).ravel(), bias / self.bias_scale])

    def fit_at(self, flat: np.ndarray) -> LinearFit:
        weight, bias = self._parts(flat)
        if self.vectors == 1:
            # Halves of opposite sign: the same probabilities, and no class is the reference.
            weight, bias = np.vstack([-weight, weight]) / 2, np.array([-bias[0], bias[0]]) / 2
        return self.design.outside(LinearFit(weight, bias))

    def _parts(self, flat: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        weight = flat[: -self.vectors].reshape(self.vectors, -1) * self.scale
        return weight, flat[-self.vectors :] * self.bias_scale

    def __call__(self, flat: np.ndarray) -> tuple[float, np.ndarray]:
        weight, bias = self._parts(flat)
        value = 0.5 * self.penalty * float((weight * weight).sum())
        by_weight, by_bias = self.penalty * weight, np.zeros(self.vectors)
        for block in self.blocks:
            end_if_stopped()
            loss, slope = self._slope(block, weight, bias)
            value += loss
            by_weight += np.asarray(block.transposed @ slope.astype(block.x.dtype)).T
            by_bias += slope.sum(0)
        return value, np.concatenate([(by_weight * self.scale).ravel(), by_bias * self.bias_scale])

    def _slope(
        self, block: Block, weight: np.ndarray, bias: np.ndarray
    ) -> tuple[float, np.ndarray]:
        """A block's share of the loss, and its derivative by the scores (n, vectors)."""
        columns = block.columns
        if len(columns) == 0:
            return 0.0, np.zeros((0, self.vectors))
        scores = np.asarray(block.x @ weight.T.astype(block.x.dtype)) + bias
        if self.vectors == 1:
            scores = np.concatenate([-scores, scores], axis=1) / 2
        logits = torch.from_numpy(scores).requires_grad_()
        batch = Batch(columns.y, self._weight(columns), columns.values, columns.constants)
        mean = self.method.loss(Output(logits), batch, None, self.progress)
        loss = mean * (len(columns) / self.total)
        (gradient,) = torch.autograd.grad(loss, logits)
        slope = gradient.numpy()
        if self.vectors == 1:
            slope = (slope[:, 1:] - slope[:, :1]) / 2
        return float(loss.detach()), slope
