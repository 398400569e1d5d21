"""Linear students solved to convergence against scikit-learn's logistic regression.

    python benchmarks/solver.py --csv benchmarks/solver.csv

Both see the same rows and features: 400 gold rows and a pool of 5 000, as TF-IDF rows of 20 000
features or as dense vectors of 384. scikit-learn learns the teacher's hard labels and the gold
labels; so does ``Vanilla(hard=True)``; SLaM starts from that student, as it does in ``distill``.
One core. ``error`` is the largest difference of a training row's probability from the solution
that scikit-learn finds with ``tol=1e-10``.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import time

import numpy as np
import torch
from scipy.sparse import csr_matrix
from scipy.special import softmax
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import normalize

from measuring import parser_of, told, write_csv
from noisyteacher.labels import TeacherLabels
from noisyteacher.methods import Rows, SLaM, Vanilla, fit_and_prepare
from noisyteacher.train.solver import Design, Features, solve_linear

GOLD, POOL, CLASSES = 400, 5_000, 4
STRENGTHS = (0.1, 1.0, 10.0)
TOLERANCE = 1e-4  # scikit-learn's default, in our coordinates


def texts(rng: np.random.Generator) -> csr_matrix:
    """TF-IDF-like rows: 40 words each of 20 000, frequent words more often."""
    n, width, words = GOLD + POOL, 20_000, 40
    weight = 1 / np.arange(1, width + 1) ** 0.8
    columns = rng.choice(width, size=(n, words), p=weight / weight.sum())
    values = rng.gamma(2.0, size=(n, words)) * np.log(columns + 2)
    rows = np.repeat(np.arange(n), words)
    return normalize(csr_matrix((values.ravel(), (rows, columns.ravel())), shape=(n, width)))


def vectors(rng: np.random.Generator) -> np.ndarray:
    """Unit-length vectors whose variance falls along their axes, as sentence embeddings' does."""
    axes = np.geomspace(1, 0.03, 384)
    return normalize(rng.normal(size=(GOLD + POOL, 384)) * axes + 0.2).astype(np.float32)


def measure(name: str, x: Features, rng: np.random.Generator) -> list[dict[str, object]]:
    n = GOLD + POOL
    scores = np.asarray(x @ rng.normal(size=(x.shape[1], CLASSES)))
    y = (scores / scores.std() * 2 + rng.gumbel(size=scores.shape)).argmax(1)
    said = np.where(rng.random(n) < 0.75, y, rng.integers(0, CLASSES, n))
    probs = softmax(rng.normal(size=(n, CLASSES)) + 2.5 * np.eye(CLASSES)[said], axis=1)
    labels = TeacherLabels.from_probs(np.arange(n), probs.astype(np.float32))
    known = np.where(np.arange(n) < GOLD, y, -1)
    rows = Rows(np.arange(n), known, np.arange(GOLD), y[:GOLD], CLASSES)
    target = np.where(known >= 0, known, labels.hard)
    began = time.perf_counter()
    design = Design.of(x)
    preparing = time.perf_counter() - began
    found = []
    for strength in STRENGTHS:
        began = time.perf_counter()
        theirs = LogisticRegression(C=strength, max_iter=5_000).fit(x, target)
        rival = time.perf_counter() - began
        exact = LogisticRegression(C=strength, max_iter=50_000, tol=1e-10).fit(
            x.astype(np.float64), target
        )
        truth = exact.predict_proba(x)
        start = None
        for method in (Vanilla(hard=True), SLaM()):
            columns = fit_and_prepare(method, rows, labels).columns
            began = time.perf_counter()
            fit = solve_linear(
                design,
                method,
                columns,
                CLASSES,
                strength=strength,
                start=start,
                tolerance=TOLERANCE,
            )
            seconds = time.perf_counter() - began
            ours = softmax(fit.logits(x), axis=1)
            row = {
                "features": name,
                "C": strength,
                "student": repr(method),
                "seconds": round(seconds, 4),
                "scikit_learn_seconds": round(rival, 4),
                "ratio": round(seconds / rival, 3),
                "error": "" if start is not None else _largest(ours - truth),
                "scikit_learn_error": _largest(theirs.predict_proba(x) - truth),
                "preparing_once": round(preparing, 4),
            }
            found.append(told(row))
            start = fit
    return found


def _largest(difference: np.ndarray) -> float:
    return float(np.abs(difference).max().round(5))


def main() -> None:
    args = parser_of(__doc__).parse_args()
    torch.set_num_threads(1)
    rng = np.random.default_rng(0)
    rows = measure("TF-IDF, 20 000", texts(rng), rng) + measure(
        "embeddings, 384", vectors(rng), rng
    )
    write_csv(args.csv, rows)


if __name__ == "__main__":
    main()
