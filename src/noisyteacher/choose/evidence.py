"""What every candidate predicts for gold rows that it was not trained on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch
from scipy.sparse import issparse
from scipy.special import softmax

from noisyteacher.choose.choice import Candidate
from noisyteacher.choose.decision import Part
from noisyteacher.core.errors import InputError
from noisyteacher.core.threads import in_threads
from noisyteacher.labels import TeacherLabels
from noisyteacher.methods import Columns, Method, Rows, SelfTraining, fit_and_prepare
from noisyteacher.train.pool_shards import PoolShards
from noisyteacher.train.solver import (
    TOLERANCE,
    Block,
    Design,
    Features,
    LinearFit,
    is_solvable,
    solve_blocks,
    solve_linear,
)
from noisyteacher.train.sparse_steps import train_on_words

# Out-of-fold predictions need fewer digits than the student that is returned.
CROSS_FIT_TOLERANCE = 3e-4
_LEAST_SHARE = 1e-6  # mean probabilities below it are taken for this


# Which columns a student reads, where a frozen encoder made the first and words are the others.
ALL, ENCODED, WORDS = "all", "encoded", "words"


@dataclass(frozen=True)
class Setting:
    """How strongly a linear student is penalized, how many pool rows a gold row counts for, and
    which columns it reads.
    """

    strength: float
    gold_weight: float = 1.0
    columns: str = ALL


@dataclass(frozen=True)
class LinearCandidate(Candidate):
    """A method whose linear student is solved at each of its settings."""

    method: Method
    settings: tuple[Setting, ...]

    def only(self, parts: Iterable[Part]) -> LinearCandidate:
        """The same method at the settings of these parts, in their order."""
        return replace(self, settings=tuple(self.settings[part.setting] for part in parts))


@dataclass(frozen=True, eq=False)
class DecisionRows:
    """Features and labels of all rows: gold rows to compare on, other gold rows, and the pool.

    ``judges`` rows are held out fold by fold. ``measures`` rows fit the noise model while they are
    not held out. Gold rows that are neither are trained on in every fold: the teacher may have
    been trained on them, so they can tell nothing about it.
    """

    features: Features  # (n, d); for networks, which read their inputs elsewhere, d = 0
    ids: np.ndarray  # (n,)
    y: np.ndarray  # (n,) int64, -1 on pool rows
    judges: np.ndarray  # (n,) bool
    measures: np.ndarray  # (n,) bool
    labels: TeacherLabels | None
    classes: int
    trains_judges: bool = True  # False: rows of a selection file, never trained on
    groups: np.ndarray | None = None  # (n,) rows with identical inputs share a number
    measured_y: np.ndarray | None = None  # (n,) classes that measure the teacher; None is y
    rest: PoolShards | None = None  # the whole pool on disk, where the rows hold a part of it
    encoded: int = 0  # how many columns, the first ones, a frozen encoder made beside words

    def __post_init__(self) -> None:
        if not self.judges.any():
            raise InputError("No gold row is left to compare students on.")

    @cached_property
    def has_label(self) -> np.ndarray:
        """(n,) bool."""
        return np.ones(len(self.y), bool) if self.labels is None else self.labels.has(self.ids)

    @cached_property
    def _designs(self) -> dict[str, Design]:
        return {}

    def design(self, columns: str = ALL) -> Design:
        """All rows in the coordinates of the search, with the columns that a student reads."""
        if columns not in self._designs:
            self._designs[columns] = Design.of(self.read(self.features, columns))
        return self._designs[columns]

    def place(self, columns: str) -> slice:
        """Where the columns that a student reads are among all of them."""
        places = {ENCODED: slice(0, self.encoded), WORDS: slice(self.encoded, None)}
        return places.get(columns, slice(None))

    def read(self, features: Features, columns: str) -> Features:
        """(n, ...) the columns that a student reads; a dense array where an encoder made them."""
        if columns == ALL:
            return features
        found = features[:, self.place(columns)]
        return found.toarray() if columns == ENCODED else found

    @cached_property
    def pool(self) -> np.ndarray:
        """Positions of the pool rows with a teacher label, without copies of judging rows."""
        pool = (self.y < 0) & self.has_label
        if self.groups is not None:
            pool &= ~np.isin(self.groups, self.groups[self.judges])
        return np.flatnonzero(pool)

    def training_rows(self, held_out: np.ndarray, pool: np.ndarray) -> tuple[Rows, np.ndarray]:
        """The rows of students that may not see ``held_out`` (n,) rows, and their positions."""
        unseen = held_out if self.trains_judges else held_out | self.judges
        if self.groups is not None:
            unseen = unseen | np.isin(self.groups, self.groups[unseen])
        positions = np.concatenate([np.flatnonzero((self.y >= 0) & ~unseen), pool])
        measures = np.flatnonzero(self.measures & ~unseen & self.has_label)
        rows = Rows(
            self.ids[positions],
            self.y[positions],
            self.ids[measures],
            (self.y if self.measured_y is None else self.measured_y)[measures],
            self.classes,
        )
        return rows, positions

    def teacher_probs(self, positions: np.ndarray) -> np.ndarray | None:
        """(j, L) the teacher's probabilities of these rows, NaN where it has none."""
        known = self.has_label[positions]
        if self.labels is None or not known.any():
            return None
        found = np.full((len(positions), self.classes), np.nan, np.float32)
        found[known] = self.labels.take(self.ids[positions[known]]).probs
        return found


Progress = Callable[[str, int], None]  # a method and its fold, -1 for the refit


class SolvedStore:
    """Keeps what was solved, so that a run that was stopped goes on; this one keeps nothing."""

    def load(self, name: str) -> list[np.ndarray] | None:
        return None

    def save(self, name: str, arrays: Sequence[np.ndarray]) -> None:
        pass


NO_STORE = SolvedStore()


def cross_fit(
    rows: DecisionRows,
    candidates: Sequence[LinearCandidate],
    folds: np.ndarray,
    *,
    pool: np.ndarray | None = None,
    tolerance: float = CROSS_FIT_TOLERANCE,
    progress: Progress = lambda name, fold: None,
    store: SolvedStore = NO_STORE,
    repeat: int = 0,
    threads: int = 1,
) -> list[np.ndarray]:
    """Out-of-fold logits of every candidate, each (settings, j, L) on the judging rows in order.

    Args:
        rows: all rows.
        candidates: what is tried.
        folds: (j,) fold of each judging row.
        pool: positions of the pool rows to train on; None is all of them.
        tolerance: of the solver.
        progress: called with a candidate's name and the fold before it is solved.
        store: keeps each fold that is done; ``repeat`` tells those of repeated calls apart.
        threads: how many folds are solved at a time, which does not change the result.
    """
    judging = np.flatnonzero(rows.judges)
    if len(folds) != len(judging):
        raise InputError(f"{len(folds)} folds do not match {len(judging)} judging rows.")
    read = _read_by(candidates)
    for columns in read:
        rows.design(columns)  # made once, before threads ask for it

    def solve(fold: int) -> list[np.ndarray]:
        inside = folds == fold
        held_out = np.zeros(len(rows.y), bool)
        held_out[judging[inside]] = True
        name = f"{repeat}_{fold}"
        solved = store.load(name)
        if solved is not None:
            for candidate in candidates:
                progress(candidate.name, fold)
            return solved
        features = rows.features[judging[inside]]
        shown = {columns: rows.read(features, columns) for columns in read}
        fits = solve_candidates(
            rows,
            candidates,
            held_out,
            pool=pool,
            tolerance=tolerance,
            progress=lambda name: progress(name, fold),
        )
        solved = [
            np.stack(
                [
                    fit.logits(shown[setting.columns]).astype(np.float32)
                    for setting, fit in zip(candidate.settings, by_setting, strict=True)
                ]
            )
            for candidate, by_setting in zip(candidates, fits, strict=True)
        ]
        store.save(name, solved)
        return solved

    found = [
        np.zeros((len(c.settings), len(judging), rows.classes), np.float32) for c in candidates
    ]
    numbers = np.unique(folds).tolist()
    for fold, solved in zip(numbers, in_threads(solve, numbers, threads), strict=True):
        for logits, of_fold in zip(found, solved, strict=True):
            logits[:, folds == fold] = of_fold
    return found


def _read_by(candidates: Sequence[LinearCandidate]) -> set[str]:
    return {setting.columns for candidate in candidates for setting in candidate.settings}


def solve_candidates(
    rows: DecisionRows,
    candidates: Sequence[LinearCandidate],
    held_out: np.ndarray | None = None,
    *,
    pool: np.ndarray | None = None,
    tolerance: float = TOLERANCE,
    progress: Callable[[str], None] = lambda name: None,
) -> list[list[LinearFit]]:
    """The linear students of all candidates and settings, trained without the held-out rows.

    Each has weights of the columns alone that its setting reads.
    """
    held_out = np.zeros(len(rows.y), bool) if held_out is None else held_out
    training, positions = rows.training_rows(held_out, rows.pool if pool is None else pool)
    designs = {c: rows.design(c).take(positions) for c in _read_by(candidates)}
    taught: dict[Setting, LinearFit] = {}
    solved: list[list[LinearFit]] = []
    for candidate in candidates:
        progress(repr(candidate.method))
        prepared = fit_and_prepare(candidate.method, training, rows.labels)
        fits: dict[Setting, LinearFit] = {}
        last: dict[str, LinearFit] = {}
        for setting in sorted(candidate.settings, key=lambda s: (s.gold_weight, s.strength)):
            design, start = designs[setting.columns], last.get(setting.columns)
            if candidate.uses_teacher:
                # Most of these losses are not convex: all begin at the first one solved here.
                start = taught.get(setting, start)
            if isinstance(candidate.method, SelfTraining):
                fit = _self_train(design, candidate.method, training, setting, start, tolerance)
            elif not is_solvable(candidate.method):
                fit = _train_on_words(design, candidate.method, prepared.columns, rows.classes)
            else:
                fit = solve_linear(
                    design,
                    candidate.method,
                    prepared.columns,
                    rows.classes,
                    strength=setting.strength,
                    gold_weight=setting.gold_weight,
                    start=start,
                    tolerance=tolerance,
                )
            fits[setting] = last[setting.columns] = fit
        if candidate.uses_teacher:
            taught = {**fits, **taught}
        solved.append([fits[setting] for setting in candidate.settings])
    return solved


def solve_on_whole_pool(
    rows: DecisionRows,
    candidates: Sequence[LinearCandidate],
    begun: Sequence[Sequence[LinearFit]],
    *,
    progress: Callable[[str], None] = lambda name: None,
) -> list[list[LinearFit]]:
    """The candidates' students of all gold rows and the whole pool, which stays on disk.

    ``begun`` are those of the part of the pool in memory, where the search begins.
    """
    assert rows.rest is not None
    assert rows.labels is not None
    nobody, none = np.zeros(len(rows.y), bool), np.empty(0, np.int64)
    training, positions = rows.training_rows(nobody, none)
    gold = rows.features[positions]
    design, solved = rows.rest.design(gold), []
    for candidate, starts in zip(candidates, begun, strict=True):
        if not candidate.uses_teacher or not is_solvable(candidate.method):
            solved.append(list(starts))
            continue
        progress(repr(candidate.method))
        columns = fit_and_prepare(candidate.method, training, rows.labels).columns
        x = gold[columns.index.numpy()]
        taught = rows.rest.prepare(candidate.method, training, rows.labels)
        blocks = _Chain([Block(x, x.T, columns)], taught)
        solved.append(
            [
                solve_blocks(
                    blocks,
                    design,
                    candidate.method,
                    rows.classes,
                    strength=setting.strength,
                    gold_weight=setting.gold_weight,
                    start=start,
                )
                for setting, start in zip(candidate.settings, starts, strict=True)
            ]
        )
    return solved


class _Chain:
    """Blocks of several places, one after the other, every time anew."""

    def __init__(self, *places: Iterable[Block]) -> None:
        self._places = places

    def __iter__(self) -> Iterator[Block]:
        for place in self._places:
            yield from place


def _train_on_words(design: Design, method: Method, columns: Columns, classes: int) -> LinearFit:
    if not issparse(design.x) or method.refresh_every():
        raise InputError(
            f"{method!r} cannot train this linear student: its loss needs two views of each "
            "row, which only word features have. Leave the method out, or train a network instead."
        )
    return train_on_words(design.x, method, columns, classes)


def _self_train(
    design: Design,
    method: SelfTraining,
    training: Rows,
    setting: Setting,
    start: LinearFit | None,
    tolerance: float,
) -> LinearFit:
    """Solve, label the pool rows that the student is sure of, and solve again with them."""
    y, fit, pool = training.y.copy(), start, np.flatnonzero(training.y < 0)
    gold = np.bincount(training.y[training.y >= 0], minlength=training.classes)
    shown = design.x[pool]
    for _ in range(method.rounds):
        kept = np.flatnonzero(y >= 0)
        rows = Rows(training.ids[kept], y[kept], training.ids[:0], y[:0], training.classes)
        columns = method.prepare(rows, None, None)
        columns.weight[torch.from_numpy(training.y[kept] >= 0)] = setting.gold_weight
        fit = solve_linear(
            design.take(kept),
            method,
            columns,
            training.classes,
            strength=setting.strength,
            start=fit,
            tolerance=tolerance,
        )
        probs = softmax(design.inside(fit).logits(shown), axis=1)
        if method.align and len(pool):
            probs = _align(probs, gold)
        sure = (probs.max(1, initial=0) >= method.threshold) & (y[pool] < 0)
        if not sure.any():
            break
        y[pool[sure]] = probs[sure].argmax(1)
    assert fit is not None
    return fit


def _align(probs: np.ndarray, gold: np.ndarray) -> np.ndarray:
    """(p, L) probabilities of pool rows, moved toward the class shares of ``gold`` (L,) counts.

    As if every class had one gold row more: one that has none may still be in the pool.
    """
    shares = (gold + 1) / (gold.sum() + len(gold))
    aligned = probs * (shares / np.maximum(probs.mean(0), _LEAST_SHARE))
    return np.asarray(aligned / aligned.sum(1, keepdims=True))
