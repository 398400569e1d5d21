"""The students of a recipe: which there are, their keys, jobs and rows; and how long they take."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from noisyteacher.bench.bench_run import BenchRun, RunOptions, open_run
from noisyteacher.bench.recipe import Arm, Recipe
from noisyteacher.bench.teacher import pretrained_names
from noisyteacher.core.files import slug
from noisyteacher.core.machine import hardware
from noisyteacher.data import Split
from noisyteacher.labels import TeacherLabels
from noisyteacher.methods import SOFT_LABELS, GoldOnly, Method
from noisyteacher.models import ModelSpec
from noisyteacher.runs import Row, named_method
from noisyteacher.train import Job, Problem, TrainConfig, TrainData, Trained, train
from noisyteacher.train.checkpoint import checkpoint_path, read_history

# Looking at an example costs a forward pass; a training step costs about three.
_LOOK = 1 / 3
_LONG_ENOUGH, _MOST_STEPS = 0.5, 1000


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
            seed=recipe.trial_seed(labeled, self.trial),
            val_role=self.arm.val_role,
        )

    def file_name(self, recipe: Recipe, labeled: int) -> str:
        """What its checkpoint and its curve are called."""
        training = recipe.student_training
        parts = [labeled, slug(self.arm.name), slug(repr(self.method)), self.trial]
        parts += [f"{training.epochs}epochs", f"gold{training.gold_repeat}"]
        parts += [f"generation{self.generation}"] if self.generation > 1 else []
        return "_".join(str(part) for part in parts if part != "")

    def row(
        self,
        recipe: Recipe,
        labeled: int,
        trained: Trained,
        teacher_accuracy: float | None,
        device: torch.device,
    ) -> Row:
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
            teacher_accuracy=teacher_accuracy,
            curve=[asdict(record) for record in history.curve],
            seconds=round(history.seconds, 3),
            images_per_second=round(trained.examples_per_second, 1),
            seeds={"recipe": recipe.seed, "trial": self.trial, "student": trained.job.seed},
            hardware=hardware(device),
        )


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


# -- how long it would take ------------------------------------------------------------------------


@dataclass(frozen=True)
class Stage:
    """Students alike in cost. ``steps`` are one student's; ``seconds`` are those of all."""

    labeled: int
    what: str
    students: int
    steps: int
    passes: int
    seconds: float


@dataclass(frozen=True)
class RunPlan:
    """The stages still to run and where the estimate comes from."""

    recipe: str
    stages: tuple[Stage, ...]
    done: int  # students that have a row already
    source: str

    @property
    def seconds(self) -> float:
        return sum(stage.seconds for stage in self.stages)

    def as_json(self) -> dict[str, Any]:
        return {**asdict(self), "seconds": self.seconds}


@dataclass
class _Timer:
    """Training examples per second of a model on this device, timed once each."""

    run: BenchRun
    rates: dict[tuple[ModelSpec, int], float] = field(default_factory=dict)

    def rate(self, model: ModelSpec, data: TrainData, config: TrainConfig, side: int) -> float:
        """Of ``side`` students together, one pass per step."""
        if (model, side) not in self.rates:
            self.rates[model, side] = self._time(model, data, config, side)
        return self.rates[model, side]

    def _time(self, model: ModelSpec, data: TrainData, config: TrainConfig, side: int) -> float:
        rows, none = np.flatnonzero(self.run.dataset.y >= 0)[:4096], np.empty(0, np.int64)
        problem = self.run.problem(Split(rows, none, none, none), model, data)
        unseen = replace(data, test_inputs=None, test_y=None)
        batch = config.batch_size if self.run.device.type == "cuda" else min(config.batch_size, 32)
        jobs = [problem.job(f"timed{i}", GoldOnly(), None, seed=i) for i in range(side)]
        seconds, examples = 0.0, 0
        # A GPU's graphs are costly to capture, so that its first try is longer.
        steps = 32 if self.run.device.type == "cuda" else 2
        # Until it lasts long enough to be read off a clock.
        while seconds < _LONG_ENOUGH and steps < _MOST_STEPS:
            short = replace(config, epochs=1, batch_size=batch, steps_per_epoch=steps)
            done = train(jobs, unseen, short, device=self.run.device, cohort=side, quiet=True)
            seconds = max(student.history.seconds for student in done)
            examples = sum(student.history.examples for student in done)
            steps *= 4
        return examples / max(seconds, 1e-9)


def make_plan(recipe: Recipe, out: str | Path, options: RunOptions) -> RunPlan:
    """Read the data, time a few steps, and count; nothing is written."""
    with open_run(recipe, out, options) as run:
        timer = _Timer(run)
        missing = missing_students(run.recipe, run.rows())
        everyone = [*first_students(run.recipe), *second_students(run.recipe)]
        done = len(everyone) * len(recipe.labeled) - len(missing)
        stages: list[Stage] = []
        for labeled in recipe.labeled:
            todo = [student for size, student in missing if size == labeled]
            if todo:
                stages += [*_gold_stages(run, timer, labeled), *_stages(run, timer, labeled, todo)]
        source = (
            f"a few training steps of each model, timed just now on {hardware(run.device)}; rows "
            "that a method drops and the time to start are not known"
        )
        return RunPlan(recipe.name, tuple(stages), done, source)


def _gold_stages(run: BenchRun, timer: _Timer, labeled: int) -> Iterator[Stage]:
    recipe = run.recipe
    # One teacher with rows of its own serves all sizes.
    first = not recipe.outside or labeled == recipe.labeled[0]
    if run.given_labels is None and first and not run.labels_path(labeled).exists():
        teacher = (recipe.teacher, run.teacher_data, recipe.teacher_training)
        what, rows = ("teacher", recipe.outside) if recipe.outside else ("teacher on A", labeled)
        yield _stage(run, timer, labeled, what, *teacher, count=1, rows=rows)
    names = pretrained_names(recipe, labeled, recipe.trials)
    count = sum(not checkpoint_path(run.folder, name).exists() for name in set(names))
    if recipe.pretraining is not None and recipe.uses_pretraining and count:
        pretrained = (recipe.student, run.data, recipe.pretraining)
        yield _stage(run, timer, labeled, "student on A", *pretrained, count=count, rows=labeled)


def _stages(
    run: BenchRun, timer: _Timer, labeled: int, todo: Sequence[PlannedStudent]
) -> Iterator[Stage]:
    recipe = run.recipe
    whole = len(run.dataset) - recipe.selection
    rows = whole if recipe.pool is None else recipe.pool + labeled
    student = (recipe.student, run.data, recipe.student_training)
    trials = {s.trial for s in todo if s.generation == 2}
    if recipe.second is not None and trials:
        count, passes = recipe.second.students * len(trials), len(recipe.second.first.views)
        what = "students whose labels the second generation learns"
        yield _stage(run, timer, labeled, what, *student, count=count, rows=rows, passes=passes)
    for generation in (1, 2):
        for passes in (1, 2):
            alike = [s for s in todo if (s.generation, len(s.method.views)) == (generation, passes)]
            if alike:
                names = dict.fromkeys(repr(s.method) for s in alike)
                later = ", generation 2" if generation == 2 else ""
                yield _stage(
                    run,
                    timer,
                    labeled,
                    "; ".join(names) + later,
                    *student,
                    count=len(alike),
                    rows=rows,
                    passes=passes,
                )


def _stage(
    run: BenchRun,
    timer: _Timer,
    labeled: int,
    what: str,
    model: ModelSpec,
    data: TrainData,
    config: TrainConfig,
    count: int,
    rows: int,
    passes: int = 1,
) -> Stage:
    per_epoch = config.steps_per_epoch or -(-rows // config.batch_size)
    steps = config.epochs * per_epoch
    looks = -(-config.epochs // config.eval_every) * (
        len(run.dataset.test_y) + run.recipe.selection
    )
    examples = count * (passes * steps * config.batch_size + _LOOK * looks)
    rate = timer.rate(model, data, config, min(count, run.cohort))
    return Stage(labeled, what, count, steps, passes, round(examples / rate, 1))
