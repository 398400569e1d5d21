"""``distill``: from gold labels, a pool and a teacher's labels to a student, in one call."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch

from noisyteacher.core.errors import InputError
from noisyteacher.data import Featurizer
from noisyteacher.io.user_tables import FileOptions
from noisyteacher.methods import Method, parse
from noisyteacher.models import ModelLike
from noisyteacher.pipeline.defaults import AUTO
from noisyteacher.pipeline.distillation import run_distill
from noisyteacher.pipeline.distilled import Unfinished
from noisyteacher.pipeline.preparation import DistillSettings
from noisyteacher.pipeline.sources import ExamplesLike, LabelsLike, as_examples, as_labels
from noisyteacher.pipeline.student import Student
from noisyteacher.pipeline.task import ExampleSets, Task, make_task
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
            in any choice.
        pool: a path, a dataset or (ids, inputs).
        labels: teacher labels of the pool and of the gold rows (or of ``val``): labels, a store,
            a file of probabilities, or an array with a row for each gold, then each pool example
            (then each of ``val``, where given); or several of these.
        method: one or several, tried instead of the defaults.
        classes: names of the columns of an array of probabilities.
        logits: whether the numbers in an array or a file of labels are logits.
        compare, quick, generations: try more methods, fewer, or students of students (which need
            ``val`` and ``selection``).
        encoder: for the student "embeddings": the folder or name of a frozen encoder of texts or
            images.
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
    more = {
        name: None if part is None else as_examples(part, name, files)
        for name, part in (("val", val), ("selection", selection), ("test", test))
    }
    known = as_examples(gold, "gold", files)
    unknown = as_examples(pool, "pool", files, labeled=False, features=known.features)
    given = ExampleSets(known, unknown, **more)
    in_order = [part for part in (given.gold, given.pool, given.val) if part is not None]
    return make_task(given, as_labels(labels, in_order, classes, logits=logits))
