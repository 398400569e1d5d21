"""What came out: every candidate's student, which is best on S, and that in plain words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from noisyteacher.core.errors import InputError
from noisyteacher.core.machine import versions
from noisyteacher.noise import TeacherNoise
from noisyteacher.pipeline.candidates import Candidate
from noisyteacher.pipeline.student import Student
from noisyteacher.pipeline.task import Task


@dataclass(frozen=True, eq=False)
class Outcome:
    """One trained candidate; accuracies in percent, after the last epoch."""

    candidate: Candidate
    selection: float  # on S
    test: float | None
    seconds: float
    examples_per_second: float
    student: Student
    noise: TeacherNoise | None = None
    curve: tuple[dict[str, Any], ...] = ()
    macro_f1: float | None = None

    @property
    def test_at_selected(self) -> float | None:
        """Test accuracy at the epoch that is best on S."""
        known = [r for r in self.curve if r["selection"] is not None and r["test"] is not None]
        if not known:
            return self.test
        chosen: float = max(known, key=lambda r: (r["selection"], -r["epoch"]))["test"]
        return chosen


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
        """The story for the student's config and card."""
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
            "hardware": hardware,
            "versions": versions(),
            "finished_at": datetime.now(UTC).isoformat(timespec="seconds"),
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
