"""What a recipe would run, and for how long, before it runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from noisyteacher.bench.recipe import Recipe
from noisyteacher.bench.run import BenchRun, RunOptions, open_run
from noisyteacher.bench.students import (
    PlannedStudent,
    first_students,
    missing_students,
    second_students,
)
from noisyteacher.bench.teacher import pretrained_names
from noisyteacher.core.machine import hardware
from noisyteacher.data import Split
from noisyteacher.methods import GoldOnly
from noisyteacher.models import ModelSpec
from noisyteacher.train import TrainConfig, TrainData, train
from noisyteacher.train.checkpoint import checkpoint_path

# Looking at an example costs a forward pass; a training step costs about three.
_LOOK = 1 / 3
_LONG_ENOUGH, _MOST_STEPS = 0.5, 1000


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
class Plan:
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


def make_plan(recipe: Recipe, out: str | Path, options: RunOptions) -> Plan:
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
        return Plan(recipe.name, tuple(stages), done, source)


def _gold_stages(run: BenchRun, timer: _Timer, labeled: int) -> Iterator[Stage]:
    recipe = run.recipe
    # One teacher with rows of its own serves all sizes.
    first = not recipe.outside or labeled == recipe.labeled[0]
    if run.given is None and first and not run.labels_path(labeled).exists():
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
