"""Calibrated teacher: make the labels mean what they say before anything else looks at them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch

from noisyteacher.labels import TeacherLabels
from noisyteacher.methods.base import Method, Rows
from noisyteacher.methods.temperature import temper_top
from noisyteacher.methods.vanilla import Vanilla
from noisyteacher.methods.wrapper import Wrapper
from noisyteacher.noise.calibration import SMALLEST_PROB, Calibration, fit_calibration

__all__ = ["Calibrated", "Calibration", "calibrate", "fit_calibration"]


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


def _temper_stored(labels: TeacherLabels, temperature: float) -> TeacherLabels:
    """Temperature alone, without ever making the labels dense."""
    others = labels.num_classes - labels.k
    # The floor under which the temperature was fitted.
    prob, tail = temper_top(
        torch.from_numpy(labels.topk_prob).clamp(min=SMALLEST_PROB),
        torch.from_numpy(labels.tail).clamp(min=SMALLEST_PROB * others),
        others,
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
