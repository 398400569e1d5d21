"""What came out of a distillation: the best student on S, the verdict, its card and its page."""

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
    count_confusions,
    find_examples,
    sample_rows,
)

_MOST_STEPS = 12  # of the α curve on a card


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


def compare_with_teacher(done: Distilled) -> Comparison:
    """The kept student beside its teacher, as the run's page shows them.

    Disagreements are looked for in the pool, confusions counted on S, which no student saw; on V
    for a teacher that did not label S.
    """
    task, parts, student = done.task, done.task.split, done.student
    pool = sample_rows(parts.pool)
    ids, inputs = task.ids[pool], take_rows(task.inputs, pool)
    disagreements, examples = find_examples(
        ids,
        inputs,
        Predictions.of(task.labels.take(ids).probs),
        Predictions.of(student.predict_proba(inputs)),
        task.classes,
    )
    tested = student.logits(take_rows(task.inputs, parts.selection)).argmax(1)
    labeled = bool(task.labels.has(task.ids[parts.selection]).all())
    judged, name = (parts.selection, "S") if labeled else (parts.val, "V")
    by_teacher = task.labels.take(task.ids[judged]).hard
    return Comparison(
        student=done.best.candidate.name,
        classes=list(task.classes),
        rows_of="the pool",
        rows=len(pool),
        disagreements=disagreements,
        confusions=[
            count_confusions("teacher", name, task.y[judged], by_teacher),
            count_confusions("student", "S", task.y[parts.selection], tested),
        ],
        examples=examples,
    )


# -- the card --------------------------------------------------------------------------------------


def write_card(done: Distilled) -> str:
    """The card as Markdown."""
    about, student = done.student.about, done.student
    sizes, teacher = about["sizes"], about["teacher"]
    shown = ", ".join(student.classes[:20]) + (", ..." if len(student.classes) > 20 else "")
    lines = [
        f"# A student of {student.inputs.kind}s: {done.task.name}",
        "",
        about["verdict"],
        "",
        f"- Model: `{student.spec!r}`" if len(repr(student.spec)) < 300 else "- Model: config.json",
        f"- Classes ({len(student.classes)}): {shown}",
        f"- Data: {sizes['gold']} gold (A), {sizes['V']} validation (V), {sizes['S']} selection "
        f"(S), {sizes['pool']} pool, {sizes['test']} test examples",
        f"- Teacher: {teacher['name'] or 'unnamed'}"
        + (f", revision {teacher['revision']}" if teacher["revision"] else "")
        + f", right on {teacher['accuracy_on_V']:.2f} % of V",
        "",
        "## Accuracy in percent, after the last epoch",
        "",
        "The student with the best accuracy on S is kept; S was never trained on. Test examples "
        "took no part in any choice.",
        "",
        *_accuracies(done),
        "",
        *_noise_lines(done.noise),
        "## Use",
        "",
        "```python",
        "import noisyteacher as nt",
        "",
        'student = nt.load_student("FOLDER")',
        f"student.predict({_example(student.inputs.kind)})",
        "```",
        "",
        f"Made on {about['hardware']}, {about['finished_at']}, with "
        + ", ".join(f"{name} {version}" for name, version in about["versions"].items())
        + ".",
    ]
    return "\n".join(lines) + "\n"


def _accuracies(done: Distilled) -> list[str]:
    table = ["| student | S | test | seconds | kept |", "|---|---|---|---|---|"]
    for outcome in done.outcomes:
        line = done.line(outcome)
        test = "" if line["accuracy_on_test"] is None else f"{line['accuracy_on_test']:.2f}"
        table.append(
            f"| {line['candidate']} | {line['accuracy_on_S']:.2f} | {test} | "
            f"{line['seconds']:.1f} | {'yes' if line['kept'] else ''} |"
        )
    return table


def _noise_lines(noise: TeacherNoise | None) -> list[str]:
    """The α curve as a table of its steps."""
    if noise is None:
        return []
    curve = noise.alpha_curve_
    # The values hold up to and at their knot; only the last knot of each height is worth a line.
    ends = np.flatnonzero(np.append(np.diff(curve.values_) > 0, True))
    if len(ends) > _MOST_STEPS:
        ends = ends[np.linspace(0, len(ends) - 1, _MOST_STEPS).round().astype(int)]
    table = [f"| {curve.knots_[i]:.3f} | {curve.values_[i]:.3f} |" for i in ends]
    return [
        "## How far the teacher was trusted",
        "",
        f"The chance α that its top class is right, by its {noise.metric}, fitted on "
        f"{noise.n_val_} rows of V, never below {noise.lower_bound}:",
        "",
        f"| {noise.metric} up to | α |",
        "|---|---|",
        *table,
        "",
    ]


def _example(kind: str) -> str:
    examples = {
        "text": '["some text"]',
        "image": '["picture.png"]',
        "table": "rows",
    }
    return examples[kind]
