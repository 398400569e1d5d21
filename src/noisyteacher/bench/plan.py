"""The students of a recipe: which there are, their keys, jobs and rows; and how long they take."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import torch

from noisyteacher.bench.bench_run import BenchRun, RunOptions, open_run
from noisyteacher.bench.recipe import Arm, Recipe
from noisyteacher.bench.teacher import pretrained_names, teacher_name
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

    recipe: Recipe
    labeled: int  # the size of A
    arm: Arm
    method: Method
    trial: int
    generation: int = 1

    @property
    def row_start(self) -> dict[str, Any]:
        """The fields of its row up to ``epochs``, which tell rows apart."""
        training = self.recipe.student_training
        return {
            "recipe": self.arm.recipe_name(self.recipe),
            "dataset": self.recipe.dataset,
            "distillation": distillation(self.method),
            "labeled": self.labeled,
            "method": repr(self.method),
            "gold_repeat": training.gold_repeat,
            "generation": self.generation,
            "trial": self.trial,
            "epochs": training.epochs,
        }

    @property
    def key(self) -> tuple[object, ...]:
        """As ``Row.key`` has it, also where the method is only text there."""
        start = self.row_start
        return tuple((start | {"method": named_method(start["method"])}).values())

    @property
    def seed(self) -> int:
        """The same for all methods of a trial, so that they differ in nothing else."""
        return self.recipe.trial_seed(self.labeled, self.trial)

    @property
    def file_name(self) -> str:
        """What its checkpoint and its curve are called."""
        training = self.recipe.student_training
        parts = [self.labeled, slug(self.arm.name), slug(repr(self.method)), self.trial]
        parts += [f"{training.epochs}epochs", f"gold{training.gold_repeat}"]
        parts += [f"generation{self.generation}"] if self.generation > 1 else []
        return "_".join(str(part) for part in parts if part != "")

    @property
    def title(self) -> str:
        """What progress calls it; only what differs between the students of the recipe."""
        recipe, arm = self.recipe, self.arm.name
        parts = [repr(self.method)]
        parts += [arm] if arm else []
        parts += [f"{self.labeled} labels"] if len(recipe.labeled) > 1 else []
        parts += [f"generation {self.generation}"] if self.generation > 1 else []
        parts += [f"trial {self.trial + 1}"] if recipe.trials > 1 else []
        return ", ".join(parts)

    def job(self, problem: Problem, labels: TeacherLabels | None) -> Job:
        """Its method fitted on V and prepared; ``problem.init`` holds the pre-trained weights."""
        pretrained = self.arm.pretrained and self.recipe.starts_pretrained(self.method)
        return replace(problem, init=problem.init if pretrained else None).job(
            self.file_name,
            self.method,
            labels if SOFT_LABELS in self.method.needs else None,
            seed=self.seed,
            val_role=self.arm.val_role,
            title=self.title,
            weight_decay=self.arm.weight_decay,
        )

    def row(self, trained: Trained, teacher_accuracy: float | None, device: torch.device) -> Row:
        """The results row of the finished student."""
        return Row(
            **self.row_start,
            accuracy=asdict(trained.accuracy),
            macro_f1=trained.history.macro_f1,
            teacher_accuracy=teacher_accuracy,
            curve=[asdict(record) for record in trained.history.curve],
            seconds=round(trained.history.seconds, 3),
            images_per_second=round(trained.examples_per_second, 1),
            seeds={"recipe": self.recipe.seed, "trial": self.trial, "student": self.seed},
            hardware=hardware(device),
        )


def planned_students(recipe: Recipe) -> Iterator[PlannedStudent]:
    """Every student of a recipe, by size of A; ablations have one generation only."""
    for labeled in recipe.labeled:
        for arm in recipe.arms:
            for method in arm.methods or recipe.methods:
                for trial in range(recipe.trials):
                    yield PlannedStudent(recipe, labeled, arm, method, trial)
        for method in recipe.second.methods if recipe.second else ():
            for trial in range(recipe.trials):
                yield PlannedStudent(recipe, labeled, recipe.arms[0], method, trial, generation=2)


def missing_students(recipe: Recipe, rows: Sequence[Row]) -> list[PlannedStudent]:
    """The students that have no row yet."""
    have = {row.key for row in rows}
    return [student for student in planned_students(recipe) if student.key not in have]


def stopped_students(recipe: Recipe, rows: Sequence[Row], folder: Path) -> dict[str, str]:
    """Those that never get a row, by the names of their checkpoints, and what stopped them."""
    names = [student.file_name for student in missing_students(recipe, rows)]
    found = {name: read_history(checkpoint_path(folder, name)) for name in names}
    return {name: h.failed for name, h in found.items() if h is not None and h.failed is not None}


def cohorts(students: Sequence[PlannedStudent], size: int) -> Iterator[list[PlannedStudent]]:
    """Groups that train side by side: of equal cost, and of nearly equal size."""
    for views in sorted({len(s.method.views) for s in students}):
        alike = [s for s in students if len(s.method.views) == views]
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
    """Students alike in cost, with what is left of them.

    ``steps`` are those of the student that has most left; ``seconds`` are those of all.
    """

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


def make_plan(recipe: Recipe, out: str | Path, options: RunOptions) -> RunPlan:
    """Read the data, time a few steps, and count; nothing is written."""
    with open_run(recipe, out, options) as run:
        estimate = _Estimate(run)
        missing = missing_students(run.recipe, run.rows())
        done = len(list(planned_students(run.recipe))) - len(missing)
        stages: list[Stage] = []
        for labeled in recipe.labeled:
            todo = [student for student in missing if student.labeled == labeled]
            if todo:
                stages += [*estimate.gold_stages(labeled), *estimate.stages(labeled, todo)]
        source = (
            f"a few training steps of each model, timed just now on {hardware(run.device)}; rows "
            "that a method drops and the time to start are not known"
        )
        return RunPlan(recipe.name, tuple(stages), done, source)


_Training: TypeAlias = tuple[ModelSpec, TrainData, TrainConfig]


@dataclass
class _Estimate:
    """The stages of a run, with the rate of each model timed once on this device."""

    run: BenchRun
    rates: dict[tuple[ModelSpec, int], float] = field(default_factory=dict)

    def gold_stages(self, labeled: int) -> Iterator[Stage]:
        run, recipe = self.run, self.run.recipe
        # One teacher with rows of its own serves all sizes.
        first = not recipe.outside or labeled == recipe.labeled[0]
        if run.given_labels is None and first:
            teacher = (recipe.teacher, run.teacher_data, recipe.teacher_training)
            left = self._epochs_left({teacher_name(recipe, labeled)}, recipe.teacher_training)
            what = "teacher" if recipe.outside else "teacher on A"
            yield from self._stage(labeled, what, teacher, left, recipe.outside or labeled)
        if recipe.pretraining is not None and recipe.uses_pretraining:
            pretrained = (recipe.student, run.data, recipe.pretraining)
            names = set(pretrained_names(recipe, labeled, recipe.trials))
            left = self._epochs_left(names, recipe.pretraining)
            yield from self._stage(labeled, "student on A", pretrained, left, labeled)

    def stages(self, labeled: int, todo: Sequence[PlannedStudent]) -> Iterator[Stage]:
        run, recipe = self.run, self.run.recipe
        config = recipe.student_training
        whole = len(run.dataset) - recipe.selection
        rows = whole if recipe.pool is None else recipe.pool + labeled
        student = (recipe.student, run.data, config)
        trials = {s.trial for s in todo if s.generation == 2}
        if recipe.second is not None and trials:
            passes = len(recipe.second.first.views)
            left = [config.epochs] * (recipe.second.students * len(trials))
            what = "students whose labels the second generation learns"
            yield from self._stage(labeled, what, student, left, rows, passes)
        for generation, passes in product((1, 2), (1, 2)):
            alike = [s for s in todo if (s.generation, len(s.method.views)) == (generation, passes)]
            what = "; ".join(dict.fromkeys(repr(s.method) for s in alike))
            what += ", generation 2" if generation == 2 else ""
            left = self._epochs_left((s.file_name for s in alike), config)
            yield from self._stage(labeled, what, student, left, rows, passes)

    def _epochs_left(self, names: Iterable[str], config: TrainConfig) -> list[int]:
        """Of each student that its checkpoint does not show as finished."""
        found = [read_history(checkpoint_path(self.run.folder, name)) for name in names]
        left = [
            config.epochs - (0 if history is None else history.epochs_done) for history in found
        ]
        return [epochs for epochs in left if epochs > 0]

    def _stage(
        self,
        labeled: int,
        what: str,
        training: _Training,
        epochs_left: Sequence[int],
        rows: int,
        passes: int = 1,
    ) -> Iterator[Stage]:
        """The stage, if any of its students has epochs left."""
        if not epochs_left:
            return
        run, config = self.run, training[2]
        steps = config.steps_per_epoch or -(-rows // config.batch_size)
        looks = len(run.dataset.test_y) + run.recipe.selection
        each_epoch = passes * steps * config.batch_size + _LOOK * looks / config.eval_every
        rate = self._rate(training, min(len(epochs_left), run.cohort))
        seconds = round(sum(epochs_left) * each_epoch / rate, 1)
        count = len(epochs_left)
        yield Stage(labeled, what, count, max(epochs_left) * steps, passes, seconds)

    def _rate(self, training: _Training, side: int) -> float:
        """Training examples per second of ``side`` students together, one pass per step."""
        key = (training[0], side)
        if key not in self.rates:
            self.rates[key] = self._time(*training, side)
        return self.rates[key]

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
