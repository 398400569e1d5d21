"""Work in processes that are forked from this one, so that they need not import anything again."""

from __future__ import annotations

import atexit
import contextlib
import importlib
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterable
from pathlib import Path

_ENDING = (signal.SIGINT, signal.SIGTERM)


class Forked:
    """Work in a process of its own, which begins with everything that this one has imported.

    So hundreds of verbs start in milliseconds instead of seconds, and all of a kill's random
    moments fall into the verb's own work. This process must have no threads.
    """

    def __init__(self, work: Callable[[], object], log: Path) -> None:
        self.returncode: int | None = None
        # A signal may come before the child is ready for it. As an exception it would leave the
        # child in this process's own code, from here on a second time.
        signal.pthread_sigmask(signal.SIG_BLOCK, _ENDING)
        self.pid = os.fork()
        if not self.pid:
            try:
                _run_and_exit(work, log)
            finally:
                os._exit(1)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _ENDING)

    def poll(self) -> int | None:
        """The exit status, once there is one."""
        if self.returncode is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode

    def wait(self, seconds: float) -> int | None:
        """Poll for so long at most."""
        end = time.monotonic() + seconds
        while self.poll() is None and time.monotonic() < end:
            time.sleep(0.001)
        return self.returncode

    def kill(self, number: signal.Signals) -> None:
        """Send a signal; what does not end by it within a minute ends by KILL."""
        for one in (number, signal.SIGKILL):
            if self.poll() is None:
                os.kill(self.pid, one)
                self.wait(60)


def _run_and_exit(work: Callable[[], object], log: Path) -> None:
    """The child's life: as that of a new interpreter, from its standard streams to its end."""
    status = 1
    try:
        atexit._clear()
        os.setsid()
        with log.open("wb") as file, Path(os.devnull).open() as nothing:
            os.dup2(nothing.fileno(), 0)
            for stream in (1, 2):
                os.dup2(file.fileno(), stream)
        for number in _ENDING:
            usual = signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL
            signal.signal(number, usual)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _ENDING)
        work()
        status = 0
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        with contextlib.suppress(BaseException):
            threading._shutdown()
            atexit._run_exitfuncs()
        for text in (sys.stdout, sys.stderr):
            text.flush()
        os._exit(status)


def import_modules(names: Iterable[str]) -> None:
    """Import what a child imported, so that the next one need not."""
    for name in names:
        if name not in sys.modules:
            with contextlib.suppress(Exception):
                importlib.import_module(name)
