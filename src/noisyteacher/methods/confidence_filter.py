"""Confidence filter: train on the teacher labels that are sure enough, drop the rest."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from noisyteacher.core.errors import NoisyTeacherWarning
from noisyteacher.labels import TeacherLabels
from noisyteacher.methods.base import Columns, Grid, Rows
from noisyteacher.methods.targets import TargetMethod, given, keep_rows, pool_labels
from noisyteacher.noise import TeacherNoise, margin


@dataclass(frozen=True, repr=False)
class ConfidenceFilter(TargetMethod):
    """Vanilla distillation on the pool rows whose teacher label is at least ``threshold`` sure.

    Args:
        threshold: a number, or ``"auto"``: the lowest at which the teacher is right on a share of
            ``precision`` of the rows of V it keeps.
        precision: what ``"auto"`` asks for.
        score: how sure: the top ``"probability"``, or its ``"margin"`` over the second.
        hard: train on the teacher's top class.
    """

    threshold: float | str = "auto"
    precision: float = 0.9
    score: str = "probability"
    hard: bool = False

    formula: ClassVar[str] = "1{max ys ≥ τ} ce(ys, f), τ from V; other rows dropped"
    reference: ClassVar[str] = "folklore"
    grid: ClassVar[Grid] = {"precision": (0.5, 0.6, 0.7, 0.8, 0.9)}

    def __post_init__(self) -> None:
        super().__post_init__()
        number = isinstance(self.threshold, int | float) and not isinstance(self.threshold, bool)
        self._check(
            self.threshold == "auto" or (number and 0 <= float(self.threshold) <= 1),
            "threshold",
            'a number between 0 and 1, or "auto"',
        )
        self._check(0 < self.precision <= 1, "precision", "above 0 and at most 1")
        self._check(self.score in ("probability", "margin"), "score", '"probability" or "margin"')

    def prepare(
        self, rows: Rows, labels: TeacherLabels | None, noise: TeacherNoise | None
    ) -> Columns:
        pool = pool_labels(self, rows, labels)
        if self.threshold == "auto":
            val = given(self, labels).take(rows.val_ids)
            threshold = tuned_threshold(self._sure(val), val.hard == rows.val_y, self.precision)
        else:
            threshold = float(self.threshold)
        keep = rows.gold
        keep[~rows.gold] = self._sure(pool) >= threshold
        if len(pool) and not keep[~rows.gold].any():
            warnings.warn(
                f"{self!r} keeps no row of the pool: only gold rows are left to train on.",
                NoisyTeacherWarning,
                stacklevel=2,
            )
        return keep_rows(self.target_columns(rows, pool), keep)

    def _sure(self, labels: TeacherLabels) -> np.ndarray:
        if self.score == "margin":
            return np.asarray(margin(labels), np.float32)
        return labels.topk_prob[:, 0]


def tuned_threshold(sure: np.ndarray, right: np.ndarray, precision: float) -> float:
    """The lowest score at which the rows of V at or above it are right often enough; else inf."""
    order = np.argsort(-sure, kind="stable")
    share = np.cumsum(right[order]) / np.arange(1, len(order) + 1)
    # Equal scores are kept or dropped together: only the last of them is a possible threshold.
    last = np.append(sure[order][1:] < sure[order][:-1], True)
    good = np.flatnonzero(last & (share >= precision))
    return float(sure[order][good[-1]]) if len(good) else np.inf
