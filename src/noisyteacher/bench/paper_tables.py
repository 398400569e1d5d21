"""The paper's tables from results rows: each cell beside the paper's figure, the best in bold."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from io import StringIO

from noisyteacher.bench.layout import Table, Text
from noisyteacher.bench.paper import (
    TEACHER,
    PaperFigure,
    is_the_papers,
    paper_figures,
    paper_methods,
    paper_name,
)
from noisyteacher.bench.results import named_method
from noisyteacher.bench.tables import ACCURACIES, Cell, Line, blank_or, lead, teachers
from noisyteacher.methods import Vanilla

_BELOW = "†"
_BELOW_NOTE = "† below a student of gold labels only."
_OVER = "over vanilla"
_OVER_NOTE = (
    "Over vanilla: after the last epoch, mean ± standard deviation of the difference within the "
    "trials (their number in brackets) that both have; on the same kind of labels, soft where the "
    "student sees none."
)
_KINDS = {"soft": "soft labels", "hard": "hard labels", None: "no teacher"}


def by_kind(found: Sequence[Line]) -> Iterator[tuple[str | None, list[Line]]]:
    """Soft and hard distillation apart, each with the students that need no teacher."""
    free = [line for line in found if line.distillation is None]
    kinds = [k for k in ("soft", "hard") if any(line.distillation == k for line in found)]
    if not kinds and free:
        yield None, free
    for kind in kinds:
        yield kind, [line for line in found if kind in line.kinds]


# -- methods × sizes, as the paper has it ---------------------------------------------------------


@dataclass(frozen=True)
class _Series:
    """One row of such a table: a method over the sizes of A."""

    name: str
    passes: str
    epochs: str
    measured: dict[int, Line]
    paper: dict[int, PaperFigure]


def size_table(recipe: str, kind: str | None, found: Sequence[Line], accuracy: str) -> Table:
    """Methods × sizes of A, one of the three accuracies, each beside the paper's figure."""
    dataset = found[0].dataset
    sizes = sorted({line.labeled for line in found})
    printed = kind if is_the_papers(recipe, dataset) else None
    series = [*_measured_series(found, kind), *_unmeasured_series(dataset, printed, sizes, found)]
    best = {size: _best([s.measured.get(size) for s in series], accuracy) for size in sizes}
    rows = [_teacher_row(dataset, printed, sizes, found)]
    for one in series:
        row = [Text(one.name), Text(one.passes), Text(one.epochs)]
        for size in sizes:
            line = one.measured.get(size)
            text = _measured_text(line, accuracy, found)
            row += [Text(text, bold=line is not None and line is best[size])]
            row += [Text(blank_or(one.paper.get(size)))]
        rows.append(tuple(row))
    header = ["method", "passes", "epochs"]
    header += [part for size in sizes for part in (f"{size} labels", "paper")]
    notes = ["Test accuracy in percent, mean ± standard deviation (n trials)."]
    quoted = any(one.paper for one in series)
    notes += ["The paper prints the best test epoch."] if quoted else []
    notes += [_BELOW_NOTE] if any(_BELOW in c.text for row in rows for c in row) else []
    title = f"{recipe}, {_KINDS[kind]}: {ACCURACIES[accuracy]}"
    return Table(title, tuple(header), tuple(rows), (" ".join(notes),)).without_blank("paper")


def _measured_series(found: Sequence[Line], kind: str | None) -> list[_Series]:
    groups: dict[tuple[str, str], list[Line]] = {}
    for line in found:
        groups.setdefault((line.name, line.length), []).append(line)
    return [
        _Series(
            name,
            blank_or(group[0].passes),
            group[0].length,
            {line.labeled: line for line in group},
            {x.labeled: printed for x in group if kind and (printed := x.paper_in(kind))},
        )
        for (name, _), group in groups.items()
    ]


def _unmeasured_series(
    dataset: str, kind: str | None, sizes: Sequence[int], found: Sequence[Line]
) -> list[_Series]:
    """The paper's methods of which nothing was run: their own cells stay blank."""
    if kind is None:
        return []
    have = {paper_name(named_method(line.method)) for line in found if kind in line.kinds}
    return [
        _Series(f"{name} (not run)", "", "", {}, _paper_row(dataset, kind, sizes, name))
        for name in paper_methods(dataset, kind)
        if name not in have and _paper_row(dataset, kind, sizes, name)
    ]


def _teacher_row(
    dataset: str, kind: str | None, sizes: Sequence[int], found: Sequence[Line]
) -> tuple[Text, ...]:
    printed = _paper_row(dataset, kind, sizes, TEACHER) if kind else {}
    row = [Text("the teacher"), Text(), Text()]
    for size in sizes:
        row += [Text(_told(teachers(x for x in found if x.labeled == size)))]
        row += [Text(blank_or(printed.get(size)))]
    return tuple(row)


def _told(accuracies: Sequence[float]) -> str:
    return ", ".join(f"{accuracy:.2f}" for accuracy in accuracies)


def _paper_row(dataset: str, kind: str, sizes: Sequence[int], name: str) -> dict[int, PaperFigure]:
    figures = paper_figures()
    keys = {size: (dataset, kind, size, name) for size in sizes}
    return {size: figures[key] for size, key in keys.items() if key in figures}


# -- one size, all three accuracies ---------------------------------------------------------------


def detail_table(recipe: str, found: Sequence[Line]) -> Table:
    """All students of one size of A, with all three accuracies."""
    best = {name: _best(found, name) for name in ACCURACIES}
    rows = []
    for line in found:
        row = [Text(line.name), Text(line.distillation or "none")]
        row += [Text(blank_or(value)) for value in (line.passes, line.length, line.trials)]
        for name in ACCURACIES:
            text = blank_or(line.accuracy[name])
            text += _BELOW if text and _is_below_gold(line, name, found) else ""
            row += [Text(text, bold=line is best[name])]
        macro = "" if line.macro_f1 is None else f"{line.macro_f1.mean:.2f}"
        row += [Text(macro), Text(_over_vanilla(line, found)), Text(blank_or(line.paper))]
        rows.append(tuple(row))
    told = _told(teachers(found))
    title = f"{recipe}, {found[0].labeled} labels" + (f"; the teacher: {told} %" if told else "")
    numbers = ("passes", "epochs", "n", *ACCURACIES.values(), "macro F1", _OVER, "paper")
    notes = [_OVER_NOTE] if any(row[-2].text for row in rows) else []
    notes += [_BELOW_NOTE] if any(_BELOW in c.text for row in rows for c in row) else []
    header = ("method", "teacher labels", *numbers)
    noted = (" ".join(notes),) if notes else ()
    return Table(title, header, tuple(rows), noted).without_blank("paper").without_blank(_OVER)


def _over_vanilla(line: Line, found: Sequence[Line]) -> str:
    """The lead over vanilla distillation on the same kind of labels, or soft ones."""
    vanilla = Vanilla(hard=line.distillation == "hard")
    alike = (line.recipe, line.epochs, line.gold_repeat)
    for other in found:
        if named_method(other.method) != vanilla or other.generation > 1 or other is line:
            continue
        if (other.recipe, other.epochs, other.gold_repeat) == alike and (
            ahead := lead(line, other)
        ):
            return f"{'+' if ahead.mean >= 0 else ''}{ahead} ({ahead.n})"
    return ""


def _measured_text(line: Line | None, accuracy: str, found: Sequence[Line]) -> str:
    value = None if line is None else line.accuracy[accuracy]
    if line is None or value is None:
        return ""
    mark = _BELOW if _is_below_gold(line, accuracy, found) else ""
    return f"{value}{mark} ({value.n})"


def _best(found: Sequence[Line | None], accuracy: str) -> Line | None:
    known = [(x, c) for x in found if x is not None and (c := x.accuracy[accuracy]) is not None]
    return max(known, key=lambda pair: pair[1].mean)[0] if known else None


def _is_below_gold(line: Line, accuracy: str, found: Sequence[Line]) -> bool:
    """Whether a student of gold labels only, of the same size and length, does better."""
    mine = None if line.is_gold_only else line.accuracy[accuracy]
    alike = [
        x.accuracy[accuracy]
        for x in found
        if x.is_gold_only
        and (x.labeled, x.epochs, x.gold_repeat) == (line.labeled, line.epochs, line.gold_repeat)
    ]
    return mine is not None and any(gold is not None and gold.mean > mine.mean for gold in alike)


# -- all numbers ----------------------------------------------------------------------------------

_LINE_FIELDS = (
    "recipe",
    "dataset",
    "distillation",
    "labeled",
    "method",
    "gold_repeat",
    "generation",
    "epochs",
    "passes",
    "trials",
    "teacher_accuracy",
)


def csv_text(found: Sequence[Line]) -> str:
    """Every line with all its numbers; blank where nothing was measured or printed."""
    buffer = StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    names = (*ACCURACIES, "macro_f1")
    numbers = [f"{name}_{part}" for name in names for part in ("mean", "std", "n")]
    writer.writerow([*_LINE_FIELDS, *numbers, "paper_accuracy", "paper_spread"])
    for line in found:
        values = [getattr(line, name) for name in _LINE_FIELDS]
        for measured in (*(line.accuracy[name] for name in ACCURACIES), line.macro_f1):
            values += _numbers(measured)
        paper = line.paper
        values += [None, None] if paper is None else [paper.accuracy, paper.spread]
        writer.writerow([_written(value) for value in values])
    return buffer.getvalue()


def _numbers(value: Cell | None) -> list[float | int | None]:
    return [None] * 3 if value is None else [value.mean, value.std, value.n]


def _written(value: object) -> str:
    return f"{value:.4f}" if isinstance(value, float) else blank_or(value)
