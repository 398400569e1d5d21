"""Wrappers: methods that hold an inner method and change its columns, its logits or its loss."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from noisyteacher.core.errors import InputError
from noisyteacher.labels import TeacherLabels
from noisyteacher.methods.batch import (
    Batch,
    Columns,
    Labels,
    Modules,
    Noise,
    Output,
    Rows,
    dense_labels,
    gold_losses,
    labels_of_gold,
    pool_labels,
    temper,
    temper_top,
    weighted_mean,
)
from noisyteacher.methods.method import (
    SOFT_LABELS,
    VIEW_STATISTICS,
    Grid,
    Method,
    TargetMethod,
    Wrapper,
    inner_methods,
)
from noisyteacher.methods.plain import Vanilla
from noisyteacher.methods.slam import SLaM
from noisyteacher.noise.calibration import SMALLEST_PROB, fit_calibration

NORMALIZERS: dict[str, Callable[[np.ndarray], float]] = {
    "mean": np.mean,
    "sum": np.sum,
    "max": np.max,
}
RAMP_START = 0.1  # Consistency: the share of the pool's term at the first step
RAMP_LENGTH = 0.1  # the share of training over which it grows by 1
_TEMPERATURES = (0.01, 0.1, 0.5, 0.8, 1.0, 2.0, 5.0, 10.0, 100.0)


@dataclass(frozen=True)
class Fidelity(Wrapper):
    """Gives pool rows the weight exp(−β ū(x)), for any inner method.

    u is the variance of the teacher's probabilities over views, averaged over classes, and ū is u
    divided by its ``normalizer`` over the pool. The paper divides by the ``"sum"``, which makes
    every weight in a large pool practically 1; the default is therefore the ``"mean"``.
    """

    beta: float
    normalizer: str = "mean"
    inner: Method = Vanilla()  # noqa: RUF009  frozen

    needs: ClassVar[frozenset[str]] = frozenset({SOFT_LABELS, VIEW_STATISTICS})
    whole_pool: ClassVar[bool] = True
    formula: ClassVar[str] = "exp(−β u(x) / mean u) · inner"
    reference: ClassVar[str] = "Dehghani et al. ICLR 2018, as in the SLaM paper"
    unverified: ClassVar[str] = "the original's exact weight; the paper's normalizer is `sum`"
    grid: ClassVar[Grid] = {"beta": (0.1, 0.2, 1.0, 1.2, 2.0, 5.0, 10.0, 20.0)}

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check(self.beta >= 0, "beta", "at least 0")
        self._check(self.normalizer in NORMALIZERS, "normalizer", '"mean", "sum" or "max"')

    def prepare(self, rows: Rows, labels: Labels, noise: Noise) -> Columns:
        columns = super().prepare(rows, labels, noise)
        std = pool_labels(self, rows, labels).extras["view_std"]
        factor = torch.ones(len(rows))
        factor[torch.from_numpy(~rows.gold)] = torch.from_numpy(self.pool_weights(std))
        columns.values["fidelity"] = factor[columns.index]
        columns.weight *= columns.values["fidelity"]
        return columns

    def pool_weights(self, view_std: np.ndarray) -> np.ndarray:
        """(n,) float32 weights of pool rows, from their (n, 2, L) deviations over views."""
        uncertainty = np.square(view_std[:, 0], dtype=np.float64).mean(axis=1)
        if not len(uncertainty):
            return np.ones(0, np.float32)
        scale = NORMALIZERS[self.normalizer](uncertainty)
        if scale == 0:  # the views of every row agree
            return np.ones(len(uncertainty), np.float32)
        weights: np.ndarray = np.exp(-self.beta * uncertainty / scale)
        return weights.astype(np.float32)

    def refresh(self, student_probs: Tensor, val_probs: Tensor, columns: Columns) -> None:
        if self.refresh_every():
            super().refresh(student_probs, val_probs, columns)
            # The inner method wrote its weights anew.
            columns.weight *= columns.values["fidelity"]


@dataclass(frozen=True)
class Temperature(Wrapper):
    """Divides the logits of student and teacher by t_a on gold rows and by t_b on pool rows.

    alpha and shortlists come from the labels at temperature 1. One-hot targets stay one-hot. The
    student is evaluated at temperature 1.

    Args:
        t_a, t_b: the temperatures of gold and pool rows.
        squared: whether to multiply each row's loss by its squared temperature, as Hinton does.
        a_target: the target of gold rows: the ``"true"`` label, or the ``"teacher"``'s label at
            t_a, for which the teacher must have labeled A and V too.
    """

    t_a: float
    t_b: float
    squared: bool = False
    a_target: str = "true"
    inner: Method = Vanilla()  # noqa: RUF009  frozen

    formula: ClassVar[str] = "inner at softmax(z / t), ys^(1/t) / Σ; t = t_A on gold, t_B on pool"
    reference: ClassVar[str] = "Hinton et al. 2015, as in the SLaM paper"
    unverified: ClassVar[str] = "the factor t² and the target of gold rows in the paper's runs"
    grid: ClassVar[Grid] = {"t_a": _TEMPERATURES, "t_b": _TEMPERATURES}

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check(self.t_a > 0, "t_a", "above 0")
        self._check(self.t_b > 0, "t_b", "above 0")
        self._check(self.a_target in ("true", "teacher"), "a_target", '"true" or "teacher"')
        if self.a_target == "teacher" and not isinstance(self._innermost(), TargetMethod):
            raise InputError(
                f'{type(self._innermost()).__name__} has no target that a_target="teacher" of '
                "Temperature could replace."
            )

    def prepare(self, rows: Rows, labels: Labels, noise: Noise) -> Columns:
        columns = super().prepare(rows, labels, noise)
        values, gold = columns.values, columns.y >= 0
        innermost = self._innermost()
        hard = isinstance(innermost, TargetMethod) and innermost.hard
        if "target" in values and not hard:
            values["target"][~gold] = temper(values["target"][~gold], self.t_b)
        if "top_prob" in values and not hard:
            others = rows.classes - values["top_prob"].shape[1]
            values["top_prob"][~gold], values["tail"][~gold] = temper_top(
                values["top_prob"][~gold], values["tail"][~gold], others, self.t_b
            )
        if self.a_target == "teacher":
            ids = rows.ids[columns.index[gold].numpy()]
            found = labels_of_gold(self, labels, ids, "labels", 'a_target="true"')
            self._aim_gold_at_teacher(columns, found, hard)
        return columns

    def _innermost(self) -> Method:
        *_, innermost = inner_methods(self)
        return innermost

    def _aim_gold_at_teacher(self, columns: Columns, found: TeacherLabels, hard: bool) -> None:
        values, gold = columns.values, columns.y >= 0
        if "target" in values:
            target = dense_labels(found, hard)
            values["target"][gold] = target if hard else temper(target, self.t_a)
        else:
            top, tail = torch.from_numpy(found.topk_prob), torch.from_numpy(found.tail)
            if not hard:
                top, tail = temper_top(top, tail, found.num_classes - found.k, self.t_a)
            values["top_index"][gold] = torch.from_numpy(found.topk_index.astype(np.int32))
            values["top_prob"][gold], values["tail"][gold] = top, tail

    def loss(self, output: Output, batch: Batch, modules: Modules, progress: Tensor) -> Tensor:
        t = torch.where(batch.gold, float(self.t_a), float(self.t_b))
        strong = None if output.strong is None else output.strong / t[:, None]
        tempered = replace(output, logits=output.logits / t[:, None], strong=strong)
        if self.squared:
            batch = replace(batch, weight=batch.weight * t.square())
        return super().loss(tempered, batch, modules, progress)


@dataclass(frozen=True)
class Calibrated(Wrapper):
    """Replaces the teacher's labels by labels calibrated on V, before the inner method uses them.

    A temperature is fitted by log-loss and, if V has at least 50 rows of every class, a bias per
    class. The inner method's noise model is fitted on the calibrated labels.
    """

    inner: Method = Vanilla()  # noqa: RUF009  frozen

    formula: ClassVar[str] = "inner on softmax(log ys / T + b), T and b by log-loss on V"
    reference: ClassVar[str] = "Guo et al. ICML 2017"

    def relabel(self, rows: Rows, labels: TeacherLabels) -> TeacherLabels:
        return super().relabel(rows, calibrate(labels, rows.val_ids, rows.val_y))


def calibrate(labels: TeacherLabels, val_ids: np.ndarray, val_y: np.ndarray) -> TeacherLabels:
    """All labels, calibrated on V; extras stay as they are."""
    fitted = fit_calibration(labels.take(val_ids).probs, val_y)
    told = ("missing", "extras", "teacher", "revision", "temperature")
    kept: dict[str, Any] = {name: getattr(labels, name) for name in told}
    if labels.k == labels.num_classes or fitted.bias.any():
        probs = fitted.apply(labels.probs)
        return TeacherLabels.from_probs(labels.ids, probs, labels.classes, labels.k, **kept)
    # A temperature alone, which needs no dense labels.
    others = labels.num_classes - labels.k
    # The floor under which the temperature was fitted.
    prob, tail = temper_top(
        torch.from_numpy(labels.topk_prob).clamp(min=SMALLEST_PROB),
        torch.from_numpy(labels.tail).clamp(min=SMALLEST_PROB * others),
        others,
        fitted.temperature,
    )
    return TeacherLabels.from_topk(
        labels.ids, labels.topk_index, prob, tail, labels.classes, **kept
    )


@dataclass(frozen=True)
class Consistency(Wrapper):
    """Adds cross-entropy of the strong view with the student's prediction on the weak view.

    Pool rows are used if the probability of that prediction is at least ``threshold``; gold rows
    are always used, with their true class. It can wrap any method, and is always outermost.
    ``inner=None`` is the version without a teacher: gold labels, the pool, two views.
    """

    inner: Method | None = SLaM()  # noqa: RUF009  frozen
    threshold: float = 0.8
    weight: float = 1.0

    needs: ClassVar[frozenset[str]] = frozenset()
    outermost: ClassVar[bool] = True
    views: ClassVar[tuple[str, ...]] = ("weak", "strong")
    formula: ClassVar[str] = "inner + λ mean 1{max p ≥ τ} ce(argmax p, f(strong)), p = f(weak)"
    reference: ClassVar[str] = "after FixMatch, Sohn et al. 2020"
    grid: ClassVar[Grid] = {"threshold": (0.6, 0.8, 0.95)}

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check(0 <= self.threshold <= 1, "threshold", "between 0 and 1")
        self._check(self.weight >= 0, "weight", "at least 0")

    @property
    def wrapped(self) -> Method:
        return _GoldTerm() if self.inner is None else super().wrapped

    def loss(self, output: Output, batch: Batch, modules: Modules, progress: Tensor) -> Tensor:
        if output.strong is None:
            raise InputError(f"{self!r} needs a strong view, and none was given.")
        inner = super().loss(output, batch, modules, progress)
        sure, answer = output.logits.detach().softmax(1).max(1)
        ramp = (RAMP_START + progress / RAMP_LENGTH).clamp(max=1.0)
        used = torch.where(batch.gold, 1.0, (sure >= self.threshold) * ramp)
        label = torch.where(batch.gold, batch.y, answer)
        losses = F.cross_entropy(output.strong, label, reduction="none")
        return inner + self.weight * (used * losses).mean()


@dataclass(frozen=True)
class _GoldTerm(Method, register=False):
    """The first term without a teacher: gold rows' cross-entropy, a mean over all rows."""

    needs: ClassVar[frozenset[str]] = frozenset()

    def loss(self, output: Output, batch: Batch, modules: Modules, progress: Tensor) -> Tensor:
        return weighted_mean(gold_losses(output.logits, batch.y) * batch.gold, batch)
