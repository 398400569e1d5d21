"""Labels of the second generation: what a few finished students say together."""

from __future__ import annotations

from collections.abc import Sequence

from noisyteacher.bench.recipe import Generation
from noisyteacher.bench.run import BenchRun
from noisyteacher.bench.students import trial_seed
from noisyteacher.bench.teacher import Start, refuse_failed
from noisyteacher.core.files import slug
from noisyteacher.data import Split
from noisyteacher.labels import TeacherLabels
from noisyteacher.methods import SOFT_LABELS
from noisyteacher.pipeline.generations import first_jobs, said_together
from noisyteacher.train import Job, Problem


def second_labels(
    run: BenchRun, labeled: int, splits: Sequence[Split], start: Start, trials: Sequence[int]
) -> dict[int, TeacherLabels] | None:
    """Per trial, the stored word of its own first students; None where time ran out.

    They train with V's rows as pool rows, so that the next noise model can be fitted on V. Those
    of all trials train together, as cohorts.
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
            said = said_together(
                _problem(run, splits[trial], start, trial),
                [students[job.name] for job in group],
                run.dataset.classes,
                run.device,
            )
            said.save(paths[trial], overwrite=True)
    run.wait_for_all()
    return {trial: TeacherLabels.open(path) for trial, path in paths.items()}


def _name(run: BenchRun, labeled: int, trial: int) -> str:
    training, generation = run.recipe.student_training, run.recipe.second
    assert generation is not None
    told = f"{generation.students}x{generation.first!r}"
    return f"{labeled}_{slug(told)}_{trial}_{training.epochs}epochs_gold{training.gold_repeat}"


def _problem(run: BenchRun, parts: Split, start: Start, trial: int) -> Problem:
    recipe = run.recipe
    assert recipe.second is not None
    init = start.inits[trial] if recipe.starts_pretrained(recipe.second.first) else None
    return run.problem(parts, recipe.student, run.data, init)


def _first_jobs(
    run: BenchRun, labeled: int, generation: Generation, parts: Split, start: Start, trial: int
) -> list[Job]:
    labels = start.labels if SOFT_LABELS in generation.first.needs else None
    return first_jobs(
        _problem(run, parts, start, trial),
        generation.first,
        labels,
        generation.students,
        trial_seed(run.recipe, labeled, trial),
        f"{_name(run, labeled, trial)}_first",
    )
