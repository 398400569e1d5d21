"""Bringing files and teacher labels together: classes by name, examples by id and by content."""

from __future__ import annotations

import hashlib
from collections.abc import Hashable
from dataclasses import replace

import numpy as np

from noisyteacher.core.errors import InputError, counted, first_few, warn
from noisyteacher.data import Dataset
from noisyteacher.data.dataset import take_rows
from noisyteacher.io.classes import label_numbers, labeled_rows
from noisyteacher.labels import TeacherLabels


def with_classes(examples: Dataset, classes: tuple[str, ...]) -> Dataset:
    """The same examples with labels as numbers in ``classes``, which are the teacher's."""
    if examples.classes == classes:
        return examples
    used = np.unique(examples.y[examples.y >= 0])
    number = np.full(len(examples.classes) + 1, -1, np.int64)  # the last is that of y = -1
    number[used] = label_numbers([examples.classes[c] for c in used], classes, examples.name)
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
    """Some of the examples, in that order."""
    taken = take_rows(examples.inputs, index)
    return replace(examples, ids=examples.ids[index], inputs=taken, y=examples.y[index])


def without_unlabeled(examples: Dataset) -> Dataset:
    """Only the rows whose label is known; says how many were left out."""
    known = labeled_rows(examples.y, examples.ids, examples.name)
    return examples if len(known) == len(examples) else rows(examples, known)


def pool_with_labels(pool: Dataset, labels: TeacherLabels) -> Dataset:
    """The pool's rows that have teacher labels; says how many have none."""
    found = labels.has(pool.ids)
    if found.all():
        return pool
    missing = pool.ids[~found].tolist()
    if not found.any():
        raise InputError(
            f"None of the {len(pool)} ids of {pool.name} has a teacher label: the file begins with "
            f"{first_few(pool.ids.tolist(), 2)}, the labels with "
            f"{first_few(labels.ids.tolist(), 2)}."
        )
    warn(
        f"{len(missing)} of {len(pool)} pool ids have no teacher label and are left out: "
        f"{first_few(missing)}."
    )
    return rows(pool, np.flatnonzero(found))


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
    return pool if keep.all() else rows(pool, np.flatnonzero(keep))


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
