"""What would run, counted; the seconds are only looked at for their sign."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from noisyteacher.bench import Generation, run_recipe
from noisyteacher.bench.bench_run import RunOptions
from noisyteacher.bench.method_sets import parse_methods
from noisyteacher.bench.plan import make_plan, planned_students
from noisyteacher.bench.recipe import smoke
from noisyteacher.bench.recipes.digits import digits
from noisyteacher.bench.teacher import teacher_name
from noisyteacher.core.progress import ProgressDisplay
from noisyteacher.methods import Consistency, SLaM, Vanilla
from noisyteacher.train.checkpoint import (
    checkpoint_path,
    load_checkpoint,
    read_history,
    save_checkpoint,
)

OPTIONS = RunOptions(device="cpu", quiet=True)


def test_students_steps_and_passes(tmp_path: Path) -> None:
    recipe = replace(
        digits(),
        methods=(Vanilla(), SLaM(), Consistency(SLaM())),
        trials=3,
        second=Generation(SLaM(), (Vanilla(),)),
    )
    plan = make_plan(recipe, tmp_path / "run", OPTIONS)
    # 1300 training rows without S, 64 a step, 40 epochs.
    found = [(s.what, s.students, s.steps, s.passes) for s in plan.stages]
    assert found == [
        ("teacher on A", 1, 40, 1),
        ("students whose labels the second generation learns", 6, 760, 1),
        ("Vanilla(); SLaM()", 6, 760, 1),
        ("Consistency(inner=SLaM())", 3, 760, 2),
        ("Vanilla(), generation 2", 3, 760, 1),
    ]
    assert all(stage.seconds > 0 for stage in plan.stages)
    assert plan.seconds == sum(stage.seconds for stage in plan.stages)
    assert "timed just now on" in plan.source
    assert not (tmp_path / "run").exists()


def test_what_is_done_is_not_planned(tmp_path: Path) -> None:
    recipe = replace(smoke(digits()), methods=parse_methods("Vanilla()"))
    run_recipe(recipe, tmp_path, device="cpu", quiet=True)
    more = replace(recipe, methods=parse_methods("Vanilla();SLaM()"))
    plan = make_plan(more, tmp_path, OPTIONS)
    assert [stage.what for stage in plan.stages] == ["SLaM()"]
    assert plan.done == 1


def test_the_plan_of_a_stopped_run_counts_the_epochs_left(tmp_path: Path) -> None:
    recipe = replace(smoke(digits()), methods=parse_methods("Vanilla()"))
    recipe = replace(recipe, student_training=replace(recipe.student_training, epochs=4))
    run_recipe(recipe, tmp_path, device="cpu", quiet=True)
    (tmp_path / "results.jsonl").unlink()
    assert make_plan(recipe, tmp_path, OPTIONS).stages == ()  # only the row is missing

    (student,) = planned_students(recipe)
    path = checkpoint_path(tmp_path, student.file_name)
    history = read_history(path)
    assert history is not None
    loaded = load_checkpoint(path, history.fingerprint)
    assert loaded is not None
    save_checkpoint(path, loaded[0], replace(history, curve=history.curve[:3]))
    (stage,) = make_plan(recipe, tmp_path, OPTIONS).stages
    new = make_plan(recipe, tmp_path / "new", OPTIONS).stages[-1]
    assert (stage.what, stage.students) == ("Vanilla()", 1)
    assert 4 * stage.steps == new.steps

    # The run looks for the teacher itself, whose labels alone do not tell its test accuracy.
    checkpoint_path(tmp_path, teacher_name(recipe, recipe.labeled[0])).unlink()
    assert [s.what for s in make_plan(recipe, tmp_path, OPTIONS).stages] == [
        "teacher on A",
        "Vanilla()",
    ]


def test_the_bar_of_all_students_counts_those_that_are_there_already(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown: list[tuple[str, int, int]] = []
    monkeypatch.setattr(ProgressDisplay, "update_total", lambda _, *told: shown.append(told))
    recipe = replace(smoke(digits()), methods=parse_methods("Vanilla()"))
    run_recipe(recipe, tmp_path, device="cpu", quiet=True)
    assert shown == [("All students", 0, 1), ("All students", 1, 1)]
    more = replace(recipe, methods=parse_methods("Vanilla();SLaM()"), trials=2)
    shown.clear()
    run_recipe(more, tmp_path, device="cpu", quiet=True)
    assert (shown[0], shown[-1]) == (("All students", 1, 4), ("All students", 4, 4))
