"""How sure the teacher seems of its top k: the margin, and the entropy with the top k as one.

Both are functions of the probabilities sorted downwards, p_(1) >= p_(2) >= ...:

    margin_k = p_(1) + ... + p_(k) - p_(k+1)
    H_k = -P_k log P_k - sum of p_(i) log p_(i) over i > k,   P_k = p_(1) + ... + p_(k)
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import numpy as np
import torch
from jaxtyping import Float
from scipy.special import xlogy
from torch import Tensor

from noisyteacher.errors import InputError
from noisyteacher.noise.rows import Index, LabelsOrProbs, TeacherRows, chunks, read_rows

Metric: TypeAlias = Literal["margin", "entropy"]


def margin(labels_or_probs: LabelsOrProbs, k: int = 1) -> np.ndarray | Tensor:
    """The top-k margin of each row: the mass of the top k less the next probability.

    Args:
        labels_or_probs: TeacherLabels, or dense probabilities of shape (n, L).
        k: from 1 to L-1, and below the number of stored probabilities.

    Returns:
        float64, shape (n,); torch on the same device when torch came in.
    """
    return _confidence(labels_or_probs, k, "margin")


def entropy(labels_or_probs: LabelsOrProbs, k: int = 1) -> np.ndarray | Tensor:
    """The entropy of each row with its top k classes taken as one; higher means less trust.

    Args:
        labels_or_probs: TeacherLabels (their tail is spread evenly), or dense probabilities (n, L).
        k: from 1 to L-1, and below the number of stored probabilities.

    Returns:
        float64, shape (n,); torch on the same device when torch came in.
    """
    return -_confidence(labels_or_probs, k, "entropy")


def _confidence(labels_or_probs: LabelsOrProbs, k: int, metric: Metric) -> np.ndarray | Tensor:
    rows = read_rows(labels_or_probs)
    if not 1 <= k < rows.stored:
        raise InputError(
            f"k must be from 1 to {rows.stored - 1}, as each row has {rows.stored} probabilities, "
            f"but it is {k}."
        )
    values = np.empty(len(rows))
    for part in chunks(len(rows), 8 * rows.num_classes):
        values[part] = covariates(rows, part, k, metric)[:, k - 1]
    if isinstance(labels_or_probs, Tensor):
        return torch.from_numpy(values).to(labels_or_probs.device)
    return values


def covariates(
    rows: TeacherRows, part: Index, sizes: int, metric: Metric
) -> Float[np.ndarray, "m sizes"]:
    """What the isotonic fits look at: margin_k or -H_k for k = 1 to ``sizes``, float64.

    Sums run from the largest probability down in float64, so a row gives the same bits whatever
    the chunk it comes in and however many sizes are asked for.
    """
    top = rows.top(part, sizes + 1)
    mass = np.cumsum(top[:, :-1], axis=1, dtype=np.float64)
    if metric == "margin":
        mass -= top[:, 1:]
        return mass
    ahead = top[:, :-1].astype(np.float64)
    behind = rows.plogp(part)[:, None] - np.cumsum(xlogy(ahead, ahead), axis=1)
    return np.asarray(xlogy(mass, mass) + behind)
