"""Choose a linear student: cross-fit the candidates, blend them, refit on all gold rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby

import numpy as np

from noisyteacher.choose.choice import Choice, compare_candidates
from noisyteacher.choose.decision import Evidence, Part
from noisyteacher.choose.evidence import (
    ALL,
    ENCODED,
    NO_STORE,
    WORDS,
    DecisionRows,
    LinearCandidate,
    Progress,
    Setting,
    SolvedStore,
    cross_fit,
    solve_candidates,
    solve_on_whole_pool,
)
from noisyteacher.choose.folds import make_folds
from noisyteacher.core.machine import memory_of, one_thread
from noisyteacher.methods import (
    SOFT_LABELS,
    Consistency,
    ForwardCorrection,
    GoldOnly,
    Method,
    SelfTraining,
    SLaM,
    TaylorCE,
    Vanilla,
)
from noisyteacher.train.solver import LinearFit, is_solvable

FOLDS = 5
FEW_ROWS, REPEATS = 50, 3  # fewer gold rows than this are cross-fitted several times
# Pool rows on which candidates are compared, and those of pools on disk; the refit uses all.
# Students of fewer rows are worse than the returned one, so what they state is likely too low. Seen
# once, with 24 500 reviews, 500 gold rows and a simulated teacher: two draws of 5 000 rows stated
# 71.9 and 73.3%, one of 10 000 73.5%, all of them 77.2%, with 76.0 to 76.4% on a test set. More
# than 20 000 would take too long by default.
POOL_FOR_COMPARISON, STREAMED_FOR_COMPARISON = 20_000, 5_000
_MANY_CLASSES = 5  # beyond these, students take longer to solve, and rows are fewer
GOLD_STRENGTHS = (0.1, 1.0, 10.0, 100.0, 1000.0)
SELF_STRENGTHS = (1.0, 10.0, 100.0)
TAUGHT_STRENGTHS = (0.1, 1.0, 10.0)
GOLD_WEIGHTS = (1.0, 10.0)
_BYTES_PER_WEIGHT = 200  # of the memory that the solver takes, most of it for its earlier steps
SMALLEST_WEIGHT = 0.005  # parts below it are left out of the returned blend
SMALLEST_STREAMED_WEIGHT = 0.05  # the same where every part is solved on a pool on disk
# Hard labels add little to the blend; they stand in the table as the rival that users know.
DEFAULT_METHODS: tuple[Method, ...] = (
    GoldOnly(),
    SelfTraining(),
    Vanilla(hard=True),
    TaylorCE(2),
    SLaM(),
    ForwardCorrection(),
)


# Words can be dropped at random, so rows of words have two views.
WITH_DROPPED_WORDS = Consistency(SLaM(hard=True, per_class=True))


def default_methods(words: bool) -> tuple[Method, ...]:
    """What is tried unless the user names methods; ``words`` are sparse rows, as TF-IDF makes."""
    return (*DEFAULT_METHODS, WITH_DROPPED_WORDS) if words else DEFAULT_METHODS


def linear_candidates(
    methods: Sequence[Method] = DEFAULT_METHODS, *, encoded: bool = False
) -> list[LinearCandidate]:
    """The methods with the settings that are tried for each; gold only is always among them.

    ``encoded`` rows have columns of an encoder and of words: there are students of either, and the
    blend decides how much each of them counts.
    """
    if not any(type(method) is GoldOnly for method in methods):
        methods = (GoldOnly(), *methods)
    return [LinearCandidate(method, _settings(method, encoded)) for method in methods]


def _settings(method: Method, encoded: bool) -> tuple[Setting, ...]:
    if not is_solvable(method):
        # Trained step by step, with a penalty of its own: dropped words.
        return (Setting(1.0, columns=WORDS if encoded else ALL),)
    found = [Setting(s, w) for w in GOLD_WEIGHTS for s in TAUGHT_STRENGTHS]
    if isinstance(method, SelfTraining):
        found = [Setting(s) for s in SELF_STRENGTHS]
    elif SOFT_LABELS not in method.needs:
        found = [Setting(s) for s in GOLD_STRENGTHS]
    read = (ENCODED, WORDS) if encoded else (ALL,)
    return tuple(replace(setting, columns=columns) for columns in read for setting in found)


@dataclass(frozen=True, eq=False)
class LinearChoice(Choice):
    """The returned student, and what is known about it."""

    student: LinearFit
    own_parts: tuple[tuple[Part, ...], ...]  # of each candidate's blend of its own settings
    candidates: tuple[LinearCandidate, ...]
    said_of_pool: np.ndarray  # (p,) classes that the student predicts for the first pool rows
    compared_on: int  # pool rows that the compared students were trained on
    pool_rows: int  # those of the returned one

    @property
    def encoder_weight(self) -> float | None:
        """The share of students that read an encoder's columns; None where rows have no others."""
        read = [(self.candidates[p.candidate].settings[p.setting].columns, p) for p in self.parts]
        if any(columns == ALL for columns, _ in read):
            return None
        return sum(part.weight for columns, part in read if columns == ENCODED)


def choose_linear(
    rows: DecisionRows,
    candidates: Sequence[LinearCandidate] | None = None,
    *,
    folds: int = FOLDS,
    metric: str = "accuracy",
    seed: int = 0,
    progress: Progress = lambda name, fold: None,
    store: SolvedStore = NO_STORE,
) -> LinearChoice:
    """Cross-fit all candidates on the judging rows, blend them, and refit the blend on all rows.

    As many folds are solved at a time as torch has threads, so ``progress`` is called from several
    threads. With a ``store``, what it holds of an earlier call with the same arguments is not
    solved again.
    """
    if candidates is None:
        candidates = linear_candidates(encoded=rows.encoded > 0)
    with one_thread() as threads:
        evidence = _cross_fit_evidence(
            rows, candidates, folds, metric, seed, progress, store, threads
        )
        smallest = SMALLEST_WEIGHT if rows.rest is None else SMALLEST_STREAMED_WEIGHT
        parts = _without_crumbs(evidence.blend(), smallest)
        stored = store.load("refit")
        if stored is None:
            student = _refit(rows, candidates, parts, progress)
            store.save("refit", [student.weight, student.bias])
        else:
            student = LinearFit(*stored)
        shown = np.flatnonzero(rows.y < 0)[:STREAMED_FOR_COMPARISON]
        return LinearChoice(
            **vars(compare_candidates(candidates, evidence, parts)),
            student=student,
            own_parts=tuple(tuple(evidence.blend([i])) for i in range(len(candidates))),
            candidates=tuple(candidates),
            said_of_pool=student.logits(rows.features[shown]).argmax(1),
            compared_on=min(len(rows.pool), most_compared(rows.classes)),
            pool_rows=len(rows.pool) if rows.rest is None else rows.rest.rows,
        )


@one_thread()
def fit_gold_only(rows: DecisionRows, *, seed: int = 0) -> LinearFit:
    """The logistic regression that every network must beat: its strengths blended out of fold."""
    candidates = linear_candidates([GoldOnly()])
    evidence = _cross_fit_evidence(rows, candidates, FOLDS, "accuracy", seed)
    return _refit(rows, candidates, _without_crumbs(evidence.blend(), SMALLEST_WEIGHT))


def _cross_fit_evidence(
    rows: DecisionRows,
    candidates: Sequence[LinearCandidate],
    folds: int,
    metric: str,
    seed: int,
    progress: Progress = lambda name, fold: None,
    store: SolvedStore = NO_STORE,
    threads: int = 1,
) -> Evidence:
    judging = np.flatnonzero(rows.judges)
    y = rows.y[judging]
    rng = np.random.default_rng([seed, 1])
    pool = rows.pool
    if len(pool) > (most := most_compared(rows.classes)):
        pool = np.sort(rng.choice(pool, most, replace=False))
    groups = None if rows.groups is None else rows.groups[judging]
    weights = rows.classes * rows.features.shape[1]
    threads = min(threads, memory_of() // 4 // (_BYTES_PER_WEIGHT * weights + 1))
    logits = [
        cross_fit(
            rows,
            candidates,
            make_folds(y, min(folds, len(y)), groups=groups, seed=seed + repeat)
            if rows.trains_judges
            else np.zeros(len(y), np.int64),
            pool=pool,
            progress=progress,
            store=store,
            repeat=repeat,
            threads=max(1, threads),
        )
        for repeat in range(repeats_of(rows))
    ]
    return Evidence(
        y,
        [np.concatenate(found, axis=1) for found in zip(*logits, strict=True)],
        rows.teacher_probs(judging),
        metric,
        seed,
    )


def most_compared(classes: int) -> int:
    """How many pool rows candidates are compared on at most."""
    fewer = POOL_FOR_COMPARISON * _MANY_CLASSES // max(classes, _MANY_CLASSES)
    return max(fewer, STREAMED_FOR_COMPARISON)


def repeats_of(rows: DecisionRows) -> int:
    """How often the gold rows are cross-fitted."""
    return REPEATS if rows.trains_judges and rows.judges.sum() < FEW_ROWS else 1


def fits_of(rows: DecisionRows, folds: int) -> int:
    """How often every candidate is solved before the refit."""
    return min(folds, int(rows.judges.sum())) * repeats_of(rows) if rows.trains_judges else 1


def _without_crumbs(parts: Sequence[Part], smallest: float) -> list[Part]:
    kept = [part for part in parts if part.weight >= smallest]
    kept = kept or [max(parts, key=lambda part: part.weight)]
    total = sum(part.weight for part in kept)
    return [replace(part, weight=part.weight / total) for part in kept]


def _refit(
    rows: DecisionRows,
    candidates: Sequence[LinearCandidate],
    parts: Sequence[Part],
    progress: Progress = lambda name, fold: None,
) -> LinearFit:
    """The blend's students trained on all gold rows and the whole pool, as one linear student."""
    own = [list(of_one) for _, of_one in groupby(parts, key=lambda part: part.candidate)]
    wanted = [candidates[some[0].candidate].only(some) for some in own]
    solved = solve_candidates(rows, wanted, progress=lambda name: progress(name, -1))
    if rows.rest is not None:
        solved = solve_on_whole_pool(
            rows, wanted, solved, progress=lambda name: progress(f"{name}, whole pool", -1)
        )
    weight = np.zeros((rows.classes, rows.features.shape[1]))
    bias = np.zeros(rows.classes)
    for some, candidate, fits in zip(own, wanted, solved, strict=True):
        for part, setting, fit in zip(some, candidate.settings, fits, strict=True):
            weight[:, rows.place(setting.columns)] += part.factor * fit.weight
            bias += part.factor * fit.bias
    return LinearFit(weight, bias)
