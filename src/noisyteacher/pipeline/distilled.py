"""What came out of a distillation: the best student on S, the verdict and its page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from noisyteacher.core.errors import InputError
from noisyteacher.core.machine import versions
from noisyteacher.data.dataset import take_rows
from noisyteacher.noise import TeacherNoise
from noisyteacher.pipeline.candidates import Outcome
from noisyteacher.pipeline.student import Student
from noisyteacher.pipeline.task import Task
from noisyteacher.runs.comparison import (
    Comparison,
    Predictions,
    compare,
    count_confusions,
    sample_rows,
)


@dataclass(frozen=True, eq=False)
class Distilled:
    """A run's candidates in the order of training; the first of the best on S is kept."""

    task: Task
    outcomes: Sequence[Outcome]
    finished: bool
    folder: Path | None = field(default=None)

    @property
    def best(self) -> Outcome:
        if not self.outcomes:
            raise InputError("No student has finished yet.")
        return max(self.outcomes, key=lambda outcome: outcome.selection)

    @property
    def best_of_gold(self) -> Outcome:
        """The best student that never saw a teacher label."""
        return max(
            (o for o in self.outcomes if not o.candidate.uses_teacher), key=lambda o: o.selection
        )

    @property
    def student(self) -> Student:
        return self.best.student

    @property
    def noise(self) -> TeacherNoise | None:
        """The noise model of the kept student, else the first there is."""
        known = [o.noise for o in (self.best, *self.outcomes) if o.noise is not None]
        return known[0] if known else None

    @property
    def chance(self) -> float:
        """Points on S within which two students cannot be told apart: two standard errors."""
        rows = len(self.task.split.selection)
        # One more right and one more wrong: a student without a mistake on S is not beyond chance.
        share = (self.best.selection / 100 * rows + 1) / (rows + 2)
        return 200 * float(np.sqrt(share * (1 - share) / rows))

    def verdict(self) -> str:
        """Which student is kept, and why, in two sentences."""
        best, gold = self.best, self.best_of_gold
        taught = [o for o in self.outcomes if o.candidate.uses_teacher]
        rows = len(self.task.split.selection)
        caution = (
            f"S has {rows} examples: differences below {self.chance:.1f} points may be chance."
        )
        if not best.candidate.uses_teacher:
            if not taught:
                return (
                    f"No student of the teacher's labels was trained: {gold.candidate.name} is "
                    f"kept, {gold.selection:.2f} % on S."
                )
            rival = max(o.selection for o in taught)
            found = "made nothing better" if rival == gold.selection else "did not help"
            return (
                f"The teacher's labels {found}: {gold.candidate.name} has "
                f"{gold.selection:.2f} % on S, the best student of the teacher's labels "
                f"{rival:.2f} %. The former is kept. {caution}"
            )
        return (
            f"{best.candidate.name} is kept: {best.selection:.2f} % on S, "
            f"{best.selection - gold.selection:.2f} points above the best student of gold labels "
            f"alone ({gold.candidate.name}, {gold.selection:.2f} %). {caution}"
        )

    def about(self, hardware: str) -> dict[str, Any]:
        """The account for the student's config, card and page."""
        labels = self.task.labels
        return {
            "kept": self.best.candidate.name,
            "verdict": self.verdict(),
            "sizes": self.task.sizes,
            "teacher": {
                "name": labels.teacher,
                "revision": labels.revision,
                "accuracy_on_V": round(self.task.teacher_accuracy, 2),
            },
            "candidates": [self.line(outcome) for outcome in self.outcomes],
            "table": self.table(),
            "hardware": hardware,
            "versions": versions(),
            "finished_at": datetime.now(UTC).isoformat(timespec="seconds"),
        }

    @property
    def measured_on(self) -> np.ndarray:
        """Positions of the rows that measure the teacher: V."""
        return self.task.split.val

    def table(self) -> dict[str, Any]:
        """All candidates, for console, card and page."""
        rows = []
        for outcome in self.outcomes:
            line = self.line(outcome)
            test = line["accuracy_on_test"]
            rows.append(
                [
                    line["candidate"],
                    f"{line['accuracy_on_S']:.2f}",
                    "" if test is None else f"{test:.2f}",
                    f"{line['seconds']:.1f}",
                    "yes" if line["kept"] else "",
                ]
            )
        return {
            "title": "Accuracy after the last epoch; the student that is best on S is kept",
            "header": ["student", "S, %", "test, %", "seconds", "kept"],
            "rows": rows,
        }

    def line(self, outcome: Outcome) -> dict[str, Any]:
        """One candidate for tables and machines."""
        return {
            "candidate": outcome.candidate.name,
            "uses_teacher": outcome.candidate.uses_teacher,
            "accuracy_on_S": round(outcome.selection, 2),
            "accuracy_on_test": None if outcome.test is None else round(outcome.test, 2),
            "seconds": round(outcome.seconds, 1),
            "kept": outcome is self.best,
        }


def compare_with_teacher(done: Distilled) -> Comparison:
    """The kept student beside its teacher, as the run's page shows them.

    Disagreements are looked for in the pool, confusions counted on S, which no student saw; on V
    for a teacher that did not label S.
    """
    task, parts, student = done.task, done.task.split, done.student
    pool = sample_rows(parts.pool)
    ids, inputs = task.ids[pool], take_rows(task.inputs, pool)
    tested = student.logits(take_rows(task.inputs, parts.selection)).argmax(1)
    labeled = bool(task.labels.has(task.ids[parts.selection]).all())
    judged, name = (parts.selection, "S") if labeled else (parts.val, "V")
    by_teacher = task.labels.take(task.ids[judged]).hard
    return compare(
        done.best.candidate.name,
        "the pool",
        ids,
        inputs,
        Predictions.of(task.labels.take(ids).probs),
        Predictions.of(student.predict_proba(inputs)),
        task.classes,
        [
            count_confusions("teacher", name, task.y[judged], by_teacher),
            count_confusions("student", "S", task.y[parts.selection], tested),
        ],
    )
