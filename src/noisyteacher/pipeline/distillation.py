"""Run a distillation in a folder: linear students are blended, between networks one is chosen."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

import torch

from noisyteacher.core.errors import InputError
from noisyteacher.core.locks import rank
from noisyteacher.core.machine import choose_device, hardware
from noisyteacher.data.input_format import fit_format
from noisyteacher.models import TextEncoder
from noisyteacher.pipeline.card import write_card
from noisyteacher.pipeline.defaults import featurizer_for
from noisyteacher.pipeline.distilled import Distilled, Unfinished
from noisyteacher.pipeline.linear_run import run_linear
from noisyteacher.pipeline.network_run import run_networks
from noisyteacher.pipeline.preparation import DistillSettings, Run
from noisyteacher.pipeline.student import save_student
from noisyteacher.pipeline.task import Task
from noisyteacher.runs import RunFolder


def run_distill(
    task: Task,
    settings: DistillSettings,
    out: str | Path | None = None,
    *,
    device: str | torch.device | None = None,
    minutes: float | None = None,
    say: Callable[[str], None] = lambda text: None,
    quiet: bool = False,
) -> Distilled | Unfinished:
    """Train gold only and every other candidate, and return one of them or their blend.

    With ``out`` the folder holds ``recipe.json``, ``results.jsonl``, ``checkpoints/`` of networks
    and, once all are trained, ``student/``; a killed call, made again, goes on where it was.
    ``minutes`` stops cleanly: then the result is ``Unfinished``.
    """
    if settings.generations > 1 and not (len(task.split.val) and len(task.split.selection)):
        raise InputError(
            "Students of students need gold rows that no generation was trained on: give val= "
            "(--val), which measures them, and selection= (--selection), which judges them."
        )
    folder = None if out is None else RunFolder(Path(out))
    with nullcontext() if folder is None else folder.lock():
        featurizer = settings.featurizer
        if featurizer is None:
            featurizer = featurizer_for(task.kind, settings.student, settings.encoder)
        formatted = fit_format(task.kind, task.inputs, featurizer, settings.flip, task.features)
        deadline = math.inf if minutes is None else time.monotonic() + 60 * minutes
        where = choose_device(device)
        run = Run(task, settings, *formatted, folder, where, say, quiet, deadline)
        solves = settings.solves(task.kind)
        done = run_linear(run) if solves else run_networks(run)
        if isinstance(done, Distilled):
            _finish(run, done, hardware("cpu" if solves else where))
    return done


def _finish(run: Run, done: Distilled, where: str) -> None:
    """Tell the student how it came to be, and fill the folder."""
    student = done.student
    if isinstance(student.spec, TextEncoder):
        # With its architecture written out there is nothing to download later.
        student.spec = student.spec.build().spec
    student.about = done.about(where)
    folder = run.folder
    if folder is None or rank() > 0:
        return
    for row in done.rows(run.settings.seed, where):
        folder.append(row)
    done.save_out_of_fold(folder.path)
    save_student(folder.path / "student", student, write_card(done), overwrite=True)
    # A student kept by an earlier call may have left one.
    (folder.path / "noise.json").unlink(missing_ok=True)
    if done.noise is not None:
        done.noise.save(folder.path / "noise.json")
    done.comparison().save(folder.path)
