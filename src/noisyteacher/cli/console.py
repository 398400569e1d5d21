"""What the verbs print, and where."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import typer
from rich.console import Console

from noisyteacher.core.errors import NoisyTeacherWarning


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
        warnings.showwarning = _collector(notes, warnings.showwarning)
        yield notes


def _collector(notes: list[str], usual: Callable[..., None]) -> Callable[..., None]:
    def show(message: Warning | str, category: type[Warning], *rest: Any, **more: Any) -> None:
        if not issubclass(category, NoisyTeacherWarning):
            usual(message, category, *rest, **more)
        elif str(message) not in notes:
            notes.append(str(message))
            typer.echo(f"Note: {message}", err=True)

    return show
