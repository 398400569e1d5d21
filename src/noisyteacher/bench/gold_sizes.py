"""The demo's sweep: accuracy on handwritten digits against the number of gold rows.

Each split draws, from the 1 797 digits that scikit-learn bundles, 400 test rows, 200 rows that
train the teacher (naive Bayes, right on about 88% of new digits), up to 400 gold rows and a pool
of 797. Gold rows and pool are new to the teacher. All students are linear. Their strengths are
fixed: C = 100 without a teacher and C = 1 with one were the best of 0.1 to 100 on six splits with
other seeds. The blend is that of ``distill`` with these strengths alone and three folds, which
takes a tenth of the time.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from pathlib import Path

import numpy as np
from matplotlib.ticker import FixedLocator, NullLocator
from sklearn.datasets import load_digits
from sklearn.naive_bayes import GaussianNB

from noisyteacher.bench.figures import GREY, line_look, new_figure, save_figure
from noisyteacher.bench.result_lines import TrialMean
from noisyteacher.choose.decision import Evidence
from noisyteacher.choose.evidence import (
    DecisionRows,
    LinearCandidate,
    Setting,
    cross_fit,
    solve_candidates,
)
from noisyteacher.choose.folds import make_folds
from noisyteacher.choose.linear_choice import DEFAULT_METHODS
from noisyteacher.core.machine import hardware, one_thread
from noisyteacher.labels import TeacherLabels
from noisyteacher.methods import GoldOnly, Vanilla
from noisyteacher.runs import Row, RunFolder

SIZES = (20, 50, 100, 200, 400)
SPLITS = 10
BLEND = "blend"
TEACHER_NAME = "naive Bayes, trained on 200 other digits"
# The lines of chart and table, by the method that rows name.
SHOWN = {
    "GoldOnly()": "gold labels only",
    "SelfTraining()": "self-training, no teacher",
    "Vanilla()": "vanilla distillation",
    "SLaM()": "SLaM",
    BLEND: "distill's blend, simplified",
}
ALONE = ("GoldOnly()", "SelfTraining()")  # students without a teacher
_TEST, _TAUGHT, _GOLD = 400, 200, 400  # rows of a split; the pool is the rest
_GOLD_STRENGTH, _TAUGHT_STRENGTH = 100.0, 1.0
_FOLDS = 3
# Solved 300 times more exactly, students differ by as much as with 3e-4: by less than a point.
_TOLERANCE = 1e-3


@dataclass(frozen=True, eq=False)
class DigitsSplit:
    """The digits with the parts of one split; ``gold`` is in the order in which it grows."""

    x: np.ndarray  # (1797, 64) float32, 0 to 1
    y: np.ndarray  # (1797,)
    test: np.ndarray
    gold: np.ndarray
    pool: np.ndarray
    labels: TeacherLabels  # of all rows; the ids are row numbers

    @property
    def teacher_accuracy(self) -> float:
        """On the test rows, in percent."""
        return 100 * float(np.mean(self.labels.take(self.test).hard == self.y[self.test]))


def split_digits(seed: int, trial: int) -> DigitsSplit:
    """The trial's split, with the labels of its teacher."""
    pixels, y = load_digits(return_X_y=True)
    x = (pixels / 16).astype(np.float32)
    order = np.random.default_rng([seed, trial]).permutation(len(y))
    test, taught, gold, pool = np.split(order, np.cumsum([_TEST, _TAUGHT, _GOLD]))
    teacher = GaussianNB(var_smoothing=0.01).fit(x[taught], y[taught])
    labels = TeacherLabels.from_probs(
        np.arange(len(y)),
        teacher.predict_proba(x),
        [str(digit) for digit in range(10)],
        teacher=TEACHER_NAME,
    )
    return DigitsSplit(x, y, test, gold, pool, labels)


def run_split(seed: int, trial: int) -> list[Row]:
    """A row for every method and number of gold rows of one split."""
    parts = split_digits(seed, trial)
    rows = []
    with one_thread():
        for size in SIZES:
            began = time.monotonic()
            found = _accuracies(parts, size, trial)
            seconds = (time.monotonic() - began) / len(found)
            rows += [
                Row(
                    recipe="gold rows",
                    dataset="digits",
                    distillation=None if method in ALONE else "soft",
                    labeled=size,
                    method=method,
                    gold_repeat=1,
                    generation=1,
                    trial=trial,
                    epochs=0,
                    accuracy={"last": round(accuracy, 3), "selected": None, "best_test": None},
                    macro_f1=None,
                    teacher_accuracy=round(parts.teacher_accuracy, 3),
                    curve=[],
                    seconds=round(seconds, 3),
                    images_per_second=0.0,
                    seeds={"recipe": seed, "trial": trial, "student": 0},
                    hardware=hardware("cpu"),
                )
                for method, accuracy in found.items()
            ]
    return rows


def _accuracies(parts: DigitsSplit, size: int, trial: int) -> dict[str, float]:
    """Test accuracy in percent of each method's student with so many gold rows."""
    ids = np.concatenate([parts.gold[:size], parts.pool])
    is_gold = np.arange(len(ids)) < size
    y = np.where(is_gold, parts.y[ids], -1)
    rows = DecisionRows(parts.x[ids], ids, y, is_gold, is_gold, parts.labels, 10)
    methods = (*DEFAULT_METHODS, Vanilla())
    candidates = [
        LinearCandidate(
            m, (Setting(_GOLD_STRENGTH if isinstance(m, GoldOnly) else _TAUGHT_STRENGTH),)
        )
        for m in methods
    ]
    fits = solve_candidates(rows, candidates, tolerance=_TOLERANCE)
    logits = [fit.logits(parts.x[parts.test]) for (fit,) in fits]
    blended = candidates[: len(DEFAULT_METHODS)]
    folds = make_folds(y[is_gold], _FOLDS, seed=trial)
    evidence = Evidence(y[is_gold], cross_fit(rows, blended, folds, tolerance=_TOLERANCE))
    blend = sum(part.factor * logits[part.candidate] for part in evidence.blend())
    named = {repr(m): one for m, one in zip(methods, logits, strict=True)}
    named[BLEND] = np.asarray(blend)
    truth = parts.y[parts.test]
    return {name: 100 * float(np.mean(named[name].argmax(1) == truth)) for name in SHOWN}


def run_sizes(
    folder: RunFolder,
    seed: int = 0,
    splits: int = SPLITS,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> list[Row]:
    """The rows of all splits; those that the folder has whole are not computed again."""
    there = Counter(row.trial for row in folder.rows())
    missing = [trial for trial in range(splits) if there[trial] < len(SIZES) * len(SHOWN)]
    progress(splits - len(missing), splits)
    workers = min(len(missing), os.cpu_count() or 1)
    with ExitStack() as stack:
        run_all: Callable[..., Iterable[list[Row]]] = map
        if workers > 1:
            processes = ProcessPoolExecutor(workers, mp_context=get_context("spawn"))
            run_all = stack.enter_context(processes).map
        found = run_all(partial(run_split, seed), missing)
        for done, rows in enumerate(found, splits - len(missing) + 1):
            for row in rows:
                folder.append(row)
            progress(done, splits)
    return [row for row in folder.rows() if row.trial < splits]


# -- what came out --------------------------------------------------------------------------------


@dataclass(frozen=True)
class SizePoint:
    """One method at one number of gold rows: percent, with 95% intervals over the splits."""

    method: str
    size: int
    accuracy: TrialMean
    gain: TrialMean  # over the best student without a teacher, split by split


def summarize(rows: Sequence[Row]) -> list[SizePoint]:
    """Every method at every size, in the order of ``SHOWN`` and of the sizes."""
    found: dict[tuple[str, int], dict[int, float]] = {}
    for row in rows:
        if row.method in SHOWN and row.accuracy["last"] is not None:
            found.setdefault((row.method, row.labeled), {})[row.trial] = row.accuracy["last"]
    points = []
    for method in SHOWN:
        for size in sorted({size for _, size in found}):
            mine = found[method, size]
            floor = max((found[m, size] for m in ALONE), key=lambda one: sum(one.values()))
            gain = TrialMean.of([mine[trial] - floor[trial] for trial in mine])
            points.append(SizePoint(method, size, TrialMean.of(list(mine.values())), gain))
    return points


def teacher_mean(rows: Sequence[Row]) -> TrialMean:
    """The teachers' accuracy on the test rows, one teacher per split."""
    each = {row.trial: row.teacher_accuracy for row in rows}
    return TrialMean.of([value for value in each.values() if value is not None])


def sizes_table(rows: Sequence[Row]) -> tuple[list[str], list[list[str]]]:
    """Header and rows: a line per number of gold rows, a column per method."""
    points = {(p.method, p.size): p.accuracy for p in summarize(rows)}
    sizes = sorted({size for _, size in points})
    header = ["gold rows", *SHOWN.values()]
    return header, [[str(size), *(_told(points[m, size]) for m in SHOWN)] for size in sizes]


def sizes_title(rows: Sequence[Row]) -> str:
    """The caption of the table."""
    splits = len({row.trial for row in rows})
    spread = "mean ± 95% interval over" if splits > 1 else "of"
    told = f"Test accuracy in percent, {spread} {splits} random split{'s' * (splits > 1)}"
    return f"{told}; the teacher reaches {_told(teacher_mean(rows))}"


def _told(found: TrialMean) -> str:
    half = "" if found.half_width is None else f" ± {found.half_width:.1f}"
    return f"{found.mean:.1f}{half}"


def sizes_verdict(rows: Sequence[Row]) -> str:
    """Up to how many gold rows the teacher's labels pay, and what happens beyond."""
    points = summarize(rows)
    blend = [p for p in points if p.method == BLEND]
    ahead = [p for p in blend if p.gain.low > 0]
    behind = [p for p in blend if p.gain.high < 0]
    rest = [p for p in blend if p not in ahead and p not in behind]
    told = []
    if ahead:
        told.append(
            f"The teacher's labels pay off with {_sizes(ahead)} gold rows: distill's blend is "
            f"ahead of the best student without a teacher by {ahead[0].gain.mean:.1f} points at "
            f"{ahead[0].size} rows"
            + (f" and by {ahead[-1].gain.mean:.1f} at {ahead[-1].size}" if ahead[1:] else "")
            + "."
        )
    if rest:
        told.append(
            f"With {_sizes(rest)} gold rows, the blend and the best student without a teacher are "
            "not significantly different."
        )
    if behind:
        told.append(f"With {_sizes(behind)} gold rows, students without a teacher are better.")
    lost = [p for p in points if p.method == repr(Vanilla()) and p.gain.high < 0]
    if lost:
        told.append(f"Vanilla distillation falls behind them at {_sizes(lost)} rows.")
    return " ".join(told)


def _sizes(points: Sequence[SizePoint]) -> str:
    sizes = [p.size for p in points]
    if len(sizes) == 1:
        return str(sizes[0])
    if sizes == [size for size in SIZES if sizes[0] <= size <= sizes[-1]] and len(sizes) > 2:
        return f"{sizes[0]} to {sizes[-1]}"
    return f"{', '.join(map(str, sizes[:-1]))} and {sizes[-1]}"


def draw_gold_sizes(rows: Sequence[Row], stem: str | Path) -> list[Path]:
    """The chart of README and page, as ``stem.svg`` and ``stem.png``."""
    points, teacher = summarize(rows), teacher_mean(rows)
    figure, (axes,) = new_figure(7.5, 4.6)
    axes.axhline(teacher.mean, color=GREY, linestyle=":", linewidth=1.8, label="the teacher")
    for i, (method, name) in enumerate(SHOWN.items()):
        mine = [
            (p.size, p.accuracy.mean, p.accuracy.half_width) for p in points if p.method == method
        ]
        sizes, means, halves = zip(*mine, strict=True)
        bars = None if None in halves else halves
        axes.errorbar(sizes, means, yerr=bars, capsize=3, label=name, **line_look(i))
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(FixedLocator(list(SIZES)))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:.0f}")
    axes.set(xlabel="gold rows", ylabel="test accuracy (%)")
    axes.set_title(
        "When do a teacher's labels pay off? Handwritten digits, linear students", size=11
    )
    axes.grid(axis="y", color="#DDDDDD", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.legend(frameon=False, loc="lower right", fontsize=9)
    return save_figure(figure, stem)
