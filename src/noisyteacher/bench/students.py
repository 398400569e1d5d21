"""The students of a recipe: which there are, their keys, jobs and rows, and who runs with whom."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
import torch

from noisyteacher.bench.recipe import Arm, Recipe
from noisyteacher.core.files import slug
from noisyteacher.core.machine import hardware
from noisyteacher.labels import TeacherLabels
from noisyteacher.methods import SOFT_LABELS, Method
from noisyteacher.runs import Row, named_method
from noisyteacher.train import Job, Problem, Trained
from noisyteacher.train.checkpoint import checkpoint_path, read_history


@dataclass(frozen=True)
class PlannedStudent:
    """One student to be trained, or already in the results."""

    arm: Arm
    method: Method
    trial: int
    generation: int = 1

    def key(self, recipe: Recipe, labeled: int) -> tuple[object, ...]:
        """The start of its row, up to ``epochs``, as ``Row.key`` has it."""
        training = recipe.student_training
        return (
            self.arm.recipe_name(recipe),
            recipe.dataset,
            distillation(self.method),
            labeled,
            named_method(repr(self.method)),  # as read from a row, also where it is only text
            training.gold_repeat,
            self.generation,
            self.trial,
            training.epochs,
        )

    def job(
        self, recipe: Recipe, labeled: int, problem: Problem, labels: TeacherLabels | None
    ) -> Job:
        """Its method fitted on V and prepared; ``problem.init`` holds the pre-trained weights."""
        starts_pretrained = self.arm.pretrained and recipe.starts_pretrained(self.method)
        return replace(problem, init=problem.init if starts_pretrained else None).job(
            self.file_name(recipe, labeled),
            self.method,
            labels if SOFT_LABELS in self.method.needs else None,
            # The same for all methods of a trial, so that they differ in nothing else.
            seed=trial_seed(recipe, labeled, self.trial),
            val_role=self.arm.val_role,
        )

    def file_name(self, recipe: Recipe, labeled: int) -> str:
        """What its checkpoint and its curve are called."""
        training = recipe.student_training
        parts = [labeled, slug(self.arm.name), slug(repr(self.method)), self.trial]
        parts += [f"{training.epochs}epochs", f"gold{training.gold_repeat}"]
        parts += [f"generation{self.generation}"] if self.generation > 1 else []
        return "_".join(str(part) for part in parts if part != "")

    def row(self, recipe: Recipe, labeled: int, run: RunFacts, trained: Trained) -> Row:
        """The results row of the finished student."""
        history, training = trained.history, recipe.student_training
        return Row(
            recipe=self.arm.recipe_name(recipe),
            dataset=recipe.dataset,
            distillation=distillation(self.method),
            labeled=labeled,
            method=repr(self.method),
            gold_repeat=training.gold_repeat,
            generation=self.generation,
            trial=self.trial,
            epochs=training.epochs,
            accuracy=asdict(trained.accuracy),
            macro_f1=history.macro_f1,
            teacher_accuracy=run.teacher_accuracy,
            curve=[asdict(record) for record in history.curve],
            seconds=round(history.seconds, 3),
            images_per_second=round(trained.examples_per_second, 1),
            seeds={"recipe": recipe.seed, "trial": self.trial, "student": trained.job.seed},
            hardware=hardware(run.device),
        )


@dataclass(frozen=True)
class RunFacts:
    """What a row says about more than its student."""

    teacher_accuracy: float | None
    device: torch.device


def first_students(recipe: Recipe) -> Iterator[PlannedStudent]:
    """Every student of the first generation."""
    for arm in recipe.arms:
        for method in arm.methods or recipe.methods:
            for trial in range(recipe.trials):
                yield PlannedStudent(arm, method, trial)


def second_students(recipe: Recipe) -> Iterator[PlannedStudent]:
    """Every student of the second generation; ablations have one generation only."""
    for method in recipe.second.methods if recipe.second else ():
        for trial in range(recipe.trials):
            yield PlannedStudent(recipe.arms[0], method, trial, generation=2)


def missing_students(recipe: Recipe, rows: Sequence[Row]) -> list[tuple[int, PlannedStudent]]:
    """The students, with their size of A, that have no row yet."""
    have = {row.key for row in rows}
    everyone = [*first_students(recipe), *second_students(recipe)]
    return [
        (size, s) for size in recipe.labeled for s in everyone if s.key(recipe, size) not in have
    ]


def stopped_students(recipe: Recipe, rows: Sequence[Row], folder: Path) -> dict[str, str]:
    """Those that never get a row, by the names of their checkpoints, and what stopped them."""
    stopped = {}
    for labeled, student in missing_students(recipe, rows):
        name = student.file_name(recipe, labeled)
        history = read_history(checkpoint_path(folder, name))
        if history is not None and history.failed is not None:
            stopped[name] = history.failed
    return stopped


def cohorts(students: Sequence[PlannedStudent], size: int) -> Iterator[list[PlannedStudent]]:
    """Groups that train side by side: of equal cost and settings, and of nearly equal size."""

    def kind(student: PlannedStudent) -> tuple[int, float]:
        decay = student.arm.weight_decay
        return len(student.method.views), -1.0 if decay is None else decay

    for wanted in sorted({kind(s) for s in students}):
        alike = [s for s in students if kind(s) == wanted]
        groups = np.array_split(np.arange(len(alike)), -(-len(alike) // size))
        yield from ([alike[i] for i in group] for group in groups)


def distillation(method: Method) -> str | None:
    """ "soft" or "hard" by the innermost method; None where no teacher takes part."""
    if SOFT_LABELS not in method.needs:
        return None
    inner = getattr(method, "inner", None)
    if inner is not None:
        return distillation(inner)
    return "hard" if getattr(method, "hard", False) else "soft"


def trial_seed(recipe: Recipe, labeled: int, trial: int) -> int:
    """The seed of all students of a trial."""
    return int(np.random.SeedSequence([recipe.seed, labeled, trial]).generate_state(1)[0])
