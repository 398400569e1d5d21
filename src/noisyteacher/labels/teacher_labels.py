"""TeacherLabels: soft labels keyed by example id, dense or top-k with the mass of the rest."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from noisyteacher.core.errors import InputError, first_few, warn
from noisyteacher.core.reprs import notebook_html
from noisyteacher.io.classes import check_text, clean_classes
from noisyteacher.io.ids import IdLookup, IdsLike, check_unique, clean_ids, is_text, repeated_ids
from noisyteacher.labels import store
from noisyteacher.labels.checks import (
    ArrayLike,
    Numbers,
    as_array,
    as_float,
    blocks_of_logits,
    blocks_of_probs,
    check_shape,
    clean_extras,
    clean_k,
    clean_mass,
    clean_temperature,
    compress_topk,
)
from noisyteacher.labels.manifest import Record
from noisyteacher.labels.topk import (
    LogAndProbs,
    TopK,
    compress,
    dense,
    logs,
    normalized,
    row_blocks,
    row_mass,
)


class TeacherLabels(Record):
    """A teacher's labels of n examples with L classes, of which the top k are stored.

    Make it with ``from_probs``, ``from_logits``, ``from_topk``, ``average`` or ``open``. The
    log-probabilities are rounded to float16 when it is made, and everything else is computed from
    the rounded values, so labels are bit-identical after saving and opening.

    Columns: ``ids`` (n,) int64 or str, ``topk_index`` (n, k) unsigned, ``topk_logprob`` (n, k)
    float16 in descending order (in a tie, the lower class comes first), ``missing`` (n,) float32:
    probability of no class at all, which the class probabilities do not include. ``extras``:
    further columns by name, each (n, ...): ``embedding`` (n, d), ``view_mean`` and ``view_std``
    (n, 2, L) at temperatures 1 and 2.
    """

    @classmethod
    def from_probs(
        cls,
        ids: IdsLike,
        probs: ArrayLike,
        classes: Sequence[str] | None = None,
        k: int | None = None,
        *,
        missing: ArrayLike | None = None,
        extras: Mapping[str, ArrayLike] | None = None,
        teacher: str | None = None,
        revision: str | None = None,
        temperature: float | None = None,
    ) -> Self:
        """Labels from (n, L) probabilities whose rows sum to 1.

        ``k`` classes are stored per row, all of them by default; ``temperature`` only records what
        the probabilities were made with.
        """
        array, unique, names = _dense_rows("probs", ids, probs, classes)
        blocks = blocks_of_probs(array, unique)
        top = compress(blocks, len(unique), len(names), clean_k(k, len(names)))
        return cls._make(unique, names, top, missing, extras, teacher, revision, temperature)

    @classmethod
    def from_logits(
        cls,
        ids: IdsLike,
        logits: ArrayLike,
        classes: Sequence[str] | None = None,
        k: int | None = None,
        *,
        missing: ArrayLike | None = None,
        extras: Mapping[str, ArrayLike] | None = None,
        teacher: str | None = None,
        revision: str | None = None,
        temperature: float = 1.0,
    ) -> Self:
        """Labels from the softmax of (n, L) logits divided by ``temperature``."""
        array, unique, names = _dense_rows("logits", ids, logits, classes)
        positive = clean_temperature(temperature) or 1.0
        _warn_of_probabilities(array)
        blocks = blocks_of_logits(array, unique, positive)
        top = compress(blocks, len(unique), len(names), clean_k(k, len(names)))
        return cls._make(unique, names, top, missing, extras, teacher, revision, positive)

    @classmethod
    def from_topk(
        cls,
        ids: IdsLike,
        index: ArrayLike,
        prob: ArrayLike,
        tail: ArrayLike,
        classes: Sequence[str],
        *,
        missing: ArrayLike | None = None,
        extras: Mapping[str, ArrayLike] | None = None,
        teacher: str | None = None,
        revision: str | None = None,
        temperature: float | None = None,
    ) -> Self:
        """Labels for which only the top classes are known.

        ``index`` (n, k): the k most probable classes in any order; ``prob`` (n, k): theirs;
        ``tail`` (n,): the mass of all other classes. ``prob`` and ``tail`` of a row sum to 1.
        """
        unique = unique_ids(ids)
        names = clean_classes(classes)
        top = compress_topk(index, prob, tail, unique, len(names))
        return cls._make(unique, names, top, missing, extras, teacher, revision, temperature)

    @classmethod
    def average(cls, stores: Sequence[TeacherLabels], k: int | None = None) -> Self:
        """Combine several teachers: the mean of their dense probabilities and of ``missing``.

        All must have the same ids, in any order, and the same classes. The result has the first
        one's order, stores all classes unless ``k`` says otherwise, and has no extras.
        """
        if not stores:
            raise InputError("There is nothing to average: no teacher labels were given.")
        first = stores[0]
        check_unique(first.ids)
        aligned = [first, *(_aligned(other, first, n) for n, other in enumerate(stores[1:], 1))]
        rows, classes = len(first), first.num_classes
        top = compress(_mean_blocks(aligned), rows, classes, clean_k(k, classes))
        missing = np.mean([labels.missing for labels in aligned], axis=0, dtype=np.float64)
        names = [labels.teacher or "unnamed" for labels in aligned]
        temperatures = {labels.temperature for labels in aligned}
        temperature = temperatures.pop() if len(temperatures) == 1 else None
        teacher = f"mean of {', '.join(names)}"
        ids = first.ids.copy()
        return cls._make(ids, first.classes, top, missing, None, teacher, None, temperature)

    @classmethod
    def _make(
        cls,
        ids: npt.NDArray[Any],
        classes: tuple[str, ...],
        top: TopK,
        missing: ArrayLike | None,
        extras: Mapping[str, ArrayLike] | None,
        teacher: str | None,
        revision: str | None,
        temperature: float | None,
    ) -> Self:
        check_text("the teacher's name and revision", teacher, revision)
        mass = np.zeros(len(ids)) if missing is None else clean_mass(missing, ids, "missing")
        made = cls(
            ids=ids,
            classes=classes,
            topk_index=top.indices,
            topk_logprob=top.logprobs,
            stored_tail=top.tail,
            missing=mass.astype(np.float32),
            extras=clean_extras(extras, ids, len(classes)),
            teacher=teacher,
            revision=revision,
            temperature=clean_temperature(temperature),
        )
        return made.under_ids(ids)

    def under_ids(self, ids: npt.NDArray[Any]) -> Self:
        """The same rows under other ids. These must be valid and unique, which is not checked."""
        renamed = replace(self, ids=ids)
        vars(renamed)["_unique"] = True
        return renamed

    @classmethod
    def open(cls, path: str | Path, extras: Iterable[str] | None = None) -> Self:
        """Read a label store and check its hashes.

        ``extras`` names the extra columns to read, all of them by default; embeddings of a large
        pool may be much larger than its labels.
        """
        return cls(**vars(store.read(Path(path).expanduser(), extras)))

    def save(self, path: str | Path, overwrite: bool = False) -> None:
        """Write a label store, a folder; ``open`` reads it back bit for bit.

        An existing store is refused, or with ``overwrite`` replaced in one step: whoever opens
        the folder finds the old store or the new one, also after a crash.
        """
        if not self._unique:
            check_unique(self.ids)
        store.write([self], Path(path).expanduser(), overwrite)

    @property
    def num_classes(self) -> int:
        """The number of classes, L."""
        return len(self.classes)

    @property
    def k(self) -> int:
        """The number of classes stored per row; L if the labels are dense."""
        return int(self.topk_index.shape[1])

    @property
    def topk_prob(self) -> npt.NDArray[np.float32]:
        """(n, k) probabilities of the stored classes; with ``tail`` they sum to 1."""
        return normalized(self.topk_logprob, self._mass)

    @property
    def tail(self) -> npt.NDArray[np.float32]:
        """(n,) probability of the classes that are not stored."""
        return self.stored_tail / self._mass

    @property
    def probs(self) -> npt.NDArray[np.float32]:
        """(n, L) probabilities; the tail is spread evenly over the classes that are not stored.

        Made anew at every access. A class that is not stored is always below the stored ones.
        """
        return dense(self.topk_index, self.topk_prob, self.tail, self.num_classes)

    @property
    def hard(self) -> npt.NDArray[np.int64]:
        """(n,) the most probable class."""
        return self.topk_index[:, 0].astype(np.int64)

    @cached_property
    def _mass(self) -> npt.NDArray[np.float32]:
        return row_mass(self.topk_logprob, self.stored_tail)

    @cached_property
    def _unique(self) -> bool:
        return not repeated_ids(self.ids)

    @cached_property
    def _lookup(self) -> IdLookup:
        return IdLookup(self.ids)

    def __len__(self) -> int:
        return len(self.ids)

    def take(self, ids: IdsLike) -> Self:
        """The rows with these ids, in this order; repeated ids are allowed."""
        return self.at(self._lookup.rows(clean_ids(ids)))

    def has(self, ids: IdsLike) -> npt.NDArray[np.bool_]:
        """(m,) bool: whether there is a row for each id. Text and numbers are different ids."""
        return self._lookup.find(clean_ids(ids)) >= 0

    def chunks(self, size: int) -> Iterator[Self]:
        """The rows in order, ``size`` at a time, without copying."""
        if size < 1:
            raise InputError(f"the size of a chunk must be at least 1, got {size}.")
        return (self.at(slice(at, at + size)) for at in range(0, len(self), size))

    def __repr__(self) -> str:
        kept = "all" if self.k == self.num_classes else f"top {self.k}"
        extras = "".join(f", {name}" for name in self.extras)
        return f"TeacherLabels({len(self)} rows, {kept} of {self.num_classes} classes{extras})"

    def _repr_html_(self) -> str:
        first = self.at(slice(0, 5))
        top = first.probs.max(1)
        rows = [
            (str(key), self.classes[c], f"{p:.3f}")
            for key, c, p in zip(first.ids.tolist(), first.hard.tolist(), top.tolist(), strict=True)
        ]
        named = f"Teacher: {self.teacher}. " if self.teacher else ""
        text = f"{named}The first rows, each with its most probable class:"
        return notebook_html(repr(self), text, header=("id", "class", "probability"), rows=rows)


def join_labels(parts: Sequence[TeacherLabels]) -> TeacherLabels:
    """Labels of different examples under each other, bit for bit as they were."""
    if not parts:
        raise InputError("No teacher labels were given.")
    first = parts[0]
    for part in parts[1:]:
        check_joinable(first.classes, first.k, part.classes, part.k)
    if len({is_text(part.ids) for part in parts}) > 1:
        raise InputError("Label stores to join must all have ids of text, or all of numbers.")
    joined = first.followed_by(parts[1:])
    if repeated := repeated_ids(joined.ids):
        raise InputError(f"Label stores share ids: {first_few(repeated)}.")
    return joined


def check_joinable(
    classes: tuple[str, ...], k: int, other_classes: tuple[str, ...], other_k: int
) -> None:
    """Refuse labels whose numbers do not mean the same, or are not as many in each row."""
    if other_classes != classes or other_k != k:
        raise InputError(
            f"Label stores to join must have the same classes, and as many stored of each row: "
            f"top {k} of {first_few(classes, 10)}, and top {other_k} of "
            f"{first_few(other_classes, 10)}."
        )


def unique_ids(ids: IdsLike) -> npt.NDArray[Any]:
    """Ids as they are stored; repeated ones are refused."""
    cleaned = clean_ids(ids)
    check_unique(cleaned)
    return cleaned


def _dense_rows(
    name: str, ids: IdsLike, values: ArrayLike, classes: Sequence[str] | None
) -> tuple[Numbers, npt.NDArray[Any], tuple[str, ...]]:
    """(n, L) values, their n ids and L classes, all of which fit together."""
    array, unique = as_array(values, name), unique_ids(ids)
    check_shape(array, name, (len(unique), "L"))
    return array, unique, clean_classes(classes, array.shape[1])


def _aligned(other: TeacherLabels, first: TeacherLabels, number: int) -> TeacherLabels:
    """``other`` in the order of ``first``'s ids, which must be the same set."""
    if other.classes != first.classes:
        raise InputError(f"labels 0 and {number} to average have different classes.")
    if absent := first.ids[~other.has(first.ids)].tolist():
        raise InputError(f"labels {number} to average lack the ids {first_few(absent)}.")
    if extra := other.ids[~first.has(other.ids)].tolist():
        raise InputError(f"labels 0 to average lack the ids {first_few(extra)} of labels {number}.")
    return other.take(first.ids)


def _mean_blocks(aligned: Sequence[TeacherLabels]) -> Iterator[LogAndProbs]:
    for rows in row_blocks(len(aligned[0]), aligned[0].num_classes):
        mean = np.mean([labels.at(rows).probs for labels in aligned], axis=0)
        mean /= mean.sum(axis=1, keepdims=True)
        yield LogAndProbs(logs(mean), mean)


def _warn_of_probabilities(logits: Numbers) -> None:
    """A softmax of probabilities is nearly flat, and looks like a teacher without an opinion."""
    few = as_float(logits[:1000])
    likely = len(few) and few.min() >= 0 and few.max() < 2  # larger ones may not have a sum
    if likely and (abs(few.sum(1) - 1) < 1e-3).all():
        warn(
            "These logits look like probabilities: none is below 0, and rows sum to 1. Their "
            "softmax is nearly flat; give probabilities as such."
        )
