"""Results rows summed up: one line per method, mean ± standard deviation over its trials."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from noisyteacher.bench.logistic import NAME
from noisyteacher.bench.paper import PaperFigure, is_the_papers, paper_figures, paper_name
from noisyteacher.bench.recipe import ARM_MARK
from noisyteacher.bench.results import Row, named_method
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

ACCURACIES = {
    "last": "last epoch",
    "selected": "selected on S",
    "best_test": "best test epoch",
}


@dataclass(frozen=True)
class Cell:
    """A mean over n trials; ``std`` is None for a single one."""

    mean: float
    std: float | None
    n: int

    def __str__(self) -> str:
        return f"{self.mean:.2f}" if self.std is None else f"{self.mean:.2f} ± {self.std:.2f}"


@dataclass(frozen=True)
class Line:
    """One method at one labelled size and length, over its trials."""

    recipe: str
    dataset: str
    distillation: str | None
    labeled: int
    method: str
    gold_repeat: int
    generation: int
    epochs: int
    trials: int
    accuracy: dict[str, Cell | None]
    macro_f1: Cell | None
    teacher_accuracy: float | None
    last_of_trial: dict[int, float]

    @property
    def name(self) -> str:
        """The method's name in a table; ablations, later generations and repeated gold say so."""
        arm = self.recipe.partition(ARM_MARK)[2]
        told = [self.method, arm] if arm else [self.method]
        told += [f"generation {self.generation}"] if self.generation > 1 else []
        told += [f"gold ×{self.gold_repeat}"] if self.gold_repeat > 1 and self.length else []
        return ", ".join(told)

    @property
    def length(self) -> str:
        """Its epochs; a logistic regression has none, but stands beside students that have."""
        return "" if self.method == NAME else str(self.epochs)

    @property
    def table(self) -> str:
        """The recipe without its arms: what stands in one table."""
        return self.recipe.partition(ARM_MARK)[0]

    @property
    def passes(self) -> int | None:
        """How often a student sees each example of a step: two views cost two passes."""
        method = named_method(self.method)
        return len(method.views) if isinstance(method, Method) else None

    @property
    def is_gold_only(self) -> bool:
        """Whether it is a floor that no teacher helped."""
        return self.method == NAME or named_method(self.method) == GoldOnly()

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of distillation it is compared in; those with one form only, in both."""
        one_form = isinstance(named_method(self.method), UPS | FixMatch)
        if self.distillation is None or one_form:
            return ("soft", "hard")
        return (self.distillation,)

    @property
    def paper(self) -> PaperFigure | None:
        """The paper's figure for the same dataset, size and method, where it prints one."""
        return None if self.distillation is None else self.paper_in(self.distillation)

    def paper_in(self, kind: str) -> PaperFigure | None:
        """The same, in the paper's table of "soft" or "hard" distillation."""
        name = paper_name(named_method(self.method))
        if name is None or self.distillation is None or self.generation > 1:
            return None
        if not is_the_papers(self.recipe, self.dataset):
            return None
        return paper_figures().get((self.dataset, kind, self.labeled, name))


def cell(values: Iterable[float | None]) -> Cell | None:
    """Mean and sample standard deviation of the values there are; None where there are none."""
    known = [value for value in values if value is not None]
    if not known:
        return None
    std = float(np.std(known, ddof=1)) if len(known) > 1 else None
    return Cell(float(np.mean(known)), std, len(known))


def lines(rows: Sequence[Row]) -> list[Line]:
    """Group rows that differ in nothing but the trial, in order of first appearance."""
    groups: dict[tuple[object, ...], list[Row]] = {}
    for row in rows:
        without_trial = (*row.key[:7], row.epochs)
        groups.setdefault(without_trial, []).append(row)
    return [_line(group) for group in groups.values()]


def _line(group: list[Row]) -> Line:
    first = group[0]
    teacher = cell(row.teacher_accuracy for row in group)
    return Line(
        recipe=first.recipe,
        dataset=first.dataset,
        distillation=first.distillation,
        labeled=first.labeled,
        method=first.method,
        gold_repeat=first.gold_repeat,
        generation=first.generation,
        epochs=first.epochs,
        trials=len(group),
        accuracy={name: cell(row.accuracy[name] for row in group) for name in ACCURACIES},
        macro_f1=cell(row.macro_f1 for row in group),
        teacher_accuracy=None if teacher is None else teacher.mean,
        last_of_trial={
            row.trial: last for row in group if (last := row.accuracy["last"]) is not None
        },
    )


def lead(ahead: Line, behind: Line) -> Cell | None:
    """How far one line is ahead after the last epoch, over the trials that both have."""
    shared = ahead.last_of_trial.keys() & behind.last_of_trial.keys()
    return cell(ahead.last_of_trial[t] - behind.last_of_trial[t] for t in sorted(shared))


# As the paper's tables have them, and its studies of other losses, fidelity and temperatures.
_PAPER_ORDER: tuple[type, ...] = (
    Vanilla,
    TaylorCE,
    PolyLoss,
    UPS,
    VID,
    Weighted,
    SLaM,
    Fidelity,
    Temperature,
)


def in_reading_order(found: Iterable[Line]) -> list[Line]:
    """By length: no teacher, the paper's methods, their rivals, two views, later generations."""

    def place(line: Line) -> tuple[int, int, bool, int, int]:
        kind = type(named_method(line.method))
        index = _PAPER_ORDER.index(kind) if kind in _PAPER_ORDER else len(_PAPER_ORDER)
        taught = line.distillation is not None
        return line.epochs, line.generation, taught, line.passes or 0, index

    return sorted(found, key=place)


def teachers(found: Iterable[Line]) -> list[float]:
    """The accuracies of the teachers behind these lines; rows of several runs may have several."""
    found = list(found)
    taught = [line for line in found if line.distillation is not None] or found
    known = [line.teacher_accuracy for line in taught if line.teacher_accuracy is not None]
    return list(dict.fromkeys(round(accuracy, 2) for accuracy in known))


HEADER = ("method", "passes", "labelled", "epochs", "n", *ACCURACIES.values())


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
