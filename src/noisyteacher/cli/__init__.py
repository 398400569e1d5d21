"""The command line: one file per verb."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from noisyteacher import __version__
from noisyteacher.cli import (
    audit,
    bench,
    demo,
    distill,
    export,
    halfspace,
    import_labels,
    label,
    predict,
    report,
)
from noisyteacher.cli.common import VerbCommand, VerbGroup, say, warnings_as_lines
from noisyteacher.core.errors import InputError

app = typer.Typer(
    name="noisyteacher",
    cls=VerbGroup,
    help="Train small models on the stored, imperfect labels of a large one.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
)


def _show_version(asked: bool) -> None:
    if asked:
        typer.echo(f"noisyteacher {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version."),
    ] = False,
) -> None:
    """Options of all verbs."""


app.command(epilog=demo.EPILOG, cls=VerbCommand)(demo.demo)
app.command(epilog=audit.EPILOG, cls=VerbCommand)(audit.audit)
app.command("import", epilog=import_labels.EPILOG, cls=VerbCommand)(import_labels.import_labels)
app.command(epilog=label.EPILOG, cls=VerbCommand)(label.label)
app.command(epilog=distill.EPILOG, cls=VerbCommand)(distill.distill)
app.command(epilog=predict.EPILOG, cls=VerbCommand)(predict.predict)
app.command(epilog=export.EPILOG, cls=VerbCommand)(export.export)
app.command(epilog=bench.EPILOG, cls=VerbCommand)(bench.bench)
app.command(epilog=report.EPILOG, cls=VerbCommand)(report.report)
app.command(epilog=halfspace.EPILOG, cls=VerbCommand)(halfspace.halfspace)


def main() -> None:
    """Run a verb; bad input is one sentence on stderr and exit code 2."""
    # No verb reads standard input, and no library may ask there, whoever answers.
    sys.stdin = open(os.devnull)  # noqa: PTH123, SIM115
    try:
        with warnings_as_lines():
            app()
    except (InputError, OSError, ImportError) as error:
        # A full disk or a missing extra is the user's to mend, and says so in one sentence.
        say(f"Error: {_in_words(error)}")
        sys.exit(2)


def _in_words(error: Exception) -> str:
    """What an error says; of the system's errors without their number."""
    if not isinstance(error, OSError) or not error.strerror:
        return str(error)
    told = f"{error.strerror[0].upper()}{error.strerror[1:]}."
    return f"{error.filename}: {told}" if error.filename else told
