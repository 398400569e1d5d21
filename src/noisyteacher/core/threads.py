"""Work in several threads, which end together after an error or Ctrl-C."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError, ThreadPoolExecutor
from contextvars import ContextVar
from threading import Event
from types import FrameType
from typing import TypeVar

from noisyteacher.core.errors import calling_frame, started_by

_Given = TypeVar("_Given")
_Made = TypeVar("_Made")
# In a thread that was started here: set once its work is no longer wanted.
_stop: ContextVar[Event | None] = ContextVar("_stop", default=None)


def in_threads(
    work: Callable[[_Given], _Made], given: Sequence[_Given], threads: int
) -> list[_Made]:
    """What ``work`` makes of each item, in order.

    Its warnings are issued at the user's line that called the package. After an error or Ctrl-C,
    every thread ends where it next calls ``end_if_stopped``.
    """
    stop = Event()
    threads = max(1, min(threads, len(given)))
    with ThreadPoolExecutor(threads, initializer=_enter, initargs=(calling_frame(), stop)) as pool:
        try:
            return list(pool.map(work, given))
        finally:
            stop.set()


def _enter(caller: FrameType, stop: Event) -> None:
    started_by.set(caller)
    _stop.set(stop)


def end_if_stopped() -> None:
    """End this thread's work, if it is done by ``in_threads`` and no longer wanted."""
    stop = _stop.get()
    if stop is not None and stop.is_set():
        raise CancelledError
