"""One task, whole: gold, V, S, pool and test side by side, with their teacher labels."""

from __future__ import annotations

import hashlib
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
    pool_with_labels,
    pool_without,
    rows,
    with_classes,
    with_features,
    without_unlabeled,
)
from noisyteacher.train.pool_shards import PoolShards, PoolTensors


@dataclass(frozen=True, eq=False)
class ExampleSets:
    """The sets as the user gave them; parts of the gold set stand in for V and S."""

    gold: Dataset
    pool: Dataset
    val: Dataset | None = None
    selection: Dataset | None = None
    test: Dataset | None = None


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
        """Positions of the rows that judge students: S, else V, else all gold rows."""
        parts = self.split
        return next(rows for rows in (parts.selection, parts.val, parts.gold) if len(rows))

    @property
    def teacher_accuracy(self) -> float:
        """On the rows that measure it, in percent."""
        rows = self.measures
        said = self.labels.take(self.ids[rows]).hard
        return 100 * float(np.mean(said == self.y[rows]))

    def digest(self) -> str:
        """Tells it from a task with other examples, labels or parts."""
        digest, parts = hashlib.sha256(), self.split
        labels = self.labels.take(self.ids[np.concatenate([self.measures, parts.pool])])
        arrays = [self.y, labels.topk_index, labels.topk_logprob]
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
        return digest.hexdigest()


def make_task(given: ExampleSets, labels: TeacherLabels) -> Task:
    """Match classes and ids, and put all rows together."""

    def with_ids(part: Dataset) -> Dataset:
        return replace(part, ids=ids_like(part.ids, labels.ids, part.name))

    labeled = {
        name: with_ids(without_unlabeled(with_classes(part, labels.classes)))
        for name, part in (
            ("gold", given.gold),
            ("V", given.val),
            ("S", given.selection),
            ("test", given.test),
        )
        if part is not None
    }
    columns, whose = given.gold.features, "the gold set"
    labeled = {name: with_features(part, columns, whose) for name, part in labeled.items()}
    pool = with_features(given.pool, columns, whose)
    _check_kinds(labeled | {"pool": pool})
    check_disjoint(labeled)
    _warn_of_absent_classes(labeled["gold"], labels.classes)
    _warn_of_empty_texts(labeled | {"pool": pool})
    pool = pool_with_labels(pool_without(with_ids(pool), labeled), labels)
    test = labeled.pop("test", None)
    sets = _for_folds(labeled, labels)
    _warn_of_copies(sets, test)
    task = _joined(given.gold.name, sets | {"pool": pool}, labels, test)
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
                    f"{counted(len(empty), 'example')} of the {name} set without any text: "
                    f"{first_few(part.ids[empty].tolist())}."
                )


def _warn_of_copies(sets: dict[str, Dataset], test: Dataset | None) -> None:
    """Examples under two ids: a student would be judged on what it was trained on."""
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
                else "Accuracies on the test set are too high for that reason."
            )
            warn(
                f"{counted(len(copies), 'example')} of {name} with inputs that are also in the "
                f"gold set or V, under other ids: {first_few(map(str, copies))}. {effect}"
            )


def _for_folds(sets: dict[str, Dataset], labels: TeacherLabels) -> dict[str, Dataset]:
    """V and S as given, else empty: folds of the gold set take their place."""
    gold = sets["gold"]
    if "V" in sets:
        sets["V"] = _only_labeled(sets["V"], labels)
    elif (found := int(_measurable(gold, labels).sum())) < LEAST_ROWS:
        raise InputError(
            f"{found} gold examples with teacher labels are too few to measure the teacher and "
            f"judge students: at least {LEAST_ROWS} are needed."
        )
    nothing = rows(gold, np.empty(0, np.int64))
    return {"V": nothing, "S": nothing} | sets


def _measurable(gold: Dataset, labels: TeacherLabels) -> np.ndarray:
    """(n,) bool: gold rows with a teacher label; notes are printed about the others."""
    usable = labels.has(gold.ids)
    if not usable.any():
        raise InputError(
            f"None of the {len(gold)} gold ids has a teacher label, so it is unknown how often "
            "the teacher is right: label the gold file too, or give val= (--val). The file begins "
            f"with {first_few(gold.ids.tolist(), 2)}, the labels with "
            f"{first_few(labels.ids.tolist(), 2)}."
        )
    if not usable.all():
        unlabeled = gold.ids[~usable].tolist()
        warn(
            f"{len(unlabeled)} of {len(gold)} gold ids have no teacher label and do not measure "
            f"the teacher: {first_few(unlabeled)}."
        )
    return np.asarray(usable)


def _only_labeled(val: Dataset, labels: TeacherLabels) -> Dataset:
    found = labels.has(val.ids)
    if found.all():
        return val
    missing = first_few(val.ids[~found].tolist())
    if not found.any():
        raise InputError(f"None of the {len(val)} ids of V has a teacher label: {missing}.")
    warn(f"{int((~found).sum())} of {len(val)} rows of V have no teacher label: {missing}.")
    return rows(val, np.flatnonzero(found))


def _joined(
    name: str, sets: dict[str, Dataset], labels: TeacherLabels, test: Dataset | None
) -> Task:
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
        name=name,
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
