"""How sure the teacher seems of its top k: the margin, and the entropy with the top k as one.

Both are functions of the probabilities sorted downwards, p_(1) >= p_(2) >= ...:

    margin_k = p_(1) + ... + p_(k) - p_(k+1)
    H_k = -P_k log P_k - sum of p_(i) log p_(i) over i > k,   P_k = p_(1) + ... + p_(k)

Where a teacher put mass m on no class (an LLM's off-list answers), its probabilities were divided
by the rest, 1 - m. What it was sure of is that share of them: the margin is (1 - m) margin_k, and
the entropy has m as one more outcome. Else an answer 95 % off the list would be the surest.
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from noisyteacher.core.errors import InputError
from noisyteacher.noise.rows import (
    ALL_ROWS,
    Block,
    LabelsOrProbs,
    Rows,
    TeacherRows,
    read_rows,
    times_log,
)

Metric: TypeAlias = Literal["margin", "entropy"]


def confidence(
    labels_or_probs: LabelsOrProbs, k: int = 1, metric: str = "margin"
) -> np.ndarray | Tensor:
    """What the noise model looks at: margin_k or -H_k of each row; higher means more trust.

    Args:
        labels_or_probs: TeacherLabels, or dense probabilities of shape (n, L).
        k: from 1 to L-1, and below the number of stored probabilities.
        metric: "margin" or "entropy".

    Returns:
        float64, shape (n,); torch on the same device when torch came in.
    """
    checked = check_metric(metric)
    rows = read_rows(labels_or_probs)
    if not 1 <= k < rows.stored:
        raise InputError(
            f"k must be from 1 to {rows.stored - 1}, as each row has {rows.stored} probabilities, "
            f"but it is {k}."
        )
    values = np.array(covariates_by_size(rows, k, checked)[k - 1])
    if isinstance(labels_or_probs, Tensor):
        return torch.from_numpy(values).to(labels_or_probs.device)
    return values


def margin(labels_or_probs: LabelsOrProbs, k: int = 1) -> np.ndarray | Tensor:
    """margin_k of each row: the mass of its top k less the next probability, float64 (n,)."""
    return confidence(labels_or_probs, k, "margin")


def entropy(labels_or_probs: LabelsOrProbs, k: int = 1) -> np.ndarray | Tensor:
    """H_k of each row, float64 (n,); with TeacherLabels the tail is spread evenly."""
    return -confidence(labels_or_probs, k, "entropy")


def check_metric(metric: Any) -> Metric:
    """Refuse a metric that does not exist."""
    if metric == "margin":
        return "margin"
    if metric == "entropy":
        return "entropy"
    raise InputError(f'metric must be "margin" or "entropy", but it is {metric!r}.')


def covariates_by_size(
    rows: TeacherRows, sizes: int, metric: Metric
) -> Float[np.ndarray, "sizes n"]:
    """The covariates of every row, one array row for each k from 1 to ``sizes``."""
    by_size = np.empty((sizes, len(rows)))

    def fill(part: slice, block: Block) -> None:
        by_size[:, part] = covariates(block, sizes, metric).T

    rows.each_block(fill)
    return by_size


def covariates(
    block: Block, sizes: int, metric: Metric, rows: Rows = ALL_ROWS
) -> Float[np.ndarray, "m sizes"]:
    """What the isotonic fits look at: margin_k or -H_k for k = 1 to ``sizes``, float64.

    Sums run from the largest probability down in float64, so a row gives the same bits whatever
    the block it comes in and however many sizes are asked for.
    """
    top = block.top(sizes + 1, rows)
    mass = np.cumsum(top[:, :-1], axis=1, dtype=np.float64)
    missing = None if block.missing is None else block.missing[rows, None].astype(np.float64)
    if metric == "margin":
        mass -= top[:, 1:]
        return mass if missing is None else (1 - missing) * mass
    ahead = top[:, :-1].astype(np.float64)
    behind = block.plogp(rows)[:, None] - np.cumsum(times_log(ahead, ahead), axis=1)
    found = np.asarray(times_log(mass, mass) + behind)
    if missing is None:
        return found
    listed = 1 - missing
    return np.asarray(listed * found + times_log(listed, listed) + times_log(missing, missing))
