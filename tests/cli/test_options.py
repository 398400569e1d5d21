"""What all verbs share: their help, names of options, the first line and the next command."""

from __future__ import annotations

import subprocess
import sys
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
import typer
from rich.console import Console
from typer.testing import CliRunner

from noisyteacher.bench.gold_sizes import SHOWN
from noisyteacher.cli import app
from noisyteacher.cli.common import VerbCommand, print_text, text_table, warnings_as_lines
from noisyteacher.core.errors import warn
from noisyteacher.core.progress import ProgressDisplay

GROUP: Any = typer.main.get_command(app)
OPTIONS = [
    (verb, parameter)
    for verb, command in GROUP.commands.items()
    for parameter in command.params
    if parameter.name != "help"
]
NAMES = [f"{verb}-{parameter.name}" for verb, parameter in OPTIONS]


@pytest.mark.parametrize(("verb", "parameter"), OPTIONS, ids=NAMES)
def test_every_option_is_explained_in_sentences(verb: str, parameter: Any) -> None:
    text = parameter.help
    assert text
    text = text.removesuffix("  [required]")  # which older releases of typer write into it
    assert text[0].isupper(), text
    assert text.endswith("."), text


@pytest.mark.parametrize("verb", GROUP.commands)
def test_help_has_no_types_of_flags_and_fits_80_columns(
    verb: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    result = CliRunner().invoke(app, [verb, "--help"])
    assert result.exit_code == 0
    assert "<bool>" not in result.output
    assert max(map(len, result.output.splitlines())) <= 80


def test_the_widest_table_of_numbers_fits_80_columns() -> None:
    header = [name.replace(" ", "\n") for name in ("gold rows", *SHOWN.values())]
    with StringIO() as file:
        row = ["400", *["88.9 ± 4.5"] * len(SHOWN)]
        Console(file=file, width=80).print(text_table("title", header, [row]))
        lines = file.getvalue().splitlines()
    assert max(map(len, lines)) <= 80
    for part in row:
        assert any(part in line for line in lines)
    assert sum(line.count("88.9 ± 4.5") for line in lines) == len(SHOWN)
    shown = " ".join(lines)
    assert all(word in shown for name in SHOWN.values() for word in name.split())


@pytest.mark.parametrize(
    "given",
    [
        "audit --lower-bound",
        "bench --gold-weight-decay",
        "bench --minutes",
        "bench --weight-decay",
        "distill --max-memory",
        "label --gpus-per-worker",
        "label --requests-per-minute",
        "predict --abstain-below",
    ],
)
def test_nan_lies_in_no_range(given: str) -> None:
    result = CliRunner().invoke(app, [*given.split(), "nan"], env={"COLUMNS": "200"})
    assert result.exit_code == 2
    assert f"Invalid value for '{given.split()[1]}'" in result.output


@pytest.mark.parametrize("program", ["--help", "demo --help"])
def test_flags_of_the_program_show_no_type(program: str) -> None:
    assert "<bool>" not in CliRunner().invoke(app, program.split()).output


def test_one_option_has_one_name_and_one_shape() -> None:
    found: dict[str, set[bool]] = {}
    for _, parameter in OPTIONS:
        for name in parameter.opts:
            found.setdefault(name, set()).add(getattr(parameter, "is_flag", False))
    assert not {"--methods", "--smoke", "--batch"} & found.keys()
    assert {name: kinds for name, kinds in found.items() if len(kinds) > 1} == {}


def test_old_names_work_and_name_the_new_ones() -> None:
    small = typer.Typer()

    @small.command(cls=VerbCommand)
    def verb(
        method: list[str] = typer.Option([], "--method"),  # noqa: B008
        quick: bool = typer.Option(False, "--quick"),
    ) -> None:
        typer.echo(f"{method} {quick}")

    with pytest.warns(UserWarning, match=r"is now called --(method|quick)\.") as notes:
        result = CliRunner().invoke(small, ["--methods=a;b", "--method", "c", "--smoke"])
    assert result.stdout == "['a;b', 'c'] True\n"
    assert [str(note.message) for note in notes] == [
        "--methods is now called --method.",
        "--smoke is now called --quick.",
    ]


def test_a_name_that_a_verb_has_is_not_renamed() -> None:
    small = typer.Typer()

    @small.command(cls=VerbCommand)
    def verb(batch: int = 0, batch_size: int = 0) -> None:
        typer.echo(f"{batch} {batch_size}")

    assert CliRunner().invoke(small, ["--batch", "3"]).stdout == "3 0\n"


def test_the_first_line_comes_before_the_slow_imports(tmp_path: Path) -> None:
    """Each verb that computes says what it does before torch is imported."""
    code = (
        "import sys, typer\n"
        "from noisyteacher.cli import common, main\n"
        "def stop(text, quiet=False):\n"
        "    assert text.endswith('.') and not quiet, text\n"
        "    assert 'torch' not in sys.modules and 'sklearn' not in sys.modules\n"
        "    sys.exit(7)\n"
        "from noisyteacher.cli import audit, bench, distill, export, halfspace\n"
        "from noisyteacher.cli import import_labels, label, predict\n"
        "for verb in (audit, bench, distill, export, halfspace, import_labels, label, predict):\n"
        "    verb.say_first = stop\n"
        "codes = []\n"
        "for line in sys.argv[1:]:\n"
        "    sys.argv = ['noisyteacher', *line.split()]\n"
        "    try:\n"
        "        main()\n"
        "    except SystemExit as end:\n"
        "        codes.append(end.code)\n"
        "assert codes == [7] * 8, codes\n"
    )
    (tmp_path / "store").mkdir()
    (tmp_path / "gold.csv").write_text("id,label\n1,a\n")
    commands = (
        "audit store --gold gold.csv",
        "bench digits",
        "distill --gold gold.csv --pool gold.csv --labels store --out run",
        "export store --onnx out.onnx",
        "halfspace",
        "import gold.csv --out labels",
        "label store gold.csv --out labels",
        "predict store gold.csv --out out.csv",
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *commands], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


def test_no_name_in_a_file_can_command_the_terminal() -> None:
    """A line or a table shows escape codes and Rich's markup as the characters they are."""
    shown = StringIO()
    console = Console(file=shown, force_terminal=True, color_system=None, width=100)
    print_text(console, "Error: \x1b]0;title\x07 of \x9b2J, in\ntwo lines")
    console.print(text_table("t", ["name", "n"], [["[/b] \x1b[2J", "1"]]))
    assert r"Error: \x1b]0;title\x07 of \x9b2J, in" in shown.getvalue()
    assert r"[/b] \x1b[2J" in shown.getvalue()
    assert "\x1b]" not in shown.getvalue()
    assert "\x1b[2J" not in shown.getvalue()


def test_a_note_stays_above_the_bars(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Bars are drawn again over the lines where they stand, and over a note among these."""
    monkeypatch.setenv("FORCE_COLOR", "1")  # what rich takes for a terminal
    monkeypatch.setenv("TERM", "xterm")
    with warnings_as_lines(), ProgressDisplay() as display:
        display.update("Training", 1, 3)
        display._bars.refresh()
        warn("mind the gap")
        display.update("Training", 2, 3)
    before, _, after = capsys.readouterr().err.partition("Note: mind the gap")
    assert before.endswith("\x1b[2K")  # the line was emptied first
    assert after.startswith("\n")
