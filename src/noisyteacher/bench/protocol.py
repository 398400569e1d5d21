"""Run a recipe: data → split → teacher → stored labels → students → one row each.

Every arrow leaves a file in the run's folder; started again, the run goes on where it was. Under
``torchrun`` all processes walk the same way together, and the first of them writes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import torch

from noisyteacher.auditing import audit
from noisyteacher.bench.bench_run import BenchRun, RunOptions, claim_folder, open_run
from noisyteacher.bench.figures import draw_alpha_curve
from noisyteacher.bench.logistic import write_logistic_rows
from noisyteacher.bench.plan import PlannedStudent, cohorts, missing_students, planned_students
from noisyteacher.bench.recipe import Recipe
from noisyteacher.bench.teacher import (
    StartingPoint,
    make_starting_point,
    second_generation_labels,
    train_starts,
)
from noisyteacher.core.errors import InputError, warn
from noisyteacher.core.files import slug, write_atomic
from noisyteacher.core.integrity import sealed_json
from noisyteacher.core.progress import ProgressDisplay
from noisyteacher.data import Split
from noisyteacher.data.dataset import take_rows
from noisyteacher.data.tensors import gather_rows
from noisyteacher.labels import TeacherLabels
from noisyteacher.methods.method import check_classes
from noisyteacher.models import CustomModel
from noisyteacher.runs import Row
from noisyteacher.runs.comparison import (
    Comparison,
    Predictions,
    count_confusions,
    find_examples,
    sample_rows,
)
from noisyteacher.runs.folder import AUDITS
from noisyteacher.train import Job, Trained, check_model
from noisyteacher.train.predict import label


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
    picture_shape: tuple[int, int] | None = None,
) -> list[Row]:
    """Train all students of the recipe that have no row yet, and return all its rows.

    If ``minutes`` are over, the same call continues. ``labels`` is a store that replaces the
    recipe's teacher. ``cohort`` is the number of students that share a GPU at the same time.
    ``picture_shape`` shows rows of a table as pictures of that height and width on the page.
    """
    options = RunOptions(
        data, cache, labels, device, minutes, cohort, tuple(trackers), quiet, picture_shape
    )
    with (
        open_run(recipe, out, options, lock=True) as opened,
        ProgressDisplay(quiet=quiet or not opened.leads) as progress,
    ):
        run = replace(opened, progress=progress)
        _check_models(run)
        claim_folder(run)
        _show_total(run)
        # A GPU is filled across sizes; elsewhere a size has its rows before the next begins.
        together = [recipe.labeled] if run.cohort > 1 else [(size,) for size in recipe.labeled]
        for sizes in together:
            if not _run_sizes(run, sizes):
                break
        if run.leads:
            _save_comparison(run)
        names = {arm.recipe_name(recipe) for arm in recipe.arms}
        return [row for row in run.rows() if row.recipe in names]


def _show_total(run: BenchRun) -> None:
    """Show how many of the recipe's students are finished."""
    if run.progress is not None:
        total = sum(1 for _ in planned_students(run.recipe))
        missing = len(missing_students(run.recipe, run.rows()))
        run.progress.update_total("All students", total - missing, total)


def _check_models(run: BenchRun) -> None:
    """Refuse methods and the user's networks that do not fit, before anything is trained."""
    recipe = run.recipe
    for method in recipe.all_methods:
        check_classes(method, len(run.dataset.classes))
    if isinstance(recipe.student, CustomModel):
        check_model(recipe.student, run.data, recipe.all_methods, run.device)
    if isinstance(recipe.teacher, CustomModel) and run.given_labels is None:
        check_model(recipe.teacher, run.teacher_data, recipe.all_methods, run.device)


def _splits(run: BenchRun, labeled: int) -> list[Split]:
    return [run.split(labeled, trial) for trial in range(run.recipe.trials)]


def _run_sizes(run: BenchRun, sizes: Sequence[int]) -> bool:
    """All students of these sizes of A; False when time ran out."""
    recipe = run.recipe
    if recipe.logistic and run.leads:
        for labeled in sizes:
            write_logistic_rows(run, labeled)
    missing = missing_students(replace(recipe, labeled=tuple(sizes)), run.rows())
    unfinished = dict.fromkeys(student.labeled for student in missing)
    if not train_starts(run, {labeled: _splits(run, labeled) for labeled in unfinished}):
        return False
    starts: dict[int, StartingPoint] = {}
    for generation in (1, 2):
        students = [s for s in missing if s.generation == generation]
        for group in cohorts(students, run.cohort):
            if run.out_of_time() or not _train_group(run, group, starts):
                return False
    return not run.out_of_time()


def _train_group(
    run: BenchRun, group: Sequence[PlannedStudent], starts: dict[int, StartingPoint]
) -> bool:
    """Students side by side, of one generation; their rows are written when all are done.

    ``starts`` keeps the starting points of these sizes for the next group, and no others: labels
    and columns fill the memory.
    """
    recipe = run.recipe
    sizes = dict.fromkeys(student.labeled for student in group)
    for labeled in starts.keys() - sizes:
        del starts[labeled]
    students, jobs = [], []
    for labeled in sizes:
        alike, splits = [s for s in group if s.labeled == labeled], _splits(run, labeled)
        start = starts.get(labeled) or make_starting_point(run, labeled, splits)
        if start is None:
            return False
        starts[labeled] = start
        if run.leads and start.labels is not None:
            _save_audit(run, labeled, start.labels, splits[0])
        labels = _labels_of_trials(run, alike, splits, start)
        if labels is None:
            return False
        of_size = [
            s.job(
                run.problem(splits[s.trial], recipe.student, run.data, start.inits[s.trial]),
                labels[s.trial],
            )
            for s in alike
        ]
        _draw_alpha(run, labeled, of_size)
        students += alike
        jobs += of_size
    done = run.train(jobs, recipe.student_training)
    for student, trained in zip(students, done, strict=True):
        if trained.finished and run.leads:
            row = student.row(trained, starts[student.labeled].teacher_accuracy, run.device)
            _save_predictions(run, row, trained)
            run.run_folder.append(row)
    _show_total(run)
    if run.leads:
        _save_comparison(run)
    # The engine stops before an epoch that would end too late: what is left helps nobody.
    return all(trained.finished or trained.history.failed for trained in done)


def _labels_of_trials(
    run: BenchRun, alike: Sequence[PlannedStudent], splits: Sequence[Split], start: StartingPoint
) -> Mapping[int, TeacherLabels | None] | None:
    """By trial, what students of one size and generation learn; None where time ran out."""
    trials = sorted({student.trial for student in alike})
    if alike[0].generation == 1:
        return dict.fromkeys(trials, start.labels)
    return second_generation_labels(run, alike[0].labeled, splits, start, trials)


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


# -- what the page of the run shows ---------------------------------------------------------------


def _save_audit(run: BenchRun, labeled: int, labels: TeacherLabels, parts: Split) -> None:
    """The audit of this size's teacher on the first trial's V and pool."""
    path = run.folder / AUDITS / f"{labeled}.json"
    if path.exists():
        return
    ids, dataset = run.dataset.ids, run.dataset
    try:
        found = audit(
            labels.take(ids[parts.val]),
            [dataset.classes[label] for label in dataset.y[parts.val]],
            pool=labels.take(ids[parts.pool]),
            gold_ids=ids[parts.gold],
            kind=dataset.kind,
        )
    except InputError as error:
        # A page without it is no reason to train nothing.
        warn(f"The teacher is not audited: {error}")
        return
    write_atomic(path, sealed_json(found.to_dict()))


def _predictions_path(run: BenchRun, row: Row) -> Path:
    name = f"{row.labeled}_{slug(row.method)}_{row.epochs}epochs_gold{row.gold_repeat}"
    return run.folder / "predictions" / f"{name}.safetensors"


def _save_predictions(run: BenchRun, row: Row, trained: Trained) -> None:
    """What a student that the page may show predicts for a sample of the pool."""
    if not _may_be_shown(run.recipe, row):
        return
    pool = sample_rows(run.split(row.labeled, trial=0).pool)
    found = label(
        trained.network(),
        gather_rows(run.data.inputs, torch.from_numpy(pool)),
        run.data.views,
        ids=run.dataset.ids[pool],
        device=run.device,
    )
    Predictions.of(found.probs).save(_predictions_path(run, row))


def _save_comparison(run: BenchRun) -> None:
    """The best student so far beside its teacher; only what is stored is read."""
    best = _best_row(run.recipe, run.run_folder.rows())
    if best is None or not (predictions := _predictions_path(run, best)).exists():
        return
    labeled, dataset, stored = best.labeled, run.dataset, run.labels_path(best.labeled)
    labels = TeacherLabels.open(stored, extras=()) if stored.exists() else run.given_labels
    if labels is None:
        return
    pool = sample_rows(run.split(labeled, trial=0).pool)
    ids, truth = dataset.ids[pool], dataset.y[pool]
    teacher, student = Predictions.of(labels.take(ids).probs), Predictions.load(predictions)
    where = f"the pool, {labeled} gold labels in A"
    inputs, shape = take_rows(dataset.inputs, pool), run.options.picture_shape
    disagreements, examples = find_examples(
        ids, inputs, teacher, student, dataset.classes, truth, shape
    )
    Comparison(
        student=best.method,
        classes=list(dataset.classes),
        rows_of=where,
        rows=len(ids),
        disagreements=disagreements,
        confusions=[
            count_confusions("teacher", where, truth, teacher.top),
            count_confusions("student", where, truth, student.top),
        ],
        examples=examples,
    ).save(run.folder)


def _may_be_shown(recipe: Recipe, row: Row) -> bool:
    """Whether the page may compare this student with its teacher: the first trial's alone."""
    training, name = recipe.student_training, recipe.arms[0].recipe_name(recipe)
    return (
        (row.recipe, row.trial, row.generation) == (name, 0, 1)
        and (row.epochs, row.gold_repeat) == (training.epochs, training.gold_repeat)
        and row.distillation is not None
        and row.labeled in recipe.labeled
    )


def _best_row(recipe: Recipe, rows: Sequence[Row]) -> Row | None:
    """The best of these on S, at the last size that has one."""
    found = [row for row in rows if _may_be_shown(recipe, row)]

    def order(row: Row) -> tuple[int, float]:
        return recipe.labeled.index(row.labeled), row.best_on_selection or 0.0

    return max(found, key=order, default=None)
