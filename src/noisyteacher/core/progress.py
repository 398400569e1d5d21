"""How far a piece of work is: bars on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Iterable, Iterator, Sized
from types import TracebackType
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

SECONDS_BETWEEN_LINES = 10.0

_BlockT = TypeVar("_BlockT", bound=Sized)


class ProgressDisplay:
    """Progress on stderr, as a context manager; ``quiet`` shows nothing.

    ``in_bytes`` counts in kB and MB. ``every_line`` prints a line for each update where there is
    no terminal; otherwise the first and the last are printed, and one every ten seconds.
    """

    def __init__(
        self, *, quiet: bool = False, in_bytes: bool = False, every_line: bool = False
    ) -> None:
        self._console = Console(file=sys.stderr, quiet=quiet)
        self._live = self._console.is_terminal and not quiet
        self._every_line = every_line
        self._began = time.monotonic()
        self._last_line = -math.inf
        self._tasks: dict[str, TaskID] = {}
        self._bars = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            DownloadColumn() if in_bytes else MofNCompleteColumn(),
            TextColumn("{task.fields[numbers]}"),
            TimeRemainingColumn(),
            console=self._console,
            disable=not self._live,
        )

    def __enter__(self) -> Self:
        self._bars.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
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
            if name not in self._tasks:
                self._tasks[name] = self._bars.add_task(name, total=total, numbers=numbers)
            self._bars.update(self._tasks[name], completed=done, total=total, numbers=numbers)
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

    def say(self, line: str) -> None:
        """Print one line, above the bars where there are any."""
        self._console.print(line, highlight=False, markup=False, soft_wrap=True)


def track(blocks: Iterable[_BlockT], total: int, name: str) -> Iterator[_BlockT]:
    """Pass ``blocks`` through, showing how many of ``total`` items they held so far."""
    done = 0
    with ProgressDisplay() as display:
        display.update(name, done, total)
        for block in blocks:
            yield block
            done += len(block)
            display.update(name, done, total)
