"""Bringing files and teacher labels together: classes by name, examples by id and by content."""

from __future__ import annotations

import hashlib
from collections.abc import Hashable
from dataclasses import replace

import numpy as np

from noisyteacher.core.errors import InputError, counted, first_few, warn
from noisyteacher.data import Dataset
from noisyteacher.data.dataset import take_rows
from noisyteacher.io.classes import by_class_label, label_numbers, labeled_rows
from noisyteacher.labels import TeacherLabels


def with_classes(examples: Dataset, classes: tuple[str, ...]) -> Dataset:
    """The same examples with labels as numbers in ``classes``, which are the teacher's."""
    if examples.classes == classes:
        return examples
    used = np.unique(examples.y[examples.y >= 0])
    number = np.full(len(examples.classes) + 1, -1, np.int64)  # the last is that of y = -1
    names = by_class_label([examples.classes[c] for c in used], examples.class_label, classes)
    number[used] = label_numbers(names, classes, examples.name)
    return replace(examples, y=number[examples.y], classes=classes)


def with_features(examples: Dataset, names: tuple[str, ...], whose: str) -> Dataset:
    """A table's columns in the order of ``names``; other columns are refused, none is guessed."""
    if not names or not examples.features or examples.features == names:
        return examples
    if sorted(examples.features) != sorted(names):
        missing = [name for name in names if name not in examples.features]
        strange = [name for name in examples.features if name not in names]
        told = [f"lacks {first_few(missing)}"] if missing else []
        told += [f"has {first_few(strange)} besides"] if strange else []
        raise InputError(f"The table {examples.name} {' and '.join(told)}, unlike {whose}.")
    order = [examples.features.index(name) for name in names]
    return replace(examples, inputs=np.asarray(examples.inputs)[:, order], features=names)


def rows(examples: Dataset, index: np.ndarray) -> Dataset:
    """Some of the examples, in their order; all of them are not copied."""
    if len(index) == len(examples):
        return examples
    taken = take_rows(examples.inputs, index)
    return replace(examples, ids=examples.ids[index], inputs=taken, y=examples.y[index])


def without_unlabeled(examples: Dataset) -> Dataset:
    """Only the rows whose label is known; says how many were left out."""
    return rows(examples, labeled_rows(examples.y, examples.ids, examples.name))


def rows_with_labels(
    examples: Dataset,
    labels: TeacherLabels,
    some: str,
    every: str | None = None,
    *,
    effect: str = "are left out",
    remedy: str = "",
) -> np.ndarray:
    """Positions of the rows with a teacher label; says how many have none, and what follows.

    ``some`` of the ids are called so, and ``every`` one of them, if none has a label.
    """
    found = labels.has(examples.ids)
    if not found.any():
        raise InputError(
            f"None of the {len(examples)} {every or some} has a teacher label: the file begins "
            f"with {first_few(examples.ids.tolist(), 2)}, the labels with "
            f"{first_few(labels.ids.tolist(), 2)}.{remedy}"
        )
    missing = examples.ids[~found].tolist()
    if missing:
        warn(
            f"{len(missing)} of {len(examples)} {some} have no teacher label and {effect}: "
            f"{first_few(missing)}."
        )
    return np.flatnonzero(found)


def pool_without(pool: Dataset, others: dict[str, Dataset]) -> Dataset:
    """The pool less the examples that stand in other sets too, by content or by id."""
    mine = contents(pool)
    keep = np.ones(len(pool), bool)
    for name, other in others.items():
        theirs = contents(other)
        known = set(theirs)
        content_of = dict(zip(other.ids.tolist(), theirs, strict=True))
        clash = [
            key
            for key, content in zip(pool.ids.tolist(), mine, strict=True)
            if content_of.get(key, content) != content
        ]
        if clash:
            raise InputError(
                f"{len(clash)} ids name different examples in the pool and in the {name} set: "
                f"{first_few(clash)}; ids must be unique."
            )
        shared = np.array([content in known for content in mine], bool)
        if shared.any():
            warn(
                f"Left out of the pool, because the {name} set has the same inputs: "
                f"{counted(int(shared.sum()), 'example')} "
                f"({first_few(pool.ids[shared].tolist())})."
            )
            keep &= ~shared
    if not keep.any():
        raise InputError("Every pool example is also in another set; the pool is empty.")
    return rows(pool, np.flatnonzero(keep))


def contents(examples: Dataset) -> list[Hashable]:
    """One value for each example that is equal for equal inputs."""
    if isinstance(examples.inputs, list):
        return list(examples.inputs)
    return [
        hashlib.blake2b(np.ascontiguousarray(row).tobytes(), digest_size=16).digest()
        for row in examples.inputs
    ]


def check_disjoint(sets: dict[str, Dataset]) -> None:
    """Refuse an id that stands in two of the labeled sets."""
    seen: dict[object, str] = {}
    for name, examples in sets.items():
        both = [key for key in examples.ids.tolist() if key in seen]
        if both:
            raise InputError(
                f"{len(both)} ids of the {name} set are also in the {seen[both[0]]} set: "
                f"{first_few(both)}; the sets must be disjoint."
            )
        seen |= dict.fromkeys(examples.ids.tolist(), name)
