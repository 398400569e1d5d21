"""What the verbs share: options and their panels, the first and the last line, tables, warnings.

Libraries that take seconds to import are imported inside functions, so that ``--help`` is quick.
"""

from __future__ import annotations

import math
import re
import shlex
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from inspect import cleandoc, signature
from pathlib import Path
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    TypeVar,
    get_args,
    get_origin,
    get_type_hints,
)

import orjson
import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text
from typer.core import TyperCommand, TyperGroup, TyperOption

from noisyteacher.core.errors import NoisyTeacherWarning, warn

if TYPE_CHECKING:
    from noisyteacher.runs import Row

# Panels of `--help` that options of many verbs stand in.
COLUMNS = "Columns, classes and images"
RUNNING = "Running"
OUTPUT = "Output"


# Settings of options and arguments.
FROM_0, FROM_1 = {"min": 0}, {"min": 1}
SHARE = {"min": 0, "max": 1}
A_FILE = {"exists": True, "dir_okay": False}
METHOD = {"metavar": "<method>"}

Verb = TypeVar("Verb", bound=Callable[..., None])


def verb(function: Verb) -> Verb:
    """Make a function a verb: its docstring explains its arguments and options.

    The sections of the docstring are the panels of `--help`, but for "Arguments". An annotation may
    add settings of typer's. A flag that is off by default has no other name that turns it off.
    """
    help_text, *sections = re.split(r"\n\n(\S.*):\n(?= )", cleandoc(function.__doc__ or ""))
    hints = get_type_hints(function, include_extras=True)
    defaults = {name: one.default for name, one in signature(function).parameters.items()}
    for panel, explained in zip(sections[::2], sections[1::2], strict=True):
        for name, text in re.findall(r"^    (\w+): (.+(?:\n {5,}.+)*)", explained, re.MULTILINE):
            kind, settings = hints[name], {}
            if get_origin(kind) is Annotated:
                kind, settings = get_args(kind)
            words = " ".join(text.split())
            if kind in (Path, Path | None):
                settings = {"callback": _expanded, **settings}
            if panel == "Arguments":
                made = typer.Argument(help=words, **settings)
            else:
                names = [f"--{name.replace('_', '-')}"] if defaults[name] is False else []
                made = option(panel, words, *names, **settings)
            hints[name] = Annotated[kind, made]
    function.__doc__, function.__annotations__ = help_text, hints
    return function


def _expanded(path: Path | None) -> Path | None:
    """With the home folder for ~, which a shell leaves as it is in --out=~/runs."""
    return None if path is None else path.expanduser()


def option(panel: str, text: str, *names: str, **settings: Any) -> Any:
    """An option that `--help` shows in this panel with this text; the rest is typer's."""
    if "min" in settings or "max" in settings:
        settings["callback"] = _refuse_nan
    return typer.Option(*names, help=text, rich_help_panel=panel, **settings)


def _refuse_nan(value: Any) -> Any:
    """Releases of typer before 0.29 accept nan in every range."""
    if isinstance(value, float) and math.isnan(value):
        raise typer.BadParameter("nan is not in the range.")
    return value


IdColumn = Annotated[
    str | None,
    option(
        COLUMNS,
        "The column that holds the ids. By default it is called id; a file without such a "
        "column is numbered by row.",
    ),
]
LabelColumn = Annotated[
    str | None, option(COLUMNS, "The column that holds the true labels (default: label).")
]
TextColumn = Annotated[
    str | None, option(COLUMNS, "The column that holds the texts (default: text).")
]
ImageSize = Annotated[
    int | None, option(COLUMNS, "Resize all images to this height and width, in pixels.", min=1)
]
Device = Annotated[
    str | None,
    option(RUNNING, "Where to compute: cpu, cuda or cuda:N (default: cuda if there is a GPU)."),
]
Minutes = Annotated[
    float | None,
    option(
        RUNNING, "Stop cleanly after this many minutes. The same command continues the run.", min=0
    ),
]
Html = Annotated[
    Path | None,
    option(OUTPUT, "Write the page to this file (default: report.html in the folder of the run)."),
]
Open = Annotated[bool, option(OUTPUT, "Open the page in the browser at the end.", "--open")]
Seed = Annotated[int, option(RUNNING, "The random seed.", min=0)]
Overwrite = Annotated[
    bool, option(OUTPUT, "Replace the output if it exists already.", "--overwrite")
]
Json = Annotated[bool, option(OUTPUT, "Print the result as JSON and nothing else.", "--json")]

TopClasses = Annotated[
    int | None,
    option(OUTPUT, "How many of the most likely classes to store per row (default: all)."),
]

_RENAMED = {"--methods": "--method", "--smoke": "--quick", "--batch": "--batch-size"}


class VerbCommand(TyperCommand):
    """A verb whose `--help` shows short types, and that accepts options by their old names."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        shorten_types(self.params)

    def get_help_option(self, ctx: Any) -> Any:
        option = super().get_help_option(ctx)
        if option is not None:
            option.metavar = ""  # type: ignore[unreachable, unused-ignore]
        return option

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        known = {name for parameter in self.params for name in parameter.opts}
        return super().parse_args(ctx, [_with_current_name(word, known) for word in args])


class VerbGroup(TyperGroup):
    """All verbs; its own flags show no type in `--help` either."""

    def get_params(self, ctx: Any) -> list[Any]:
        found = super().get_params(ctx)
        shorten_types(found)
        return found


def shorten_types(parameters: Sequence[Any]) -> None:
    """Show no type for a flag, and no "range" for a number: 80 columns leave little room."""
    for parameter in parameters:
        if not isinstance(parameter, TyperOption):
            continue
        kind: Any = getattr(parameter, "type_descriptor", None)  # older releases of typer have none
        if parameter.is_flag:
            parameter.metavar = ""
        elif parameter.metavar is None and getattr(kind, "is_ranged", False):
            parameter.metavar = f"<{kind.ranged_type_name}>"


def _with_current_name(word: str, known: set[str]) -> str:
    name, equals, value = word.partition("=")
    new = _RENAMED.get(name)
    if new is None or new not in known or name in known:
        return word
    warn(f"{name} is now called {new}.")
    return new + equals + value


def say_first(text: str, quiet: bool = False) -> None:
    """Print what the verb is about to do, before the libraries that take seconds to import."""
    if not quiet:
        say(text)


def say(text: str) -> None:
    """Print to standard error; a terminal breaks the text at words, a file has one line."""
    if hasattr(sys.stderr, "rich_proxied_file"):  # bars are shown: this prints above them
        print(printable(text), file=sys.stderr)
    else:
        print_text(Console(stderr=True), text)


def print_text(console: Console, text: str) -> None:
    """Print text as it is; a terminal breaks it at words, a file has one line."""
    wraps = console.is_terminal
    console.print(printable(text), soft_wrap=not wraps, highlight=False, markup=False, emoji=False)


def printable(text: str) -> str:
    """Text of a user's file without what a terminal would obey, such as a name with an ESC."""
    return text.translate(_CONTROLS)


# But for tabs and line breaks.
_CONTROLS = {
    code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160)) if chr(code) not in "\t\n"
}


def say_next(*words: object) -> None:
    """Print the command that usually follows; words in capitals are for the user to replace."""
    typer.echo(f"Next: {printable(shlex.join(map(str, words)))}")


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
                say(f"Note: {message}")

        warnings.showwarning = show
        yield notes


def json_line(value: Any) -> str:
    """For ``--json``: one line, dataclasses and NumPy numbers included."""
    return orjson.dumps(value).decode()


def text_table(
    title: str, header: Sequence[str], rows: Sequence[Sequence[str]], texts: int = 1, **look: Any
) -> Table:
    """A table for the console: the first columns are ``texts`` and fold, numbers never do.

    Where the terminal is narrow, the names of the number columns are broken at words.
    """
    table = Table(title=title, **look)
    for i, name in enumerate(header):
        if i < texts:
            table.add_column(name, overflow="fold")
        else:
            widest = max([len(row[i]) for row in rows] + [len(word) for word in name.split()])
            table.add_column(name, justify="right", min_width=widest)
    for row in rows:
        table.add_row(*(Text(printable(cell)) for cell in row))  # not markup
    return table


def results_table(rows: Sequence[Row]) -> Table:
    """Test accuracy three ways, one line per method; what all lines share stands in the title."""
    from noisyteacher.bench.result_lines import HEADER, cells, lines, teacher_range

    found = lines(rows)
    columns = {name: [cells(line)[i] for line in found] for i, name in enumerate(HEADER)}
    shared = {
        name: columns.pop(name)[0]
        for name in ("labeled", "epochs", "n")
        if len(set(columns[name])) == 1
    }
    title = ["Test accuracy in percent, mean ± std"]
    title += [f"{name} {value}" for name, value in shared.items()]
    teachers = teacher_range(found)
    title += [f"teacher {teachers}"] if teachers else []
    return text_table(", ".join(title), list(columns), list(zip(*columns.values(), strict=True)))
