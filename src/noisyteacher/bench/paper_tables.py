"""The paper's tables from results rows, as Markdown, LaTeX and CSV."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from io import StringIO
from typing import TypeAlias

import pyarrow as pa

from noisyteacher.bench.result_lines import (
    ACCURACIES,
    PAPER_TEACHER,
    SHARED_FIELDS,
    Line,
    TrialMean,
    blank_or,
    has_paper_models,
    lead,
    paper_figures,
    paper_name,
    teacher_range,
)
from noisyteacher.io.user_tables import no_formulas
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


# -- layout ----------------------------------------------------------------------------------------


class Bold(str):
    """A cell that stands out."""

    __slots__ = ()


@dataclass(frozen=True)
class PaperTable:
    """A title, column heads, rows of cells, and notes below."""

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...] = ()

    def without_blank(self, name: str) -> PaperTable:
        """Without the columns of this name, where nothing stands in any of them."""
        places = [i for i, head in enumerate(self.header) if head == name]
        if any(row[i] for row in self.rows for i in places):
            return self
        kept = [i for i in range(len(self.header)) if i not in places]
        header = tuple(self.header[i] for i in kept)
        rows = tuple(tuple(row[i] for i in kept) for row in self.rows)
        return replace(self, header=header, rows=rows)

    def markdown(self) -> str:
        head = [self.header, ("---", *("---:" for _ in self.header[1:]))]
        body = [tuple(_markdown(cell) for cell in row) for row in self.rows]
        grid = "\n".join("| " + " | ".join(row) + " |" for row in [*head, *body])
        return "\n\n".join([f"### {self.title}", grid, *self.notes]) + "\n"

    def latex(self) -> str:
        """A table environment; it needs booktabs and graphicx."""
        body = [" & ".join(_latex(cell) for cell in row) + r" \\" for row in self.rows]
        notes = " ".join(escape_latex(note) for note in self.notes)
        return "\n".join(
            [
                r"\begin{table}",
                r"\centering",
                rf"\caption{{{escape_latex(self.title)}. {notes}}}",
                r"\resizebox{\linewidth}{!}{%",
                rf"\begin{{tabular}}{{l{'r' * (len(self.header) - 1)}}}",
                r"\toprule",
                " & ".join(escape_latex(name) for name in self.header) + r" \\",
                r"\midrule",
                *body,
                r"\bottomrule",
                r"\end{tabular}}",
                r"\end{table}",
                "",
            ]
        )


def _markdown(cell: str) -> str:
    plain = cell.replace("|", "\\|")
    return f"**{plain}**" if isinstance(cell, Bold) else plain


def _latex(cell: str) -> str:
    plain = escape_latex(cell)
    return rf"\textbf{{{plain}}}" if isinstance(cell, Bold) else plain


_LATEX = str.maketrans(
    {
        "\\": r"\textbackslash{}",
        "±": r"$\pm$",
        "×": r"$\times$",
        "α": r"$\alpha$",
        "β": r"$\beta$",
        "†": r"$\dagger$",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        **{sign: f"\\{sign}" for sign in "&%$#_{}"},
    }
)


def escape_latex(text: str) -> str:
    """Signs that LaTeX would read as commands, and those its fonts lack."""
    return text.translate(_LATEX)


# -- methods × sizes, as the paper has it ---------------------------------------------------------


def by_kind(found: Sequence[Line]) -> Iterator[tuple[str | None, list[Line]]]:
    """Soft and hard distillation apart, each with the students that need no teacher."""
    free = [line for line in found if line.distillation is None]
    kinds = [k for k in ("soft", "hard") if any(line.distillation == k for line in found)]
    if not kinds and free:
        yield None, free
    for kind in kinds:
        yield kind, [line for line in found if kind in line.kinds]


def size_table(recipe: str, kind: str | None, found: Sequence[Line], accuracy: str) -> PaperTable:
    """Methods × sizes of A, one of the three accuracies, each beside the paper's figure."""
    sizes = sorted({line.labeled for line in found})
    quoted = {}
    if kind is not None and has_paper_models(recipe, found[0].dataset):
        quoted = _paper_series(found[0].dataset, kind, sizes)
    teachers = {n: teacher_range(x for x in found if x.labeled == n) for n in sizes}
    have = {paper_name(line.parsed) for line in found if kind in line.kinds}
    # What begins a row; then, by size, what was measured and what the paper prints.
    series = [
        (("the teacher", "", ""), teachers, quoted.pop(PAPER_TEACHER, {})),
        *_measured_series(found, kind, accuracy),
        *(
            ((f"{name} (not run)", "", ""), {}, paper)
            for name, paper in quoted.items()
            if name not in have
        ),
    ]
    rows = [
        (*start, *(text for n in sizes for text in (here.get(n, ""), blank_or(paper.get(n)))))
        for start, here, paper in series
    ]
    header = ["method", "passes", "epochs"]
    header += [part for size in sizes for part in (f"{size} labels", "paper")]
    notes = ["Test accuracy in percent, mean ± standard deviation (n trials)."]
    if any(paper for _, _, paper in series[1:]):
        notes.append("The paper prints the best test epoch.")
    notes += [_BELOW_NOTE] if any(_BELOW in cell for row in rows for cell in row) else []
    title = f"{recipe}, {_KINDS[kind]}: {ACCURACIES[accuracy]}"
    return PaperTable(title, tuple(header), tuple(rows), (" ".join(notes),)).without_blank("paper")


_Series: TypeAlias = tuple[tuple[str, str, str], dict[int, str], dict[int, TrialMean]]


def _measured_series(found: Sequence[Line], kind: str | None, accuracy: str) -> Iterator[_Series]:
    groups: dict[tuple[str, str, str], dict[int, Line]] = {}
    for line in found:
        groups.setdefault((line.name, blank_or(line.passes), line.length), {})[line.labeled] = line
    shown = [line for group in groups.values() for line in group.values()]
    for start, group in groups.items():
        texts = {}
        for size, line in group.items():
            best = _best([x for x in shown if x.labeled == size], accuracy)
            texts[size] = _bold_if(line is best, _measured_text(line, accuracy, found))
        yield start, texts, {n: paper for n, x in group.items() if (paper := x.paper_in(kind))}


def _paper_series(dataset: str, kind: str, sizes: Sequence[int]) -> dict[str, dict[int, TrialMean]]:
    """What the paper prints for these sizes, by its names of methods, in its order."""
    found: dict[str, dict[int, TrialMean]] = {}
    for (of, kind_of, size, name), figure in paper_figures().items():
        if (of, kind_of) == (dataset, kind) and size in sizes:
            found.setdefault(name, {})[size] = figure
    return found


def _bold_if(best: bool, text: str) -> str:
    return Bold(text) if best else text


# -- one size, all three accuracies ---------------------------------------------------------------


def detail_table(recipe: str, found: Sequence[Line]) -> PaperTable:
    """All students of one size of A, with all three accuracies."""
    best = {name: _best(found, name) for name in ACCURACIES}
    rows = []
    for line in found:
        row = [line.name, line.distillation or "none"]
        row += [blank_or(value) for value in (line.passes, line.length, line.trials)]
        for name in ACCURACIES:
            text = blank_or(line.accuracy[name])
            text += _BELOW if text and _is_below_gold(line, name, found) else ""
            row.append(_bold_if(line is best[name], text))
        macro = "" if line.macro_f1 is None else f"{line.macro_f1.mean:.2f}"
        row += [macro, _over_vanilla(line, found), blank_or(line.paper)]
        rows.append(tuple(row))
    teacher = teacher_range(found)
    title = f"{recipe}, {found[0].labeled} labels"
    title += f"; the teacher: {teacher} %" if teacher else ""
    numbers = ("passes", "epochs", "n", *ACCURACIES.values(), "macro F1", _OVER, "paper")
    notes = [_OVER_NOTE] if any(row[-2] for row in rows) else []
    notes += [_BELOW_NOTE] if any(_BELOW in cell for row in rows for cell in row) else []
    header = ("method", "teacher labels", *numbers)
    noted = (" ".join(notes),) if notes else ()
    return PaperTable(title, header, tuple(rows), noted).without_blank("paper").without_blank(_OVER)


def _over_vanilla(line: Line, found: Sequence[Line]) -> str:
    """The lead over vanilla distillation on the same kind of labels, or soft ones."""
    vanilla = Vanilla(hard=line.distillation == "hard")
    alike = (line.recipe, line.epochs, line.gold_repeat)
    for other in found:
        if other.parsed != vanilla or other.generation > 1 or other is line:
            continue
        if (other.recipe, other.epochs, other.gold_repeat) == alike and (
            ahead := lead(line, other)
        ):
            return f"{'+' if ahead.mean >= 0 else ''}{ahead} ({ahead.n})"
    return ""


def _measured_text(line: Line, accuracy: str, found: Sequence[Line]) -> str:
    value = line.accuracy[accuracy]
    if value is None:
        return ""
    mark = _BELOW if _is_below_gold(line, accuracy, found) else ""
    return f"{value}{mark} ({value.n})"


def _best(found: Sequence[Line], accuracy: str) -> Line | None:
    known = [line for line in found if line.accuracy[accuracy] is not None]
    return max(known, key=lambda line: line.mean(accuracy), default=None)


def _is_below_gold(line: Line, accuracy: str, found: Sequence[Line]) -> bool:
    """Whether a student of gold labels only, of the same size and length, does better."""
    if line.is_gold_only or line.accuracy[accuracy] is None:
        return False
    alike = (line.labeled, line.epochs, line.gold_repeat)
    return any(
        x.mean(accuracy) > line.mean(accuracy)
        for x in found
        if x.is_gold_only and (x.labeled, x.epochs, x.gold_repeat) == alike
    )


# -- all numbers ----------------------------------------------------------------------------------

_LINE_FIELDS = (*SHARED_FIELDS, "passes", "trials", "teacher_accuracy")


def csv_text(found: Sequence[Line]) -> str:
    """Every line with all its numbers; blank where nothing was measured or printed."""
    buffer = StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    names = (*ACCURACIES, "macro_f1")
    numbers = [f"{name}_{part}" for name in names for part in ("mean", "std", "n")]
    writer.writerow([*_LINE_FIELDS, *numbers, "paper_accuracy", "paper_spread"])
    for line in found:
        values = [getattr(line, name) for name in _LINE_FIELDS]
        for cell in (*(line.accuracy[name] for name in ACCURACIES), line.macro_f1):
            values += [None, None, None] if cell is None else [cell.mean, cell.std, cell.n]
        paper = line.paper
        values += [None, None] if paper is None else [paper.mean, paper.std]
        writer.writerow(no_formulas(pa.array([_written(value) for value in values])).to_pylist())
    return buffer.getvalue()


def _written(value: object) -> str:
    return f"{value:.4f}" if isinstance(value, float) else blank_or(value)
