"""What the protocol may not look at: V in the teacher's training, the test part in any choice."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from noisyteacher.bench import Recipe, Row, logistic, protocol, teacher
from noisyteacher.bench.bench_run import RunOptions, open_run
from noisyteacher.bench.plan import planned_students
from noisyteacher.bench.recipe import smoke
from noisyteacher.bench.recipes.digits import digits
from noisyteacher.labels import TeacherLabels
from noisyteacher.methods import Fidelity, GoldOnly, SLaM
from results_rows import row


def small(**changes: Any) -> Recipe:
    return replace(smoke(digits()), methods=(GoldOnly(),), **changes)


def test_the_teacher_is_trained_on_a_alone() -> None:
    with open_run(small(), "nowhere", RunOptions(device="cpu")) as run:
        parts = run.split(24, 0)
        jobs = teacher._gold_jobs(run, 24, [parts])
    job = jobs["24_teacher"].job
    assert set(job.positions) == set(parts.gold)
    assert not set(job.positions) & {*parts.val, *parts.selection, *parts.pool}


def test_the_teachers_accuracy_is_that_of_its_last_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    accuracy = SimpleNamespace(last=71.0, selected=72.0, best_test=75.0)
    trained = {"24_teacher": SimpleNamespace(accuracy=accuracy, state={})}
    monkeypatch.setattr(teacher, "_train_alike", lambda run, jobs: trained)
    monkeypatch.setattr(teacher, "_stored_labels", lambda *arguments: None)
    with open_run(small(), "nowhere", RunOptions(device="cpu")) as run:
        start = teacher.make_starting_point(run, 24, [run.split(24, 0)])
    assert start is not None
    assert start.teacher_accuracy == 71.0


def test_labels_that_are_made_anew_keep_what_is_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: dict[str, Any] = {}
    trained: Any = SimpleNamespace(network=lambda: None)
    with open_run(small(), tmp_path, RunOptions(device="cpu")) as run:
        extras = {"embedding": np.zeros((2, 3), np.float32)}
        stored = TeacherLabels.from_probs(["a", "b"], np.full((2, 10), 0.1), extras=extras)
        stored.save(run.labels_path(24))
        monkeypatch.setattr(teacher, "label", lambda *_, **options: asked.update(options) or stored)
        teacher._stored_labels(run, 24, trained, [SLaM()])
        assert not asked  # the store has all that is needed
        teacher._stored_labels(run, 24, trained, [Fidelity(1.0)])
    assert asked["view_passes"] > 0
    assert asked["embeddings"]


def test_every_trial_has_a_seed_of_its_own() -> None:
    seeds = [student.seed for student in planned_students(small(trials=4))]
    assert len(set(seeds)) == 4


def test_the_strength_of_the_logistic_regression_is_chosen_on_s(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Any] = []
    fit_floor = logistic.fit_floor

    def noted(x: Any, y: Any, selection_x: Any, selection_y: Any) -> Any:
        seen.append((x, y, selection_x, selection_y))
        return fit_floor(x, y, selection_x, selection_y)

    monkeypatch.setattr(logistic, "fit_floor", noted)
    with open_run(small(logistic=True), tmp_path, RunOptions(device="cpu")) as run:
        logistic.write_logistic_rows(run, 24)
        parts, dataset = run.split(24, 0), run.dataset
        x, _ = logistic._feature_matrices(run.data)
        (row,) = run.run_folder.rows()
    ((known_x, known_y, selection_x, selection_y),) = seen
    known = np.concatenate([parts.gold, parts.val])
    np.testing.assert_array_equal(known_x.toarray(), x[known].toarray())
    np.testing.assert_array_equal(known_y, dataset.y[known])
    np.testing.assert_array_equal(selection_x.toarray(), x[parts.selection].toarray())
    np.testing.assert_array_equal(selection_y, dataset.y[parts.selection])
    best = max(row.curve, key=lambda point: point["selection"])
    assert row.accuracy["selected"] == best["test"]


def test_the_page_shows_the_student_that_s_prefers_at_the_last_size() -> None:
    recipe = small(labeled=(24, 48))
    training = recipe.student_training

    def judged(method: str, labeled: int, on_s: float, on_test: float) -> Row:
        shape = {"recipe": recipe.name, "labeled": labeled, "epochs": training.epochs}
        curve = [{"epoch": 1, "loss": 1.0, "selection": on_s, "test": on_test}]
        return row(method, on_test, **shape, gold_repeat=training.gold_repeat, curve=curve)

    rows = [
        judged("Vanilla()", 48, on_s=60.0, on_test=90.0),
        judged("SLaM()", 48, on_s=70.0, on_test=50.0),
        judged("TaylorCE()", 24, on_s=80.0, on_test=95.0),
        judged("GoldOnly()", 48, on_s=99.0, on_test=99.0),  # there is no teacher to compare with
    ]
    assert protocol._best_row(recipe, rows) == rows[1]
    assert protocol._best_row(recipe, rows[3:]) is None
