"""Calibration on V: a temperature, and where V is large enough a bias per class, by log-loss."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from scipy.optimize import brentq, minimize
from scipy.special import log_softmax, softmax

from noisyteacher.core.errors import InputError

ROWS_FOR_BIAS = 50  # of every class in V, for a bias per class
SHARPEST, FLATTEST = 0.01, 100.0  # temperatures
SMALLEST_PROB = 1e-12


@dataclass(frozen=True)
class Calibration:
    """``softmax(log p / temperature + bias)``."""

    temperature: float
    bias: np.ndarray  # (L,) float64; zeros where V is too small to tell

    def apply(self, probs: np.ndarray) -> np.ndarray:
        """Calibrate (n, L) probabilities."""
        return np.asarray(softmax(safe_log(probs) / self.temperature + self.bias, axis=1))


def fit_calibration(probs: np.ndarray, y: np.ndarray) -> Calibration:
    """Fit on V: ``probs`` (v, L), ``y`` (v,) true classes."""
    if not len(y):
        raise InputError("V is empty: calibration needs examples with true labels.")
    rows, classes = probs.shape
    logs = safe_log(probs)
    if np.bincount(y, minlength=classes).min() < ROWS_FOR_BIAS:
        flat = fit_temperature(logs, np.ones(classes), logs[np.arange(rows), y])
        return Calibration(flat, np.zeros(classes))
    truth = np.eye(classes)[y]

    def log_loss(parameters: np.ndarray) -> tuple[float, np.ndarray]:
        # In (1 / temperature, bias) the log-loss is convex.
        log_probs = log_softmax(parameters[0] * logs + parameters[1:], axis=1)
        value = -log_probs[np.arange(rows), y].mean()
        slope = (np.exp(log_probs) - truth) / rows
        return float(value), np.append((slope * logs).sum(), slope.sum(0))

    start = np.append(1.0, np.zeros(classes))
    bounds = [(1 / FLATTEST, 1 / SHARPEST), *[(None, None)] * classes]
    best = minimize(log_loss, start, jac=True, method="L-BFGS-B", bounds=bounds).x
    return Calibration(float(1 / best[0]), best[1:])


def fit_temperature(
    logs: Float[np.ndarray, "n m"],
    times: Float[np.ndarray, " m"],
    log_truth: Float[np.ndarray, " n"],
) -> float:
    """The temperature with the smallest log-loss on V.

    Args:
        logs: log-probabilities; a column may stand for several equally probable classes.
        times: how many classes each column stands for: 1, or more for a tail spread evenly.
        log_truth: the log-probability of the true class.
    """

    def slope(inverse: float) -> float:
        return float(tempered_slope(logs, times, log_truth, inverse)[0].mean())

    # The log-loss is convex in 1 / temperature, so its slope changes sign once.
    low, high = 1 / FLATTEST, 1 / SHARPEST
    if slope(low) >= 0:
        return FLATTEST
    if slope(high) <= 0:
        return SHARPEST
    return float(1 / brentq(slope, low, high, xtol=1e-9, rtol=1e-7))


def tempered_slope(
    logs: Float[np.ndarray, "n m"],
    times: Float[np.ndarray, " m"],
    log_truth: Float[np.ndarray, " n"],
    inverse: float,
) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, " n"]]:
    """First and second derivative of each row's log-loss by 1 / temperature."""
    share = tempered(logs, times, inverse) * times
    mean = (share * logs).sum(axis=1)
    spread = (share * logs**2).sum(axis=1) - mean**2
    return mean - log_truth, np.maximum(spread, 0.0)


def tempered(
    logs: Float[np.ndarray, "n m"], times: Float[np.ndarray, " m"], inverse: float
) -> Float[np.ndarray, "n m"]:
    """Probabilities at a temperature, per class: the mass of a column is ``times`` as much."""
    scaled = inverse * (logs - logs.max(axis=1, keepdims=True))
    raised = np.exp(scaled)
    return np.asarray(raised / (raised @ times)[:, None])


def safe_log(probs: np.ndarray) -> np.ndarray:
    """Logarithms in float64, finite also where a probability was rounded to 0."""
    return np.asarray(np.log(np.maximum(probs, SMALLEST_PROB, dtype=np.float64)))
