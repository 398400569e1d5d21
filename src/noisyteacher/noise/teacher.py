"""The noise model: how far each teacher label can be trusted, learned on the validation set."""

from __future__ import annotations

import operator
import warnings
from os import PathLike
from typing import Any, cast

import numpy as np
import torch
from jaxtyping import Int
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from torch import Tensor

from noisyteacher.errors import InputError, NoisyTeacherWarning
from noisyteacher.noise.confidence import Metric
from noisyteacher.noise.curves import (
    Curves,
    CutTable,
    covariates_by_size,
    fit_curves,
    read_confidence,
    read_pool,
)
from noisyteacher.noise.cuts import size_for_level
from noisyteacher.noise.isotonic import StepIsotonic
from noisyteacher.noise.rows import LabelsOrProbs, TeacherRows, read_rows
from noisyteacher.noise.saving import SavedNoise, read_noise, write_noise
from noisyteacher.noise.trust import LOWEST_ALPHA, Trust

MIN_CLASS_ROWS = 50


class TeacherNoise(BaseEstimator):  # type: ignore[misc]  # scikit-learn ships no types
    """alpha(x) and k(x) of a teacher, from its labels on a validation set it never saw.

    Args:
        lower_bound: alpha is never below this (nor below 0.001).
        k: the shortlist size: an int for all examples; "level" for the smallest one (at least 2)
            whose top-k accuracy on V reaches ``level``; "auto" for one per example, the smallest
            whose accuracy alpha_k(x) reaches ``threshold``.
        threshold: the accuracy that a shortlist must reach with ``k="auto"``.
        metric: what the fits look at, "margin" or "entropy".
        per_class: fit curves and cuts for each class the teacher predicts on at least 50 rows of
            V; the pooled ones serve the other classes. A fixed or level k stays pooled.
        level: the top-k accuracy on V that ``k="level"`` asks for.

    After ``fit``:
        curve_: the pooled alpha curve (``curve_.knots_``, ``curve_.values_``).
        cuts_: the pooled cuts, float64; ``cuts_[k-1]`` is the covariate that alpha_k needs to be
            above, -inf for always, +inf for never; None unless ``k="auto"``. They end at the first
            -inf, as later ones are never looked at.
        by_class_: class -> Curves (``curve``, ``cuts``, ``n``); empty unless ``per_class``.
        k_: the shortlist size for all examples; None with ``k="auto"``.
        n_val_: the number of rows of V.
        num_classes_: L.
    """

    curve_: StepIsotonic
    cuts_: np.ndarray | None
    by_class_: dict[int, Curves]
    k_: int | None
    n_val_: int
    num_classes_: int

    def __init__(
        self,
        lower_bound: float = 0.5,
        k: int | str = "auto",
        threshold: float = 0.9,
        metric: str = "margin",
        per_class: bool = False,
        level: float = 0.6,
    ) -> None:
        self.lower_bound = lower_bound
        self.k = k
        self.threshold = threshold
        self.metric = metric
        self.per_class = per_class
        self.level = level

    def fit(self, labels_or_probs: LabelsOrProbs, y: ArrayLike | Tensor) -> TeacherNoise:
        """Learn alpha(x) and k(x) on V.

        Args:
            labels_or_probs: the teacher's labels of V: TeacherLabels, or dense probabilities (n, L).
            y: the true classes, integers of shape (n,).
        """
        self._check_settings()
        rows = read_rows(labels_or_probs)
        truth = _check_truth(y, len(rows), rows.num_classes)
        _check_stored(rows)
        rank = rows.rank(truth)
        self.num_classes_ = rows.num_classes
        self.k_ = self._fit_k(rows, rank)
        threshold = self.threshold if self.k == "auto" else None
        sizes = 1 if threshold is None else rows.stored - 1
        by_size = covariates_by_size(rows, sizes, self._metric)
        pooled = fit_curves(by_size, rank, self._lowest, threshold)
        self.curve_, self.cuts_, self.n_val_ = pooled.curve, pooled.cuts, pooled.n
        self.by_class_ = {}
        if self.per_class:
            predicted = rows.top_class()
            counts = np.bincount(predicted, minlength=rows.num_classes)
            for label in np.flatnonzero(counts >= MIN_CLASS_ROWS):
                of_class = predicted == label
                self.by_class_[int(label)] = fit_curves(
                    by_size[:, of_class], rank[of_class], self._lowest, threshold
                )
        return self

    def predict(self, labels_or_probs: LabelsOrProbs) -> Trust:
        """Say how far each label of a pool can be trusted.

        Args:
            labels_or_probs: TeacherLabels (answered in NumPy), or dense probabilities (n, L).
        """
        if not hasattr(self, "curve_"):
            raise InputError("This TeacherNoise is not fitted yet: call fit(labels, y) first.")
        rows = read_rows(labels_or_probs)
        if rows.num_classes != self.num_classes_:
            raise InputError(
                f"The noise model was fitted on {self.num_classes_} classes, "
                f"but these labels have {rows.num_classes}."
            )
        _check_stored(rows)
        group = self._group(rows)
        if self.k_ is None:
            confidence, k, unreachable = self._predict_k(rows, group)
        else:
            _check_served(self.k_, rows)
            confidence = read_confidence(rows, self._metric)
            k, unreachable = np.full(len(rows), self.k_, dtype=np.int64), 0
        alpha = self._predict_alpha(confidence, group)
        if isinstance(labels_or_probs, Tensor):
            device = labels_or_probs.device
            return Trust(
                torch.from_numpy(alpha).to(device),
                torch.from_numpy(k).to(device),
                self._lowest,
                unreachable,
            )
        return Trust(alpha, k, self._lowest, unreachable)

    def save(self, path: str | PathLike[str]) -> None:
        """Write the settings and everything learned as JSON, in one step."""
        if not hasattr(self, "curve_"):
            raise InputError("This TeacherNoise is not fitted yet: there is nothing to save.")
        pooled = Curves(self.curve_, self.cuts_, self.n_val_)
        write_noise(
            path,
            SavedNoise(self.get_params(), self.num_classes_, self.k_, pooled, self.by_class_),
        )

    @classmethod
    def load(cls, path: str | PathLike[str]) -> TeacherNoise:
        """Read what :meth:`save` wrote."""
        saved = read_noise(path)
        try:
            noise = cls(**saved.settings)
            noise._check_settings()
        except (TypeError, InputError) as error:
            raise InputError(f"{path} holds settings that no noise model has: {error}") from error
        noise.num_classes_, noise.k_ = saved.num_classes, saved.k
        noise.curve_, noise.cuts_ = saved.pooled.curve, saved.pooled.cuts
        noise.n_val_, noise.by_class_ = saved.pooled.n, saved.by_class
        return noise
