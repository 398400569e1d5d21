"""What the verbs share: options, warnings as lines, the console, the table of results.

Libraries that take seconds to import are imported inside functions, so that ``--help`` is quick.
"""

from __future__ import annotations

import shlex
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import orjson
import typer
from rich.console import Console
from rich.table import Table

from noisyteacher.core.errors import NoisyTeacherWarning

if TYPE_CHECKING:
    from noisyteacher.bench.result_lines import Line
    from noisyteacher.runs import Row

IdColumn = Annotated[
    str | None, typer.Option(help="The column of ids (default: id; without one, row numbers).")
]
LabelColumn = Annotated[
    str | None, typer.Option(help="The column of true labels (default: label).")
]
TextColumn = Annotated[str | None, typer.Option(help="The column of texts (default: text).")]
ImageSize = Annotated[int | None, typer.Option(min=1, help="Side to which images are brought.")]
Device = Annotated[str | None, typer.Option(help="cpu or cuda (default: cuda if any).")]


def this_command() -> str:
    """The command that is running, as shell text."""
    return shlex.join(["noisyteacher", *sys.argv[1:]])


def wide_console() -> Console:
    """Standard output; a pipe has no width of its own, and gets enough for a table."""
    console = Console(highlight=False)
    return console if console.is_terminal else Console(highlight=False, width=140)


@contextmanager
def warnings_as_lines() -> Iterator[list[str]]:
    """Print this package's warnings as plain lines, once each, and collect them."""
    notes: list[str] = []
    with warnings.catch_warnings():
        warnings.simplefilter("always", NoisyTeacherWarning)
        default = warnings.showwarning

        def show(message: Warning | str, category: type[Warning], *rest: Any, **more: Any) -> None:
            if not issubclass(category, NoisyTeacherWarning):
                default(message, category, *rest, **more)
            elif str(message) not in notes:
                notes.append(str(message))
                typer.echo(f"Note: {message}", err=True)

        warnings.showwarning = show
        yield notes


def json_line(value: Any) -> str:
    """For ``--json``: one line, dataclasses and NumPy numbers included."""
    return orjson.dumps(value).decode()


def text_table(
    title: str,
    header: Sequence[str],
    rows: Sequence[Sequence[str]],
    texts: int = 1,
    **look: Any,
) -> Table:
    """A table for the console: the first columns are ``texts`` and fold, numbers never do."""
    table = Table(title=title, **look)
    for i, name in enumerate(header):
        number = i >= texts
        table.add_column(
            name, justify="right" if number else "left", overflow="fold", no_wrap=number
        )
    for row in rows:
        table.add_row(*row)
    return table


def results_table(rows: Sequence[Row]) -> Table:
    """Test accuracy three ways, one line per method; what all lines share stands in the title."""
    from noisyteacher.bench.result_lines import HEADER, cells, lines, teacher_accuracies

    found = lines(rows)
    columns = {name: [cells(line)[i] for line in found] for i, name in enumerate(HEADER)}
    shared = {
        name: columns.pop(name)[0]
        for name in ("labeled", "epochs", "n")
        if len(set(columns[name])) == 1
    }
    title = ["Test accuracy in percent, mean ± std"]
    title += [f"{name} {value}" for name, value in shared.items()]
    known = ", ".join(f"{accuracy:.2f}" for accuracy in teacher_accuracies(found))
    title += [f"teacher {known}"] if known else []
    return text_table(", ".join(title), list(columns), list(zip(*columns.values(), strict=True)))


def verdict(rows: Sequence[Row]) -> str:
    """One plain sentence: how the best student with a teacher compares with gold only."""
    from noisyteacher.bench.result_lines import lines

    found = lines(rows)
    with_teacher = [line for line in found if line.distillation is not None]
    gold = [line for line in found if line.method.startswith("GoldOnly")]
    if not with_teacher or not gold:
        return ""
    best, floor = max(with_teacher, key=_last), max(gold, key=_last)
    gap = _last(best) - _last(floor)
    if gap < 0:
        return (
            f"Gold labels alone do better: {_last(floor):.2f} against {_last(best):.2f} for "
            f"{best.name}. With this many gold labels the teacher is not worth its noise."
        )
    return f"{best.name} is {gap:.2f} points above gold labels alone ({_last(floor):.2f})."


def _last(line: Line) -> float:
    cell = line.accuracy["last"]
    return cell.mean if cell is not None else float("-inf")
