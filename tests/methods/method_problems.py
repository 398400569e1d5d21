"""Small problems for the tests of methods."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from noisyteacher.labels import TeacherLabels
from noisyteacher.methods import Batch, Columns, Method, Output, Rows, fit_and_prepare

DONE = torch.tensor(1.0)


@dataclass(frozen=True)
class Problem:
    """Features, rows and teacher labels; positions 0..n-1 are ids too."""

    x: Tensor  # (n, d) features of all examples, in id order
    truth: np.ndarray  # (n,)
    rows: Rows
    labels: TeacherLabels

    def features(self, columns: Columns) -> Tensor:
        return self.x[torch.from_numpy(self.rows.ids)][columns.index]


def make_rows(truth: np.ndarray, gold: int, val: int, classes: int) -> Rows:
    """Ids 0..: first A, then V (both gold), then the pool."""
    y = np.where(np.arange(len(truth)) < gold + val, truth, -1).astype(np.int64)
    val_ids = np.arange(gold, gold + val)
    return Rows(np.arange(len(truth)), y, val_ids, truth[val_ids].astype(np.int64), classes)


def view_statistics(rng: np.random.Generator, probs: np.ndarray, spread: np.ndarray) -> dict:
    """Mean and deviation over ten noisy views, at temperatures 1 and 2."""
    logits = (
        np.log(probs)[:, None]
        + rng.normal(size=(len(probs), 10, probs.shape[1])) * (spread[:, None, None])
    )
    mean, std = [], []
    for temperature in (1.0, 2.0):
        scaled = np.exp(logits / temperature)
        views = scaled / scaled.sum(2, keepdims=True)
        mean.append(views.mean(1))
        std.append(views.std(1, ddof=1))
    return {
        "view_mean": np.stack(mean, 1).astype(np.float32),
        "view_std": np.stack(std, 1).astype(np.float32),
    }


def tiny(classes: int = 4, stored: int | None = None, gold_in_store: bool = True) -> Problem:
    """8 gold, 100 validation and 12 pool rows, with every extra that a method may want."""
    rng = np.random.default_rng(0)
    n = 120
    truth = rng.integers(0, classes, n)
    logits = rng.normal(size=(n, classes)) + 2 * np.eye(classes)[truth]
    probs = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    extras = {
        "embedding": rng.normal(size=(n, 5)).astype(np.float32),
        **view_statistics(rng, probs, rng.uniform(0, 0.3, n)),
    }
    labels = TeacherLabels.from_probs(np.arange(n), probs, k=stored, extras=extras)
    if not gold_in_store:
        labels = labels.take(np.arange(8, n))
    x = torch.from_numpy(rng.normal(size=(n, 6)).astype(np.float32))
    return Problem(x, truth, make_rows(truth, 8, 100, classes), labels)


def whole_batch(columns: Columns) -> Batch:
    """All kept rows as one batch."""
    return Batch(columns.y, columns.weight, columns.values, columns.constants)


class LinearStudent(nn.Module):
    """The embedding is the input."""

    def __init__(self, inputs: int, classes: int) -> None:
        super().__init__()
        self.embedding_dim, self.classes = inputs, classes
        self.last = nn.Linear(inputs, classes)
        nn.init.zeros_(self.last.weight)
        nn.init.zeros_(self.last.bias)

    def forward(self, x: Tensor, strong: Tensor | None = None) -> Output:
        return Output(self.last(x), x, None if strong is None else self.last(strong))

    def accuracy(self, x: Tensor, truth: np.ndarray) -> float:
        with torch.no_grad():
            return float((self.last(x).argmax(1).numpy() == truth).mean())


def train_linear(
    method: Method, problem: Problem, steps: int = 60, columns: Columns | None = None
) -> LinearStudent:
    """Full-batch L-BFGS on the method's loss, with a little decay so that a minimum exists."""
    if columns is None:
        columns = fit_and_prepare(method, problem.rows, problem.labels).columns
    x = problem.features(columns)
    student = LinearStudent(x.shape[1], problem.rows.classes)
    modules = method.modules(student, columns)
    parameters = [*student.parameters(), *(modules.parameters() if modules else [])]
    optimizer = torch.optim.LBFGS(parameters, max_iter=steps, line_search_fn="strong_wolfe")
    batch = whole_batch(columns)

    def closure() -> Tensor:
        optimizer.zero_grad()
        loss = method.loss(student(x, x), batch, modules, DONE)
        loss = loss + 1e-5 * sum(p.square().sum() for p in student.parameters())
        loss.backward()
        return loss

    optimizer.step(closure)
    return student
