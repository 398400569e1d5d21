"""What a method may not look at: rows the teacher was trained on, and the wrong temperature."""

from __future__ import annotations

import numpy as np

from noisyteacher.labels import TeacherLabels
from noisyteacher.methods import Calibrated, Fidelity, Rows
from noisyteacher.noise.calibration import fit_calibration


def test_calibration_is_fitted_on_v_alone() -> None:
    rng = np.random.default_rng(0)
    probs = rng.dirichlet(np.ones(3), 300).astype(np.float32)
    labels = TeacherLabels.from_probs(np.arange(300), probs)
    y = np.where(rng.random(300) < 0.7, labels.hard, rng.integers(0, 3, 300))
    # A: the teacher knows these rows by heart, so a fit that saw them would trust it too far.
    y[:100] = labels.hard[:100]
    val = np.arange(100, 200)
    truth = np.where(np.arange(300) < 200, y, -1)
    rows = Rows(np.arange(300), truth, val, y[val], 3)
    found = Calibrated().relabel(rows, labels).probs
    wanted = fit_calibration(labels.take(val).probs, y[val]).apply(labels.probs)
    np.testing.assert_allclose(found, wanted, atol=2e-3)
    leaked = fit_calibration(labels.take(np.arange(200)).probs, y[:200]).apply(labels.probs)
    assert np.abs(found - leaked).max() > 0.05


def test_fidelity_reads_the_deviations_at_temperature_one() -> None:
    rng = np.random.default_rng(0)
    std = rng.random((20, 2, 4)).astype(np.float32)  # at temperatures 1 and 2
    variance = (std[:, 0].astype(np.float64) ** 2).mean(1)
    wanted = np.exp(-1.2 * variance / variance.mean())
    np.testing.assert_allclose(Fidelity(1.2).pool_weights(std), wanted, rtol=1e-5)
