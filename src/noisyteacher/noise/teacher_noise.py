"""The noise model: how far each teacher label can be trusted, learned on the validation set."""

from __future__ import annotations

from os import PathLike

import numpy as np
import torch
from jaxtyping import Float, Int
from sklearn.base import BaseEstimator
from torch import Tensor

from noisyteacher.core.errors import InputError, first_few, warn
from noisyteacher.io.classes import class_numbers
from noisyteacher.noise.covariates import (
    Block,
    LabelsOrProbs,
    TeacherRows,
    check_metric,
    covariates_by_size,
    read_teacher_rows,
)
from noisyteacher.noise.isotonic import (
    ArrayLike,
    Curves,
    Number,
    StepIsotonic,
    fit_curves,
    size_for_level,
)
from noisyteacher.noise.pool import CutTable, PoolReading, Trust, read_pool
from noisyteacher.noise.saving import (
    ONE_OVER_K,
    Learned,
    check_settings,
    lowest_alpha,
    read_noise,
    write_noise,
)

MIN_CLASS_ROWS = 50


class TeacherNoise(BaseEstimator):  # type: ignore[misc]  # scikit-learn ships no types
    """The noise model of a teacher: alpha(x) and k(x), fitted on a validation set V.

    alpha(x) is the probability that the teacher's top class is right, and k(x) is the size of the
    shortlist that contains the true class. V are gold rows that the teacher was not trained on.

    Args:
        lower_bound: the lowest value of alpha (which is never below 0.001). ``"1/k"`` means 1 /
            k(x) for each row: the alpha of a label whose shortlist is equally likely throughout.
        k: the shortlist size: an int for all examples; "level" for the smallest one (at least 2)
            whose top-k accuracy on V reaches ``level``; "auto" for one per example, the smallest
            whose accuracy alpha_k(x) reaches ``threshold``.
        threshold: the accuracy that a shortlist must reach with ``k="auto"``.
        metric: the covariate of the fits, "margin" or "entropy".
        per_class: whether to fit separate curves and cuts for each class that the teacher predicts
            on at least 50 rows of V. The other classes use the pooled ones. A fixed or level k is
            always pooled.
        level: the top-k accuracy on V that ``k="level"`` requires.

    After ``fit``:
        alpha_curve_: the pooled alpha curve (``alpha_curve_.knots_``, ``alpha_curve_.values_``).
        cuts_: the pooled cuts, float64; ``cuts_[k-1]`` is the value that the covariate of alpha_k
            must exceed, -inf for always, +inf for never; None unless ``k="auto"``. They end at
            the first -inf, because later ones are never used.
        by_class_: class -> Curves (``alpha_curve``, ``cuts``, ``n``); empty unless ``per_class``.
        k_: the shortlist size for all examples; None with ``k="auto"``.
        n_val_: the number of rows of V.
        num_classes_: L.
        classes_: the names of the classes; None if the labels had none.
    """

    alpha_curve_: StepIsotonic
    cuts_: np.ndarray | None
    by_class_: dict[int, Curves]
    k_: int | None
    n_val_: int
    num_classes_: int
    classes_: tuple[str, ...] | None

    def __init__(
        self,
        lower_bound: Number | str = 0.5,
        k: int | str = "auto",
        threshold: Number = 0.9,
        metric: str = "margin",
        per_class: bool = False,
        level: Number = 0.6,
    ) -> None:
        self.lower_bound = lower_bound
        self.k = k
        self.threshold = threshold
        self.metric = metric
        self.per_class = per_class
        self.level = level

    def fit(self, labels_or_probs: LabelsOrProbs, y: ArrayLike | Tensor) -> TeacherNoise:
        """Fit alpha(x) and k(x) on V.

        Args:
            labels_or_probs: the teacher's labels of V: TeacherLabels, or probabilities (n, L).
            y: the true classes, (n,): numbers, or names where ``labels_or_probs`` has names.
        """
        check_settings(**self.get_params())
        rows = read_teacher_rows(labels_or_probs)
        _check_stored(rows)
        truth = _check_truth(y, rows)
        rank, predicted = _rank_and_predicted(rows, truth)
        k = self._fit_k(rows, rank)
        threshold = float(self.threshold) if self.k == "auto" else None
        sizes = 1 if threshold is None else rows.stored - 1
        by_size = covariates_by_size(rows, sizes, check_metric(self.metric))
        lowest = lowest_alpha(self.lower_bound)
        pooled = fit_curves(by_size, rank, lowest, threshold)
        by_class = {}
        counts = np.bincount(predicted, minlength=rows.num_classes)
        for label in np.flatnonzero(counts >= MIN_CLASS_ROWS) if self.per_class else ():
            own = predicted == label
            by_class[int(label)] = fit_curves(by_size[:, own], rank[own], lowest, threshold)
        return self._set(Learned(rows.num_classes, rows.classes, k, pooled, by_class))

    def predict(self, labels_or_probs: LabelsOrProbs) -> Trust:
        """Predict alpha(x) and k(x) for each label.

        Args:
            labels_or_probs: TeacherLabels (answered in NumPy), or dense probabilities (n, L).
        """
        if not hasattr(self, "alpha_curve_"):
            raise InputError("This TeacherNoise is not fitted yet: call fit(labels, y) first.")
        rows = read_teacher_rows(labels_or_probs)
        _check_stored(rows)
        if rows.num_classes != self.num_classes_:
            raise InputError(
                f"The noise model was fitted on {self.num_classes_} classes, "
                f"but these labels have {rows.num_classes}."
            )
        known, given = self.classes_, rows.classes
        if self.by_class_ and known and given and known != given:
            raise InputError(
                "The noise model has a curve per class of a teacher with other classes, or in "
                f"another order: {first_few(known, 5)}, not {first_few(given, 5)}."
            )
        if self.k_ is not None:
            _check_served(self.k_, rows)
        groups = [self._pooled, *self.by_class_.values()]
        group_of_class = np.zeros(self.num_classes_, dtype=np.int64)
        group_of_class[list(self.by_class_)] = np.arange(1, len(groups))
        table = CutTable.stack([curves.cuts for curves in groups], self.num_classes_)
        pool = read_pool(rows, table, group_of_class, check_metric(self.metric))
        alpha = _alpha(pool, [curves.alpha_curve for curves in groups])
        k, unreachable = self._k(pool, table, rows)
        lowest: float | np.ndarray = lowest_alpha(self.lower_bound)
        if self.lower_bound == ONE_OVER_K:
            lowest = (1 / k).astype(np.float32)
            alpha = np.maximum(alpha, lowest)
        if isinstance(labels_or_probs, Tensor):
            device = labels_or_probs.device
            tensors = torch.from_numpy(alpha).to(device), torch.from_numpy(k).to(device)
            return Trust(*tensors, lowest, unreachable)
        return Trust(alpha, k, lowest, unreachable)

    def save(self, path: str | PathLike[str]) -> None:
        """Write the settings and everything learned as JSON, in one step."""
        if not hasattr(self, "alpha_curve_"):
            raise InputError("This TeacherNoise is not fitted yet: there is nothing to save.")
        sizes = (self.num_classes_, self.classes_, self.k_)
        write_noise(path, self.get_params(), Learned(*sizes, self._pooled, self.by_class_))

    @classmethod
    def load(cls, path: str | PathLike[str]) -> TeacherNoise:
        """Read what :meth:`save` wrote."""
        settings, learned = read_noise(path)
        return cls(**settings)._set(learned)

    @property
    def _pooled(self) -> Curves:
        return Curves(self.alpha_curve_, self.cuts_, self.n_val_)

    def _set(self, learned: Learned) -> TeacherNoise:
        # All at once: a fit that fails leaves what was learned before.
        self.num_classes_, self.classes_, self.k_ = learned.num_classes, learned.classes, learned.k
        self.alpha_curve_, self.cuts_ = learned.pooled.alpha_curve, learned.pooled.cuts
        self.n_val_, self.by_class_ = learned.pooled.n, learned.by_class
        return self

    def _fit_k(self, rows: TeacherRows, rank: Int[np.ndarray, " n"]) -> int | None:
        if self.k == "auto":
            return None
        if self.k != "level":
            fixed = int(self.k)
            _check_served(fixed, rows)
            return fixed
        size = size_for_level(rank, rows.stored, float(self.level))
        if size is None:
            warn(
                f"The teacher's top-{rows.stored} accuracy on V stays below the level "
                f"{self.level}, and no more classes are stored, so k is {rows.num_classes}, the "
                "number of classes.",
            )
            return rows.num_classes
        return size

    def _k(
        self, pool: PoolReading, table: CutTable, rows: TeacherRows
    ) -> tuple[Int[np.ndarray, " n"], int]:
        """k(x), and how many rows have k = L for want of stored probabilities."""
        if self.k_ is not None:
            return np.full(len(rows), self.k_, dtype=np.int64), 0
        k = np.where(pool.size > 0, np.maximum(pool.size, 2), rows.num_classes)
        decided = table.complete[pool.group] & (rows.stored == rows.num_classes)
        unreachable = int(((pool.size == 0) & ~decided).sum())
        if unreachable:
            warn(
                f"For {unreachable / len(rows):.1%} of the rows, k(x) exceeds the number of stored "
                f"probabilities; they get k = {rows.num_classes}, the number of classes.",
            )
        return k, unreachable


def _rank_and_predicted(
    rows: TeacherRows, truth: Int[np.ndarray, " n"]
) -> tuple[Int[np.ndarray, " n"], Int[np.ndarray, " n"]]:
    """The truth's place in the teacher's order, and the teacher's first choice."""
    rank, predicted = np.empty_like(truth), np.empty_like(truth)

    def fill(part: slice, block: Block) -> None:
        rank[part] = block.rank(truth[part])
        predicted[part] = block.top_class()

    rows.each_block(fill)
    return rank, predicted


def _alpha(pool: PoolReading, curves: list[StepIsotonic]) -> Float[np.ndarray, " n"]:
    """alpha(x) from the curve of each row's group."""
    alpha = np.empty(len(pool.group), dtype=np.float32)
    order = np.argsort(pool.group, kind="stable")
    starts = np.searchsorted(pool.group[order], np.arange(1, len(curves)))
    for curve, these in zip(curves, np.split(order, starts), strict=True):
        alpha[these] = curve.predict(pool.confidence[these])
    return alpha


def _check_truth(y: ArrayLike | Tensor, rows: TeacherRows) -> Int[np.ndarray, " n"]:
    # Whatever classes are called, numbers are places here, as in every method that fits this.
    truth = class_numbers(y, rows.classes, numbers_are_places=True)
    if truth.shape != (len(rows),):
        raise InputError(
            f"y must have shape ({len(rows)},), one true class per row of V, but has {truth.shape}."
        )
    if len(rows) == 0:
        raise InputError("V is empty: a noise model needs examples with true labels.")
    outside = (truth < 0) | (truth >= rows.num_classes)
    if outside.any():
        raise InputError(
            f"y must be from 0 to {rows.num_classes - 1}, but row {int(outside.argmax())} "
            f"is {truth[outside.argmax()]}."
        )
    if (truth == truth[0]).all():
        only = truth[0] if rows.classes is None else repr(rows.classes[truth[0]])
        warn(
            f"All examples that measure the teacher are of class {only}, so they cannot show how "
            "far labels of other classes can be trusted. Draw them at random from the pool.",
        )
    return truth


def _check_stored(rows: TeacherRows) -> None:
    if rows.stored < 2:
        raise InputError(
            "These labels store 1 probability per row; the noise model needs at least 2."
        )


def _check_served(k: int, rows: TeacherRows) -> None:
    if k > rows.num_classes:
        raise InputError(f"k must be from 2 to {rows.num_classes}, but it is {k}.")
    if rows.stored < k < rows.num_classes:
        raise InputError(
            f"These labels store {rows.stored} of {rows.num_classes} probabilities per row, "
            f"so they cannot serve k = {k}."
        )
