"""``distill``: from gold labels, a pool and a teacher's labels to a student, in one call."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from pathlib import Path

import torch

from noisyteacher.core.errors import InputError
from noisyteacher.core.locks import rank
from noisyteacher.core.machine import choose_device, hardware
from noisyteacher.data import Featurizer, fit_format
from noisyteacher.data.embeddings import Embeddings
from noisyteacher.io.user_tables import FileOptions
from noisyteacher.methods import Method, parse
from noisyteacher.models import ModelLike, TextEncoder
from noisyteacher.pipeline.card import write_card
from noisyteacher.pipeline.defaults import AUTO, MOST_WITH_WORDS, featurizer_for
from noisyteacher.pipeline.distilled import Distilled, Unfinished
from noisyteacher.pipeline.linear_run import run_linear
from noisyteacher.pipeline.network_run import run_networks
from noisyteacher.pipeline.preparation import DistillSettings, Run
from noisyteacher.pipeline.sources import ExamplesLike, LabelsLike, as_examples, as_labels
from noisyteacher.pipeline.student import Student, save_student
from noisyteacher.pipeline.task import Task, make_task
from noisyteacher.runs import RunFolder
from noisyteacher.train import TrainConfig


def distill(
    student: str | ModelLike = AUTO,
    *,
    gold: ExamplesLike,
    pool: ExamplesLike,
    labels: LabelsLike,
    val: ExamplesLike | None = None,
    selection: ExamplesLike | None = None,
    test: ExamplesLike | None = None,
    method: Method | str | Sequence[Method | str] | None = None,
    classes: Sequence[str] | None = None,
    logits: bool = False,
    compare: bool = False,
    quick: bool = False,
    generations: int = 1,
    encoder: str | Path | None = None,
    folds: int | None = None,
    metric: str = "accuracy",
    training: TrainConfig | None = None,
    epochs: int | None = None,
    featurizer: Featurizer | None = None,
    files: FileOptions | None = None,
    flip: bool = True,
    out: str | Path | None = None,
    device: str | torch.device | None = None,
    minutes: float | None = None,
    max_memory: float | None = None,
    seed: int = 0,
    quiet: bool = True,
) -> Student:
    """Train a student on gold labels and a teacher's labels of the pool.

    Students without the teacher are always trained too, and ``student.about["verdict"]`` says
    whether the teacher was worth it. A linear student (texts, unless asked otherwise) is a blend of
    several: all gold rows measure the teacher, train and, in folds, judge. Of networks one is
    chosen on a held-out fifth of the gold rows, then trained again on all of them.

    Args:
        student: "auto", "linear", "mlp", "resnet20", ..., a Hugging Face encoder's name or folder,
            the settings of a model, or a network of your own: a torch module, whose weights are
            where training starts, or a function without arguments that makes one
            (``models.CustomModel`` says what it must read and return).
        gold, val, selection, test: paths, datasets or (ids, inputs, y) with true labels. ``val``
            holds rows that the teacher never saw: give it if the teacher was trained on gold rows.
            ``selection`` rows judge students and are never trained on. Test examples take no part
            in any choice. True labels are class names, or numbers from 0 in the order of the
            classes; the student predicts names, which are text: "7", not 7.
        pool: a path, a dataset or (ids, inputs). Inputs are texts, uint8 images (n, H, W, 3), or
            numbers (n, d) without NaN, as lists of texts or NumPy arrays.
        labels: teacher labels of the pool and of the gold rows (or of ``val``): labels, a store,
            a file of probabilities, or an array with a row for each gold, then each pool example
            (then each of ``val``, where given); or several of these.
        method: one or several, tried instead of the defaults.
        classes: names of the columns of an array of probabilities; None names them "0", "1", ...
        logits: whether the numbers in an array or a file of labels are logits.
        compare, quick, generations: try more methods, fewer, or students of students (which need
            ``val`` and ``selection``).
        encoder: for the student "embeddings": the folder or name of a frozen encoder of texts or
            images. TF-IDF features are added to the embeddings of texts, unless they are given as
            ``featurizer=Embeddings(...)``.
        folds: in which gold rows are held out to judge students. None is 5 for linear students; for
            networks it is 1, which holds one fifth out, because each fold costs a student of every
            method.
        metric: what students are judged by: "accuracy" or "macro_f1".
        training, epochs: how each student is trained, or only for how long; None is usual for the
            kind of data.
        featurizer: how texts are read; None is TF-IDF, or an encoder's tokenizer.
        files: the names of columns in files, and the size to which images are brought.
        flip: whether images may be mirrored in training (not so for digits or letters).
        out: a folder for the run; made again, the call goes on where it was.
        device: "cpu" or "cuda"; None is cuda where there is one.
        minutes: stop cleanly after so many with an ``InputError``; with ``out``, the same call goes
            on.
        max_memory: how many GB the inputs of networks may take on the device; None is 60% of a
            GPU's memory, half of the machine's on a CPU. Larger inputs are read in windows.
        seed: of the folds, the weights and everything else random.
        quiet: whether to show no progress.
    """
    settings = DistillSettings(
        student=student,
        methods=_methods(method),
        compare=compare,
        quick=quick,
        generations=generations,
        encoder=encoder,
        folds=folds,
        metric=metric,
        epochs=epochs,
        training=training,
        featurizer=featurizer,
        flip=flip,
        max_memory=max_memory,
        seed=seed,
    )
    task = gather(
        gold=gold,
        pool=pool,
        labels=labels,
        val=val,
        selection=selection,
        test=test,
        classes=classes,
        logits=logits,
        files=files,
    )
    done = run_distill(task, settings, out, device=device, minutes=minutes, quiet=quiet)
    if isinstance(done, Unfinished):
        goes_on = "with out= it can go on" if out is None else "the same call goes on"
        trained = len(done.trained)
        raise InputError(
            f"Time ran out after {trained} students, before one was chosen; {goes_on}."
        )
    return done.student


def _methods(given: Method | str | Sequence[Method | str] | None) -> tuple[Method, ...]:
    if given is None:
        return ()
    several = [given] if isinstance(given, Method | str) else given
    return tuple(parse(one) if isinstance(one, str) else one for one in several)


def gather(
    *,
    gold: ExamplesLike,
    pool: ExamplesLike,
    labels: LabelsLike,
    val: ExamplesLike | None = None,
    selection: ExamplesLike | None = None,
    test: ExamplesLike | None = None,
    classes: Sequence[str] | None = None,
    logits: bool = False,
    files: FileOptions | None = None,
) -> Task:
    """Read everything a distillation needs, and match it."""
    labeled = {"gold": gold, "val": val, "selection": selection, "test": test}
    sets = {name: as_examples(one, name, files) for name, one in labeled.items() if one is not None}
    sets["pool"] = as_examples(pool, "pool", files, labeled=False, features=sets["gold"].features)
    in_order = [sets[name] for name in ("gold", "pool", "val") if name in sets]
    return make_task(sets, as_labels(labels, in_order, classes, logits=logits))


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
            few = len(task.ids) <= MOST_WITH_WORDS
            featurizer = featurizer_for(
                task.kind,
                settings.student,
                settings.encoder,
                with_words=few and settings.solves(task.kind),
            )
            if not few and isinstance(featurizer, Embeddings):
                say(f"TF-IDF is not added to the embeddings of more than {MOST_WITH_WORDS} texts.")
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
