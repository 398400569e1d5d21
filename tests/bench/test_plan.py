"""What would run, counted; the seconds are only looked at for their sign."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from noisyteacher.bench import Generation, run_recipe
from noisyteacher.bench.bench_run import RunOptions
from noisyteacher.bench.method_sets import parse_methods
from noisyteacher.bench.plan import make_plan
from noisyteacher.bench.recipe import smoke
from noisyteacher.bench.recipes.digits import digits
from noisyteacher.core.progress import ProgressDisplay
from noisyteacher.methods import Consistency, SLaM, Vanilla

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
