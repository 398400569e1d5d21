"""Folds of the gold rows: every class in every fold, and no copy of a row on both sides."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix, issparse

from noisyteacher.core.errors import InputError

PARTS = 5  # one of so many is held out where one part must do
LEAST_ROWS = 10  # gold rows that folds can be made of


def make_folds(
    y: np.ndarray, folds: int = 5, *, groups: np.ndarray | None = None, seed: int = 0
) -> np.ndarray:
    """(n,) fold numbers from 0 to ``folds`` - 1.

    Classes keep their shares in every fold. A class with fewer rows than folds is spread over as
    many folds as it can fill; rows of one group (identical inputs) share a fold.
    """
    y = np.asarray(y)
    if folds < 2:
        raise InputError(f"At least two folds are needed, not {folds}.")
    if len(y) < folds:
        raise InputError(f"{len(y)} gold rows cannot fill {folds} folds.")
    found = np.arange(len(y)) if groups is None else np.unique(groups, return_inverse=True)[1]
    # A group is placed by its first row; its labels may differ, its inputs do not.
    _, first = np.unique(found, return_index=True)
    rng = np.random.default_rng([seed, folds])
    order = rng.permutation(len(first))
    order = order[np.argsort(y[first][order], kind="stable")]
    of_group = np.empty(len(first), np.int64)
    # Dealt like cards over the sorted classes, so that sizes differ by one row at most.
    of_group[order] = np.arange(len(order)) % folds
    return np.asarray(of_group[found])


def hold_out(y: np.ndarray, *, groups: np.ndarray | None = None, seed: int = 0) -> np.ndarray:
    """(n,) 0 for a fifth of the rows, with the classes in their shares, and -1 for the others."""
    return np.where(make_folds(y, PARTS, groups=groups, seed=seed) == 0, 0, -1)


def input_groups(inputs: np.ndarray | csr_matrix | Sequence[str | bytes]) -> np.ndarray:
    """(n,) group numbers: rows with identical inputs share one; CSR rows without stored zeros."""
    if issparse(inputs):
        rows: Any = csr_matrix(inputs).sorted_indices()
        cuts = zip(rows.indptr, rows.indptr[1:], strict=False)
        inputs = [rows.indices[a:b].tobytes() + rows.data[a:b].tobytes() for a, b in cuts]
    if isinstance(inputs, np.ndarray) and inputs.ndim > 1:
        flat = np.ascontiguousarray(inputs.reshape(len(inputs), -1))
        keys = flat.view(np.dtype((np.void, flat.dtype.itemsize * flat.shape[1]))).ravel()
        return np.asarray(np.unique(keys, return_inverse=True)[1])
    number: dict[object, int] = {}
    return np.array([number.setdefault(value, len(number)) for value in inputs], np.int64)
