"""One task, whole: gold, V, S, pool and test side by side, with their teacher labels."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from noisyteacher.choose.folds import LEAST_ROWS
from noisyteacher.choose.verdict import SUSPICIOUS_ROWS
from noisyteacher.core.errors import InputError, counted, first_few, warn
from noisyteacher.data import Dataset, Split
from noisyteacher.data.dataset import Kind
from noisyteacher.io.ids import ids_like
from noisyteacher.labels import TeacherLabels
from noisyteacher.pipeline.matching import (
    check_disjoint,
    contents,
    pool_without,
    rows,
    rows_with_labels,
    with_classes,
    with_features,
    without_unlabeled,
)
from noisyteacher.train.pool_shards import PoolShards, PoolTensors


@dataclass(frozen=True, eq=False)
class Task:
    """Everything a student learns from; ``split`` points into the joined rows."""

    name: str
    kind: Kind
    classes: tuple[str, ...]
    ids: np.ndarray  # (n,)
    inputs: np.ndarray | list[str]  # n
    y: np.ndarray  # (n,) int64, -1 on the pool
    split: Split
    labels: TeacherLabels
    test: Dataset | None
    features: tuple[str, ...] = ()  # a table's columns, where named
    # The whole pool on disk, where ``split`` has a part of it.
    rest: PoolShards | PoolTensors | None = None

    @property
    def sizes(self) -> dict[str, int]:
        parts = self.split
        return {
            "gold": len(parts.gold),
            "V": len(parts.val),
            "S": len(parts.selection),
            "pool": len(parts.pool) if self.rest is None else self.rest.rows,
            "test": 0 if self.test is None else len(self.test),
        }

    @property
    def measures(self) -> np.ndarray:
        """Positions of the rows that measure the teacher: V, else the gold rows it labeled."""
        rows = self.split.val if len(self.split.val) else self.split.gold
        return np.asarray(rows[self.labels.has(self.ids[rows])])

    @property
    def judges(self) -> np.ndarray:
        """Positions of the rows on which students are compared: S, else V, else all gold rows."""
        parts = self.split
        return next(rows for rows in (parts.selection, parts.val, parts.gold) if len(rows))

    @property
    def teacher_accuracy(self) -> float:
        """On the rows that measure it, in percent."""
        rows = self.measures
        said = self.labels.take(self.ids[rows]).hard
        return 100 * float(np.mean(said == self.y[rows]))

    def test_accuracy(self, logits: np.ndarray) -> float:
        """In percent, of logits (t, L) of the test examples."""
        assert self.test is not None
        return round(100 * float(np.mean(logits.argmax(1) == self.test.y)), 2)

    def digest(self) -> str:
        """Tells it from a task with other examples, labels or parts."""
        digest, parts = hashlib.sha256(), self.split
        labels = self.labels.take(self.ids[np.concatenate([self.measures, parts.pool])])
        arrays = [self.y, labels.topk_index, labels.topk_logprob]
        if labels.missing.any():
            arrays.append(labels.missing)
        arrays += [labels.extras[name] for name in sorted(labels.extras)]
        arrays += [parts.gold, parts.val, parts.selection, parts.pool]
        texts = [str(key) for key in self.ids.tolist()]
        shown = [self.inputs]
        if self.test is not None:
            # A finished student's test accuracy is never measured again.
            arrays.append(self.test.y)
            shown.append(self.test.inputs)
        for inputs in shown:
            if isinstance(inputs, list):
                texts += inputs
            else:
                arrays.append(inputs)
        for array in arrays:
            digest.update(np.ascontiguousarray(array).tobytes())
        for text in texts:
            digest.update(text.encode() + b"\0")
        if self.rest is not None:
            digest.update(self.rest.digest())
        return digest.hexdigest()


def make_task(given: Mapping[str, Dataset], labels: TeacherLabels) -> Task:
    """Match classes and ids, and put all rows together.

    ``given`` are "gold" and "pool", and those of "val" (V), "selection" (S) and "test" that the
    user has; gold rows stand in for V and S.
    """

    def matched(name: str, part: Dataset) -> Dataset:
        if name != "pool":
            part = without_unlabeled(with_classes(part, labels.classes))
        part = replace(part, ids=ids_like(part.ids, labels.ids, part.name))
        return with_features(part, given["gold"].features, "the gold set")

    short = {"val": "V", "selection": "S"}
    sets = {short.get(name, name): matched(name, part) for name, part in given.items()}
    _check_kinds(sets)
    _warn_of_absent_classes(sets["gold"], labels.classes)
    _warn_of_empty_texts(sets)
    pool = sets.pop("pool")
    check_disjoint(sets)
    pool = pool_without(pool, sets)
    kept = rows_with_labels(pool, labels, "pool ids", f"ids of {pool.name}")
    test = sets.pop("test", None)
    sets = _for_folds(sets, labels) | {"pool": rows(pool, kept)}
    _warn_of_copies(sets, test)
    task = _joined(sets, labels, test)
    measured = len(task.split.val) or len(task.split.gold)
    if measured >= SUSPICIOUS_ROWS and task.teacher_accuracy == 100:
        rows_of = "rows of V" if len(task.split.val) else "gold rows"
        warn(
            f"The teacher is right on all {measured} {rows_of}: it was probably trained on them, "
            "and its labels would be trusted too much; give val= (--val) with rows that it never "
            "saw."
        )
    return task


def _check_kinds(sets: dict[str, Dataset]) -> None:
    gold = sets["gold"]
    for name, part in sets.items():
        if part.kind != gold.kind:
            raise InputError(f"The gold set holds {gold.kind}s, the {name} set {part.kind}s.")
        shapes = [np.shape(each.inputs)[1:] for each in (gold, part) if each.kind != "text"]
        if len(set(shapes)) > 1:
            size = "; give files=FileOptions(image_size=...) (--image-size)"
            hint = size if gold.kind == "image" else ""
            raise InputError(
                f"The gold set's inputs have shape {shapes[0]}, those of the {name} set "
                f"{shapes[1]}{hint}."
            )


def _warn_of_absent_classes(gold: Dataset, classes: tuple[str, ...]) -> None:
    absent = [name for i, name in enumerate(classes) if not (gold.y == i).any()]
    if absent:
        warn(f"The gold set has no example of {first_few(absent)}.")


def _warn_of_empty_texts(sets: dict[str, Dataset]) -> None:
    for name, part in sets.items():
        if isinstance(part.inputs, list):
            empty = [i for i, text in enumerate(part.inputs) if not text.strip()]
            if empty:
                warn(
                    f"The {name} set has {counted(len(empty), 'example')} without any text: "
                    f"{first_few(part.ids[empty].tolist())}."
                )


def _warn_of_copies(sets: dict[str, Dataset], test: Dataset | None) -> None:
    """Examples under two ids: a student would be measured on what it was trained on."""
    trained = {content for name in ("gold", "V") for content in contents(sets[name])}
    for name, part in (("S", sets["S"]), ("test", test)):
        if part is None:
            continue
        copies = [key for key, c in zip(part.ids, contents(part), strict=True) if c in trained]
        if copies:
            # A row of S is never trained on, under whatever id.
            effect = (
                "Such inputs are not trained on."
                if name == "S"
                else "Accuracies on the test set are therefore too high."
            )
            warn(
                f"The {name} set has {counted(len(copies), 'example')} with inputs that are also "
                f"in the gold set or V, under other ids: {first_few(map(str, copies))}. {effect}"
            )


def _for_folds(sets: dict[str, Dataset], labels: TeacherLabels) -> dict[str, Dataset]:
    """V and S as given, else empty: folds of the gold set take their place."""
    gold = sets["gold"]
    if "V" in sets:
        sets["V"] = rows(sets["V"], rows_with_labels(sets["V"], labels, "ids of V"))
    else:
        found = len(
            rows_with_labels(
                gold,
                labels,
                "gold ids",
                effect="are not used to measure the teacher",
                remedy=" It is unknown how often the teacher is right: label the gold file too, or "
                "give val= (--val).",
            )
        )
        if found < LEAST_ROWS:
            raise InputError(
                f"{found} gold examples with teacher labels are too few to measure the teacher and "
                f"compare students: at least {LEAST_ROWS} are needed."
            )
    nothing = rows(gold, np.empty(0, np.int64))
    return {"V": nothing, "S": nothing} | sets


def _joined(sets: dict[str, Dataset], labels: TeacherLabels, test: Dataset | None) -> Task:
    parts = [sets[part] for part in ("gold", "V", "S", "pool")]
    ends = np.cumsum([len(part) for part in parts])
    gold, val, selection, pool = np.split(np.arange(ends[-1]), ends[:-1])
    inputs: np.ndarray | list[str]
    if isinstance(parts[0].inputs, list):
        inputs = [text for part in parts for text in part.inputs]
    else:
        inputs = np.concatenate([np.asarray(part.inputs) for part in parts])
    y = np.concatenate([part.y for part in parts])
    y[pool] = -1
    ids = np.concatenate([part.ids for part in parts])
    return Task(
        name=parts[0].name,
        kind=parts[0].kind,
        classes=labels.classes,
        ids=ids,
        inputs=inputs,
        y=y,
        split=Split(gold, val, selection, pool),
        labels=labels.take(ids[labels.has(ids)]),
        test=test,
        features=parts[0].features,
    )
