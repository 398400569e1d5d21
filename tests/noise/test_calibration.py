"""Temperature and bias against plain log-loss on a grid around them."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import log_softmax, softmax

from noisyteacher.noise.calibration import FLATTEST, SHARPEST, Calibration, fit_calibration


def log_loss(probs: np.ndarray, y: np.ndarray, temperature: float, bias: np.ndarray) -> float:
    log_probs = log_softmax(np.log(probs) / temperature + bias, axis=1)
    return float(-log_probs[np.arange(len(y)), y].mean())


def biased(rows: int) -> tuple[np.ndarray, np.ndarray]:
    """A teacher that is too sure and prefers the last class."""
    rng = np.random.default_rng(7)
    logits = rng.normal(size=(rows, 3))
    y = (rng.random(rows)[:, None] > softmax(logits, axis=1).cumsum(1)).sum(1)
    return softmax(2 * logits + np.array([0.0, 0.5, 1.5]), axis=1), y


@pytest.mark.parametrize(("rows", "has_bias"), [(600, True), (60, False)])
def test_no_temperature_or_bias_nearby_has_a_smaller_log_loss(rows: int, has_bias: bool) -> None:
    probs, y = biased(rows)
    found = fit_calibration(probs, y)
    assert found.bias.any() == has_bias
    best = log_loss(probs, y, found.temperature, found.bias)
    assert best < log_loss(probs, y, 1.0, np.zeros(3)) - 0.01
    for factor in (0.98, 1.02):
        assert log_loss(probs, y, factor * found.temperature, found.bias) > best
    for step in np.eye(3) * 0.05 if has_bias else ():
        assert log_loss(probs, y, found.temperature, found.bias + step) > best
        assert log_loss(probs, y, found.temperature, found.bias - step) > best
    applied = found.apply(probs)
    np.testing.assert_allclose(applied.sum(1), 1)
    assert -np.log(applied[np.arange(rows), y]).mean() == pytest.approx(best)


def test_temperatures_stay_in_their_range() -> None:
    probs = np.tile([0.6, 0.4], (20, 1))
    always, never = np.zeros(20, int), np.ones(20, int)
    assert fit_calibration(probs, always).temperature == SHARPEST
    assert fit_calibration(probs, never).temperature == FLATTEST
    half = Calibration(2.0, np.zeros(2)).apply(probs[:1])[0]
    np.testing.assert_allclose(half, np.sqrt([0.6, 0.4]) / np.sqrt([0.6, 0.4]).sum())
