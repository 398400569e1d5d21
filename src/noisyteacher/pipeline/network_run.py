"""Distillation into a network: candidates compared on held-out gold rows, the chosen one refitted.

By default a fifth of the gold rows is held out once (``folds`` 1): the others measure the teacher
and train. With more folds every gold row is held out in turn. Rows of ``--selection`` take the
place of held-out rows; then nothing needs a refit. All students of all folds are trained in one
call, so that on a GPU they share it.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch

from noisyteacher.choose.anchored import AnchoredEvidence, choose_network
from noisyteacher.choose.choice import Candidate
from noisyteacher.choose.evidence import DecisionRows
from noisyteacher.choose.folds import hold_out, make_folds
from noisyteacher.choose.linear_choice import fit_gold_only
from noisyteacher.core.errors import InputError, warn
from noisyteacher.core.files import slug
from noisyteacher.data import Tfidf
from noisyteacher.data.dataset import take_rows
from noisyteacher.data.input_format import InputFormat, fit_format
from noisyteacher.data.tensors import FeatureMatrix, gather_rows
from noisyteacher.io.ids import are_among
from noisyteacher.labels import TeacherLabels
from noisyteacher.methods import EXTRAS, GoldOnly, Method, Rows, check_store, fit_and_prepare
from noisyteacher.pipeline.candidates import choose_candidates
from noisyteacher.pipeline.defaults import LEAST_STEPS, student_for
from noisyteacher.pipeline.distilled import Distilled, TrainingRecord, Unfinished
from noisyteacher.pipeline.generations import next_labels
from noisyteacher.pipeline.linear_run import linear_state
from noisyteacher.pipeline.preparation import Run, audit_teacher, claim_folder, fit_noise
from noisyteacher.pipeline.student import Student
from noisyteacher.train import Job, Problem, TrainConfig, TrainData, Trained, check_model, train
from noisyteacher.train.pool_shards import PoolTensors, is_streamable
from noisyteacher.train.predict import predict_logits

_NO_ROWS = np.empty(0, np.int64)


def run_networks(run: Run) -> Distilled | Unfinished:
    """Train all candidates without the held-out rows, choose, and refit the chosen one."""
    task, settings, began = run.task, run.settings, time.monotonic()
    fit = _NetworkFit(run)
    check_model(run.spec, fit.data, settings.methods, run.device)
    folds = settings.folds or 1
    judged = repr(run.config) + (f", {folds} folds" if folds > 1 else "")
    claim_folder(run, judged if settings.metric == "accuracy" else f"{judged}, {settings.metric}")
    run.say(f"Student: {run.spec!r}, {run.config.epochs} epochs.")
    recommended = audit_teacher(run).recommendation.method
    run.say(f"The audit recommends {recommended!r}.")
    candidates, anchor = choose_candidates(
        task.kind,
        len(task.classes),
        recommended,
        methods=settings.methods,
        compare=settings.compare,
        quick=settings.quick,
    )
    if task.rest is not None:
        # Those the user names were refused before.
        candidates = [c for c in candidates if c.method is None or is_streamable(c.method)]
    trained = [c.method for c in candidates if c.method is not None]
    for method in trained:
        # Now, and not after the candidates before it have trained for an hour.
        check_store(method, task.labels)
        if settings.generations > 1 and method.needs & EXTRAS:
            raise InputError(
                f"{method!r} needs more than the labels of a second generation provide; leave it "
                "out, or use one generation."
            )
    run.say(
        f"{len(trained) * len(fit.held_out)} students are trained for {run.config.epochs} epochs "
        f"each and compared on {len(fit.judged)} held-out gold rows"
        + (f"; the chosen one is then trained again on {fit.refits_on}." if fit.refits_on else ".")
    )
    if not fit.train(candidates, task.labels):
        return Unfinished(fit.finished)
    labels = task.labels
    for generation in range(2, settings.generations + 1):
        best = fit.best_taught(anchor)
        if best is None:
            break
        renewed = fit.next_labels(best, labels, generation)
        if renewed is None or not fit.train([Candidate(best, generation=generation)], renewed):
            return Unfinished(fit.finished)
        labels = renewed
    choice = choose_network(fit.candidates, fit.evidence(anchor))
    chosen = fit.candidates[choice.parts[0].candidate]
    student = fit.refit(chosen)
    if student is None:
        return Unfinished(fit.finished)
    methods = [c.method for c in (chosen, *fit.candidates) if c.method is not None]
    return Distilled(
        task=task,
        choice=choice,
        student=student,
        blend=False,
        judged=fit.judged,
        records={c.name: fit.record(c) for c in fit.candidates},
        noise=fit_noise(methods, task.labels, task.ids[task.measures], task.y[task.measures]),
        tested=fit.tested(student),
        seconds=time.monotonic() - began,
        folder=run.path,
    )


class _NetworkFit:
    """The candidates of one run: their training, and what they say of held-out rows."""

    def __init__(self, run: Run) -> None:
        self.run, self.task = run, run.task
        self.rows = run.decision_rows(np.empty((len(run.task.ids), 0), np.float32))
        self.refits = self.rows.trains_judges
        whole = "" if self.task.rest is None else "the whole pool"
        gold = "all gold rows" if self.refits else ""
        self.refits_on = f"{gold} and {whole}" if gold and whole else gold or whole
        judging, numbers = self.task.judges, self._fold_numbers()
        self.held_out = [judging[numbers == fold] for fold in range(numbers.max() + 1)]
        self.judged = judging[numbers >= 0]
        self.candidates: list[Candidate] = []  # those that are not out
        self.trained: dict[Candidate, list[Trained]] = {}  # a student for each held-out part
        self.floors: list[Student] = []
        self.finished: tuple[str, ...] = ()

    def _fold_numbers(self) -> np.ndarray:
        """(j,) the part in which each judging row is held out, -1 for never."""
        judging, settings = self.task.judges, self.run.settings
        if not self.rows.trains_judges:
            return np.zeros(len(judging), np.int64)
        assert self.rows.groups is not None
        y, groups = self.task.y[judging], self.rows.groups[judging]
        if settings.folds is None or settings.folds == 1:
            return hold_out(y, groups=groups, seed=settings.seed)
        return make_folds(y, settings.folds, groups=groups, seed=settings.seed)

    @cached_property
    def data(self) -> TrainData:
        run, test = self.run, self.task.test
        return TrainData(
            run.tensors,
            run.inputs.views(),
            len(self.task.classes),
            None if test is None else run.inputs.tensors(test.inputs),
            None if test is None else test.y,
        )

    # -- training -----------------------------------------------------------------------------

    def train(self, candidates: Sequence[Candidate], labels: TeacherLabels) -> bool:
        """Train the candidates for every held-out part; False where time ran out."""
        jobs = {
            (candidate, part): self._job(candidate, candidate.method, held_out, labels, part)
            for candidate in candidates
            for part, held_out in enumerate(self.held_out)
            if candidate.method is not None
        }
        # Those of equal cost per step are neighbors, and so share a GPU.
        order = sorted(jobs, key=lambda key: len(jobs[key].method.views))
        done = dict(zip(order, self._train([jobs[key] for key in order]), strict=True))
        ready = [key for key, one in done.items() if one.finished or one.history.failed]
        self.finished += tuple(candidate.name for candidate, _ in ready)
        if len(ready) < len(done):
            return False
        for candidate in candidates:
            found = [one for (c, _), one in done.items() if c == candidate]
            failed = [one.history.failed for one in found if one.history.failed]
            if failed:
                warn(f"{candidate.name} is not used: {failed[0]}.")
                continue
            if candidate.method is None:
                self.floors = [self._floor(held_out) for held_out in self.held_out]
            self.trained[candidate] = found
            self.candidates.append(candidate)
        if all(c.uses_teacher for c in self.candidates):
            raise InputError(
                "No student could be trained on the gold labels alone, so there is nothing to "
                "compare with; pass training= with a smaller learning rate."
            )
        return True

    def _train(
        self, jobs: Sequence[Job], data: TrainData | None = None, config: TrainConfig | None = None
    ) -> list[Trained]:
        run = self.run
        return train(jobs, data or self.data, config or run.config, **run.train_options)

    def _job(
        self,
        candidate: Candidate,
        method: Method,
        held_out: np.ndarray,
        labels: TeacherLabels,
        part: int | None = None,
    ) -> Job:
        """A student that sees nothing of the held-out rows; ``part`` None is the refit."""
        rows, positions = self._training_rows(held_out, self.rows.pool)
        prepared = fit_and_prepare(method, rows, labels if candidate.uses_teacher else None)
        if isinstance(method, GoldOnly):
            # As many steps as suit its rows, not the pool's.
            columns, least = prepared.columns, LEAST_STEPS[self.task.kind]
            own = max(len(columns), least * self.run.config.batch_size)
            own = min(own, columns.rows_per_epoch)
            prepared = replace(prepared, columns=replace(columns, rows_per_epoch=own))
        ending, told = "", ""
        if part is None:
            ending, told = "_refit", ", on all gold rows"
        elif len(self.held_out) > 1:
            ending, told = f"_fold{part + 1}", f", fold {part + 1}"
        return Job(
            name=slug(candidate.name) + ending,
            title=candidate.name + told,
            model=self.run.spec,
            method=method,
            prepared=prepared,
            positions=positions,
            val_positions=np.flatnonzero(are_among(self.task.ids, rows.val_ids)),
            selection=held_out,
            selection_y=self.task.y[held_out],
            seed=self.run.settings.seed,
        )

    def _training_rows(self, held_out: np.ndarray, pool: np.ndarray) -> tuple[Rows, np.ndarray]:
        """The rows of a student that may not see those at ``held_out``, and their positions."""
        unseen = np.zeros(len(self.task.ids), bool)
        unseen[held_out] = True
        return self.rows.training_rows(unseen, pool)

    def refit(self, chosen: Candidate) -> Student | None:
        """The chosen student trained on all gold rows; None where time ran out."""
        if chosen.method is None:
            return self._floor(_NO_ROWS) if self.refits else self.floors[0]
        done = self.trained[chosen][0]
        # Gold rows alone are the same ones, however large the pool.
        pooled = self.task.rest is not None and not isinstance(chosen.method, GoldOnly)
        if self.refits or pooled:
            job = self._job(chosen, chosen.method, _NO_ROWS, self.task.labels)
            again = self._train_on_whole_pool(job) if pooled else self._train([job])[0]
            if again.history.failed:
                warn(
                    f"The refit of {chosen.name} failed: {again.history.failed}. The "
                    "student that was trained without the held-out rows is returned instead."
                )
            elif not again.finished:
                return None
            else:
                done = again
        return Student(self.run.spec, done.state, self.task.classes, self.run.inputs)

    def _train_on_whole_pool(self, job: Job) -> Trained:
        """The same student, not only of the part of the pool in memory."""
        task, rest = self.task, self.task.rest
        assert isinstance(rest, PoolTensors)
        rows, gold = self._training_rows(_NO_ROWS, _NO_ROWS)
        columns = rest.prepare(job.method, rows, task.labels)
        whole = replace(
            job,
            title=f"{job.method!r}, on {self.refits_on}",
            prepared=replace(job.prepared, columns=columns),
            positions=np.concatenate([gold, rest.first + np.arange(rest.rows)]),
        )
        config = self.run.config_for(len(whole.positions))
        return self._train([whole], replace(self.data, inputs=rest.inputs()), config)[0]

    @cached_property
    def _floor_inputs(self) -> tuple[InputFormat, FeatureMatrix]:
        """How logistic regression reads the inputs, and the gold rows as it does.

        Text students that are encoders bring no bags of words, so it makes its own.
        """
        task, inputs, tensors = self.task, self.run.inputs, self.run.tensors
        if task.kind == "text" and not isinstance(inputs.featurizer, Tfidf):
            inputs, tensors = fit_format("text", task.inputs, Tfidf())
        known = torch.from_numpy(np.flatnonzero(task.y >= 0))
        return inputs, inputs.matrix(gather_rows(tensors, known))

    def _floor(self, held_out: np.ndarray) -> Student:
        """Logistic regression on the gold rows that a network would train on."""
        task, (inputs, features) = self.task, self._floor_inputs
        rows, seen = self._training_rows(held_out, _NO_ROWS)
        assert self.rows.groups is not None
        every = np.ones(len(seen), bool)
        gold = DecisionRows(
            features[np.isin(np.flatnonzero(task.y >= 0), seen)],
            rows.ids,
            rows.y,
            judges=every,
            measures=every,
            labels=None,
            classes=rows.classes,
            groups=self.rows.groups[seen],
        )
        spec = student_for("linear", inputs, rows.classes)
        state = linear_state(spec, fit_gold_only(gold, seed=self.run.settings.seed))
        return Student(spec, state, task.classes, inputs)

    # -- judging ------------------------------------------------------------------------------

    def evidence(self, anchor: Candidate | None) -> AnchoredEvidence:
        """What all candidates say of the held-out rows, and the rule applied to it."""
        settings = self.run.settings
        return AnchoredEvidence(
            self.task.y[self.judged],
            [self._held_out_logits(candidate) for candidate in self.candidates],
            [candidate.name for candidate in self.candidates],
            self.candidates.index(anchor) if anchor in self.candidates else None,
            self.rows.teacher_probs(self.judged),
            settings.metric,
            settings.seed,
        )

    def _held_out_logits(self, candidate: Candidate) -> np.ndarray:
        """(j, L) on the judged rows, each by the student that did not see it."""
        found = np.empty((len(self.judged), len(self.task.classes)), np.float32)
        for part, rows in enumerate(self.held_out):
            if candidate.method is None:
                logits = self.floors[part].logits(take_rows(self.task.inputs, rows))
            else:
                logits = predict_logits(
                    self.trained[candidate][part].network(),
                    gather_rows(self.run.tensors, torch.from_numpy(rows)),
                    self.data.views,
                    device=self.run.device,
                )
            found[np.isin(self.judged, rows)] = logits
        return found

    def best_taught(self, anchor: Candidate | None) -> Method | None:
        """The method that the rule chooses among those of the teacher's own labels."""
        taught = [i for i, c in enumerate(self.candidates) if c.uses_teacher and c.generation == 1]
        if not taught:
            return None
        (part,) = self.evidence(anchor).blend(taught)
        return self.candidates[part.candidate].method

    def next_labels(
        self, method: Method, labels: TeacherLabels, generation: int
    ) -> TeacherLabels | None:
        """The pool labeled anew by students of a method; None where time ran out."""
        run, task = self.run, self.task
        if run.minutes_left == 0:
            return None
        run.say(f"Generation {generation}: students of {method!r} label the pool again.")
        return next_labels(
            Problem(self.data, task.ids, task.y, task.split, run.spec),
            method,
            labels,
            run.config,
            seed=run.settings.seed + generation,
            name=f"teacher-of-generation-{generation}-{slug(repr(method))}",
            **run.train_options,
        )

    # -- what is told -------------------------------------------------------------------------

    def record(self, candidate: Candidate) -> TrainingRecord:
        done = self.trained[candidate]
        if not done:
            return TrainingRecord(0.0)
        return TrainingRecord(
            seconds=round(sum(one.history.seconds for one in done), 3),
            epochs=self.run.config.epochs,
            gold_repeat=self.run.config.gold_repeat,
            generation=candidate.generation,
            curve=[asdict(record) for record in done[0].history.curve],
            images_per_second=round(done[0].examples_per_second, 1),
            macro_f1=done[0].history.macro_f1,
        )

    def tested(self, returned: Student) -> dict[str, float]:
        """Mean test accuracies of the candidates' students, and that of the returned one."""
        task, test = self.task, self.task.test
        if test is None:
            return {}
        floors = [task.test_accuracy(student.logits(test.inputs)) for student in self.floors]
        found = {"": task.test_accuracy(returned.logits(test.inputs))}
        for candidate, students in self.trained.items():
            scores: list[Any] = [one.history.curve[-1].test for one in students]
            found[candidate.name] = float(np.mean(scores or floors))
        return found
