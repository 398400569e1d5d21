"""Calibrated teacher: make the labels mean what they say before anything else looks at them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from scipy.optimize import minimize
from scipy.special import log_softmax, softmax

from noisyteacher.errors import InputError
from noisyteacher.labels import TeacherLabels
from noisyteacher.methods.base import Method, Rows
from noisyteacher.methods.temperature import SMALLEST_PROB, temper_top
from noisyteacher.methods.vanilla import Vanilla
from noisyteacher.methods.wrapper import Wrapper

ROWS_FOR_BIAS = 50  # of every class in V, for a bias per class
SHARPEST, FLATTEST = 0.01, 100.0  # temperatures


@dataclass(frozen=True)
class Calibration:
    """``softmax(log p / temperature + bias)``."""

    temperature: float
    bias: np.ndarray  # (L,) float64; zeros where V is too small to tell

    def apply(self, probs: np.ndarray) -> np.ndarray:
        """Calibrate (n, L) probabilities."""
        return np.asarray(softmax(_logs(probs) / self.temperature + self.bias, axis=1))


@dataclass(frozen=True, repr=False)
class Calibrated(Wrapper):
    """Replace the teacher's labels by ones calibrated on V, in front of any method.

    A temperature is fitted by log-loss and, where V has at least 50 rows of every class, a bias
    per class. The inner method's noise model is fitted on the calibrated labels.
    """

    inner: Method = Vanilla()  # noqa: RUF009  frozen

    formula: ClassVar[str] = "inner on softmax(log ys / T + b), T and b by log-loss on V"
    reference: ClassVar[str] = "Guo et al. ICML 2017"

    def relabel(self, rows: Rows, labels: TeacherLabels) -> TeacherLabels:
        return super().relabel(rows, calibrate(labels, rows.val_ids, rows.val_y))


def calibrate(labels: TeacherLabels, val_ids: np.ndarray, val_y: np.ndarray) -> TeacherLabels:
    """All labels, calibrated on V; extras stay as they are."""
    fitted = fit_calibration(labels.take(val_ids).probs, val_y)
    if labels.k < labels.num_classes and not fitted.bias.any():
        return _temper_stored(labels, fitted.temperature)
    return TeacherLabels.from_probs(
        labels.ids,
        fitted.apply(labels.probs),
        labels.classes,
        labels.k,
        missing=labels.missing,
        extras=labels.extras,
        teacher=labels.teacher,
        revision=labels.revision,
        temperature=labels.temperature,
    )


def fit_calibration(probs: np.ndarray, y: np.ndarray) -> Calibration:
    """Fit on V: ``probs`` (v, L), ``y`` (v,) true classes."""
    if not len(y):
        raise InputError("V is empty: calibration needs examples with true labels.")
    rows, classes = probs.shape
    logs, truth = _logs(probs), np.eye(classes)[y]
    with_bias = bool(np.bincount(y, minlength=classes).min() >= ROWS_FOR_BIAS)

    def log_loss(parameters: np.ndarray) -> tuple[float, np.ndarray]:
        # In (1 / temperature, bias) the log-loss is convex.
        logits = parameters[0] * logs + (parameters[1:] if with_bias else 0.0)
        log_probs = log_softmax(logits, axis=1)
        value = -log_probs[np.arange(rows), y].mean()
        slope = (np.exp(log_probs) - truth) / rows
        return float(value), np.append((slope * logs).sum(), slope.sum(0) if with_bias else [])

    start = np.zeros(1 + classes * with_bias)
    start[0] = 1.0
    bounds = [(1 / FLATTEST, 1 / SHARPEST), *[(None, None)] * (len(start) - 1)]
    best = minimize(log_loss, start, jac=True, method="L-BFGS-B", bounds=bounds).x
    return Calibration(float(1 / best[0]), best[1:] if with_bias else np.zeros(classes))


def _temper_stored(labels: TeacherLabels, temperature: float) -> TeacherLabels:
    """Temperature alone, without ever making the labels dense."""
    prob, tail = temper_top(
        torch.from_numpy(labels.topk_prob),
        torch.from_numpy(labels.tail),
        labels.num_classes - labels.k,
        temperature,
    )
    return TeacherLabels.from_topk(
        labels.ids,
        labels.topk_index,
        prob,
        tail,
        labels.classes,
        missing=labels.missing,
        extras=labels.extras,
        teacher=labels.teacher,
        revision=labels.revision,
        temperature=labels.temperature,
    )


def _logs(probs: np.ndarray) -> np.ndarray:
    return np.asarray(np.log(np.maximum(probs, SMALLEST_PROB, dtype=np.float64)))
