"""Run a recipe: data → split → teacher → stored labels → students → one row each.

Every arrow leaves a file in the run's folder; started again, the run goes on where it was. Under
``torchrun`` all processes walk the same way together, and the first of them writes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from noisyteacher.bench.figures import draw_alpha_curve
from noisyteacher.bench.generations import second_labels
from noisyteacher.bench.logistic import write_logistic_rows
from noisyteacher.bench.recipe import Recipe
from noisyteacher.bench.run import BenchRun, RunOptions, claim_folder, open_run
from noisyteacher.bench.students import (
    PlannedStudent,
    RunFacts,
    cohorts,
    missing_students,
)
from noisyteacher.bench.teacher import Start, make_start
from noisyteacher.data import Split
from noisyteacher.labels import TeacherLabels
from noisyteacher.runs import Row
from noisyteacher.train import Job


def run_recipe(
    recipe: Recipe,
    out: str | Path,
    *,
    data: str | Path | None = None,
    cache: str | Path | None = None,
    labels: str | Path | None = None,
    device: str | None = None,
    minutes: float | None = None,
    cohort: int = 8,
    trackers: Sequence[str] = (),
    quiet: bool = False,
) -> list[Row]:
    """Train whatever of the recipe has no row yet, and return all its rows.

    ``minutes`` stops cleanly; the same call, made again, does the rest. ``labels`` is a store that
    stands in for the recipe's teacher. ``cohort`` is how many students share a GPU at a time.
    """
    options = RunOptions(data, cache, labels, device, minutes, cohort, tuple(trackers), quiet)
    with open_run(recipe, out, options, lock=True) as run:
        claim_folder(run)
        for labeled in recipe.labeled:
            if not _run_size(run, labeled):
                break
        names = {arm.recipe_name(recipe) for arm in recipe.arms}
        return [row for row in run.rows() if row.recipe in names]


def _run_size(run: BenchRun, labeled: int) -> bool:
    """All students of one size of A; False when time ran out."""
    recipe = run.recipe
    if recipe.logistic and run.leads:
        write_logistic_rows(run, labeled)
    missing = missing_students(replace(recipe, labeled=(labeled,)), run.rows())
    first = [s for _, s in missing if s.generation == 1]
    second = [s for _, s in missing if s.generation == 2]
    if not missing:
        return True
    splits = [run.split(labeled, trial) for trial in range(recipe.trials)]
    start = make_start(run, labeled, splits)
    if start is None:
        return False
    if not _train_students(run, labeled, first, splits, start, lambda _: start.labels):
        return False
    if not second:
        return True
    said = second_labels(run, labeled, splits, start, sorted({s.trial for s in second}))
    if said is None:
        return False
    return _train_students(run, labeled, second, splits, start, lambda s: said[s.trial])


def _train_students(
    run: BenchRun,
    labeled: int,
    students: Sequence[PlannedStudent],
    splits: Sequence[Split],
    start: Start,
    labels_for: Callable[[PlannedStudent], TeacherLabels | None],
) -> bool:
    """Cohort after cohort; a row is written as soon as its cohort is done, not when all are."""
    recipe, facts = run.recipe, RunFacts(start.teacher_accuracy, run.device)
    for group in cohorts(students, run.cohort):
        if run.out_of_time():
            return False
        # Prepared here and not earlier: the columns of many students fill the memory.
        jobs = [
            s.job(
                recipe,
                labeled,
                run.problem(splits[s.trial], recipe.student, run.data, start.inits[s.trial]),
                labels_for(s),
            )
            for s in group
        ]
        _draw_alpha(run, labeled, jobs)
        done = run.train(jobs, group[0].arm.training(recipe))
        for student, trained in zip(group, done, strict=True):
            if trained.finished and run.leads:
                run.run_folder.append(student.row(recipe, labeled, facts, trained))
        # The engine stops before an epoch that would end too late: what is left helps nobody.
        if not all(trained.finished or trained.history.failed for trained in done):
            return False
    return not run.out_of_time()


def _draw_alpha(run: BenchRun, labeled: int, jobs: Iterable[Job]) -> None:
    """The first noise model of this size, over the V it was fitted on."""
    path = run.folder / "pictures" / f"alpha-{labeled}"
    if not run.leads or path.with_suffix(".png").exists():
        return
    for job in jobs:
        noise, labels = job.prepared.noise, job.prepared.labels
        if noise is not None and labels is not None:
            seen = labels.take(run.dataset.ids[job.val_positions])
            draw_alpha_curve(noise, seen, run.dataset.y[job.val_positions], path)
            return
