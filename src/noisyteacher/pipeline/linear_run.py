"""Distillation into a linear student: every gold row is used to measure, train and compare.

The candidates are solved and cross-fitted (``choose``), blended into one linear student, and
refitted on all gold rows. Nothing is split off the gold set.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Sequence
from pathlib import Path
from threading import Lock, local

import numpy as np
import torch
from torch import Tensor

from noisyteacher.choose.evidence import (
    DecisionRows,
    LinearCandidate,
    SolvedStore,
    solve_candidates,
)
from noisyteacher.choose.linear_choice import (
    FOLDS,
    LinearChoice,
    choose_linear,
    default_methods,
    fits_of,
    linear_candidates,
)
from noisyteacher.core.errors import InputError
from noisyteacher.core.machine import versions
from noisyteacher.core.progress import ProgressDisplay
from noisyteacher.data import Tfidf
from noisyteacher.methods import Calibrated, GoldOnly, Method, SLaM, TaylorCE, Vanilla, check_store
from noisyteacher.models import BagLinear, ModelSpec
from noisyteacher.pipeline.distilled import Distilled, TrainingRecord, Unfinished
from noisyteacher.pipeline.preparation import (
    DistillSettings,
    Run,
    audit_teacher,
    claim_folder,
    fit_noise,
)
from noisyteacher.pipeline.student import Student
from noisyteacher.runs.folder import ProgressFile
from noisyteacher.train.checkpoint import History, checkpoint_path, load_checkpoint, save_checkpoint
from noisyteacher.train.pool_shards import is_streamable
from noisyteacher.train.solver import LinearFit


class OutOfTime(Exception):
    """Raised between two solves once the minutes are over."""


def _methods_to_try(settings: DistillSettings, words: bool) -> tuple[Method, ...]:
    """Gold only and the ways to use the teacher; methods the user names replace the latter."""
    if settings.methods:
        return (GoldOnly(), *(method for method in settings.methods if method != GoldOnly()))
    if settings.quick:
        return (GoldOnly(), SLaM())
    if settings.compare:
        more = (Vanilla(), Calibrated(), Calibrated(TaylorCE(2)), SLaM(hard=True, per_class=True))
        return (*default_methods(words), *more)
    return default_methods(words)


def run_linear(run: Run) -> Distilled | Unfinished:
    """Cross-fit the methods' linear students, blend them, refit, and say what is known."""
    task, settings, began = run.task, run.settings, time.monotonic()
    folds = FOLDS if settings.folds is None else settings.folds
    if folds < 2:
        raise InputError(f"Linear students need at least 2 folds (--folds), not {folds}.")
    methods = _methods_to_try(settings, words=isinstance(run.spec, BagLinear))
    if task.rest is not None:
        # Those the user names were refused before.
        methods = tuple(method for method in methods if is_streamable(method))
    for method in methods:
        check_store(method, task.labels)
    claim_folder(run, f"solved and cross-fitted, {folds} folds, {settings.metric}")
    run.say(f"Student: {run.spec!r}, trained to convergence.")
    if isinstance(run.inputs.featurizer, Tfidf):
        run.say(
            "Texts are represented by TF-IDF features. On short texts, a sentence encoder is often "
            "several points better: --student embeddings --encoder FOLDER."
        )
    audit_teacher(run)
    rows = run.decision_rows(run.inputs.matrix(run.tensors))
    candidates = linear_candidates(methods, encoded=run.inputs.encoded > 0)
    judges = int(rows.judges.sum())
    on = f"by {min(folds, judges)}-fold cross-validation on {judges} gold rows"
    if not rows.trains_judges:
        on = f"on the {judges} rows of the selection set"
    run.say(f"{len(candidates)} methods are compared {on}.")
    with ProgressDisplay(quiet=run.quiet) as display:
        store = _SolvedFolds(run.path, candidates, folds)
        progress = _SolveProgress(run, display, candidates, fits_of(rows, folds), store)
        try:
            choice = choose_linear(
                rows,
                candidates,
                folds=folds,
                metric=settings.metric,
                seed=settings.seed,
                progress=progress,
                store=store,
            )
        except OutOfTime:
            # Time runs out between folds, so all that were begun are solved.
            return Unfinished(tuple(f"{name}, {fold}" for name, fold in progress.begun))
        progress.finish()
    state = linear_state(run.spec, choice.student)
    student = Student(run.spec, state, task.classes, run.inputs)
    seconds = time.monotonic() - began
    return Distilled(
        task=task,
        choice=choice,
        student=student,
        blend=True,
        judged=task.judges,
        records=dict.fromkeys(
            (line.name for line in choice.lines),
            TrainingRecord(round(seconds / len(choice.lines), 3)),
        ),
        noise=fit_noise(methods, task.labels, task.ids[task.measures], task.y[task.measures]),
        tested=_tested(run, rows, choice, student, store),
        seconds=seconds,
        folder=run.path,
    )


class _SolvedFolds(SolvedStore):
    """What was solved, in the run's folder: a file per fold, one of the refit, one of the test."""

    def __init__(
        self, folder: Path | None, candidates: Sequence[LinearCandidate], folds: int
    ) -> None:
        # The folder's claim tells the rest.
        told = f"{versions()}\n{folds}\n{candidates!r}"
        self._folder, self._key = folder, hashlib.sha256(told.encode()).hexdigest()
        self.saved = 0  # since this call began

    def load(self, name: str) -> list[np.ndarray] | None:
        path = self._path(name)
        found = None if path is None else load_checkpoint(path, self._key)
        return None if found is None else [found[0][str(i)].numpy() for i in range(len(found[0]))]

    def save(self, name: str, arrays: Sequence[np.ndarray]) -> None:
        if (path := self._path(name)) is not None:
            tensors = {str(i): torch.from_numpy(array) for i, array in enumerate(arrays)}
            save_checkpoint(path, tensors, History(self._key))
            self.saved += 1

    def _path(self, name: str) -> Path | None:
        name = f"solved_{self._key[:12]}_{name}"
        return None if self._folder is None else checkpoint_path(self._folder, name)


class _SolveProgress:
    """A line for every method while its students are solved, and one for all of them.

    Once the minutes are over, or another fold would take a thread past them, no more folds are
    begun. Where folds are kept, those that are begun first, one in each thread, are solved
    in any case, so that every call gets further.
    """

    def __init__(
        self,
        run: Run,
        display: ProgressDisplay,
        candidates: Sequence[LinearCandidate],
        fits: int,
        store: _SolvedFolds,
    ) -> None:
        self.run, self.display, self.fits, self.store = run, display, fits, store
        self.begun: list[tuple[str, str]] = []  # methods, and in which fold
        self.solves = (fits + 1) * len(candidates)  # with the refit
        self.file = ProgressFile(run.path)
        self.start = self.latest = time.monotonic()  # when the latest fold was begun
        self.lock, self.thread, self.out_of_time = Lock(), local(), False

    def __call__(self, name: str, fold: int) -> None:
        """The next student, of a fold or of the refit, is about to be solved by this thread."""
        with self.lock:
            self._begin(name, fold)

    def _begin(self, name: str, fold: int) -> None:
        now = time.monotonic()
        if fold != getattr(self.thread, "fold", None):
            last = now - getattr(self.thread, "begun", self.latest)
            late = now + last >= self.run.deadline
            if self.out_of_time or (late and (self.store.saved or self.run.path is None)):
                self.out_of_time = True
                raise OutOfTime
            self.thread.fold, self.thread.begun, self.latest = fold, now, now
        where = "refit" if fold < 0 else f"fold {fold + 1}"
        done = min(len(self.begun), self.solves)
        own = sum(method == name for method, _ in self.begun)
        self.begun.append((name, where))
        self.display.update_total("All students", done, self.solves)
        self.display.update(
            name,
            min(own, self.fits),
            self.fits + 1,
            numbers=where,
            line=f"Training students: {done} of {self.solves}",
            seconds_left=(now - self.start) / max(1, done) * (self.solves - done),
        )
        self.file.write(f"Training {name}, {where}", done, self.solves)

    def finish(self) -> None:
        for name in dict(self.begun):
            self.display.update_total(name, 1, 1)
        line = f"Training students: {self.solves} of {self.solves}"
        self.display.update("All students", self.solves, self.solves, line=line)
        self.file.write("Training has finished", self.solves, self.solves)


def linear_state(spec: ModelSpec, fit: LinearFit) -> dict[str, Tensor]:
    """A linear student's weights as its network has them."""
    weight = torch.from_numpy(fit.weight.astype(np.float32))
    bias = torch.from_numpy(fit.bias.astype(np.float32))
    if isinstance(spec, BagLinear):
        return {"bag.weight": weight.T.contiguous(), "bias": bias}
    return {"fc.weight": weight, "fc.bias": bias}


def _tested(
    run: Run, rows: DecisionRows, choice: LinearChoice, student: Student, store: _SolvedFolds
) -> dict[str, float]:
    """Test accuracy of the student, and of each candidate's own blend where there is a test set."""
    task, test = run.task, run.task.test
    if test is None:
        return {}
    names = ["", *(candidate.name for candidate in choice.candidates)]
    stored = store.load("tested")
    if stored is not None:
        return dict(zip(names, stored[0].tolist(), strict=True))
    run.say("Every method is now trained on all gold rows, for its accuracy on the test set.")
    x = run.inputs.matrix(run.inputs.tensors(test.inputs))
    found = [task.test_accuracy(student.logits(test.inputs))]
    # Only the settings that take part in a method's own blend.
    used = [c.only(own) for c, own in zip(choice.candidates, choice.own_parts, strict=True)]
    read = {s.columns: rows.read(x, s.columns) for candidate in used for s in candidate.settings}
    solved = solve_candidates(rows, used)
    for own, candidate, fits in zip(choice.own_parts, used, solved, strict=True):
        blended = sum(
            part.factor * fit.logits(read[setting.columns])
            for part, setting, fit in zip(own, candidate.settings, fits, strict=True)
        )
        found.append(task.test_accuracy(np.asarray(blended)))
    store.save("tested", [np.array(found)])
    return dict(zip(names, found, strict=True))
