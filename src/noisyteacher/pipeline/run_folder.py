"""The folder of a distillation: its recipe, which later runs must agree with, and its results."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
import orjson

from noisyteacher.data import Featurizer
from noisyteacher.data.input_format import InputFormat
from noisyteacher.models import ModelSpec
from noisyteacher.pipeline.candidates import Candidate
from noisyteacher.pipeline.outcome import Outcome
from noisyteacher.pipeline.task import Task
from noisyteacher.runs import Row, RunFolder
from noisyteacher.train import TrainConfig

# What differs, as the one who gave it would say.
_CHANGED = {
    "data": "other files: gold, pool, teacher labels, validation or test rows",
    "student_training": "other training, such as other epochs (--epochs)",
    "flip": "another flip of images (--no-flip)",
    "featurizer": "another featurizer of texts",
}


def claim_folder(
    folder: RunFolder,
    task: Task,
    student: ModelSpec,
    training: TrainConfig,
    seed: int,
    inputs: InputFormat,
) -> None:
    """Write the recipe; refuse a folder that holds a run on other data or of another student."""
    settings = {
        "name": "distill",
        "dataset": task.name,
        "data": _data_hash(task),
        "sizes": task.sizes,
        "classes": list(task.classes),
        "teacher": task.labels.teacher,
        "student": repr(student),
        "student_training": repr(training),
        "seed": seed,
        "flip": inputs.flip,
        "featurizer": _featurizer_hash(inputs.featurizer),
    }
    folder.claim(settings, in_words=_CHANGED)


def _featurizer_hash(featurizer: Featurizer | None) -> str | None:
    """Another vocabulary of the same size fits the same student, and means other words."""
    if featurizer is None:
        return None
    return hashlib.sha256(orjson.dumps(featurizer.to_json())).hexdigest()


def _data_hash(task: Task) -> str:
    digest, parts = hashlib.sha256(), task.split
    labels = task.labels.take(task.ids[np.concatenate([parts.val, parts.pool])])
    arrays = [task.y, labels.topk_index, labels.topk_logprob]
    arrays += [parts.gold, parts.val, parts.selection, parts.pool]
    texts = [str(key) for key in task.ids.tolist()]
    shown = [task.inputs]
    if task.test is not None:
        # A finished student's test accuracy is never measured again.
        arrays.append(task.test.y)
        shown.append(task.test.inputs)
    for inputs in shown:
        if isinstance(inputs, list):
            texts += inputs
        else:
            arrays.append(inputs)
    for array in arrays:
        digest.update(np.ascontiguousarray(array).tobytes())
    for text in texts:
        digest.update(text.encode() + b"\0")
    return digest.hexdigest()


def better_before(folder: RunFolder, outcomes: Sequence[Outcome]) -> tuple[str, float] | None:
    """The best student on S that earlier calls left here, where none of these is as good."""
    mine = {(Candidate(o.candidate.method).name, o.candidate.generation) for o in outcomes}
    earlier = [
        (row.method, float(row.curve[-1]["selection"]))
        for row in folder.rows()
        if (row.method, row.generation) not in mine and row.curve and row.curve[-1]["selection"]
    ]
    best = max(earlier, key=lambda pair: pair[1], default=None)
    kept = max(outcome.selection for outcome in outcomes)
    return best if best is not None and best[1] > kept else None


def results_row(
    task: Task, outcome: Outcome, training: TrainConfig, seed: int, hardware: str
) -> Row:
    """The row of one finished student."""
    candidate = outcome.candidate
    tested = [point["test"] for point in outcome.curve if point["test"] is not None]
    hard = "hard=True" in candidate.name
    return Row(
        recipe="distill",
        dataset=task.name,
        distillation=("hard" if hard else "soft") if candidate.uses_teacher else None,
        labeled=len(task.split.gold),
        method=Candidate(candidate.method).name,
        gold_repeat=1 if candidate.method is None else training.gold_repeat,
        generation=candidate.generation,
        trial=0,
        epochs=0 if candidate.method is None else training.epochs,
        accuracy={
            "last": outcome.test,
            "selected": outcome.test_at_selected,
            "best_test": max(tested, default=outcome.test),
        },
        macro_f1=outcome.macro_f1,
        teacher_accuracy=task.teacher_accuracy,
        curve=list(outcome.curve),
        seconds=round(outcome.seconds, 3),
        images_per_second=round(outcome.examples_per_second, 1),
        seeds={"recipe": seed, "trial": 0, "student": seed},
        hardware=hardware,
    )
