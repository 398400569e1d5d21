"""A finished student is a teacher: label the pool anew by a few students, and train once more."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from noisyteacher.errors import InputError
from noisyteacher.labels import TeacherLabels
from noisyteacher.methods.base import Method
from noisyteacher.train import Problem, TrainConfig, train
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
    quiet: bool = False,
) -> TeacherLabels:
    """What ``students`` seeds of a method, averaged, say about every example of the problem.

    They train on this trial's split alone, with V's rows as pool rows: V's gold labels are unseen,
    so that the next noise model can be fitted on V. Their word is that of the last epoch. With
    ``out`` their checkpoints are kept there, and a killed call goes on where it was.
    """
    if students < 1:
        raise InputError(f"A generation needs at least one student, not {students}.")
    jobs = [
        problem.job(f"{name}_{i}", method, labels, seed=_seed(seed, i), val_role="pool")
        for i in range(students)
    ]
    done = train(jobs, problem.data, config, out=out, device=device, quiet=quiet)
    unfinished = [student for student in done if not student.finished]
    if unfinished:
        raise InputError(
            f"{unfinished[0].job.name} did not finish ({unfinished[0].history.failed}), so its "
            "labels cannot be used."
        )
    said = [
        label(
            problem.model,
            student.state,
            problem.data.inputs,
            problem.data.views,
            ids=problem.ids,
            classes=None if labels is None else labels.classes,
            device=device,
        )
        for student in done
    ]
    return TeacherLabels.average(said)


def _seed(seed: int, student: int) -> int:
    return int(np.random.SeedSequence([seed, student]).generate_state(1)[0])
