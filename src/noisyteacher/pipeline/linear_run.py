"""Distillation into a linear student: every gold row measures the teacher, trains and judges.

The candidates are solved and cross-fitted (``choose``), blended into one linear student, and
refitted on all gold rows. Nothing is split off the gold set.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from scipy.special import softmax
from torch import Tensor

from noisyteacher.choose.evidence import DecisionRows, solve_candidates
from noisyteacher.choose.floor import feature_matrix
from noisyteacher.choose.folds import input_groups
from noisyteacher.choose.linear_choice import (
    DEFAULT_METHODS,
    LinearChoice,
    choose_linear,
    linear_candidates,
)
from noisyteacher.core.machine import hardware
from noisyteacher.core.progress import ProgressDisplay
from noisyteacher.data import Tfidf
from noisyteacher.data.input_format import InputFormat
from noisyteacher.methods import (
    Calibrated,
    GoldOnly,
    Method,
    SLaM,
    TaylorCE,
    Vanilla,
    check_store,
)
from noisyteacher.models import BagLinear, ModelSpec
from noisyteacher.noise import TeacherNoise
from noisyteacher.pipeline.card import write_card
from noisyteacher.pipeline.cross_fitted import CrossFitted, cross_fit_rows
from noisyteacher.pipeline.defaults import student_for
from noisyteacher.pipeline.distilled import Distilled
from noisyteacher.pipeline.preparation import (
    DistillSettings,
    audit_teacher,
    claim_folder,
    save_audit,
)
from noisyteacher.pipeline.student import Student, save_student
from noisyteacher.pipeline.task import Task
from noisyteacher.runs import RunFolder
from noisyteacher.train import Inputs
from noisyteacher.train.solver import LinearFit

OUT_OF_FOLD = "out_of_fold.parquet"


class OutOfTime(Exception):
    """Raised between two solves once the minutes are over."""


def methods_to_try(
    methods: tuple[Method, ...], *, compare: bool, quick: bool
) -> tuple[Method, ...]:
    """Gold only and the ways to use the teacher; ``methods`` the user names replace the latter."""
    if methods:
        return (GoldOnly(), *(method for method in methods if method != GoldOnly()))
    if quick:
        return (GoldOnly(), SLaM())
    if compare:
        more = (Vanilla(), Calibrated(), Calibrated(TaylorCE(2)), SLaM(hard=True, per_class=True))
        return (*DEFAULT_METHODS, *more)
    return DEFAULT_METHODS


def run_cross_fit(
    task: Task,
    settings: DistillSettings,
    inputs: InputFormat,
    tensors: Inputs,
    folder: RunFolder | None,
    minutes: float | None,
    say: Callable[[str], None],
    quiet: bool,
) -> Distilled | CrossFitted:
    spec = student_for(settings.student, inputs, len(task.classes))
    methods = methods_to_try(settings.methods, compare=settings.compare, quick=settings.quick)
    for method in methods:
        check_store(method, task.labels)
    if folder is not None:
        told = f"solved and cross-fitted, {settings.folds} folds, {settings.metric}"
        claim_folder(folder, task, inputs, spec, told, settings.seed)
    say(f"Student: {spec!r}, solved to convergence.")
    if isinstance(inputs.featurizer, Tfidf):
        say(
            "Texts are read as TF-IDF words; a sentence encoder often brings several points more: "
            "--student embeddings --encoder FOLDER."
        )
    found = audit_teacher(task, say)
    path = None if folder is None else folder.path
    try:
        done = run_linear(
            task,
            spec,
            inputs,
            tensors,
            methods,
            path,
            folds=settings.folds,
            metric=settings.metric,
            seed=settings.seed,
            minutes=minutes,
            say=say,
            quiet=quiet,
        )
    except OutOfTime:
        return Distilled(task, [], finished=False, folder=path)
    where = hardware("cpu")
    done.student.about = done.about(where)
    if folder is not None:
        save_audit(found, folder)
        for row in cross_fit_rows(done, settings.seed, where):
            folder.append(row)
        save_student(folder.path / "student", done.student, write_card(done), overwrite=True)
        (folder.path / "noise.json").unlink(missing_ok=True)
        if done.noise is not None:
            done.noise.save(folder.path / "noise.json")
        done.comparison().save(folder.path)
    return done


def run_linear(
    task: Task,
    spec: ModelSpec,
    inputs: InputFormat,
    tensors: Inputs,
    methods: tuple[Method, ...],
    folder: Path | None,
    *,
    folds: int,
    metric: str,
    seed: int,
    minutes: float | None,
    say: Callable[[str], None],
    quiet: bool,
) -> CrossFitted:
    """Cross-fit the methods' linear students, blend them, refit, and say what is known."""
    began = time.monotonic()
    rows = decision_rows(task, inputs, tensors)
    candidates = linear_candidates(methods)
    solves = (folds + 1) * len(candidates)
    say(f"{len(candidates)} candidates, {folds} folds, {rows.judges.sum()} gold rows that judge.")
    with ProgressDisplay(quiet=quiet) as display:
        done = 0

        def progress(name: str, fold: int) -> None:
            nonlocal done
            if minutes is not None and time.monotonic() - began >= 60 * minutes:
                raise OutOfTime
            where = "refit" if fold < 0 else f"fold {fold + 1}"
            display.update("Cross-fitting", min(done, solves), solves, numbers=f"{where}: {name}")
            done += 1

        choice = choose_linear(
            rows, candidates, folds=folds, metric=metric, seed=seed, progress=progress
        )
        display.update("Cross-fitting", solves, solves)
    student = Student(spec, linear_state(spec, choice.student), task.classes, inputs)
    made = CrossFitted(
        task,
        choice,
        student,
        _noise(task, methods),
        _tested(task, rows, choice, student, inputs),
        time.monotonic() - began,
        folder,
    )
    if folder is not None:
        _save_out_of_fold(made, folder)
    return made


def decision_rows(task: Task, inputs: InputFormat, tensors: Inputs) -> DecisionRows:
    """The task's rows, with their roles in the decision."""
    n = len(task.ids)
    judges, measures = np.zeros(n, bool), np.zeros(n, bool)
    judges[task.judges] = True
    measures[task.measures] = True
    shown = inputs.views().plain(tensors)
    groups = input_groups(task.inputs)
    return DecisionRows(
        feature_matrix(shown, inputs.features),
        task.ids,
        task.y,
        judges,
        measures,
        task.labels,
        len(task.classes),
        trains_judges=len(task.split.selection) == 0,
        groups=groups,
    )


def linear_state(spec: ModelSpec, fit: LinearFit) -> dict[str, Tensor]:
    """A linear student's weights as its network has them."""
    weight = torch.from_numpy(fit.weight.astype(np.float32))
    bias = torch.from_numpy(fit.bias.astype(np.float32))
    if isinstance(spec, BagLinear):
        return {"bag.weight": weight.T.contiguous(), "bias": bias}
    return {"fc.weight": weight, "fc.bias": bias}


def _noise(task: Task, methods: tuple[Method, ...]) -> TeacherNoise | None:
    """The first noise model that a method asks for, fitted on all rows that measure."""
    for method in methods:
        noise = method.noise()
        if noise is not None:
            rows = task.measures
            return noise.fit(task.labels.take(task.ids[rows]), task.y[rows])
    return None


def _tested(
    task: Task, rows: DecisionRows, choice: LinearChoice, student: Student, inputs: InputFormat
) -> dict[str, float]:
    """Test accuracy of the student, and of each candidate's own blend where there is a test set."""
    test = task.test
    if test is None:
        return {}
    shown = inputs.views().plain(inputs.tensors(test.inputs))
    x = feature_matrix(shown, inputs.features)

    def right(logits: np.ndarray) -> float:
        return round(100 * float(np.mean(logits.argmax(1) == test.y)), 2)

    found = {"": right(student.logits(test.inputs))}
    fits = solve_candidates(rows, choice.candidates)
    for i, (candidate, by_setting) in enumerate(zip(choice.candidates, fits, strict=True)):
        own = choice.own_parts[i]
        blended = sum(part.factor * by_setting[part.setting].logits(x) for part in own)
        found[repr(candidate.method)] = right(np.asarray(blended))
    return found


def _save_out_of_fold(made: CrossFitted, folder: Path) -> None:
    """Every judging row with the class and probability that students without it predict."""
    task, choice = made.task, made.choice
    judging = task.judges
    probs = softmax(choice.out_of_fold, axis=1).reshape(-1, choice.rows, len(task.classes)).mean(0)
    names = np.array(task.classes)
    table = pa.table(
        {
            "id": [str(key) for key in task.ids[judging].tolist()],
            "label": names[task.y[judging]].tolist(),
            "predicted": names[probs.argmax(1)].tolist(),
            "probability": probs.max(1).astype(np.float32),
        }
    )
    folder.mkdir(parents=True, exist_ok=True)
    temporary = folder / f".{OUT_OF_FOLD}.tmp"
    pq.write_table(table, temporary)
    temporary.replace(folder / OUT_OF_FOLD)
