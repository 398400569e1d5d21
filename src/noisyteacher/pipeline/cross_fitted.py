"""What came out of a cross-fitted distillation: the blend, the verdict, its table and its rows."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import softmax

from noisyteacher.choose.decision import Estimate
from noisyteacher.choose.linear_choice import (
    LinearChoice,
)
from noisyteacher.choose.verdict import percent, shares_note, verdict
from noisyteacher.core.machine import versions
from noisyteacher.data.dataset import take_rows
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

_ABSTENTION = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99)  # thresholds whose effect is told


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
