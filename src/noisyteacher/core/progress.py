"""Progress of the work: bars on a terminal, and a line now and then elsewhere."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Iterable, Iterator, Sized
from typing import Self, TypeVar

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
)
from rich.table import Column

SECONDS_BETWEEN_LINES = 10.0

_BlockT = TypeVar("_BlockT", bound=Sized)


class ProgressDisplay:
    """Progress on stderr, as a context manager; ``quiet`` shows nothing.

    A terminal shows a line for each piece of work in progress and, with ``update_total``, one for
    all of it. A line disappears when its work is done, unless it is the only one. Elsewhere plain
    lines are printed: the first, the last, and one every ten seconds, or all of them with
    ``every_line``. ``in_bytes`` counts in kB and MB.
    """

    def __init__(
        self, *, quiet: bool = False, in_bytes: bool = False, every_line: bool = False
    ) -> None:
        self._console = Console(file=sys.stderr, quiet=quiet, emoji=False)
        self._live = self._console.is_terminal and not quiet
        self._every_line = every_line
        self._began = time.monotonic()
        self._last_line = -math.inf
        self._tasks: dict[str, TaskID] = {}
        self._bars = Progress(
            TextColumn(
                "{task.description}",
                markup=False,
                table_column=Column(ratio=1, no_wrap=True, overflow="ellipsis"),
            ),
            BarColumn(bar_width=10),
            DownloadColumn() if in_bytes else MofNCompleteColumn(),
            TextColumn("{task.fields[numbers]}", markup=False, table_column=Column(no_wrap=True)),
            TimeRemainingColumn(compact=True),
            console=self._console,
            disable=not self._live,
            expand=True,
        )

    def __enter__(self) -> Self:
        if self._live:
            self._bars.start()
        return self

    def __exit__(self, *error: object) -> None:
        if self._live:
            self._bars.stop()

    def update(
        self,
        name: str,
        done: int,
        total: int,
        *,
        numbers: str = "",
        line: str | None = None,
        seconds_left: float | None = None,
    ) -> None:
        """The work ``name`` has reached ``done`` of ``total``.

        ``numbers`` stand beside its bar; ``line`` is printed where there is no terminal, with the
        time left, which is estimated from the time since the display began where not given.
        """
        if self._live:
            self._draw(name, done, total, numbers)
            return
        now = time.monotonic()
        due = self._every_line or now - self._last_line > SECONDS_BETWEEN_LINES
        if not due and done < total:
            return
        self._last_line = now
        told = f"{name}: {done} of {total}" if line is None else line
        if 0 < done < total:
            if seconds_left is None:
                seconds_left = (now - self._began) / done * (total - done)
            told += f", about {seconds_left:.0f} s left"
        self.say(told)

    def update_total(self, name: str, done: int, total: int) -> None:
        """All the work together, called ``name``, has reached ``done`` of ``total``."""
        if self._live:
            self._draw(name, done, total, "")

    def _draw(self, name: str, done: int, total: int, numbers: str) -> None:
        if name not in self._tasks:
            self._tasks[name] = self._bars.add_task(name, total=total, numbers=numbers)
        self._bars.update(self._tasks[name], completed=done, total=total, numbers=numbers)
        if done >= total and len(self._tasks) > 1:
            self._bars.remove_task(self._tasks.pop(name))

    def say(self, line: str) -> None:
        """Print one line, above the bars where there are any; a terminal breaks it at words."""
        self._console.print(line, highlight=False, markup=False, soft_wrap=not self._live)


def track(blocks: Iterable[_BlockT], total: int, name: str) -> Iterator[_BlockT]:
    """Pass ``blocks`` through, showing how many of ``total`` items they held so far."""
    done = 0
    with ProgressDisplay() as display:
        display.update(name, done, total)
        for block in blocks:
            yield block
            done += len(block)
            display.update(name, done, total)
