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
    """Train a student on gold labels and on a teacher's labels of the pool.

    Students are always trained without the teacher too, and ``student.about["verdict"]`` says
    whether the teacher's labels helped. Linear students (the default for texts) are averaged with
    weights; by cross-validation, all gold rows are used to measure the teacher, to train and to
    compare students. If students are networks, one of them is chosen on a held-out fifth of the
    gold rows and trained again on all of them.

    Args:
        student: "auto", "linear", "mlp", "resnet20", ..., the name or folder of a Hugging Face
            encoder, the settings of a model, or a network of your own: a torch module, from whose
            weights training starts, or a function without arguments that returns one
            (``models.CustomModel`` describes its inputs and outputs).
        gold, val, selection, test: paths, datasets or (ids, inputs, y) with true labels. ``val``
            are rows that the teacher was not trained on; they are needed if it was trained on gold
            rows. ``selection`` rows are used to compare students and never trained on. Test
            examples are not used for any choice. True labels are class names, or numbers from 0 in
            the order of the classes. The student predicts names, which are text: "7", not 7.
        pool: a path, a dataset or (ids, inputs). Inputs are texts, uint8 images (n, H, W, 3), or
            numbers (n, d) without NaN, as lists of texts or NumPy arrays.
        labels: the teacher's labels of the pool and of the gold rows (or of ``val``):
            TeacherLabels, a label store, a file of probabilities, or an array with one row for each
            gold example, then for each pool example (then for each one of ``val``, if given),
            of probabilities or of class names; or several of these.
        method: one or several methods to train instead of the default ones.
        classes: the names of the columns of an array of probabilities. By default, "0", "1", ...
        logits: whether the numbers in an array or a file of labels are logits.
        compare, quick: whether to train more methods, or fewer.
        generations: with 2, students of the first generation label the pool again for a second one.
            This needs ``val`` and ``selection``.
        encoder: for the student "embeddings": the folder or name of a frozen encoder of texts or
            images. TF-IDF features are added to the embeddings of texts, unless the embeddings are
            given as ``featurizer=Embeddings(...)``.
        folds: the number of folds in which gold rows are held out to compare students. The default
            is 5 for linear students and 1 for networks, which holds out one fifth, because every
            fold trains each network once more.
        metric: the score by which students are compared, "accuracy" or "macro_f1".
        training, epochs: how each student is trained, or only for how many epochs. The default
            depends on the data.
        featurizer: how texts become features. The default is TF-IDF, or the tokenizer of an
            encoder.
        files: the names of columns in files, and the size to which images are resized.
        flip: whether images may be mirrored in training (not for digits or letters).
        out: a folder for the run. The same call with the same folder continues the run.
        device: "cpu" or "cuda"; by default cuda if there is a GPU.
        minutes: stop after this many minutes with an ``InputError``; with ``out``, the same call
            continues the run.
        max_memory: how many GB the inputs of networks may take on the device, by default 60% of a
            GPU's memory, or half of the machine's on a CPU. Larger inputs are read in windows.
        seed: the seed of the folds, the weights and everything else that is random.
        quiet: whether to hide progress.
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
    """Read everything that a distillation needs, and match it by id."""
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
    """Train gold only and all other candidates, and return one of them or their blend.

    With ``out``, the folder contains ``recipe.json``, ``results.jsonl``, ``checkpoints/`` of
    networks and, at the end, ``student/``. If the call is killed, the same call continues the run.
    If ``minutes`` are over, the result is ``Unfinished``.
    """
    if settings.generations > 1 and not (len(task.split.val) and len(task.split.selection)):
        raise InputError(
            "A second generation needs gold rows that no student was trained on: give val= (--val) "
            "to measure the first students, and selection= (--selection) to compare students."
        )
    folder = None if out is None else RunFolder(Path(out).expanduser())
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
