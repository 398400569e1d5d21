"""What the audit looks at: V with its truth, and the pool, each read once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int

from noisyteacher.labels import TeacherLabels
from noisyteacher.noise.calibration import safe_log
from noisyteacher.noise.confidence import covariates_by_size
from noisyteacher.noise.rows import TeacherRows


@dataclass(frozen=True)
class RowSummary:
    """What the audit compares between V and the pool: three numbers per row."""

    predicted: Int[np.ndarray, " n"]
    margin: Float[np.ndarray, " n"]
    entropy: Float[np.ndarray, " n"]

    def __len__(self) -> int:
        return len(self.margin)


@dataclass(frozen=True)
class ValReading:
    """V, row by row. A column of ``logs`` stands for ``times`` equally probable classes."""

    y: Int[np.ndarray, " n"]
    predicted: Int[np.ndarray, " n"]
    margin: Float[np.ndarray, " n"]
    entropy: Float[np.ndarray, " n"]
    rank: Int[np.ndarray, " n"]  # the truth's place in the teacher's order; K if not stored
    logs: Float[np.ndarray, "n m"]
    times: Float[np.ndarray, " m"]
    log_truth: Float[np.ndarray, " n"]
    stored: int
    num_classes: int

    def __len__(self) -> int:
        return len(self.y)

    @property
    def right(self) -> Bool[np.ndarray, " n"]:
        """Where the teacher's first choice is the truth."""
        return np.asarray(self.predicted == self.y)


def summarise_rows(labels: TeacherLabels) -> RowSummary:
    """Summarise V or a pool block by block; it is never made dense."""
    rows = TeacherRows(labels)
    margin = covariates_by_size(rows, 1, "margin")[0]
    return RowSummary(labels.hard, margin, -covariates_by_size(rows, 1, "entropy")[0])


def read_val(labels: TeacherLabels, y: Int[np.ndarray, " n"]) -> ValReading:
    """Read V, with the probability of every stored class, and of one that is not stored."""
    seen = summarise_rows(labels)
    k, others = labels.k, labels.num_classes - labels.k
    probs = labels.topk_prob.astype(np.float64)
    times = np.ones(k)
    if others:
        probs = np.column_stack([probs, labels.tail.astype(np.float64) / others])
        times = np.append(times, float(others))
    found = labels.topk_index == y[:, None]
    rank = np.where(found.any(axis=1), found.argmax(axis=1), k)
    logs = safe_log(probs)
    return ValReading(
        y=y,
        predicted=seen.predicted,
        margin=seen.margin,
        entropy=seen.entropy,
        rank=rank,
        logs=logs,
        times=times,
        log_truth=logs[np.arange(len(y)), rank],
        stored=k,
        num_classes=labels.num_classes,
    )
