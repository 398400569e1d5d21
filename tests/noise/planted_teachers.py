"""Teachers whose noise is known, because it was planted."""

import numpy as np


def with_margins(margins, predicted, classes):
    """Rows whose top two classes, ``predicted`` and the next one, differ by the margin."""
    n = len(margins)
    probs = np.full((n, classes), 0.02)
    rest = 1 - 0.02 * (classes - 2)
    probs[np.arange(n), predicted] = (rest + margins) / 2
    probs[np.arange(n), (predicted + 1) % classes] = (rest - margins) / 2
    return probs


def stepwise(n, seed, classes=4):
    """A teacher that is right 60, 80 and 97 % of the time below .3, below .6 and above."""
    rng = np.random.default_rng(seed)
    margins = rng.uniform(0, 0.9, n)
    alpha = np.select([margins < 0.3, margins < 0.6], [0.6, 0.8], 0.97)
    predicted = rng.integers(0, classes, n)
    wrong = (predicted + rng.integers(1, classes, n)) % classes
    y = np.where(rng.random(n) < alpha, predicted, wrong)
    return with_margins(margins, predicted, classes), y, alpha


def with_shortlists(n, seed, classes=8):
    """Three kinds of rows: the truth is the top class, among the top 3, or among the top 6."""
    rng = np.random.default_rng(seed)
    size = rng.choice([1, 3, 6], n)
    order = rng.permuted(np.tile(np.arange(classes), (n, 1)), axis=1)
    place = np.arange(classes)
    weight = np.where(place < size[:, None], 1.0, 0.01) * rng.uniform(0.98, 1.0, (n, classes))
    ranked = -np.sort(-weight / weight.sum(axis=1, keepdims=True), axis=1)
    probs = np.empty_like(ranked)
    np.put_along_axis(probs, order, ranked, axis=1)
    y = order[np.arange(n), rng.integers(0, size)]
    return probs, y, np.maximum(size, 2)


def with_a_favourite(n, seed, classes=4):
    """Equal margins, but right 95 % of the time when it says 0, and 60 % when it says 1."""
    rng = np.random.default_rng(seed)
    predicted = rng.integers(0, 2, n)
    right = rng.random(n) < np.where(predicted == 0, 0.95, 0.60)
    y = np.where(right, predicted, (predicted + 1) % classes)
    return with_margins(rng.uniform(0, 0.9, n), predicted, classes), y, predicted
