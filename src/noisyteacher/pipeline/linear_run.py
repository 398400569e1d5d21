"""Distillation into a linear student: every gold row measures the teacher, trains and judges.

The candidates are solved and cross-fitted (``choose``), blended into one linear student, and
refitted on all gold rows. Nothing is split off the gold set.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from scipy.special import softmax
from torch import Tensor

from noisyteacher.choose.decision import Estimate
from noisyteacher.choose.evidence import DecisionRows, solve_candidates
from noisyteacher.choose.floor import feature_matrix
from noisyteacher.choose.folds import input_groups
from noisyteacher.choose.linear_choice import (
    DEFAULT_METHODS,
    LinearChoice,
    choose_linear,
    linear_candidates,
)
from noisyteacher.choose.verdict import percent, shares_note, verdict
from noisyteacher.core.machine import versions
from noisyteacher.core.progress import ProgressDisplay
from noisyteacher.data.dataset import take_rows
from noisyteacher.data.input_format import InputFormat
from noisyteacher.methods import (
    EXTRAS,
    PRETRAINED,
    Calibrated,
    GoldOnly,
    Method,
    SLaM,
    TaylorCE,
    Vanilla,
)
from noisyteacher.models import BagLinear, ModelSpec
from noisyteacher.noise import TeacherNoise
from noisyteacher.pipeline.student import Student
from noisyteacher.pipeline.task import Task
from noisyteacher.runs import Row
from noisyteacher.runs.comparison import (
    Comparison,
    Predictions,
    count_confusions,
    find_examples,
    sample_rows,
)
from noisyteacher.train import Inputs
from noisyteacher.train.solver import LinearFit, is_solvable

OUT_OF_FOLD = "out_of_fold.parquet"
_ABSTENTION = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99)  # thresholds whose effect is told


class OutOfTime(Exception):
    """Raised between two solves once the minutes are over."""


def can_be_solved(method: Method) -> bool:
    """Whether a linear student of this method needs no training steps and no extras."""
    return is_solvable(method) and not method.needs & {*EXTRAS, PRETRAINED}


def methods_to_try(
    methods: tuple[Method, ...], *, compare: bool, quick: bool
) -> tuple[Method, ...]:
    """Gold only and the ways to use the teacher; ``methods`` the user names replace the latter."""
    if methods:
        return (GoldOnly(), *(method for method in methods if method != GoldOnly()))
    if quick:
        return (GoldOnly(), SLaM())
    if compare:
        more = (Vanilla(), Calibrated(), Calibrated(TaylorCE(2)), SLaM(hard=True, per_class=True))
        return (*DEFAULT_METHODS, *more)
    return DEFAULT_METHODS


@dataclass(frozen=True, eq=False)
class CrossFitted:
    """A finished cross-fitted distillation: its student, and what is known about it."""

    task: Task
    choice: LinearChoice
    student: Student
    noise: TeacherNoise | None
    tested: dict[str, float]  # accuracy in percent on the test set, by line; "" is the student
    seconds: float
    folder: Path | None
    finished: bool = True

    @property
    def measured_on(self) -> np.ndarray:
        """Positions of the gold rows that measure the teacher."""
        return self.task.measures

    def verdict(self) -> str:
        """Accuracies on held-out gold rows, and whether the teacher was worth it."""
        found = self.choice
        alone = sum(line.weight for line in found.lines if not line.uses_teacher)
        told = verdict(
            found.score,
            found.gold_only,
            found.teacher,
            found.gain,
            found.rows,
            metric=found.metric,
            gold_weight=alone,
        )
        note = self._shares_note()
        return told if note is None else f"{told} {note}"

    def _shares_note(self) -> str | None:
        task = self.task
        pool = task.split.pool[:5_000]
        if not len(pool):
            return None
        said = self.student.logits(take_rows(task.inputs, pool)).argmax(1)
        judged = task.y[task.judges]
        return shares_note(judged, said, task.classes)

    def lines(self) -> list[dict[str, Any]]:
        """One entry per candidate, and the returned student, for tables and machines."""
        found, what = self.choice, self.choice.metric

        def line(name: str, score: Estimate, uses_teacher: bool, weight: float | None) -> Any:
            return {
                "candidate": name,
                "uses_teacher": uses_teacher,
                what: round(100 * score.value, 2),
                "interval": [round(100 * score.low, 2), round(100 * score.high, 2)],
                "weight": None if weight is None else round(weight, 4),
                "accuracy_on_test": self.tested.get("" if weight is None else name),
            }

        lines = [line(repr(c.method), c.score, c.uses_teacher, c.weight) for c in found.lines]
        return [*lines, line("the returned blend", found.score, True, None)]

    def about(self, hardware: str) -> dict[str, Any]:
        """The account for the student's config, card and page."""
        labels, teacher = self.task.labels, self.choice.teacher
        return {
            "kept": "a blend of linear students",
            "verdict": self.verdict(),
            "sizes": self.task.sizes,
            "teacher": {
                "name": labels.teacher,
                "revision": labels.revision,
                "accuracy_on_gold": None if teacher is None else round(100 * teacher.value, 2),
            },
            "metric": self.choice.metric,
            "candidates": self.lines(),
            "table": self.table(),
            "abstention": self.abstention(),
            "seconds": round(self.seconds, 1),
            "hardware": hardware,
            "versions": versions(),
            "finished_at": datetime.now(UTC).isoformat(timespec="seconds"),
        }

    def abstention(self) -> list[dict[str, float]]:
        """What leaving out predictions below a probability would do, on held-out gold rows."""
        probs = softmax(self.choice.out_of_fold, axis=1)
        y = np.tile(self.task.y[self.task.judges], len(probs) // self.choice.rows)
        sure, right = probs.max(1), probs.argmax(1) == y
        return [
            {
                "below": threshold,
                "left_out": round(100 * float(np.mean(sure < threshold)), 1),
                "accuracy": round(100 * float(np.mean(right[sure >= threshold])), 1),
            }
            for threshold in _ABSTENTION
            if (sure >= threshold).any()
        ]

    def comparison(self) -> Comparison:
        """Teacher and student side by side, as the run's page shows them."""
        task, judging = self.task, self.task.judges
        pool = sample_rows(task.split.pool)
        ids, inputs = task.ids[pool], take_rows(task.inputs, pool)
        disagreements, examples = find_examples(
            ids,
            inputs,
            Predictions.of(task.labels.take(ids).probs),
            Predictions.of(self.student.predict_proba(inputs)),
            task.classes,
        )
        known = judging[task.labels.has(task.ids[judging])]
        said = self.choice.out_of_fold[: len(judging)].argmax(1)
        return Comparison(
            student="the returned blend",
            classes=list(task.classes),
            rows_of="the pool",
            rows=len(pool),
            disagreements=disagreements,
            confusions=[
                count_confusions(
                    "teacher",
                    "the gold rows",
                    task.y[known],
                    task.labels.take(task.ids[known]).hard,
                ),
                count_confusions("student", "the gold rows, held out", task.y[judging], said),
            ],
            examples=examples,
        )

    def table(self) -> dict[str, Any]:
        """The teacher, all candidates and the returned student, for console, card and page."""
        found = self.choice
        rows = [
            [
                one["candidate"],
                f"{one[found.metric]:.1f}",
                f"{one['interval'][0]:.1f} to {one['interval'][1]:.1f}",
                "" if one["weight"] is None else percent(one["weight"]),
                "" if one["accuracy_on_test"] is None else f"{one['accuracy_on_test']:.2f}",
            ]
            for one in self.lines()
        ]
        if found.teacher is not None:
            value, low, high = (100 * v for v in vars(found.teacher).values())
            rows.insert(0, ["the teacher", f"{value:.1f}", f"{low:.1f} to {high:.1f}", "", ""])
        return {
            "title": f"{found.rows} gold rows, each predicted by students not trained on it",
            "header": ["student", f"{found.metric}, %", "95 % interval", "weight", "test, %"],
            "rows": rows,
        }


def run_linear(
    task: Task,
    spec: ModelSpec,
    inputs: InputFormat,
    tensors: Inputs,
    methods: tuple[Method, ...],
    folder: Path | None,
    *,
    folds: int,
    metric: str,
    seed: int,
    minutes: float | None,
    say: Callable[[str], None],
    quiet: bool,
) -> CrossFitted:
    """Cross-fit the methods' linear students, blend them, refit, and say what is known."""
    began = time.monotonic()
    rows = decision_rows(task, inputs, tensors)
    candidates = linear_candidates(methods)
    solves = (folds + 1) * len(candidates)
    say(f"{len(candidates)} candidates, {folds} folds, {rows.judges.sum()} gold rows that judge.")
    with ProgressDisplay(quiet=quiet) as display:
        done = 0

        def progress(name: str, fold: int) -> None:
            nonlocal done
            if minutes is not None and time.monotonic() - began >= 60 * minutes:
                raise OutOfTime
            where = "refit" if fold < 0 else f"fold {fold + 1}"
            display.update("Cross-fitting", min(done, solves), solves, numbers=f"{where}: {name}")
            done += 1

        choice = choose_linear(
            rows, candidates, folds=folds, metric=metric, seed=seed, progress=progress
        )
        display.update("Cross-fitting", solves, solves)
    student = Student(spec, linear_state(spec, choice.student), task.classes, inputs)
    made = CrossFitted(
        task,
        choice,
        student,
        _noise(task, methods),
        _tested(task, rows, choice, student, inputs),
        time.monotonic() - began,
        folder,
    )
    if folder is not None:
        _save_out_of_fold(made, folder)
    return made


def cross_fit_rows(done: CrossFitted, seed: int, hardware: str) -> list[Row]:
    """A results row per candidate; held-out gold rows take the place of S."""
    task, found = done.task, done.choice
    return [
        Row(
            recipe="distill",
            dataset=task.name,
            distillation=None
            if not line.uses_teacher
            else ("hard" if getattr(line.method, "hard", False) else "soft"),
            labeled=len(task.split.gold),
            method=repr(line.method),
            gold_repeat=1,
            generation=1,
            trial=0,
            epochs=0,
            accuracy={
                "last": done.tested.get(repr(line.method)),
                "selected": None,
                "best_test": None,
                "out_of_fold": round(100 * line.score.value, 3),
            },
            macro_f1=None,
            teacher_accuracy=task.teacher_accuracy,
            curve=[],
            seconds=round(done.seconds / len(found.lines), 3),
            images_per_second=0.0,
            seeds={"recipe": seed, "trial": 0, "student": seed},
            hardware=hardware,
        )
        for line in found.lines
    ]


def decision_rows(task: Task, inputs: InputFormat, tensors: Inputs) -> DecisionRows:
    """The task's rows, with their roles in the decision."""
    n = len(task.ids)
    judges, measures = np.zeros(n, bool), np.zeros(n, bool)
    judges[task.judges] = True
    measures[task.measures] = True
    shown = inputs.views().plain(tensors)
    groups = input_groups(task.inputs)
    return DecisionRows(
        feature_matrix(shown, inputs.features),
        task.ids,
        task.y,
        judges,
        measures,
        task.labels,
        len(task.classes),
        trains_judges=len(task.split.selection) == 0,
        groups=groups,
    )


def linear_state(spec: ModelSpec, fit: LinearFit) -> dict[str, Tensor]:
    """A linear student's weights as its network has them."""
    weight = torch.from_numpy(fit.weight.astype(np.float32))
    bias = torch.from_numpy(fit.bias.astype(np.float32))
    if isinstance(spec, BagLinear):
        return {"bag.weight": weight.T.contiguous(), "bias": bias}
    return {"fc.weight": weight, "fc.bias": bias}


def _noise(task: Task, methods: tuple[Method, ...]) -> TeacherNoise | None:
    """The first noise model that a method asks for, fitted on all rows that measure."""
    for method in methods:
        noise = method.noise()
        if noise is not None:
            rows = task.measures
            return noise.fit(task.labels.take(task.ids[rows]), task.y[rows])
    return None


def _tested(
    task: Task, rows: DecisionRows, choice: LinearChoice, student: Student, inputs: InputFormat
) -> dict[str, float]:
    """Test accuracy of the student, and of each candidate's own blend where there is a test set."""
    test = task.test
    if test is None:
        return {}
    shown = inputs.views().plain(inputs.tensors(test.inputs))
    x = feature_matrix(shown, inputs.features)

    def right(logits: np.ndarray) -> float:
        return round(100 * float(np.mean(logits.argmax(1) == test.y)), 2)

    found = {"": right(student.logits(test.inputs))}
    fits = solve_candidates(rows, choice.candidates)
    for i, (candidate, by_setting) in enumerate(zip(choice.candidates, fits, strict=True)):
        own = choice.own_parts[i]
        blended = sum(part.factor * by_setting[part.setting].logits(x) for part in own)
        found[repr(candidate.method)] = right(np.asarray(blended))
    return found


def _save_out_of_fold(made: CrossFitted, folder: Path) -> None:
    """Every judging row with the class and probability that students without it predict."""
    task, choice = made.task, made.choice
    judging = task.judges
    probs = softmax(choice.out_of_fold, axis=1).reshape(-1, choice.rows, len(task.classes)).mean(0)
    names = np.array(task.classes)
    table = pa.table(
        {
            "id": [str(key) for key in task.ids[judging].tolist()],
            "label": names[task.y[judging]].tolist(),
            "predicted": names[probs.argmax(1)].tolist(),
            "probability": probs.max(1).astype(np.float32),
        }
    )
    folder.mkdir(parents=True, exist_ok=True)
    temporary = folder / f".{OUT_OF_FOLD}.tmp"
    pq.write_table(table, temporary)
    temporary.replace(folder / OUT_OF_FOLD)
