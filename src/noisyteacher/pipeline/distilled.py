"""What came out of a distillation: the student, the verdict, its table, its rows and its files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import softmax

from noisyteacher.choose.choice import FLOOR, Choice
from noisyteacher.choose.decision import Interval
from noisyteacher.choose.linear_choice import LinearChoice
from noisyteacher.choose.verdict import headline, in_percent, key_figures, percent, verdict
from noisyteacher.core.machine import versions
from noisyteacher.core.reprs import notebook_html
from noisyteacher.data.dataset import take_rows
from noisyteacher.noise import TeacherNoise
from noisyteacher.pipeline.predict import write_columns
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

OUT_OF_FOLD = "out_of_fold.parquet"
_ABSTENTION = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99)  # thresholds whose effect is told
_NEARLY_ALL = 0.99
_MOST_PREDICTED = 5_000  # pool rows on which the student's class shares are looked at


def _encoder_or_words(encoder: float) -> str:
    if encoder > _NEARLY_ALL:
        return "Students on embeddings have all of the weight; TF-IDF features add nothing."
    if encoder < 1 - _NEARLY_ALL:
        return (
            "Students on TF-IDF features have all of the weight: --student linear, without the "
            "encoder, would give nearly the same student."
        )
    return (
        f"Students on embeddings have {encoder:.0%} of the weight, and students on TF-IDF "
        "features have the rest."
    )


@dataclass(frozen=True)
class Unfinished:
    """Time ran out before the run had finished; the same call continues it in the same folder."""

    trained: tuple[str, ...]  # names of the students that are finished


@dataclass(frozen=True)
class TrainingRecord:
    """How a candidate was trained, as its results row says it; solved students have no epochs."""

    seconds: float
    epochs: int = 0
    gold_repeat: int = 1
    generation: int = 1
    curve: list[dict[str, Any]] = field(default_factory=list)  # of the first held-out part
    images_per_second: float = 0.0
    macro_f1: float | None = None


@dataclass(frozen=True, eq=False)
class Distilled:
    """A finished distillation: its student, and its results.

    Linear students are averaged in a ``blend``; of networks, one is chosen. ``tested`` has
    accuracies in percent on the test set by the candidate's name, and that of the returned student
    under "".
    """

    task: Task
    choice: Choice
    student: Student
    blend: bool
    judged: np.ndarray  # positions of the rows on which the candidates were compared
    records: Mapping[str, TrainingRecord]  # by the candidate's name
    noise: TeacherNoise | None
    tested: Mapping[str, float]
    seconds: float
    folder: Path | None = None

    def __repr__(self) -> str:
        return f"Distilled({self.task.name!r}, {self.student!r}, folder={str(self.folder)!r})"

    def _repr_html_(self) -> str:
        table = self.table()
        return notebook_html(repr(self), self.verdict(), header=table["header"], rows=table["rows"])

    @property
    def kept(self) -> str:
        """A description of the returned student."""
        if self.blend:
            return "a blend of linear students"
        return next(line.name for line in self.choice.lines if line.weight)

    @property
    def measured_on(self) -> np.ndarray:
        """Positions of the gold rows on which the teacher is measured."""
        return self.task.measures

    def verdict(self) -> str:
        """Accuracies on held-out gold rows, and whether the teacher's labels helped."""
        task, found, more = self.task, self.choice, []
        if not self.blend:
            seen = "without the selection set" if self._has_selection else "on all gold rows"
            more.append(f"The returned student is {self.kept}, trained {seen}.")
        if isinstance(found, LinearChoice):
            if found.gold_weight < 1 and found.compared_on < found.pool_rows:
                more.append(
                    f"Students were compared after training on {found.compared_on:,} of the "
                    f"{found.pool_rows:,} pool rows; the returned one is trained on all of them, "
                    "and may be more accurate than stated."
                )
            if found.encoder_weight is not None:
                more.append(_encoder_or_words(found.encoder_weight))
        pool = take_rows(task.inputs, task.split.pool[:_MOST_PREDICTED])
        said = self.student.logits(pool).argmax(1)
        return verdict(self.choice, said, task.classes, blended=self.blend, more=more)

    @property
    def _has_selection(self) -> bool:
        return len(self.task.split.selection) > 0

    def lines(self) -> list[dict[str, Any]]:
        """One entry for each candidate and for the returned student, as in ``--json``."""
        found, what = self.choice, self.choice.metric

        def line(name: str, score: Interval, uses_teacher: bool, weight: float | None) -> Any:
            value, *interval = in_percent(score)
            return {
                "candidate": name,
                "uses_teacher": uses_teacher,
                what: value,
                "interval": interval,
                "weight": None if weight is None else round(weight, 4),
                "accuracy_on_test": self.tested.get("" if weight is None else name),
            }

        taught = any(one.weight and one.uses_teacher for one in found.lines)
        returned = "the returned blend" if self.blend else "the returned student"
        lines = [line(c.name, c.score, c.uses_teacher, c.weight) for c in found.lines]
        return [*lines, line(returned, found.score, taught, None)]

    def about(self, hardware: str) -> dict[str, Any]:
        """Everything that the student's config, card and page state about the run."""
        labels, found = self.task.labels, self.choice
        return {
            "kept": self.kept,
            "headline": headline(found.gain, found.rows),
            "figures": key_figures(found.score, found.gold_only, found.teacher, found.gain),
            "verdict": self.verdict(),
            "sizes": self.task.sizes,
            "teacher": {
                "name": labels.teacher,
                "revision": labels.revision,
                "accuracy_on_gold": round(self.task.teacher_accuracy, 2),
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

    def table(self) -> dict[str, Any]:
        """A table of the teacher, all candidates and the returned student."""
        found = self.choice
        rows = [
            [
                one["candidate"],
                f"{one[found.metric]:.1f}",
                f"{one['interval'][0]:.1f} to {one['interval'][1]:.1f}",
                self._share(one["weight"]),
                "" if one["accuracy_on_test"] is None else f"{one['accuracy_on_test']:.1f}",
            ]
            for one in self.lines()
        ]
        if found.teacher is not None:
            value, low, high = (100 * v for v in vars(found.teacher).values())
            rows.insert(0, ["the teacher", f"{value:.1f}", f"{low:.1f} to {high:.1f}", "", ""])
        title = f"Results on {found.rows} held-out gold rows"
        if self.blend:
            title += "; the blend averages the students by weight"
        elif self.tested and not self._has_selection:
            title += "; test accuracies are from before the refit, except the returned student's"
        last = "weight" if self.blend else "kept"
        header = ["student", f"{found.metric}, %", "95% interval", last, "test, %"]
        shown = len(header) if self.tested else len(header) - 1
        return {"title": title, "header": header[:shown], "rows": [row[:shown] for row in rows]}

    def _share(self, weight: float | None) -> str:
        if weight is None:
            return ""
        return percent(weight) if self.blend else "yes" if weight else ""

    def abstention(self) -> list[dict[str, float]]:
        """The effect of leaving out predictions below a probability, on held-out gold rows."""
        probs = softmax(self.choice.out_of_fold, axis=1)
        y = np.tile(self.task.y[self.judged], len(probs) // self.choice.rows)
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

    def comparison(
        self, truth: Mapping[Any, int] | None = None, picture_shape: tuple[int, int] | None = None
    ) -> Comparison:
        """A comparison of teacher and student, as the run's page shows it.

        ``truth`` has the classes of pool ids, where known; rows of a table with a
        ``picture_shape`` are shown as pictures.
        """
        task, judged = self.task, self.judged
        pool = sample_rows(task.split.pool)
        ids, inputs = task.ids[pool], take_rows(task.inputs, pool)
        disagreements, examples = find_examples(
            ids,
            inputs,
            Predictions.of(task.labels.take(ids).probs),
            Predictions.of(self.student.predict_proba(inputs)),
            task.classes,
            None if truth is None else np.array([truth.get(key, -1) for key in ids.tolist()]),
            picture_shape,
        )
        known = judged[task.labels.has(task.ids[judged])]
        by_teacher = task.labels.take(task.ids[known]).hard
        said = self.choice.out_of_fold[: len(judged)].argmax(1)
        once = "in the first round of cross-validation" if self.blend else "held out"
        return Comparison(
            student="the returned blend" if self.blend else self.kept,
            classes=list(task.classes),
            rows_of="the pool",
            rows=len(pool),
            disagreements=disagreements,
            confusions=[
                count_confusions("teacher", "the gold rows", task.y[known], by_teacher),
                count_confusions("student", f"the gold rows, {once}", task.y[judged], said),
            ],
            examples=examples,
        )

    def save_out_of_fold(self, folder: Path) -> None:
        """Write the out-of-fold predictions for the gold rows that students are compared on."""
        task, count = self.task, len(self.task.classes)
        probs = softmax(self.choice.out_of_fold, axis=1)
        probs = probs.reshape(-1, self.choice.rows, count).mean(0)
        names = np.array(task.classes)
        columns = {
            "id": [str(key) for key in task.ids[self.judged].tolist()],
            "label": names[task.y[self.judged]].tolist(),
            "predicted": names[probs.argmax(1)].tolist(),
            "probability": probs.max(1).astype(np.float32),
        }
        write_columns(folder / OUT_OF_FOLD, columns)

    def rows(self, seed: int, hardware: str) -> list[Row]:
        """One results row for each candidate; held-out gold rows are used in place of S."""
        task = self.task
        found = []
        for line in self.choice.lines:
            kind = "hard" if "hard=True" in line.name else "soft"
            found.append(
                Row(
                    recipe="distill",
                    dataset=task.name,
                    distillation=kind if line.uses_teacher else None,
                    labeled=len(task.split.gold),
                    method=FLOOR if line.method is None else repr(line.method),
                    trial=0,
                    accuracy={
                        "last": self.tested.get(line.name),
                        "selected": None,
                        "best_test": None,
                        "out_of_fold": round(100 * line.score.value, 3),
                    },
                    teacher_accuracy=task.teacher_accuracy,
                    **vars(self.records[line.name]),
                    seeds={"recipe": seed, "trial": 0, "student": seed},
                    hardware=hardware,
                )
            )
        return found
