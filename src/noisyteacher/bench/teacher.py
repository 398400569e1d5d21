"""What students start with: the teacher's stored labels and weights trained on A.

Both are made once per size of A. A teacher with rows of its own is trained once for all sizes and
trials, and as A is drawn anew in each trial, so are the weights that its students start from.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from torch import Tensor

from noisyteacher.bench.bench_run import BenchRun
from noisyteacher.bench.recipe import Recipe
from noisyteacher.core.errors import InputError
from noisyteacher.core.files import slug
from noisyteacher.data import Split
from noisyteacher.labels import TeacherLabels
from noisyteacher.methods import EMBEDDINGS, SOFT_LABELS, VIEW_STATISTICS, GoldOnly, Method
from noisyteacher.models import ModelSpec
from noisyteacher.pipeline.generations import average_predictions, first_generation_jobs
from noisyteacher.train import Job, TrainConfig, TrainData, Trained
from noisyteacher.train.predict import label

_EXTRAS = {EMBEDDINGS: "embedding", VIEW_STATISTICS: "view_mean"}


@dataclass(frozen=True)
class StartingPoint:
    """What all students of a size begin with."""

    labels: TeacherLabels | None  # None where no method wants any
    teacher_accuracy: float | None
    inits: tuple[dict[str, Tensor] | None, ...]  # of each trial


def make_starting_point(
    run: BenchRun, labeled: int, splits: Sequence[Split]
) -> StartingPoint | None:
    """The teacher's labels and the pre-trained students; None where time ran out."""
    done = _train_alike(run, _gold_jobs(run, labeled, splits))
    if done is None:
        return None
    names = pretrained_names(run.recipe, labeled, len(splits))
    inits = tuple(done[name].state if name in done else None for name in names)
    if run.given_labels is not None:
        return StartingPoint(
            run.given_labels, _accuracy_of_labels(run, run.given_labels, splits[0]), inits
        )
    teacher = done[teacher_name(run.recipe, labeled)]
    labels = _stored_labels(run, labeled, teacher, run.recipe.all_methods)
    return StartingPoint(labels, teacher.accuracy.last, inits)


def train_starts(run: BenchRun, splits: Mapping[int, Sequence[Split]]) -> bool:
    """Train the teachers and starts of several sizes side by side, which fills a GPU.

    ``make_starting_point`` then finds them finished. False where time ran out.
    """
    jobs: dict[str, _GoldJob] = {}
    for labeled, of_trials in splits.items():
        jobs |= _gold_jobs(run, labeled, of_trials)
    return _train_alike(run, jobs) is not None


def teacher_name(recipe: Recipe, labeled: int) -> str:
    """What the teacher's checkpoint is called."""
    return "outside_teacher" if recipe.outside else f"{labeled}_teacher"


def pretrained_names(recipe: Recipe, labeled: int, trials: int) -> list[str]:
    """What the checkpoints of the students' starts are called, trial by trial."""
    name = f"{labeled}_pretrained"
    return [f"{name}_{trial}" if recipe.outside else name for trial in range(trials)]


@dataclass(frozen=True)
class _GoldJob:
    job: Job
    data: TrainData
    config: TrainConfig


def _gold_jobs(run: BenchRun, labeled: int, splits: Sequence[Split]) -> dict[str, _GoldJob]:
    """The teacher and the students' pre-training: A alone, or the teacher's own rows."""
    recipe = run.recipe
    jobs = {}

    def add(
        name: str, rows: np.ndarray, model: ModelSpec, data: TrainData, config: TrainConfig
    ) -> None:
        none = np.empty(0, np.int64)
        parts = Split(np.asarray(rows, np.int64), none, none, none)
        what = name.partition("_")[2].replace("_", " ")
        title = f"{what}, {labeled} labeled"
        problem = run.problem(parts, model, data)
        job = problem.job(name, GoldOnly(), None, seed=recipe.seed, title=title)
        jobs[name] = _GoldJob(job, data, config)

    if run.given_labels is None:
        taught = splits[0].outside if recipe.outside else splits[0].gold
        teacher = (recipe.teacher, run.teacher_data, recipe.teacher_training)
        add(teacher_name(recipe, labeled), taught, *teacher)
    if recipe.pretraining is not None and recipe.uses_pretraining:
        names = pretrained_names(recipe, labeled, len(splits))
        for name, parts in dict(zip(names, splits, strict=True)).items():
            gold = parts.val if recipe.outside else parts.gold
            add(name, gold, recipe.student, run.data, recipe.pretraining)
    return jobs


def _train_alike(run: BenchRun, jobs: dict[str, _GoldJob]) -> dict[str, Trained] | None:
    """Train side by side what shares inputs and settings; None where time ran out."""
    done: dict[str, Trained] = {}
    todo = dict(jobs)
    while todo:
        first = next(iter(todo.values()))
        group = [r for r, j in todo.items() if j.data is first.data and j.config == first.config]
        trained = run.train([todo.pop(role).job for role in group], first.config, first.data)
        _refuse_failed(trained)
        if not all(student.finished for student in trained):
            return None
        done |= dict(zip(group, trained, strict=True))
    return done


def _refuse_failed(trained: Iterable[Trained]) -> None:
    """One that others learn from must not have failed: no further call would finish it."""
    for student in trained:
        if student.history.failed is not None:
            raise InputError(
                f"{student.job.name} cannot be used: {student.history.failed}. Choose other "
                "settings and another folder."
            )


def _stored_labels(
    run: BenchRun, labeled: int, teacher: Trained, methods: Iterable[Method]
) -> TeacherLabels | None:
    """The teacher's labels of the whole training part, made once with what the methods need."""
    needs = frozenset[str]().union(*(method.needs for method in methods))
    if not needs & {SOFT_LABELS, *_EXTRAS}:
        return None
    path = run.labels_path(labeled)
    have = frozenset(TeacherLabels.open(path).extras) if path.exists() else None
    wanted = {name for need, name in _EXTRAS.items() if need in needs}
    # Other methods were promised what is stored already.
    wanted |= {name for name in _EXTRAS.values() if name in (have or ())}
    run.wait_for_all()
    if run.leads and (have is None or not wanted <= have):
        labels = label(
            teacher.network(),
            run.teacher_data.inputs,
            run.teacher_data.views,
            ids=run.dataset.ids,
            classes=run.dataset.classes,
            device=run.device,
            embeddings=_EXTRAS[EMBEDDINGS] in wanted,
            view_passes=run.recipe.view_passes if _EXTRAS[VIEW_STATISTICS] in wanted else 0,
            seed=run.recipe.seed,
            name=f"{run.recipe.name}, {run.recipe.outside or labeled} labels",
        )
        labels.save(path, overwrite=True)
    run.wait_for_all()
    # Training must see exactly what a resumed run will read.
    return TeacherLabels.open(path)


def _accuracy_of_labels(run: BenchRun, labels: TeacherLabels, parts: Split) -> float:
    """In percent: on the test part where the store has it, else on the training part without A."""
    dataset = run.dataset
    if len(dataset.test_ids) and labels.has(dataset.test_ids).all():
        ids, y = dataset.test_ids, dataset.test_y
    else:
        rest = np.setdiff1d(np.flatnonzero(dataset.y >= 0), [*parts.gold, *parts.outside])
        ids, y = dataset.ids[rest], dataset.y[rest]
    return 100 * float(np.mean(labels.take(ids).hard == y))


# -- the second generation -------------------------------------------------------------------------


def second_generation_labels(
    run: BenchRun,
    labeled: int,
    splits: Sequence[Split],
    start: StartingPoint,
    trials: Sequence[int],
) -> dict[int, TeacherLabels] | None:
    """Per trial, the stored predictions of its own first students; None where time ran out.

    They train with V's rows as pool rows, so that the next noise model can be fitted on V. Those
    of all trials train together, as cohorts.
    """
    recipe, second = run.recipe, run.recipe.second
    assert second is not None
    training, seeds = recipe.student_training, f"{second.students}x{second.first!r}"
    names = {
        trial: f"{labeled}_{slug(seeds)}_{trial}_{training.epochs}epochs_gold{training.gold_repeat}"
        for trial in trials
    }
    paths = {trial: run.folder / "labels" / name for trial, name in names.items()}
    problems, jobs = {}, {}
    for trial in trials:
        if paths[trial].exists():
            continue
        init = start.inits[trial] if recipe.starts_pretrained(second.first) else None
        problems[trial] = run.problem(splits[trial], recipe.student, run.data, init)
        jobs[trial] = first_generation_jobs(
            problems[trial],
            second.first,
            start.labels if SOFT_LABELS in second.first.needs else None,
            second.students,
            recipe.trial_seed(labeled, trial),
            f"{names[trial]}_first",
        )
    flat = [job for group in jobs.values() for job in group]
    students = {s.job.name: s for s in run.train(flat, training)} if flat else {}
    _refuse_failed(students.values())
    if not all(student.finished for student in students.values()):
        return None
    if run.leads:
        for trial, group in jobs.items():
            finished = [students[job.name] for job in group]
            found = average_predictions(problems[trial], finished, run.dataset.classes, run.device)
            found.save(paths[trial], overwrite=True)
    run.wait_for_all()
    return {trial: TeacherLabels.open(path) for trial, path in paths.items()}
