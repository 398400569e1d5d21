"""Teachers with one planted trait each, on V and on a pool."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import softmax

CLASSES = 5


class Planted(NamedTuple):
    """Probabilities and truth of V, and the pool's probabilities."""

    val: np.ndarray
    y: np.ndarray
    pool: np.ndarray


def chances(rng, n, scale=2.0, classes=CLASSES):
    """(n, L) logits and chances of the classes, and a truth drawn from them."""
    logits = scale * rng.normal(size=(n, classes))
    chance = softmax(logits, axis=1)
    y = (rng.random(n)[:, None] > chance.cumsum(axis=1)).sum(axis=1).clip(max=classes - 1)
    return logits, chance, y


def calibrated(seed=0, n=1_000, scale=2.0, classes=CLASSES):
    """Says the chances themselves."""
    rng = np.random.default_rng(seed)
    _, val, y = chances(rng, n, scale, classes)
    return Planted(val, y, chances(rng, 4_000, scale, classes)[1])


def flat(seed=0, n=300, right=0.75, classes=4):
    """As often right at small margins as at large ones; ``right`` may differ by named class."""
    rng = np.random.default_rng(seed)
    said, rows = rng.integers(0, classes, n + 3_000), np.arange(n + 3_000)
    sure = rng.uniform(0.4 if classes > 2 else 0.55, 0.99, len(rows))
    probs = np.repeat(((1 - sure) / (classes - 1))[:, None], classes, axis=1)
    probs[rows, said] = sure
    wrong = rng.random(len(rows)) >= np.broadcast_to(right, classes)[said]
    y = np.where(wrong, (said + rng.integers(1, classes, len(rows))) % classes, said)
    return Planted(probs[:n], y[:n], probs[n:])


def overconfident(seed=0, sharper=3.0):
    """Says the chances ``sharper`` times too sharply; below 1, too timidly."""
    rng = np.random.default_rng(seed)
    logits, _, y = chances(rng, 1_000)
    pool, _, _ = chances(rng, 4_000)
    return Planted(softmax(sharper * logits, axis=1), y, softmax(sharper * pool, axis=1))


def broken_class(seed=0, broken=2):
    """Calibrated, but wrong on 70 % of what it calls ``broken``: that is the next class."""
    planted = calibrated(seed)
    rng = np.random.default_rng(seed + 100)
    named = planted.val.argmax(axis=1) == broken
    y = np.where(named & (rng.random(len(named)) < 0.7), broken + 1, planted.y)
    return planted._replace(y=y)


def shifted_val(seed=0):
    """V holds the harder half of what the pool is like."""
    rng = np.random.default_rng(seed)
    _, chance, y = chances(rng, 2_000)
    hard = np.argsort(chance.max(axis=1))[:1_000]
    return Planted(chance[hard], y[hard], chances(rng, 4_000)[1])


def leaked_val(seed=0):
    """The teacher has learned V by heart."""
    rng = np.random.default_rng(seed)
    logits, _, y = chances(rng, 1_000)
    logits[np.arange(len(y)), y] += 8.0
    return Planted(softmax(logits, axis=1), y, chances(rng, 4_000)[1])


def with_inputs(seed=0, n=600, teacher_right=0.6):
    """Inputs whose classes a linear model finds, and a teacher that is right that often."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 8))
    y = (x[:, 0] + 0.3 * rng.normal(size=n) > 0).astype(np.int64)
    said = np.where(rng.random(n) < teacher_right, y, 1 - y)
    sure = rng.uniform(0.55, 0.95, n)
    probs = np.where(np.arange(2) == said[:, None], sure[:, None], 1 - sure[:, None])
    return x, y, probs
