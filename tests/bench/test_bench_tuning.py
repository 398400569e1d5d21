"""Settings chosen on S at one size and reused at the others."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from noisyteacher.bench import run_recipe
from noisyteacher.bench.plan import planned_students
from noisyteacher.bench.recipe import Recipe, smoke
from noisyteacher.bench.recipes import find_recipe
from noisyteacher.bench.tuning import (
    MOST_SETTINGS,
    read_tuning,
    recipe_of_grids,
    settings_to_try,
    tune_recipe,
)
from noisyteacher.methods import (
    ALL_METHODS,
    UPS,
    VID,
    Consistency,
    Fidelity,
    GoldOnly,
    SLaM,
    TruncatedGCE,
    Vanilla,
)
from noisyteacher.runs import RunFolder
from results_rows import row


def small(*methods: object) -> Recipe:
    return replace(smoke(find_recipe("digits")), methods=methods, labeled=(20, 24), trials=2)


def given(recipe: Recipe, folder: Path, scores: dict[str, float]) -> None:
    """Rows of all students of a recipe, as if trained, with these best accuracies on S."""
    for student in planned_students(recipe):
        best = scores[repr(student.method)]
        curve = [{"epoch": 1, "loss": 1.0, "selection": best, "test": 100 - best}]
        curve.append({"epoch": 2, "loss": 1.0, "selection": best - 5, "test": 0.0})
        RunFolder(folder).append(row(**student.row_start, curve=curve))


def test_at_most_four_settings_the_methods_own_among_them() -> None:
    assert settings_to_try(SLaM()) == (SLaM(),)
    assert settings_to_try(UPS()) == (UPS(),)
    assert settings_to_try(Consistency(None)) == tuple(
        Consistency(None, threshold=t) for t in (0.8, 0.6, 0.95)
    )
    found = settings_to_try(VID(hard=True))
    assert [method.weight for method in found] == [1.0, 0.1, 0.8, 50.0]
    assert all(method.hard for method in found)
    for kind in ALL_METHODS:
        if kind.grid:
            method = kind(1, 1) if kind.__name__ == "Temperature" else _plain(kind)
            tried = settings_to_try(method)
            assert len(set(tried)) == len(tried) <= MOST_SETTINGS
            assert tried[0] == method


def _plain(kind: type) -> object:
    return kind(beta=1.0) if kind is Fidelity else kind()


def test_the_best_on_s_is_chosen_and_nothing_else(tmp_path: Path) -> None:
    recipe = small(GoldOnly(), TruncatedGCE(), SLaM())
    grids = recipe_of_grids(recipe, 24)
    assert grids is not None
    assert (grids.labeled, grids.trials, grids.second) == ((24,), 1, None)
    names = [repr(method) for method in grids.methods]
    assert len(names) >= 3
    assert names[0] == "TruncatedGCE()"
    assert read_tuning(recipe, 24, tmp_path).recipe is None  # nothing is trained yet
    # Another size, another length and a second trial have no say.
    high = dict.fromkeys(names, 99.0)
    given(replace(grids, labeled=(20,)), tmp_path, high)
    given(grids.with_student(epochs=7), tmp_path, high)
    scores = {name: 50.0 - i for i, name in enumerate(names)} | {names[2]: 60.0}
    given(grids, tmp_path, scores)
    tuning = read_tuning(recipe, 24, tmp_path)
    assert tuning.recipe is not None
    assert tuning.recipe == replace(recipe, methods=(GoldOnly(), grids.methods[2], SLaM()))
    (tuned,) = tuning.methods
    assert [score for _, score in tuned.scores] == sorted(scores.values(), reverse=True)
    assert str(tuned).startswith(f"{names[2]} was chosen on S with 24 labeled examples")
    assert all(name in str(tuned) for name in names)


def test_nothing_to_tune(tmp_path: Path) -> None:
    recipe = small(GoldOnly(), Vanilla())
    assert recipe_of_grids(recipe, 24) is None
    assert tune_recipe(recipe, 24, tmp_path, device="cpu", quiet=True).recipe == recipe
    assert not list(tmp_path.iterdir())


def test_the_grid_is_trained_once_in_the_runs_own_folder(tmp_path: Path) -> None:
    recipe = small(GoldOnly(), TruncatedGCE())
    options = {"device": "cpu", "quiet": True}
    assert tune_recipe(recipe, 24, tmp_path, minutes=1e-6, **options).recipe is None
    tuning = tune_recipe(recipe, 24, tmp_path, **options)
    assert tuning.recipe is not None
    rows = RunFolder(tmp_path).rows()
    assert {(row.labeled, row.trial) for row in rows} == {(24, 0)}
    scores = {row.method: row.best_on_selection for row in rows}
    best = repr(tuning.methods[0].best)
    assert scores[best] == max(scores.values())
    made = run_recipe(tuning.recipe, tmp_path, **options)
    assert [row for row in made if row in rows] == rows
    of_best = {(row.labeled, row.trial) for row in made if row.method == best}
    assert of_best == {(20, 0), (20, 1), (24, 0), (24, 1)}
    assert {row.method for row in made if row.labeled == 20} == {best, "GoldOnly()"}
    assert tune_recipe(recipe, 24, tmp_path, **options) == tuning


@pytest.mark.parametrize("points", [[], [None, None]])
def test_without_s_there_is_no_best_accuracy_on_it(points: list[None]) -> None:
    curve = [{"epoch": 1, "loss": 1.0, "selection": p, "test": 5.0} for p in points]
    assert row(curve=curve).best_on_selection is None
