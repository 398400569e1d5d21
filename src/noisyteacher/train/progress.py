"""Progress of a run: a live bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from noisyteacher.train.checkpoint import EpochRecord


class TrainProgress:
    """Shows examples/s, loss, last accuracy and time left; ``quiet`` shows nothing."""

    def __init__(self, epochs: int, *, quiet: bool = False, seconds_between_lines: float = 10.0):
        console = Console(file=sys.stderr)
        self._epochs = epochs
        self._live = console.is_terminal and not quiet
        self._quiet = quiet
        self._between = seconds_between_lines
        self._last_line = 0.0
        self._tasks: dict[str, int] = {}
        self._bars = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TextColumn("{task.fields[numbers]}"),
            TimeRemainingColumn(),
            console=console,
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

    def epoch(self, student: str, record: EpochRecord, rate: float, seconds_left: float) -> None:
        """One student finished one epoch."""
        numbers = f"loss {record.loss:.3f}"
        if record.test is not None:
            numbers += f"  test accuracy {record.test:.2f}"
        elif record.selection is not None:
            numbers += f"  accuracy on S {record.selection:.2f}"
        numbers += f"  {rate:,.0f} examples/s"
        if self._live:
            if student not in self._tasks:
                self._tasks[student] = self._bars.add_task(
                    student, total=self._epochs, numbers=numbers
                )
            task = self._bars.tasks[self._tasks[student]].id
            self._bars.update(task, completed=record.epoch, numbers=numbers)
        elif record.epoch == self._epochs or time.monotonic() - self._last_line > self._between:
            self._last_line = time.monotonic()
            self.say(
                f"{student}: epoch {record.epoch}/{self._epochs}  {numbers}  "
                f"{seconds_left:.0f} s left"
            )

    def say(self, line: str) -> None:
        """Print one line, above the bars where there are any."""
        if not self._quiet:
            self._bars.console.print(line, highlight=False, markup=False, soft_wrap=True)
