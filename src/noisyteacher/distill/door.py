"""``distill``: from gold labels, a pool and a teacher's labels to a student, in one call."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch

from noisyteacher.data import Featurizer
from noisyteacher.distill.files import FileOptions
from noisyteacher.distill.run import DistillSettings, run_distill
from noisyteacher.distill.sources import ExamplesLike, LabelsLike, as_examples, as_labels
from noisyteacher.distill.student import Student
from noisyteacher.distill.students import AUTO
from noisyteacher.distill.task import Given, Task, make_task
from noisyteacher.methods import Method, parse
from noisyteacher.models import ModelSpec
from noisyteacher.train import TrainConfig


def distill(
    student: str | ModelSpec = AUTO,
    *,
    gold: ExamplesLike,
    pool: ExamplesLike,
    labels: LabelsLike,
    val: ExamplesLike | None = None,
    selection: ExamplesLike | None = None,
    test: ExamplesLike | None = None,
    method: Method | str | None = None,
    classes: Sequence[str] | None = None,
    compare: bool = False,
    quick: bool = False,
    generations: int = 1,
    training: TrainConfig | None = None,
    epochs: int | None = None,
    featurizer: Featurizer | None = None,
    files: FileOptions | None = None,
    flip: bool = True,
    out: str | Path | None = None,
    device: str | torch.device | None = None,
    seed: int = 0,
    quiet: bool = True,
) -> Student:
    """Train a student on gold labels and a teacher's labels of the pool; keep the best on S.

    Gold only is always trained too, and for texts and tables a logistic regression: whoever is best
    on the selection set S is returned, and ``student.about["verdict"]`` says so.

    Args:
        student: "auto", "linear", "mlp", "resnet20", ..., a Hugging Face encoder's name or folder,
            or the settings of a model.
        gold, val, selection, test: paths, datasets or (ids, inputs, y) with true labels. V and S
            are split off the gold set where not given. Test examples take no part in any choice.
        pool: a path, a dataset or (ids, inputs).
        labels: teacher labels of the pool and of V (or of gold, to split V off): labels, a store,
            a file of probabilities, or an array with a row for each gold, then each pool example.
        method: tried instead of the one the audit recommends and the default, Consistency(SLaM()).
        classes: names of the columns of an array of probabilities.
        compare, quick, generations: try more methods, fewer, or students of students.
        out: a folder for the run; made again, the call goes on where it was.
    """
    task = gather(
        gold=gold,
        pool=pool,
        labels=labels,
        val=val,
        selection=selection,
        test=test,
        classes=classes,
        files=files,
        seed=seed,
    )
    named = parse(method) if isinstance(method, str) else method
    settings = DistillSettings(
        student=student,
        methods=() if named is None else (named,),
        compare=compare,
        quick=quick,
        generations=generations,
        epochs=epochs,
        training=training,
        featurizer=featurizer,
        flip=flip,
        seed=seed,
    )
    return run_distill(task, settings, out, device=device, quiet=quiet).student


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
    seed: int = 0,
) -> Task:
    """Read everything a distillation needs, and match it."""
    more = {
        name: None if part is None else as_examples(part, name, files)
        for name, part in (("val", val), ("selection", selection), ("test", test))
    }
    given = Given(
        as_examples(gold, "gold", files), as_examples(pool, "pool", files, labelled=False), **more
    )
    in_order = [part for part in (given.gold, given.pool, given.val) if part is not None]
    return make_task(given, as_labels(labels, in_order, classes, logits=logits), seed=seed)
