"""Run a recipe: data → split → teacher → stored labels → students → one row each.

Every arrow leaves a file in the run's folder; started again, the run goes on where it was.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import orjson
import torch
from torch import Tensor

from noisyteacher.bench.figures import draw_alpha_curve
from noisyteacher.bench.recipe import Recipe
from noisyteacher.bench.results import Row, append_row, read_rows
from noisyteacher.data import Dataset, Split, load_dataset, split, to_tensors
from noisyteacher.errors import InputError
from noisyteacher.files import write_atomic
from noisyteacher.labels import TeacherLabels
from noisyteacher.machine import hardware
from noisyteacher.methods import GoldOnly, Method
from noisyteacher.methods.base import EMBEDDINGS, PRETRAINED, SOFT_LABELS, VIEW_STATISTICS
from noisyteacher.models import ModelSpec
from noisyteacher.train import Job, Problem, TrainConfig, TrainData, Trained, train
from noisyteacher.train.predict import label


@dataclass
class BenchRun:
    """A recipe at work in a folder."""

    recipe: Recipe
    folder: Path
    dataset: Dataset
    data: TrainData
    device: torch.device
    cohort: int = 8
    quiet: bool = False
    deadline: float = math.inf

    @property
    def results(self) -> Path:
        return self.folder / "results.jsonl"

    @property
    def minutes_left(self) -> float | None:
        if self.deadline == math.inf:
            return None
        return max(0.0, (self.deadline - time.monotonic()) / 60)

    def problem(
        self, parts: Split, model: ModelSpec, init: dict[str, Tensor] | None = None
    ) -> Problem:
        return Problem(self.data, self.dataset.ids, self.dataset.y, parts, model, init)

    def train(self, jobs: list[Job], config: TrainConfig) -> list[Trained]:
        return train(
            jobs,
            self.data,
            config,
            out=self.folder,
            device=self.device,
            cohort=self.cohort,
            minutes=self.minutes_left,
            quiet=self.quiet,
        )


def run_recipe(
    recipe: Recipe,
    out: str | Path,
    *,
    data: str | Path | None = None,
    device: str | None = None,
    minutes: float | None = None,
    cohort: int = 8,
    quiet: bool = False,
) -> list[Row]:
    """Train whatever of the recipe has no row yet, and return all its rows.

    ``minutes`` stops cleanly; the same call, made again, does the rest.
    """
    deadline = math.inf if minutes is None else time.monotonic() + 60 * minutes
    where = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
    folder = Path(out)
    _claim_folder(folder, recipe)
    dataset = load_dataset(recipe.dataset, data=data, **recipe.data_options)  # type: ignore[arg-type]
    run = BenchRun(recipe, folder, dataset, _train_data(dataset), where, cohort, quiet, deadline)
    for labeled in recipe.labeled:
        if not _run_size(run, labeled):
            break
    return [row for row in read_rows(run.results) if row.recipe == recipe.name]


def _train_data(dataset: Dataset) -> TrainData:
    tensors = to_tensors(dataset)
    return TrainData(
        tensors.inputs, tensors.views, len(dataset.classes), tensors.test_inputs, dataset.test_y
    )


def _claim_folder(folder: Path, recipe: Recipe) -> None:
    """Refuse a folder whose stored teacher was made by other settings."""
    path = folder / "recipe.json"
    lasting = {
        name: repr(getattr(recipe, name))
        for name in ("name", "dataset", "teacher", "teacher_training", "seed", "data_options")
    }
    if path.exists():
        stored = orjson.loads(path.read_bytes())
        changed = [name for name in lasting if stored.get(name) != lasting[name]]
        if changed:
            raise InputError(
                f"{folder} holds a run with another {changed[0]}; choose another folder with --out."
            )
    described = {name: repr(value) for name, value in vars(recipe).items()}
    write_atomic(path, orjson.dumps(lasting | described, option=orjson.OPT_INDENT_2))


def _run_size(run: BenchRun, labeled: int) -> bool:
    """All students of one size of A; False when time ran out."""
    recipe = run.recipe
    splits = [_split(run, labeled, trial) for trial in range(recipe.trials)]
    have = {row.key[:9] for row in read_rows(run.results)}
    wanted = [
        (method, trial)
        for method in recipe.methods
        for trial in range(recipe.trials)
        if _key(recipe, labeled, method, trial) not in have
    ]
    if not wanted:
        return True
    teacher = _train_on_gold(run, "teacher", splits[0], labeled, recipe.teacher_training)
    if not teacher.finished:
        return False
    labels = _stored_labels(run, labeled, teacher, (method for method, _ in wanted))
    start = _pretrained(run, splits[0], labeled)
    if start is not None and not start.finished:
        return False
    jobs = {
        _job(run, labeled, method, splits[trial], trial, labels, start and start.state): trial
        for method, trial in wanted
    }
    _draw_alpha(run, labeled, jobs)
    # A row is written as soon as its cohort is done, not when all are.
    todo = list(jobs)
    size = run.cohort if run.device.type == "cuda" else 1
    for first in range(0, len(todo), size):
        for student in run.train(todo[first : first + size], recipe.student_training):
            if student.finished:
                trial = jobs[student.job]
                append_row(run.results, _row(run, labeled, trial, student, teacher))
        if run.minutes_left == 0:
            return False
    return True


def _draw_alpha(run: BenchRun, labeled: int, jobs: Iterable[Job]) -> None:
    """The first noise model of this size, over the V it was fitted on."""
    for job in jobs:
        noise, labels = job.prepared.noise, job.prepared.labels
        if noise is not None and labels is not None:
            seen = labels.take(run.dataset.ids[job.val_positions])
            y = run.dataset.y[job.val_positions]
            draw_alpha_curve(noise, seen, y, run.folder / "pictures" / f"alpha-{labeled}.png")
            return


def _split(run: BenchRun, labeled: int, trial: int) -> Split:
    recipe = run.recipe
    return split(
        run.dataset.y,
        labeled,
        val=recipe.val,
        selection=recipe.selection,
        seed=recipe.seed,
        trial=trial,
        stratified=recipe.stratified,
    )


def _train_on_gold(
    run: BenchRun, role: str, parts: Split, labeled: int, config: TrainConfig
) -> Trained:
    """The teacher, or the student's pre-training: gold set A alone."""
    none = np.empty(0, np.int64)
    model = run.recipe.teacher if role == "teacher" else run.recipe.student
    problem = run.problem(Split(parts.gold, none, none, none), model)
    job = problem.job(f"{labeled}_{role}", GoldOnly(), None, seed=run.recipe.seed)
    return run.train([job], config)[0]


def _pretrained(run: BenchRun, parts: Split, labeled: int) -> Trained | None:
    if run.recipe.pretraining is None:
        return None
    return _train_on_gold(run, "pretrained", parts, labeled, run.recipe.pretraining)


def _stored_labels(
    run: BenchRun, labeled: int, teacher: Trained, methods: Iterable[Method]
) -> TeacherLabels | None:
    """The teacher's labels of the whole training part, made once with what the methods need."""
    needs = frozenset[str]().union(*(method.needs for method in methods))
    if not needs & {SOFT_LABELS, EMBEDDINGS, VIEW_STATISTICS}:
        return None
    path = run.folder / "labels" / str(labeled)
    if path.exists():
        stored = TeacherLabels.open(path)
        lacking = {EMBEDDINGS: "embedding", VIEW_STATISTICS: "view_mean"}
        if all(name in stored.extras for need, name in lacking.items() if need in needs):
            return stored
    labels = label(
        teacher.job.model,
        teacher.state,
        run.data.inputs,
        run.data.views,
        ids=run.dataset.ids,
        classes=run.dataset.classes,
        device=run.device,
        embeddings=EMBEDDINGS in needs,
        view_passes=run.recipe.view_passes if VIEW_STATISTICS in needs else 0,
        seed=run.recipe.seed,
        name=f"{run.recipe.name}, {labeled} labels",
    )
    labels.save(path, overwrite=True)
    # Training must see exactly what a resumed run will read.
    return TeacherLabels.open(path)


def _job(
    run: BenchRun,
    labeled: int,
    method: Method,
    parts: Split,
    trial: int,
    labels: TeacherLabels | None,
    init: dict[str, Tensor] | None,
) -> Job:
    recipe = run.recipe
    if PRETRAINED in method.needs and init is None:
        raise InputError(
            f"{method!r} needs a student pre-trained on A; give the recipe a pretraining."
        )
    return run.problem(parts, recipe.student, init).job(
        f"{labeled}_{_slug(repr(method))}_{trial}",
        method,
        labels if SOFT_LABELS in method.needs else None,
        # The same for all methods of a trial, so that they differ in nothing else.
        seed=_student_seed(recipe, labeled, trial),
        val_role=recipe.val_role,
    )


def _slug(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9.]+", "-", text).strip("-")


def _student_seed(recipe: Recipe, labeled: int, trial: int) -> int:
    return int(np.random.SeedSequence([recipe.seed, labeled, trial]).generate_state(1)[0])


def _key(recipe: Recipe, labeled: int, method: Method, trial: int) -> tuple[object, ...]:
    return (
        recipe.name,
        recipe.dataset,
        distillation(method),
        labeled,
        repr(method),
        recipe.student_training.gold_repeat,
        1,
        trial,
        recipe.student_training.epochs,
    )


def distillation(method: Method) -> str | None:
    """"soft" or "hard" by the innermost method; None where no teacher takes part."""
    if SOFT_LABELS not in method.needs:
        return None
    inner = getattr(method, "inner", None)
    if inner is not None:
        return distillation(inner)
    return "hard" if getattr(method, "hard", False) else "soft"


def _row(run: BenchRun, labeled: int, trial: int, student: Trained, teacher: Trained) -> Row:
    recipe, history = run.recipe, student.history
    key = _key(recipe, labeled, student.job.method, trial)
    return Row(
        *key,  # type: ignore[arg-type]
        accuracy=asdict(student.accuracy),
        macro_f1=history.macro_f1,
        teacher_accuracy=teacher.accuracy.last,
        curve=[asdict(record) for record in history.curve],
        seconds=round(history.seconds, 3),
        images_per_second=round(student.examples_per_second, 1),
        seeds={"recipe": recipe.seed, "trial": trial, "student": student.job.seed},
        hardware=hardware(run.device),
    )

