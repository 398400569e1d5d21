"""Where tables are printed."""

from __future__ import annotations

from rich.console import Console


def wide_console() -> Console:
    """Standard output; a pipe has no width of its own, and gets enough for a table."""
    console = Console(highlight=False)
    return console if console.is_terminal else Console(highlight=False, width=140)
