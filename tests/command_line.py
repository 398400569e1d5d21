"""The command line, run in this process."""

from __future__ import annotations

from typer.testing import CliRunner, Result

from noisyteacher.cli import app


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def run_well(*arguments: object) -> Result:
    """A command that must succeed."""
    done = run(*arguments)
    assert done.exit_code == 0, (done.output, done.exception)
    return done
