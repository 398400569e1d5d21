"""Linear students of sparse rows, trained step by step with words dropped at random.

What ``solver`` does for losses of one view, this does for ``Consistency`` and others that compare
two views of a text. It is the engine's training of a ``BagLinear`` student, with CSR products in
place of padded embedding bags, which are many times slower.
"""

from __future__ import annotations

from math import sqrt

import numpy as np
import torch
from scipy.sparse import csr_matrix
from torch import Tensor

from noisyteacher.core.errors import InputError
from noisyteacher.core.threads import end_if_stopped
from noisyteacher.data import BagViews
from noisyteacher.methods import Batch, Columns, Method, Output
from noisyteacher.train.config import Adam, Cosine, TrainConfig
from noisyteacher.train.solver import LinearFit

# As measured on reviews. An epoch of a small pool is several passes: fewer than 50 steps cost
# accuracy from 3 000 rows on (0.45 points there with 25 steps), and bring nothing below 1 000.
SPARSE_TRAINING = TrainConfig(12, 256, Adam(0.02), Cosine(warmup=0.3), gold_repeat=5)
ROWS_PER_STEP, FEWEST_STEPS, ENOUGH_STEPS = 60, 15, 50


def train_on_words(
    x: csr_matrix,
    method: Method,
    columns: Columns,
    classes: int,
    *,
    config: TrainConfig = SPARSE_TRAINING,
    views: BagViews = BagViews(),  # noqa: B008  frozen
    seed: int = 0,
) -> LinearFit:
    """Train from zero weights; the same seed gives the same student.

    Args:
        x: (n, d) rows that ``columns.index`` points into.
        method, columns: as ``fit_and_prepare`` made them.
        classes: how many there are.
        config: epochs, batches, rate and how often gold rows are repeated.
        views: the share of words that the weak and the strong view drop.
        seed: of the order of rows and of the dropped words.
    """
    if not isinstance(config.optimizer, Adam):
        raise InputError(f"Students on words are trained with Adam, not {config.optimizer!r}.")
    x = x[columns.index.numpy()].astype(np.float32)
    weight = torch.zeros(x.shape[1], classes)
    bias = torch.zeros(classes)
    optimizers = [_AdamW(p, config.optimizer.weight_decay) for p in (weight, bias)]
    gold = np.flatnonzero(columns.y.numpy() >= 0)
    entries = np.concatenate([np.arange(len(columns)), np.tile(gold, config.gold_repeat - 1)])
    steps = config.steps_per_epoch or _steps(len(columns), config.batch_size)
    for epoch in range(config.epochs):
        rng = np.random.default_rng([seed, epoch])
        order = _order(entries, steps * config.batch_size, rng)
        rates = config.schedule.factors(epoch, config.epochs, steps)
        for step, rows in enumerate(order.reshape(steps, -1)):
            end_if_stopped()
            done = torch.tensor((epoch * steps + step) / (config.epochs * steps))
            whole, batch = x[rows], columns.batch(torch.from_numpy(rows))
            shown = [_drop(whole, views.weak_drop, rng)]
            if "strong" in method.views:
                shown.append(_drop(whole, views.strong_drop, rng))
            slopes = _gradients(shown, weight, bias, method, batch, done)
            for optimizer, slope in zip(optimizers, slopes, strict=True):
                optimizer.step(slope, config.optimizer.lr * rates[step])
    return LinearFit(weight.numpy().T.astype(np.float64), bias.numpy().astype(np.float64))


def _steps(rows: int, batch_size: int) -> int:
    """Steps of an epoch."""
    enough = min(max(rows // ROWS_PER_STEP, FEWEST_STEPS), ENOUGH_STEPS)
    return max(enough, -(-rows // batch_size))


class _AdamW:
    """The steps of ``torch.optim.AdamW``, whose first step would import a compiler for a second."""

    def __init__(self, parameter: Tensor, decay: float) -> None:
        self.parameter, self.decay, self.done = parameter, decay, 0
        self.mean, self.square = torch.zeros_like(parameter), torch.zeros_like(parameter)

    def step(self, slope: Tensor, rate: float) -> None:
        self.done += 1
        self.mean.lerp_(slope, 0.1)
        self.square.mul_(0.999).addcmul_(slope, slope, value=0.001)
        scale = (self.square / (1 - 0.999**self.done)).sqrt_().add_(1e-8)
        self.parameter.mul_(1 - rate * self.decay)
        self.parameter.addcdiv_(self.mean, scale, value=-rate / (1 - 0.9**self.done))


def _order(entries: np.ndarray, need: int, rng: np.random.Generator) -> np.ndarray:
    """Whole permutations of the entries, one after another, cut to the length of an epoch."""
    passes = -(-need // len(entries))
    return np.concatenate([rng.permutation(entries) for _ in range(passes)])[:need]


def _drop(x: csr_matrix, share: float, rng: np.random.Generator) -> csr_matrix:
    kept = rng.random(x.nnz, np.float32) >= share
    return csr_matrix((x.data * kept / np.float32(sqrt(1 - share)), x.indices, x.indptr), x.shape)


def _gradients(
    shown: list[csr_matrix],
    weight: Tensor,
    bias: Tensor,
    method: Method,
    batch: Batch,
    progress: Tensor,
) -> tuple[Tensor, Tensor]:
    logits = [torch.from_numpy(view @ weight.numpy()).add_(bias).requires_grad_() for view in shown]
    output = Output(logits[0], strong=logits[1] if len(logits) == 2 else None)
    slopes = torch.autograd.grad(method.loss(output, batch, None, progress), logits)
    by_weight = sum(view.T @ slope.numpy() for view, slope in zip(shown, slopes, strict=True))
    return torch.from_numpy(np.asarray(by_weight)), torch.stack([s.sum(0) for s in slopes]).sum(0)
