"""Progress of reading: a bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sized
from typing import TypeVar

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

_SECONDS_BETWEEN_LINES = 10.0

_BlockT = TypeVar("_BlockT", bound=Sized)


def track(blocks: Iterable[_BlockT], total: int, what: str) -> Iterator[_BlockT]:
    """Pass ``blocks`` through, showing how many of ``total`` items they held so far."""
    console = Console(stderr=True)
    if console.is_terminal:
        return _track_with_bar(blocks, total, what, console)
    return _track_with_lines(blocks, total, what, console)


def _track_with_bar(
    blocks: Iterable[_BlockT], total: int, what: str, console: Console
) -> Iterator[_BlockT]:
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console) as bar:
        task = bar.add_task(what, total=total)
        for block in blocks:
            yield block
            bar.advance(task, len(block))


def _track_with_lines(
    blocks: Iterable[_BlockT], total: int, what: str, console: Console
) -> Iterator[_BlockT]:
    def say(text: str) -> None:
        console.print(text, markup=False, highlight=False, soft_wrap=True)

    start = last = time.monotonic()
    done = 0
    say(f"{what}: {total}")
    for block in blocks:
        yield block
        done += len(block)
        now = time.monotonic()
        if now - last > _SECONDS_BETWEEN_LINES and done < total:
            left = (now - start) / done * (total - done)
            say(f"{what}: {done} of {total}, about {left:.0f} s left")
            last = now
    say(f"{what}: done in {time.monotonic() - start:.1f} s")
