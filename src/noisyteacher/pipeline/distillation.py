"""Train the candidates, judge them on S, keep the best: a run folder that can be resumed."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np
import torch

from noisyteacher.choose.floor import FeatureMatrix, as_network, feature_matrix, fit_floor
from noisyteacher.core.errors import InputError, warn
from noisyteacher.core.machine import choose_device, hardware
from noisyteacher.data import Tfidf
from noisyteacher.data.dataset import take_rows
from noisyteacher.data.input_format import InputFormat, RawInputs, fit_format
from noisyteacher.data.tensors import gather_rows
from noisyteacher.labels import TeacherLabels
from noisyteacher.methods import EXTRAS, check_store
from noisyteacher.models import ModelSpec, TextEncoder
from noisyteacher.pipeline.candidates import (
    Candidate,
    Outcome,
    choose_candidates,
    training_groups,
)
from noisyteacher.pipeline.card import write_card
from noisyteacher.pipeline.cross_fitted import CrossFitted
from noisyteacher.pipeline.defaults import (
    featurizer_for,
    student_for,
    training_for,
)
from noisyteacher.pipeline.distilled import Distilled, compare_with_teacher
from noisyteacher.pipeline.generations import next_labels
from noisyteacher.pipeline.linear_run import run_cross_fit
from noisyteacher.pipeline.preparation import (
    DistillSettings,
    audit_teacher,
    claim_folder,
    save_audit,
)
from noisyteacher.pipeline.student import Student, save_student
from noisyteacher.pipeline.task import Task
from noisyteacher.runs import RunFolder
from noisyteacher.train import (
    Inputs,
    Problem,
    TrainConfig,
    TrainData,
    Trained,
    check_model,
    train,
)


@dataclass(frozen=True, eq=False)
class _Run:
    """One task at work in a folder (or in memory alone)."""

    task: Task
    settings: DistillSettings
    inputs: InputFormat
    tensors: Inputs
    folder: RunFolder | None
    device: torch.device
    say: Callable[[str], None]
    quiet: bool
    deadline: float = math.inf

    @cached_property
    def spec(self) -> ModelSpec:
        return student_for(self.settings.student, self.inputs, len(self.task.classes))

    @cached_property
    def config(self) -> TrainConfig:
        rows = len(self.task.ids) - len(self.task.split.selection)
        config = self.settings.training or training_for(self.task.kind, self.spec, rows)
        epochs = self.settings.epochs
        return config if epochs is None else replace(config, epochs=epochs)

    @cached_property
    def problem(self) -> Problem:
        task, test = self.task, self.task.test
        data = TrainData(
            self.tensors,
            self.inputs.views(),
            len(task.classes),
            None if test is None else self.inputs.tensors(test.inputs),
            None if test is None else test.y,
        )
        return Problem(data, task.ids, task.y, task.split, self.spec)

    @property
    def path(self) -> Path | None:
        """Where its files go."""
        return None if self.folder is None else self.folder.path

    @property
    def minutes_left(self) -> float | None:
        if self.deadline == math.inf:
            return None
        return max(0.0, (self.deadline - time.monotonic()) / 60)


def run_distill(
    task: Task,
    settings: DistillSettings,
    out: str | Path | None = None,
    *,
    device: str | torch.device | None = None,
    minutes: float | None = None,
    say: Callable[[str], None] = lambda text: None,
    quiet: bool = False,
) -> Distilled | CrossFitted:
    """Train gold only and every other candidate, and return the best of them or their blend.

    With ``out`` the folder holds ``recipe.json``, ``results.jsonl``, ``checkpoints/`` and, once all
    are trained, ``student/``; a killed call, made again, goes on where it was. ``minutes`` stops
    cleanly: then the result is not finished.
    """
    folder = None if out is None else RunFolder(Path(out))
    with nullcontext() if folder is None else folder.lock():
        return _run(task, settings, folder, device, minutes, say, quiet)


def _run(
    task: Task,
    settings: DistillSettings,
    folder: RunFolder | None,
    device: str | torch.device | None,
    minutes: float | None,
    say: Callable[[str], None],
    quiet: bool,
) -> Distilled | CrossFitted:
    featurizer = settings.featurizer
    if task.kind == "text" and featurizer is None:
        featurizer = featurizer_for(settings.student, settings.encoder)
    inputs, tensors = fit_format(task.kind, task.inputs, featurizer, settings.flip, task.features)
    where = choose_device(device)
    if settings.cross_fits(task.kind):
        return run_cross_fit(task, settings, inputs, tensors, folder, minutes, say, quiet)
    deadline = math.inf if minutes is None else time.monotonic() + 60 * minutes
    run = _Run(task, settings, inputs, tensors, folder, where, say, quiet, deadline)
    check_model(run.spec, run.problem.data, settings.methods, where)
    if folder is not None:
        claim_folder(folder, task, inputs, run.spec, repr(run.config), settings.seed)
    say(f"Student: {run.spec!r}, {run.config.epochs} epochs.")
    found = audit_teacher(task, say)
    recommended = found.recommendation.method
    say(f"The audit recommends {recommended!r}.")
    if folder is not None:
        save_audit(found, folder)
    wanted = choose_candidates(
        task.kind,
        len(task.classes),
        recommended,
        methods=settings.methods,
        compare=settings.compare,
        quick=settings.quick,
    )
    for candidate in wanted:
        if candidate.method is not None:
            # Now, and not after the candidates before it have trained for an hour.
            check_store(candidate.method, task.labels)
            if settings.generations > 1 and candidate.method.needs & EXTRAS:
                raise InputError(
                    f"{candidate.method!r} needs more than labels of a second generation have; "
                    "leave it out, or ask for one generation."
                )
    outcomes = _train_candidates(run, wanted, task.labels)
    finished = len(outcomes) == len(wanted)
    labels = task.labels
    for generation in range(2, settings.generations + 1):
        again = _next_generation(run, outcomes, labels, generation) if finished else None
        if again is None:
            break
        labels, outcome = again
        finished = outcome is not None
        outcomes += [outcome] if outcome is not None else []
    return _finish(run, outcomes, finished)


def _train_candidates(
    run: _Run, wanted: Sequence[Candidate], labels: TeacherLabels
) -> list[Outcome]:
    """Those that finished, in the order given; one whose loss became NaN counts as 0 on S."""
    found: dict[Candidate, Outcome] = {}
    for group in training_groups(wanted, together=run.device.type == "cuda"):
        done = _train_group(run, group, labels)
        found |= {outcome.candidate: outcome for outcome in done}
        if len(done) < len(group):
            break
    return [found[candidate] for candidate in wanted if candidate in found]


def _train_group(run: _Run, group: Sequence[Candidate], labels: TeacherLabels) -> list[Outcome]:
    """The students of a group, recorded; fewer where time ran out."""
    run.say(f"Training: {', '.join(candidate.name for candidate in group)}")
    outcomes = [_train_floor(run, candidate) for candidate in group if candidate.method is None]
    learners = [(c, c.method) for c in group if c.method is not None]
    jobs = [
        run.problem.job(
            candidate.file_name,
            method,
            labels if candidate.uses_teacher else None,
            seed=run.settings.seed,
        )
        for candidate, method in learners
    ]
    done = []
    if jobs:
        done = train(
            jobs,
            run.problem.data,
            run.config,
            out=run.path,
            device=run.device,
            minutes=run.minutes_left,
            quiet=run.quiet,
        )
    for (candidate, _), trained in zip(learners, done, strict=True):
        if trained.finished or trained.history.failed is not None:
            outcomes.append(_outcome(run, candidate, trained))
    for outcome in outcomes:
        # A student stopped at a NaN loss is no finished student, and has no row.
        finished = outcome.candidate.method is None or len(outcome.curve) == run.config.epochs
        if run.folder is not None and finished:
            row = outcome.row(run.task, run.config, run.settings.seed, hardware(run.device))
            run.folder.append(row)
    return outcomes


def _outcome(run: _Run, candidate: Candidate, trained: Trained) -> Outcome:
    failed = trained.history.failed
    if failed is not None:
        warn(f"{candidate.name} is not used: {failed}.")
    last = trained.history.curve[-1] if trained.history.curve else None
    return Outcome(
        candidate=candidate,
        selection=last.selection or 0.0 if last is not None and failed is None else 0.0,
        test=None if last is None else last.test,
        seconds=trained.history.seconds,
        examples_per_second=trained.examples_per_second,
        student=Student(run.spec, trained.state, run.task.classes, run.inputs),
        noise=trained.job.prepared.noise,
        curve=tuple(asdict(record) for record in trained.history.curve),
        macro_f1=trained.history.macro_f1,
    )


def _train_floor(run: _Run, candidate: Candidate) -> Outcome:
    task, began = run.task, time.monotonic()
    student = train_floor(task, run.inputs, run.tensors)

    def accuracy(inputs: RawInputs, y: np.ndarray) -> float:
        return 100 * float(np.mean(student.logits(inputs).argmax(1) == y))

    chosen = task.split.selection
    return Outcome(
        candidate=candidate,
        selection=accuracy(take_rows(task.inputs, chosen), task.y[chosen]),
        test=None if task.test is None else accuracy(task.test.inputs, task.test.y),
        seconds=time.monotonic() - began,
        examples_per_second=0.0,
        student=student,
    )


def train_floor(task: Task, inputs: InputFormat, tensors: Inputs) -> Student:
    """Fit on A and V with each strength, keep the best on S; the weaker one wins ties.

    Text students that are encoders bring no bags of words, so the floor makes its own.
    """
    if task.kind == "text" and not isinstance(inputs.featurizer, Tfidf):
        inputs, tensors = fit_format("text", task.inputs, Tfidf())
    parts, views = task.split, inputs.views()

    def features(rows: np.ndarray) -> FeatureMatrix:
        shown = views.plain(gather_rows(tensors, torch.from_numpy(rows)))
        return feature_matrix(shown, inputs.features)

    rows = np.concatenate([parts.gold, parts.val])
    chosen = features(parts.selection), task.y[parts.selection]
    floor = fit_floor(features(rows), task.y[rows], *chosen)
    best, bags = floor.models[floor.best], task.kind == "text"
    return Student(*as_network(best, len(task.classes), bags=bags), task.classes, inputs)


def _next_generation(
    run: _Run, outcomes: list[Outcome], labels: TeacherLabels, generation: int
) -> tuple[TeacherLabels, Outcome | None] | None:
    """New labels by students of the best method so far, and a student of those labels."""
    taught = [o for o in outcomes if o.candidate.uses_teacher]
    if not taught:
        return None
    method = max(taught, key=lambda o: o.selection).candidate.method
    assert method is not None
    if run.minutes_left == 0:
        return labels, None
    run.say(f"Generation {generation}: students of {method!r} label the pool anew.")
    renewed = next_labels(
        run.problem,
        method,
        labels,
        run.config,
        seed=run.settings.seed + generation,
        name=f"teacher-of-generation-{generation}-{Candidate(method).file_name}",
        out=run.path,
        device=run.device,
        minutes=run.minutes_left,
        quiet=run.quiet,
    )
    if renewed is None:
        return labels, None
    outcomes = _train_group(run, [Candidate(method, generation)], renewed)
    return renewed, outcomes[0] if outcomes else None


def _finish(run: _Run, outcomes: list[Outcome], finished: bool) -> Distilled:
    done = Distilled(run.task, outcomes, finished, run.path)
    if not outcomes:
        return done
    if isinstance(done.student.spec, TextEncoder):
        # With its architecture written out there is nothing to download later.
        done.student.spec = done.student.spec.build().spec
    done.student.about = done.about(hardware(run.device))
    if run.folder is not None and finished:
        _warn_of_better_before(run.folder, outcomes)
        save_student(run.folder.path / "student", done.student, write_card(done), overwrite=True)
        # A student kept by an earlier call may have left one.
        (run.folder.path / "noise.json").unlink(missing_ok=True)
        if done.noise is not None:
            done.noise.save(run.folder.path / "noise.json")
        compare_with_teacher(done).save(run.folder.path)
    return done


def _warn_of_better_before(folder: RunFolder, outcomes: Sequence[Outcome]) -> None:
    """Where an earlier call left a student that is better on S than all of these."""
    mine = {(Candidate(o.candidate.method).name, o.candidate.generation) for o in outcomes}
    earlier = [
        (float(row.curve[-1]["selection"]), row.method)
        for row in folder.rows()
        if (row.method, row.generation) not in mine and row.curve and row.curve[-1]["selection"]
    ]
    selection, name = max(earlier, key=lambda pair: pair[0], default=(0.0, ""))
    if selection > max(outcome.selection for outcome in outcomes):
        warn(
            f"An earlier call left a better student in {folder.path}: {name}, {selection:.2f} % on "
            f"S. Add it to the methods (--method {name!r}) to keep it; it is not trained again."
        )
