"""Results rows summed up, one line per method, beside the accuracies that the paper prints."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

import numpy as np
from scipy.stats import t as student_t

from noisyteacher.bench.recipe import ARM_MARK, LOGISTIC
from noisyteacher.methods import (
    UPS,
    VID,
    Fidelity,
    FixMatch,
    GoldOnly,
    Method,
    PolyLoss,
    SLaM,
    TaylorCE,
    Temperature,
    Vanilla,
    Weighted,
)
from noisyteacher.runs import Row, named_method

ACCURACIES = {
    "last": "last epoch",
    "selected": "selected on S",
    "best_test": "best test epoch",
}


@dataclass(frozen=True)
class TrialMean:
    """A mean over n trials; ``std`` is None for a single one, ``n`` where the paper has it."""

    mean: float
    std: float | None
    n: int | None = None

    @property
    def half_width(self) -> float | None:
        """Half of Student's 95% interval of the mean; None for a single trial."""
        if self.std is None or self.n is None:
            return None
        return float(student_t.ppf(0.975, self.n - 1) * self.std / np.sqrt(self.n))

    @property
    def low(self) -> float:
        """The lower end of that interval; a single trial has an endless one."""
        return self.mean - (np.inf if self.half_width is None else self.half_width)

    @property
    def high(self) -> float:
        return self.mean + (np.inf if self.half_width is None else self.half_width)

    @classmethod
    def of(cls, values: Sequence[float]) -> TrialMean:
        """Mean and sample standard deviation of one value or more."""
        std = float(np.std(values, ddof=1)) if len(values) > 1 else None
        return cls(float(np.mean(values)), std, len(values))

    def __str__(self) -> str:
        return f"{self.mean:.2f}" if self.std is None else f"{self.mean:.2f} ± {self.std:.2f}"


# -- the paper -------------------------------------------------------------------------------------

_NAMES: dict[type[Method], str] = {
    Vanilla: "Vanilla",
    TaylorCE: "Taylor-CE",
    UPS: "UPS",
    VID: "VID",
    Weighted: "Weighted",
    SLaM: "SLaM",
}
PAPER_TEACHER = "Teacher"


@cache
def paper_figures() -> dict[tuple[str, str, int, str], TrialMean]:
    """Best test accuracies, by dataset, "soft" or "hard", size of A and the paper's method name.

    The ``std`` is what the paper prints after its ±. Where it prints shares of A, the file has the
    examples: CelebA's as its text has them, oddly rounded, and ImageNet's of 1 281 167 images.
    """
    text = files("noisyteacher.bench").joinpath("paper.csv").read_text()
    found = {}
    for line in csv.DictReader(text.splitlines()):
        spread = float(line["spread"]) if line["spread"] else None
        key = (line["dataset"], line["distillation"], int(line["labeled"]), line["method"])
        found[key] = TrialMean(float(line["accuracy"]), spread)
    return found


def has_paper_models(recipe: str, dataset: str) -> bool:
    """Whether the recipe has the paper's teacher and student, so that its figures compare."""
    name, *settings = recipe.split(" ")
    changed = [s for s in settings if s.startswith(("teacher=", "student=", "labels="))]
    return name == dataset and not changed


def paper_name(method: Method | str) -> str | None:
    """What the paper calls the method; its figures are the best over its hyper-parameters."""
    if isinstance(method, SLaM) and method.base != SLaM().base:
        return None  # SLaM with other losses is drawn in the paper, not printed
    return _NAMES.get(type(method)) if isinstance(method, Method) else None


# -- lines -----------------------------------------------------------------------------------------


# What the rows of one line agree in.
SHARED_FIELDS = (
    *("recipe", "dataset", "distillation", "labeled"),
    *("method", "gold_repeat", "generation", "epochs"),
)


@dataclass(frozen=True)
class Line:
    """One method at one labeled size and length, over its trials."""

    recipe: str
    dataset: str
    distillation: str | None
    labeled: int
    method: str
    gold_repeat: int
    generation: int
    epochs: int
    trials: int
    accuracy: dict[str, TrialMean | None]
    macro_f1: TrialMean | None
    teachers: tuple[float, ...]  # accuracies, of the trials whose teacher was measured
    last_of_trial: dict[int, float]

    @property
    def name(self) -> str:
        """The method's name in a table; ablations, later generations and repeated gold say so."""
        arm = self.recipe.partition(ARM_MARK)[2]
        parts = [self.method, arm] if arm else [self.method]
        parts += [f"generation {self.generation}"] if self.generation > 1 else []
        parts += [f"gold ×{self.gold_repeat}"] if self.gold_repeat > 1 and self.length else []
        return ", ".join(parts)

    @property
    def length(self) -> str:
        """Its epochs; a logistic regression has none, but stands beside students that have."""
        return "" if self.method == LOGISTIC else str(self.epochs)

    @property
    def table(self) -> str:
        """The recipe without its arms: what stands in one table."""
        return self.recipe.partition(ARM_MARK)[0]

    @property
    def parsed(self) -> Method | str:
        """The method itself; its name where this version does not know it."""
        return named_method(self.method)

    @property
    def passes(self) -> int | None:
        """How often a student sees each example of a step: two views cost two passes."""
        return len(self.parsed.views) if isinstance(self.parsed, Method) else None

    @property
    def is_gold_only(self) -> bool:
        """Whether it is a floor that no teacher helped."""
        return self.method == LOGISTIC or self.parsed == GoldOnly()

    @property
    def teacher_accuracy(self) -> float | None:
        """The mean over its trials."""
        return TrialMean.of(self.teachers).mean if self.teachers else None

    def mean(self, accuracy: str = "last") -> float:
        """Over its trials; below all others where that accuracy was not measured."""
        cell = self.accuracy[accuracy]
        return -np.inf if cell is None else cell.mean

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of distillation it is compared in; those with one form only, in both."""
        if self.distillation is None or isinstance(self.parsed, UPS | FixMatch):
            return ("soft", "hard")
        return (self.distillation,)

    @property
    def paper(self) -> TrialMean | None:
        """The paper's figure for the same dataset, size and method, where it prints one."""
        return self.paper_in(self.distillation)

    def paper_in(self, kind: str | None) -> TrialMean | None:
        """The same, in the paper's table of "soft" or "hard" distillation."""
        name = paper_name(self.parsed)
        if kind is None or self.distillation is None or self.generation > 1 or name is None:
            return None
        if not has_paper_models(self.recipe, self.dataset):
            return None
        return paper_figures().get((self.dataset, kind, self.labeled, name))


def trial_mean(values: Iterable[float | None]) -> TrialMean | None:
    """Of the values there are; None where there are none."""
    known = [value for value in values if value is not None]
    return TrialMean.of(known) if known else None


def lines(rows: Sequence[Row]) -> list[Line]:
    """Group rows that differ in nothing but the trial, in order of first appearance."""
    groups: dict[tuple[object, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault((*row.key[:7], row.epochs), []).append(row)
    return [
        Line(
            **{name: getattr(group[0], name) for name in SHARED_FIELDS},
            trials=len(group),
            accuracy={name: trial_mean(row.accuracy[name] for row in group) for name in ACCURACIES},
            macro_f1=trial_mean(row.macro_f1 for row in group),
            teachers=tuple(
                row.teacher_accuracy for row in group if row.teacher_accuracy is not None
            ),
            last_of_trial={
                row.trial: last for row in group if (last := row.accuracy["last"]) is not None
            },
        )
        for group in groups.values()
    ]


def lead(ahead: Line, behind: Line) -> TrialMean | None:
    """How far one line is ahead after the last epoch, over the trials that both have."""
    shared = ahead.last_of_trial.keys() & behind.last_of_trial.keys()
    return trial_mean(ahead.last_of_trial[t] - behind.last_of_trial[t] for t in sorted(shared))


# As the paper's tables have them, and its studies of other losses, fidelity and temperatures.
_PAPER_ORDER: tuple[type, ...] = (
    *(Vanilla, TaylorCE, PolyLoss, UPS, VID, Weighted, SLaM),
    *(Fidelity, Temperature),
)


def in_reading_order(found: Iterable[Line]) -> list[Line]:
    """By length: no teacher, the paper's methods, their rivals, two views, later generations."""

    def place(line: Line) -> tuple[int, int, bool, int, int]:
        kind = type(line.parsed)
        index = _PAPER_ORDER.index(kind) if kind in _PAPER_ORDER else len(_PAPER_ORDER)
        taught = line.distillation is not None
        return line.epochs, line.generation, taught, line.passes or 0, index

    return sorted(found, key=place)


def teacher_accuracies(found: Iterable[Line]) -> list[float]:
    """The mean over trials if all these lines have the same teachers, or else every accuracy."""
    found = list(found)
    taught = [line for line in found if line.distillation is not None] or found
    means = {
        round(line.teacher_accuracy, 2) for line in taught if line.teacher_accuracy is not None
    }
    if len(means) < 2:
        return list(means)
    return sorted({round(accuracy, 2) for line in taught for accuracy in line.teachers})


def teacher_range(found: Iterable[Line]) -> str:
    """The same as text: one accuracy, the lowest and the highest, or nothing."""
    known = teacher_accuracies(found)
    return " to ".join(f"{accuracy:.2f}" for accuracy in dict.fromkeys((*known[:1], *known[-1:])))


HEADER = ("method", "passes", "labeled", "epochs", "n", *ACCURACIES.values())


def cells(line: Line) -> tuple[str, ...]:
    """One table line as text, in the order of ``HEADER``; blank where nothing was measured."""
    return (
        line.name,
        blank_or(line.passes),
        str(line.labeled),
        line.length,
        str(line.trials),
        *(blank_or(line.accuracy[name]) for name in ACCURACIES),
    )


def blank_or(value: object) -> str:
    """What is not there stays blank."""
    return "" if value is None else str(value)
