"""What a run leaves for its page: audits of its teacher, and teacher and student compared."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

import numpy as np
import orjson
import torch

from noisyteacher.auditing import audit
from noisyteacher.bench.recipe import Recipe
from noisyteacher.bench.run import BenchRun, RunOptions, open_run
from noisyteacher.bench.students import PlannedStudent
from noisyteacher.bench.teacher import make_start
from noisyteacher.core.errors import InputError
from noisyteacher.core.files import write_atomic
from noisyteacher.data import Split
from noisyteacher.data.dataset import take_rows
from noisyteacher.data.tensors import gather_rows
from noisyteacher.labels import TeacherLabels
from noisyteacher.methods import Method
from noisyteacher.pipeline.outcome import Distilled
from noisyteacher.report.comparison import Comparison, count_confusions, find_examples
from noisyteacher.runs.rows import Row, named_method
from noisyteacher.train.checkpoint import checkpoint_path
from noisyteacher.train.predict import label

AUDITS, STORY = "audits", "story.json"
_MOST_ROWS = 5_000  # of the pool that the student is asked about


@dataclass(frozen=True)
class Story:
    """What ``story.json`` holds: the commands that made the run, and what they remarked."""

    commands: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def read_story(folder: str | Path) -> Story:
    """Empty where the run left none."""
    path = Path(folder) / STORY
    if not path.exists():
        return Story()
    try:
        return Story(**orjson.loads(path.read_bytes()))
    except (orjson.JSONDecodeError, TypeError) as error:
        raise InputError(f"{path} is not the story of a run: {error}.") from error


def tell_story(folder: str | Path, command: str, notes: Sequence[str] = ()) -> None:
    """Remember a command (shell text) and its notes; a resumed run has several, each once."""
    before = read_story(folder)
    told = Story(
        list(dict.fromkeys([*before.commands, command])),
        list(dict.fromkeys([*before.notes, *notes])),
    )
    write_atomic(Path(folder) / STORY, orjson.dumps(asdict(told), option=orjson.OPT_INDENT_2))


def collect_distilled(done: Distilled) -> None:
    """Compare the kept student of a finished distillation with the teacher, in its folder.

    Disagreements are looked for in the pool, confusions counted on S, which no student saw; on V
    for a teacher that did not label S.
    """
    if done.folder is None:
        raise InputError("This distillation has no folder to leave a comparison in.")
    task, parts = done.task, done.task.split
    pool = _some(parts.pool)
    said = task.labels.take(task.ids[pool]).probs
    answers = done.student.predict_proba(take_rows(task.inputs, pool))
    apart, examples = find_examples(
        task.ids[pool], take_rows(task.inputs, pool), said, answers, task.classes
    )
    tested = done.student.logits(take_rows(task.inputs, parts.selection)).argmax(1)
    labelled = bool(np.isin(task.ids[parts.selection], task.labels.ids).all())
    judged, name = (parts.selection, "S") if labelled else (parts.val, "V")
    by_teacher = task.labels.take(task.ids[judged]).hard
    Comparison(
        student=done.best.candidate.name,
        classes=list(task.classes),
        rows_of="the pool",
        rows=len(pool),
        disagreements=apart,
        confusions=[
            count_confusions("teacher", name, task.y[judged], by_teacher),
            count_confusions("student", "S", task.y[parts.selection], tested),
        ],
        examples=examples,
    ).save(done.folder)


def collect_run(
    recipe: Recipe,
    folder: str | Path,
    rows: Sequence[Row],
    *,
    data: str | Path | None = None,
    cache: str | Path | None = None,
    labels: str | Path | None = None,
    device: str | None = None,
    picture_shape: tuple[int, int] | None = None,
) -> None:
    """Audit the teacher of each size of A, and compare the best student of the last with it.

    ``rows`` are the run's so far. Reads what ``run_recipe`` stored and trains nothing; what is
    not stored is left out.
    """
    options = RunOptions(data, cache, labels, device, quiet=True)
    with open_run(recipe, folder, options) as run:
        if not run.leads:
            return
        run.deadline = 0.0  # no time to train: only finished students are read
        for labeled in run.recipe.labeled:
            stored = _stored_labels(run, labeled)
            path = run.folder / AUDITS / f"{labeled}.json"
            if stored is not None and not path.exists():
                _write_audit(run, stored, run.split(labeled, trial=0), path)
        best = _best_row(run.recipe, rows)
        if best is not None:
            _compare(run, best, picture_shape)


def _stored_labels(run: BenchRun, labeled: int) -> TeacherLabels | None:
    path = run.labels_path(labeled)
    return TeacherLabels.open(path, extras=()) if path.exists() else run.given


def _write_audit(run: BenchRun, labels: TeacherLabels, parts: Split, path: Path) -> None:
    ids = run.dataset.ids
    found = audit(
        labels.take(ids[parts.val]),
        [run.dataset.classes[label] for label in run.dataset.y[parts.val]],
        pool=labels.take(ids[parts.pool]),
        gold_ids=ids[parts.gold],
        kind=run.dataset.kind,
    )
    write_atomic(path, orjson.dumps(found.to_dict()))


def _best_row(recipe: Recipe, rows: Sequence[Row]) -> Row | None:
    """The first trial's best student of a teacher, as S judges, at the last size that has one."""
    training, name = recipe.student_training, recipe.arms[0].recipe_name(recipe)
    found = [
        row
        for row in rows
        if (row.recipe, row.trial, row.generation) == (name, 0, 1)
        and (row.epochs, row.gold_repeat) == (training.epochs, training.gold_repeat)
        and row.distillation is not None
        and row.labeled in recipe.labeled
        and isinstance(named_method(row.method), Method)
    ]
    if not found:
        return None
    last = max(found, key=lambda row: recipe.labeled.index(row.labeled)).labeled
    return max((row for row in found if row.labeled == last), key=_on_selection)


def _on_selection(row: Row) -> float:
    return max((point["selection"] or 0.0 for point in row.curve), default=0.0)


def _compare(run: BenchRun, row: Row, picture_shape: tuple[int, int] | None) -> None:
    said = _stored_labels(run, row.labeled)
    method = named_method(row.method)
    assert isinstance(method, Method)
    if said is None:
        return
    # A row of an earlier call may need a pre-training that this call's methods do not.
    recipe = run.recipe = replace(run.recipe, methods=(method,))
    student = PlannedStudent(recipe.arms[0], method, trial=0)
    if not checkpoint_path(run.folder, student.file_name(recipe, row.labeled)).exists():
        return
    parts = run.split(row.labeled, trial=0)
    start = make_start(run, row.labeled, [parts])
    if start is None:
        return
    problem = run.problem(parts, recipe.student, run.data, start.inits[0])
    job = student.job(recipe, row.labeled, problem, start.labels)
    trained = run.train([job], student.arm.training(recipe))[0]
    pool = _some(parts.pool)
    ids, truth = run.dataset.ids[pool], run.dataset.y[pool]
    inputs = gather_rows(run.data.inputs, torch.from_numpy(pool))
    answers = label(
        job.model, trained.state, inputs, run.data.views, ids=ids, device=run.device
    ).probs
    teacher = said.take(ids).probs
    apart, examples = find_examples(
        ids,
        take_rows(run.dataset.inputs, pool),
        teacher,
        answers,
        run.dataset.classes,
        truth,
        picture_shape,
    )
    where = f"the pool, {row.labeled} gold labels in A"
    Comparison(
        student=row.method,
        classes=list(run.dataset.classes),
        rows_of=where,
        rows=len(pool),
        disagreements=apart,
        confusions=[
            count_confusions("teacher", where, truth, teacher.argmax(1)),
            count_confusions("student", where, truth, answers.argmax(1)),
        ],
        examples=examples,
    ).save(run.folder)


def _some(positions: np.ndarray) -> np.ndarray:
    """At most so many, the same ones every time, in order."""
    if len(positions) <= _MOST_ROWS:
        return positions
    return np.sort(np.random.default_rng(0).choice(positions, _MOST_ROWS, replace=False))
