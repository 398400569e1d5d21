"""The floor: strengths judged on S."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.sparse import csr_matrix
from sklearn.linear_model import LogisticRegression

from noisyteacher.bench.logistic import STRENGTHS, Floor, fit_floor
from noisyteacher.data.tensors import feature_matrix


def rows(count: int, classes: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(count, 5)).astype(np.float32)
    return x, (x @ np.random.default_rng(9).normal(size=(5, classes))).argmax(1)


def test_the_strength_is_chosen_on_s() -> None:
    (x, y), (selection_x, selection_y) = rows(40, 3), rows(200, 3, seed=1)
    floor = fit_floor(x, y, selection_x, selection_y)
    scores = [
        100 * LogisticRegression(C=c, max_iter=2000).fit(x, y).score(selection_x, selection_y)
        for c in STRENGTHS
    ]
    assert floor.selection == pytest.approx(scores)
    assert floor.best == int(np.argmax(scores))
    assert [model.C for model in floor.models] == list(STRENGTHS)


def test_the_weaker_strength_wins_ties() -> None:
    assert Floor((), (80.0, 90.0, 90.0, 70.0)).best == 1


def test_bags_become_sparse_rows_of_their_own() -> None:
    index, values = torch.tensor([[3, 1, 0], [2, 0, 0]]), torch.tensor([[0.5, 2, 0], [1, 0, 0]])
    before = index.clone(), values.clone()
    matrix = feature_matrix((index, values), 4)
    assert isinstance(matrix, csr_matrix)
    matrix.sum_duplicates()
    np.testing.assert_array_equal(matrix.toarray(), [[0, 2, 0, 0.5], [0, 0, 1, 0]])
    assert torch.equal(index, before[0])
    assert torch.equal(values, before[1])
    table = torch.rand(3, 2)
    np.testing.assert_array_equal(feature_matrix(table, 2), table.numpy())
