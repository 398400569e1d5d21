"""Labels of the second generation: what a few finished students say together."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from noisyteacher.bench.recipe import Generation
from noisyteacher.bench.run import BenchRun
from noisyteacher.bench.students import slug, trial_seed
from noisyteacher.bench.teacher import Start, refuse_failed
from noisyteacher.data import Split
from noisyteacher.labels import TeacherLabels
from noisyteacher.methods import SOFT_LABELS
from noisyteacher.train import Job, Trained
from noisyteacher.train.predict import label


def second_labels(
    run: BenchRun, labeled: int, splits: Sequence[Split], start: Start, trials: Sequence[int]
) -> dict[int, TeacherLabels] | None:
    """Per trial, the stored word of its own first students; None where time ran out.

    They train with V's rows as pool rows, so that the next noise model can be fitted on V. Those
    of all trials train as cohorts, which is why ``distill.next_labels``, made for one trial and
    no deadline, is not called here.
    """
    generation = run.recipe.second
    assert generation is not None
    paths = {trial: run.folder / "labels" / _name(run, labeled, trial) for trial in trials}
    jobs = {
        trial: _first_jobs(run, labeled, generation, splits[trial], start, trial)
        for trial, path in paths.items()
        if not path.exists()
    }
    flat = [job for group in jobs.values() for job in group]
    students = {s.job.name: s for s in run.train(flat, run.recipe.student_training)} if flat else {}
    refuse_failed(students.values())
    if not all(student.finished for student in students.values()):
        return None
    for trial, group in jobs.items():
        if run.leads:
            said = _said_together(run, [students[job.name] for job in group])
            said.save(paths[trial], overwrite=True)
    run.wait_for_all()
    return {trial: TeacherLabels.open(path) for trial, path in paths.items()}


def _name(run: BenchRun, labeled: int, trial: int) -> str:
    training, generation = run.recipe.student_training, run.recipe.second
    assert generation is not None
    told = f"{generation.students}x{generation.first!r}"
    return f"{labeled}_{slug(told)}_{trial}_{training.epochs}epochs_gold{training.gold_repeat}"


def _first_jobs(
    run: BenchRun,
    labeled: int,
    generation: Generation,
    parts: Split,
    start: Start,
    trial: int,
) -> list[Job]:
    init = start.init if run.recipe.pretrain == "all" else None
    problem = run.problem(parts, run.recipe.student, run.data, init)
    labels = start.labels if SOFT_LABELS in generation.first.needs else None
    seed, name = trial_seed(run.recipe, labeled, trial), _name(run, labeled, trial)
    return [
        problem.job(
            f"{name}_first{i}",
            generation.first,
            labels,
            seed=int(np.random.SeedSequence([seed, i]).generate_state(1)[0]),
            val_role="pool",
        )
        for i in range(generation.students)
    ]


def _said_together(run: BenchRun, students: Sequence[Trained]) -> TeacherLabels:
    """The mean of what the students say about the whole training part after the last epoch."""
    said = [
        label(
            student.job.model,
            student.state,
            run.data.inputs,
            run.data.views,
            ids=run.dataset.ids,
            classes=run.dataset.classes,
            device=run.device,
        )
        for student in students
    ]
    return TeacherLabels.average(said)
