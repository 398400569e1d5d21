"""The rule's figures against plain computations, and what is told while its students are solved."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import log_softmax, softmax
from scipy.stats import binomtest
from sklearn.metrics import f1_score

from noisyteacher.choose.decision import Evidence, Interval, Part, macro_f1
from noisyteacher.choose.evidence import DecisionRows, LinearCandidate, Setting, cross_fit
from noisyteacher.choose.verdict import headline
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


def test_weights_follow_out_of_fold_log_loss() -> None:
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 200)
    good = 2 * np.eye(3)[y] + rng.normal(size=(200, 3))
    bad = rng.normal(size=(200, 3))
    parts = Evidence(y, [bad[None], good[None]]).blend()
    weights = {part.candidate: part.weight for part in parts}
    assert weights[1] > 0.99
    twins = Evidence(y, [good[None], good[None]]).blend()
    assert [part.weight for part in twins] == pytest.approx([0.5, 0.5])


def test_a_candidate_gains_nothing_by_more_settings() -> None:
    y = np.random.default_rng(0).integers(0, 3, 100)
    one = 2 * np.eye(3)[y] + np.random.default_rng(1).normal(size=(100, 3))
    parts = Evidence(y, [one[None], np.stack([one] * 4)]).blend()
    assert sum(part.weight for part in parts if part.candidate == 1) == pytest.approx(0.5)


@pytest.mark.parametrize("power", [-3, -1, -0.9, 0, 0.4, 0.9, 1, 3])
def test_temperatures_undo_overconfidence_up_to_a_factor_of_ten(power: float) -> None:
    y = np.repeat([0, 1], [30, 10])
    calibrated = np.tile(np.log([0.75, 0.25]), (40, 1))
    (part,) = Evidence(y, [10.0**power * calibrated[None]]).blend()
    assert part.temperature == pytest.approx(10.0 ** max(-1, min(power, 1)))


def test_held_out_scores_equal_those_of_one_resample_at_a_time() -> None:
    rng = np.random.default_rng(3)
    y = rng.integers(0, 3, 40)
    truth = np.tile(y, 2)  # of two repeats
    shapes = [(1, 80, 3), (3, 80, 3)]
    logits = [rng.normal(size=shape) + 0.8 * np.eye(3)[truth] for shape in shapes]
    evidence = Evidence(y, logits)
    students, settings = np.concatenate(logits), np.array([1, 3, 3, 3])
    temperatures = 10 ** np.linspace(-1, 1, 21)
    tempered = students[:, None] / temperatures[:, None, None]
    chance = np.exp(log_softmax(tempered, axis=-1)[:, :, np.arange(80), truth])
    row_losses = -np.log((40 * chance + 0.1) / (40 + 0.1 * 3))
    row_losses = (row_losses[..., :40] + row_losses[..., 40:]) / 2
    expected = []
    for drawn in evidence._resamples:
        loss = row_losses @ drawn / 40
        weight = softmax(-4 * np.sqrt(40) * loss.min(1)) / settings
        factor = weight / temperatures[loss.argmin(1)]
        left = np.tile(drawn == 0, 2)
        expected.append(np.mean(np.tensordot(factor, students, 1).argmax(1)[left] == truth[left]))
    assert len(expected) == 1000
    np.testing.assert_allclose(evidence.held_out_scores(), expected)


def test_the_interval_of_a_difference_is_scaled_to_all_rows() -> None:
    evidence = Evidence(np.arange(40) % 2, [np.eye(2)[np.arange(40) % 2][None]])
    gaps = np.random.default_rng(5).normal(0.02, 0.1, 1000)
    found = evidence.difference(0.8 + gaps, np.full(1000, 0.8))
    left_out = (1 - 1 / 40) ** 40  # the share of rows that a resample does not draw
    half = 1.96 * gaps.std() * np.sqrt(left_out)
    assert found.value == pytest.approx(gaps.mean())
    assert found.high - found.value == pytest.approx(half, rel=0.01)
    assert found.value - found.low == pytest.approx(half, rel=0.01)
    same = evidence.difference(np.full(1000, 0.8), np.full(1000, 0.8))
    assert same == Interval(0, -3 / 40, 3 / 40)  # the rule of three
    assert "40 gold rows are too few to tell" in headline(same, 40)


def test_macro_f1_equals_scikit_learns() -> None:
    rng = np.random.default_rng(0)
    y, said = rng.integers(0, 5, 80), rng.integers(0, 4, 80)
    assert macro_f1(y, said) == pytest.approx(f1_score(y, said, average="macro"))
    assert macro_f1(y[y < 2], np.full((y < 2).sum(), 3)) == 0


@pytest.mark.parametrize("right", [0, 9, 30])
def test_the_interval_of_a_share_is_wilsons(right: int) -> None:
    found, theirs = (
        Interval.wilson(right / 30, 30),
        binomtest(right, 30).proportion_ci(method="wilson"),
    )
    assert (found.low, found.high) == pytest.approx((theirs.low, theirs.high), abs=1e-6)
