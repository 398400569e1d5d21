"""A small problem with a planted teacher: Gaussian classes, a teacher that is often wrong."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from noisyteacher.labels import TeacherLabels
from noisyteacher.noise import TeacherNoise

CLASSES, FEATURES = 4, 6


@dataclass(frozen=True)
class Small:
    """Rows in order: A and V (gold), the pool, a test part; ids are those of all but the last."""

    x: np.ndarray
    y: np.ndarray
    probs: np.ndarray
    gold: slice
    val: slice
    pool: slice
    test: slice

    def labels(self, text_ids: bool = False, k: int | None = None) -> TeacherLabels:
        """Of V and the pool; the teacher saw A."""
        return TeacherLabels.from_probs(
            self.ids(text_ids)[self.gold.stop :],
            self.probs[self.gold.stop : self.pool.stop],
            k=k,
        )

    def ids(self, text: bool = False) -> np.ndarray:
        numbers = 1000 + 7 * np.arange(self.pool.stop)
        return np.array([f"row-{n}" for n in numbers]) if text else numbers

    def noise(self, labels: TeacherLabels) -> TeacherNoise:
        val = np.arange(self.val.start, self.val.stop) - self.gold.stop
        # A top-k store does not always hold enough classes to find k(x), and says so.
        size = "auto" if labels.k == CLASSES else 2
        return TeacherNoise(k=size).fit(labels.take(labels.ids[val]), self.y[self.val])


def small_problem(pool: int = 300, seed: int = 0) -> Small:
    sizes = np.cumsum([0, 20, 80, pool, 300])
    parts = [slice(int(a), int(b)) for a, b in pairwise(sizes)]
    rng = np.random.default_rng(seed)
    n = int(sizes[-1])
    centres = 1.2 * rng.normal(size=(CLASSES, FEATURES))
    y = rng.integers(0, CLASSES, n)
    x = (centres[y] + rng.normal(size=(n, FEATURES))).astype(np.float32)
    # Wrong for a third of the rows, and less sure there.
    wrong = rng.random(n) < 1 / 3
    said = np.where(wrong, rng.integers(0, CLASSES, n), y)
    logits = np.eye(CLASSES)[said] * np.where(wrong, 1.0, 3.0)[:, None]
    odds = np.exp(logits + 0.3 * rng.normal(size=(n, CLASSES)))
    return Small(x, y, odds / odds.sum(1, keepdims=True), *parts)
