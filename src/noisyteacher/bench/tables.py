"""Tables from results rows alone: mean ± standard deviation and n, three accuracies side by side."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from noisyteacher.bench.results import Row

ACCURACIES = ("last", "selected", "best_test")


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

    @property
    def name(self) -> str:
        """The method's name in a table; later generations say so."""
        return self.method if self.generation == 1 else f"{self.method}, generation {self.generation}"


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
        without_trial = (*row.key[1:7], row.epochs)
        groups.setdefault(without_trial, []).append(row)
    return [_line(group) for group in groups.values()]


def _line(group: list[Row]) -> Line:
    first = group[0]
    return Line(
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
        teacher_accuracy=first.teacher_accuracy,
    )


HEADER = ("method", "labelled", "epochs", "n", "last epoch", "selected on S", "best test epoch")


def cells(line: Line) -> tuple[str, ...]:
    """One table line as text, in the order of ``HEADER``; blank where nothing was measured."""
    shown = [line.accuracy[name] for name in ACCURACIES]
    return (
        line.name,
        str(line.labeled),
        str(line.epochs),
        str(line.trials),
        *("" if value is None else str(value) for value in shown),
    )


def markdown(rows: Sequence[Row]) -> str:
    """A Markdown table of all lines."""
    table = [HEADER, tuple("---" for _ in HEADER), *(cells(line) for line in lines(rows))]
    return "\n".join("| " + " | ".join(parts) + " |" for parts in table) + "\n"
