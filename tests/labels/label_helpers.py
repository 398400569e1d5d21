"""Shared by the tests of teacher labels."""

from __future__ import annotations

import numpy as np

from noisyteacher.labels import TeacherLabels


def random_probs(rows: int, classes: int, seed: int = 0, scale: float = 2.0) -> np.ndarray:
    """(n, L) float32 softmax of Gaussian logits."""
    logits = scale * np.random.default_rng(seed).standard_normal((rows, classes))
    exps = np.exp(logits - logits.max(axis=1, keepdims=True))
    return (exps / exps.sum(axis=1, keepdims=True)).astype(np.float32)


def assert_same_array(actual: np.ndarray, expected: np.ndarray) -> None:
    """Equal to the last bit, in type and in shape."""
    assert actual.dtype == expected.dtype
    assert actual.shape == expected.shape
    assert actual.tobytes() == expected.tobytes()


def assert_identical(actual: TeacherLabels, expected: TeacherLabels) -> None:
    """Every column, everything that follows from the columns, and all that is said about them."""
    assert actual.ids.dtype.kind == expected.ids.dtype.kind
    assert actual.ids.tolist() == expected.ids.tolist()
    for name in ("topk_index", "topk_logprob", "stored_tail", "missing", "tail", "topk_prob"):
        assert_same_array(getattr(actual, name), getattr(expected, name))
    assert list(actual.extras) == list(expected.extras)
    for name, column in expected.extras.items():
        assert_same_array(actual.extras[name], column)
    for name in ("classes", "k", "num_classes", "teacher", "revision", "temperature"):
        assert getattr(actual, name) == getattr(expected, name)
