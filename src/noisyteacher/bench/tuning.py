"""Tune the methods of a recipe: their settings are chosen on S at one size, and reused at all."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from noisyteacher.bench.plan import planned_students, stopped_students
from noisyteacher.bench.protocol import run_recipe
from noisyteacher.bench.recipe import Recipe
from noisyteacher.methods import Method
from noisyteacher.runs import RunFolder
from noisyteacher.train.tune import expand

MOST_SETTINGS = 4


@dataclass(frozen=True)
class TunedMethod:
    """One method's settings with their accuracies on S, in percent, the best first."""

    scores: tuple[tuple[Method, float], ...]
    labeled: int

    @property
    def best(self) -> Method:
        return self.scores[0][0]

    def __str__(self) -> str:
        others = ", ".join(f"{method!r} {score:.2f}" for method, score in self.scores[1:])
        return (
            f"{self.best!r} was chosen on S with {self.labeled} labeled examples, with an accuracy "
            f"of {self.scores[0][1]:.2f}%; the other settings: {others}."
        )


@dataclass(frozen=True)
class Tuning:
    """The recipe with the chosen settings; None while students of the grids are missing."""

    recipe: Recipe | None
    methods: tuple[TunedMethod, ...] = ()


def settings_to_try(method: Method) -> tuple[Method, ...]:
    """The method as it is, and at most three others, spread over the grid of its type."""
    if not method.grid:
        return (method,)
    others = [found for found in expand(method, method.grid) if found != method]
    most = min(MOST_SETTINGS - 1, len(others))
    # The middles of as many equal parts of the grid.
    places = ((np.arange(most) + 0.5) * len(others) / max(most, 1)).astype(int)
    return (method, *(others[place] for place in places))


def recipe_of_grids(recipe: Recipe, labeled: int) -> Recipe | None:
    """The first trial at one size, with the settings to try of each method that has several."""
    grids = [settings_to_try(method) for method in recipe.methods]
    methods = dict.fromkeys(found for grid in grids if len(grid) > 1 for found in grid)
    if not methods:
        return None
    return replace(
        recipe,
        labeled=(labeled,),
        trials=1,
        methods=tuple(methods),
        arms=(replace(recipe.arms[0], methods=None),),
        second=None,
        logistic=False,
    )


def read_tuning(recipe: Recipe, labeled: int, out: str | Path) -> Tuning:
    """Choose each method's best setting on S by the rows of the run's folder."""
    grids = recipe_of_grids(recipe, labeled)
    if grids is None:
        return Tuning(recipe)
    rows = RunFolder(Path(out)).rows()
    wanted = {student.key: student.method for student in planned_students(grids)}
    scores = {wanted[row.key]: row.best_on_selection for row in rows if row.key in wanted}
    # One whose loss became NaN has no row, and will have none.
    stopped = stopped_students(grids, rows, Path(out))
    if len(scores) + len(stopped) < len(wanted):
        return Tuning(None)
    methods, tuned = [], []
    for method in recipe.methods:
        grid = settings_to_try(method)
        found = [(s, score) for s in grid if (score := scores.get(s)) is not None]
        if len(grid) > 1 and found:
            found.sort(key=lambda pair: -pair[1])
            tuned.append(TunedMethod(tuple(found), labeled))
        methods.append(found[0][0] if found else method)
    return Tuning(replace(recipe, methods=tuple(dict.fromkeys(methods))), tuple(tuned))


def tune_recipe(recipe: Recipe, labeled: int, out: str | Path, **options: Any) -> Tuning:
    """Train what is missing of the grids, in the run's own folder, and choose.

    ``options`` are those of ``run_recipe``.
    """
    grids = recipe_of_grids(recipe, labeled)
    if grids is not None:
        run_recipe(grids, out, **options)
    return read_tuning(recipe, labeled, out)
