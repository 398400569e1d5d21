"""The rule's figures against plain computations, and what is told while its students are solved."""

from __future__ import annotations

import numpy as np
import pytest

from noisyteacher.choose.decision import Evidence, Part
from noisyteacher.choose.evidence import DecisionRows, LinearCandidate, Setting, cross_fit
from noisyteacher.labels import TeacherLabels
from noisyteacher.methods import GoldOnly, Vanilla


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


def test_every_student_is_announced_by_its_method_and_its_fold() -> None:
    rng = np.random.default_rng(0)
    labels = TeacherLabels.from_probs(np.arange(30), rng.dirichlet([1.0, 1.0], 30))
    y = np.where(np.arange(30) < 12, np.arange(30) % 2, -1)
    features = rng.normal(size=(30, 4)).astype(np.float32)
    rows = DecisionRows(features, np.arange(30), y, y >= 0, y >= 0, labels, 2)
    candidates = [LinearCandidate(method, (Setting(1.0),)) for method in (GoldOnly(), Vanilla())]
    told: list[tuple[str, int]] = []
    cross_fit(
        rows, candidates, np.arange(12) // 4, progress=lambda name, fold: told.append((name, fold))
    )
    assert told == [(name, fold) for fold in range(3) for name in ("GoldOnly()", "Vanilla()")]
