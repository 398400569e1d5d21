"""What is made once per size of A: the teacher, its stored labels, and the student's start."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from torch import Tensor

from noisyteacher.bench.run import BenchRun
from noisyteacher.core.errors import InputError
from noisyteacher.data import Split
from noisyteacher.labels import TeacherLabels
from noisyteacher.methods import EMBEDDINGS, SOFT_LABELS, VIEW_STATISTICS, GoldOnly, Method
from noisyteacher.train import Job, TrainConfig, TrainData, Trained
from noisyteacher.train.predict import label

_EXTRAS = {EMBEDDINGS: "embedding", VIEW_STATISTICS: "view_mean"}


@dataclass(frozen=True)
class Start:
    """What all students of a size begin with."""

    labels: TeacherLabels | None  # None where no method wants any
    teacher_accuracy: float | None
    init: dict[str, Tensor] | None


def make_start(run: BenchRun, labeled: int, gold: np.ndarray) -> Start | None:
    """The teacher's labels and the pre-trained student; None where time ran out."""
    jobs = _gold_jobs(run, labeled, gold)
    done = _train_alike(run, jobs)
    if done is None:
        return None
    pretrained = done.get("pretrained")
    init = None if pretrained is None else pretrained.state
    if run.given is not None:
        return Start(run.given, _accuracy_of_labels(run, run.given, gold), init)
    labels = _stored_labels(run, labeled, done["teacher"], run.recipe.all_methods)
    return Start(labels, done["teacher"].accuracy.last, init)


@dataclass(frozen=True)
class _GoldJob:
    job: Job
    data: TrainData
    config: TrainConfig


def _gold_jobs(run: BenchRun, labeled: int, gold: np.ndarray) -> dict[str, _GoldJob]:
    """The teacher and the student's pre-training: gold set A alone."""
    recipe, none = run.recipe, np.empty(0, np.int64)
    parts = Split(np.asarray(gold, np.int64), none, none, none)
    wanted = {}
    if run.given is None:
        wanted["teacher"] = (recipe.teacher, run.teacher_data, recipe.teacher_training)
    if recipe.pretraining is not None and recipe.uses_pretraining:
        wanted["pretrained"] = (recipe.student, run.data, recipe.pretraining)
    jobs = {}
    for role, (model, data, config) in wanted.items():
        problem = run.problem(parts, model, data)
        job = problem.job(f"{labeled}_{role}", GoldOnly(), None, seed=recipe.seed)
        jobs[role] = _GoldJob(job, data, config)
    return jobs


def _train_alike(run: BenchRun, jobs: dict[str, _GoldJob]) -> dict[str, Trained] | None:
    """Train side by side what shares inputs and settings; None where time ran out."""
    done: dict[str, Trained] = {}
    todo = dict(jobs)
    while todo:
        first = next(iter(todo.values()))
        group = [r for r, j in todo.items() if j.data is first.data and j.config == first.config]
        trained = run.train([todo.pop(role).job for role in group], first.config, first.data)
        refuse_failed(trained)
        if not all(student.finished for student in trained):
            return None
        done |= dict(zip(group, trained, strict=True))
    return done


def refuse_failed(trained: Iterable[Trained]) -> None:
    """One that others learn from must not have failed: no further call would finish it."""
    for student in trained:
        if student.history.failed is not None:
            raise InputError(
                f"{student.job.name} is of no use: {student.history.failed}; choose other "
                "settings and another folder."
            )


def _stored_labels(
    run: BenchRun, labeled: int, teacher: Trained, methods: Iterable[Method]
) -> TeacherLabels | None:
    """The teacher's labels of the whole training part, made once with what the methods need."""
    needs = frozenset[str]().union(*(method.needs for method in methods))
    if not needs & {SOFT_LABELS, *_EXTRAS}:
        return None
    path = run.folder / "labels" / str(labeled)
    have = frozenset(TeacherLabels.open(path).extras) if path.exists() else None
    wanted = {name for need, name in _EXTRAS.items() if need in needs}
    # Other methods were promised what is stored already.
    wanted |= {name for name in _EXTRAS.values() if name in (have or ())}
    run.wait_for_all()
    if run.leads and (have is None or not wanted <= have):
        labels = label(
            teacher.job.model,
            teacher.state,
            run.teacher_data.inputs,
            run.teacher_data.views,
            ids=run.dataset.ids,
            classes=run.dataset.classes,
            device=run.device,
            embeddings=_EXTRAS[EMBEDDINGS] in wanted,
            view_passes=run.recipe.view_passes if _EXTRAS[VIEW_STATISTICS] in wanted else 0,
            seed=run.recipe.seed,
            name=f"{run.recipe.name}, {labeled} labels",
        )
        labels.save(path, overwrite=True)
    run.wait_for_all()
    # Training must see exactly what a resumed run will read.
    return TeacherLabels.open(path)


def _accuracy_of_labels(run: BenchRun, labels: TeacherLabels, gold: np.ndarray) -> float:
    """In percent: on the test part where the store has it, else on the training part without A."""
    dataset = run.dataset
    known = set(np.asarray(labels.ids).tolist())
    if len(dataset.test_ids) and known.issuperset(dataset.test_ids.tolist()):
        ids, y = dataset.test_ids, dataset.test_y
    else:
        rest = np.setdiff1d(np.flatnonzero(dataset.y >= 0), gold)
        ids, y = dataset.ids[rest], dataset.y[rest]
    return 100 * float(np.mean(labels.take(ids).hard == y))
