"""The split of the training part into A, V, S and U.

A (gold) depends on the seed and its size alone: larger sets hold the smaller ones. V (fits the
noise model), S (picks epochs and hyper-parameters) and U (the pool) are drawn anew in each trial.
``split_outside`` is the split of a teacher that learned from rows of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import combinations
from numbers import Integral, Real

import numpy as np

from noisyteacher.core.errors import InputError, first_few
from noisyteacher.data.dataset import positions_of

_GOLD_STREAM, _TRIAL_STREAM, _OUTSIDE_STREAM, _OUTSIDE_TRIAL_STREAM = range(4)


@dataclass(frozen=True, eq=False)
class Split:
    """Positions in the training part, each (m,) int64; ``drawn`` records how to draw them again."""

    gold: np.ndarray
    val: np.ndarray
    selection: np.ndarray
    pool: np.ndarray
    drawn: Mapping[str, int | bool] = field(default_factory=dict)
    outside: np.ndarray = field(default_factory=lambda: np.empty(0, np.int64))  # the teacher's own

    def check(self, n: int, ids: np.ndarray | None = None) -> None:
        """Refuse positions outside 0..n-1, repetitions, and examples that are in two sets at once.

        With the ``ids`` (n,), which a user knows, examples are named by them.
        """
        names = ("gold", "val", "selection", "pool", "outside")
        sets: dict[str, np.ndarray] = {name: getattr(self, name) for name in names}
        for name, rows in sets.items():
            if len(rows) and (rows.min() < 0 or rows.max() >= n):
                raise InputError(f"{name} has positions outside 0..{n - 1}.")
            if len(np.unique(rows)) != len(rows):
                raise InputError(f"{name} holds some examples more than once.")
        for one, other in combinations(sets, 2):
            shared = np.intersect1d(sets[one], sets[other])
            if len(shared):
                what, named = ("examples, at positions", shared)
                if ids is not None:
                    what, named = ("ids:", ids[shared])
                raise InputError(
                    f"{one} and {other} share {len(shared)} {what} {first_few(named.tolist())}; "
                    "the sets must be disjoint."
                )


def split(
    y: np.ndarray | int,
    labeled: int | float,
    val: int = 500,
    selection: int = 500,
    seed: int = 0,
    trial: int = 0,
    stratified: bool = False,
    stratified_held_out: bool = False,
) -> Split:
    """Draw a split with ``labeled`` rows in A (a number, or a share of the data if below 1).

    ``y`` are the labels (n,), or their number n. Rows whose label is unknown (-1) go to the pool.
    ``stratified`` keeps the proportions of the classes in A, ``stratified_held_out`` in V and in S,
    which the paper's protocol draws uniformly at random.
    """
    labels = _labels(y, stratified or stratified_held_out)
    n = len(labels)
    known = np.flatnonzero(labels >= 0)
    size = _size(labeled, n)
    for name, value in (("val", val), ("selection", selection), ("seed", seed), ("trial", trial)):
        _require_whole(name, value)
    if size + val + selection > len(known):
        raise InputError(
            f"A of {size}, V of {val} and S of {selection} need {size + val + selection} labeled "
            f"examples, and there are {len(known)}."
        )
    order = known[np.random.default_rng([_GOLD_STREAM, seed]).permutation(len(known))]
    if stratified:
        order = order[_proportional(labels[order])]
    gold, rest = order[:size], np.sort(order[size:])
    rng = np.random.default_rng([_TRIAL_STREAM, seed, trial, size])
    rest = rest[rng.permutation(len(rest))]
    if stratified_held_out:
        rest = rest[_proportional(labels[rest], rng)]
    drawn = Split(
        gold=np.sort(gold),
        val=np.sort(rest[:val]),
        selection=np.sort(rest[val : val + selection]),
        pool=np.sort(np.concatenate([rest[val + selection :], np.flatnonzero(labels < 0)])),
        drawn={
            "seed": int(seed),
            "trial": int(trial),
            "stratified": bool(stratified),
            "stratified_held_out": bool(stratified_held_out),
        },
    )
    drawn.check(n)
    return drawn


def split_outside(
    y: np.ndarray,
    labeled: int,
    outside: int,
    pool: int,
    selection: int = 500,
    seed: int = 0,
    trial: int = 0,
) -> Split:
    """Draw a split for a teacher that is trained on ``outside`` rows in none of the other parts.

    The teacher's rows and the ``pool`` depend on the seed alone: they are the same for every size
    of A and in every trial. S and A are drawn from the other rows, anew in each trial; within a
    trial S is the same at every size, and a larger A contains the smaller ones. Because the teacher
    was not trained on any row of A, it can be measured on A: A is ``val``, whose true labels are
    trained on, and ``gold`` is empty.
    """
    labels = _labels(y, stratified=False)
    known = np.flatnonzero(labels >= 0)
    sizes = {"outside": outside, "pool": pool, "selection": selection, "labeled": labeled}
    for name, value in (*sizes.items(), ("seed", seed), ("trial", trial)):
        _require_whole(name, value)
    if sum(sizes.values()) > len(known):
        raise InputError(
            f"The teacher's own {outside} rows, a pool of {pool}, S of {selection} and A of "
            f"{labeled} need {sum(sizes.values())} labeled examples, and there are {len(known)}."
        )
    order = np.random.default_rng([_OUTSIDE_STREAM, seed]).permutation(known)
    taught, shared, rest = np.split(order, [outside, outside + pool])
    rest = np.random.default_rng([_OUTSIDE_TRIAL_STREAM, seed, trial]).permutation(rest)
    drawn = Split(
        gold=np.empty(0, np.int64),
        val=np.sort(rest[selection : selection + labeled]),
        selection=np.sort(rest[:selection]),
        pool=np.sort(shared),
        drawn={"seed": int(seed), "trial": int(trial)},
        outside=np.sort(taught),
    )
    drawn.check(len(labels))
    return drawn


def split_by_ids(
    ids: np.ndarray,
    gold: np.ndarray,
    val: np.ndarray,
    selection: np.ndarray | None = None,
    pool: np.ndarray | None = None,
) -> Split:
    """A split given by ids; without ``pool``, all other examples are the pool."""
    none = np.empty(0, np.int64)
    parts = [
        none if wanted is None else positions_of(ids, wanted, "the training part")
        for wanted in (gold, val, selection, pool)
    ]
    if pool is None:
        parts[-1] = np.setdiff1d(np.arange(len(ids)), np.concatenate(parts))
    chosen = Split(parts[0], parts[1], parts[2], parts[3])
    chosen.check(len(ids), ids)
    return chosen


def _require_whole(name: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, Integral) or int(value) < 0:
        raise InputError(f"{name} must be a whole number of at least 0, not {value!r}.")


def _labels(y: object, stratified: bool) -> np.ndarray:
    if isinstance(y, Integral):
        if stratified:
            raise InputError("A stratified split needs the labels, not their number.")
        return np.zeros(max(int(y), 0), np.int64)
    labels = np.asarray(y)
    if labels.ndim != 1 or labels.dtype.kind not in "iu":
        raise InputError(
            f"y must be whole numbers of shape (n,), not {labels.dtype} of shape {labels.shape}."
        )
    return labels.astype(np.int64)


def _size(labeled: object, n: int) -> int:
    if isinstance(labeled, bool) or not isinstance(labeled, Real):
        raise InputError(f"labeled must be a number of examples or a share, not {labeled!r}.")
    if isinstance(labeled, Integral):
        size = int(labeled)
    elif 0 < float(labeled) < 1:
        size = round(float(labeled) * n)
    else:
        raise InputError(f"A share of labeled examples lies between 0 and 1, not {labeled!r}.")
    if size < 1:
        raise InputError(f"A must hold at least one example; {labeled!r} of {n} is {size}.")
    return size


def _proportional(labels: np.ndarray, rng: np.random.Generator | None = None) -> np.ndarray:
    """An order in which every beginning holds each class in (nearly) its overall share.

    With ``rng`` each class begins at a place of its own, so that a class of few rows stands at the
    end as often as elsewhere.
    """
    by_class = np.argsort(labels, kind="stable")
    counts = np.unique(labels, return_counts=True)[1]
    begin = np.full(len(counts), 0.5) if rng is None else rng.random(len(counts))
    rank = np.empty(len(labels))
    rank[by_class] = np.concatenate(
        [np.empty(0), *((np.arange(n) + b) / n for n, b in zip(counts, begin, strict=True))]
    )
    return np.argsort(rank, kind="stable")
