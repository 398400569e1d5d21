"""The rule's figures against plain computations."""

from __future__ import annotations

import numpy as np
import pytest

from noisyteacher.choose.decision import Evidence, Part


def test_a_blend_is_the_weighted_sum_of_its_students_logits() -> None:
    rng = np.random.default_rng(0)
    rows, repeats, classes = 10, 2, 3
    y = rng.integers(0, classes, rows)
    # Candidates of several settings each: a part is found by both.
    logits = [rng.normal(size=(settings, repeats * rows, classes)) for settings in (3, 2, 4)]
    parts = [Part(0, 2, 2.0, 0.5), Part(1, 1, 0.5, 0.3), Part(2, 3, 1.0, 0.2)]
    wanted = np.zeros((repeats * rows, classes))
    for part in parts:
        said = logits[part.candidate][part.setting]
        for row in range(repeats * rows):
            centered = said[row] - sum(said[row]) / classes
            wanted[row] += part.weight * centered / part.temperature
    assert Evidence(y, logits).predictions(parts) == pytest.approx(wanted, abs=1e-6)
