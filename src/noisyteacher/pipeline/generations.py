"""A finished student is a teacher: label the pool again by a few students, and train once more."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from noisyteacher.core.errors import InputError
from noisyteacher.labels import TeacherLabels
from noisyteacher.methods import Method
from noisyteacher.train import Job, Problem, TrainConfig, Trained, train
from noisyteacher.train.predict import label


def next_labels(
    problem: Problem,
    method: Method,
    labels: TeacherLabels | None,
    config: TrainConfig,
    *,
    students: int = 2,
    seed: int = 0,
    name: str = "generation",
    out: str | Path | None = None,
    device: str | torch.device = "cpu",
    minutes: float | None = None,
    quiet: bool = False,
    max_memory: float | None = None,
) -> TeacherLabels | None:
    """The mean predictions of several students of a method, as labels for a second generation.

    ``students`` students with different seeds are trained on this trial's split alone, with V's
    rows as pool rows: they do not see V's gold labels, so that the next noise model can be fitted
    on V. They predict every example of the problem after the last epoch. With ``out``, their
    checkpoints are kept there, and the same call continues after an interruption. The result is
    None if ``minutes`` were over before all of them had finished.
    """
    jobs = first_generation_jobs(problem, method, labels, students, seed, name)
    done = train(
        jobs,
        problem.data,
        config,
        out=out,
        device=device,
        minutes=minutes,
        quiet=quiet,
        max_memory=max_memory,
    )
    failed = [student for student in done if student.history.failed]
    if failed:
        raise InputError(f"{failed[0].job.name} cannot label anything: {failed[0].history.failed}.")
    if not all(student.finished for student in done):
        return None
    classes = None if labels is None else labels.classes
    return average_predictions(problem, done, classes, device)


def first_generation_jobs(
    problem: Problem,
    method: Method,
    labels: TeacherLabels | None,
    students: int,
    seed: int,
    name: str,
) -> list[Job]:
    """The students of a first generation: seeds of one method, V's rows among the pool's."""
    if students < 1:
        raise InputError(f"A generation needs at least one student, not {students}.")
    return [
        problem.job(
            f"{name}_{i}",
            method,
            labels,
            seed=int(np.random.SeedSequence([seed, i]).generate_state(1)[0]),
            val_role="pool",
            title=f"{method!r}, first generation, student {i + 1}",
        )
        for i in range(students)
    ]


def average_predictions(
    problem: Problem,
    students: Sequence[Trained],
    classes: Sequence[str] | None,
    device: str | torch.device,
) -> TeacherLabels:
    """The mean of finished students' predictions for every example of the problem."""
    found = [
        label(
            student.network(),
            problem.data.inputs,
            problem.data.views,
            ids=problem.ids,
            classes=classes,
            device=device,
        )
        for student in students
    ]
    return TeacherLabels.average(found)
