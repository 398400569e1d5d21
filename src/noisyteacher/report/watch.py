"""The page of a run that goes on, served to this machine's browser alone."""

from __future__ import annotations

import hashlib
import webbrowser
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Lock
from typing import cast

import orjson

from noisyteacher.core.errors import InputError
from noisyteacher.report.page import render_page
from noisyteacher.report.page_source import PageSource, last_line, progress_so_far
from noisyteacher.runs import Row, read_rows
from noisyteacher.runs.comparison import COMPARISON
from noisyteacher.runs.folder import AUDITS, COMMANDS

_SELF = "127.0.0.1"
# Not the curves, which change every epoch: a page that is read must not jump all the time.
_WATCHED = (
    "recipe.json",
    "results.jsonl",
    "audit.json",
    "student/config.json",
    COMMANDS,
    COMPARISON,
)


class PageServer(ThreadingHTTPServer):
    """Serves the page at ``/``, made anew when the run has left more, and ``/state`` for it."""

    daemon_threads = True

    def __init__(self, run: str | Path, port: int = 0) -> None:
        self.run = Path(run)
        self._lock = Lock()  # one page is made at a time, however many ask
        self._rows: tuple[str, list[Row]] = ("", [])
        self._made: tuple[str, bytes] = (self.version(), self._render())
        super().__init__((_SELF, port), _Handler)

    @property
    def address(self) -> str:
        return f"http://{_SELF}:{self.server_port}/"

    def version(self) -> str:
        """Changes when any file that the page shows does."""
        digest = hashlib.sha256()
        for path in self._files():
            digest.update(f"{path}\0{_stamp(path)}\0".encode())
        return digest.hexdigest()

    def _files(self) -> Iterator[Path]:
        if self.run.is_file():
            yield self.run
            return
        yield from (self.run / name for name in _WATCHED)
        yield from sorted((self.run / AUDITS).glob("*.json"))

    def page(self) -> bytes:
        with self._lock:
            version = self.version()
            if version != self._made[0]:
                self._made = (version, self._render())
            return self._made[1]

    def state(self) -> bytes:
        """What is asked every two seconds, so rows are parsed when there are new ones only."""
        results = self.run / "results.jsonl"
        if (stamp := _stamp(results)) != self._rows[0]:
            self._rows = (stamp, read_rows(results))
        latest = last_line(self.run / "curves.jsonl")
        so_far = PageSource(title="", rows=self._rows[1], progress=latest)
        done, told = progress_so_far(self.run, so_far)
        return orjson.dumps({"version": self.version(), "progress": told, "done": done})

    def _render(self) -> bytes:
        return render_page(self.run, live=True).encode()


def _stamp(path: Path) -> str:
    """Changes when the file does; empty where there is none."""
    try:
        state = path.stat()
    except OSError:
        return ""
    return f"{state.st_mtime_ns} {state.st_size}"


class _Handler(BaseHTTPRequestHandler):
    timeout = 10  # seconds, so that a silent connection does not keep its thread

    def do_GET(self) -> None:
        server = cast(PageServer, self.server)
        answers: dict[str, tuple[str, Callable[[], bytes]]] = {
            "/": ("text/html; charset=utf-8", server.page),
            "/state": ("application/json", server.state),
        }
        host = self.headers.get("Host", "").rpartition(":")[0]
        if host not in (_SELF, "localhost"):
            # Another site's name that was made to point here must not read the run.
            self.send_error(403)
        elif self.path not in answers:
            self.send_error(404)
        else:
            self._answer(*answers[self.path])

    def _answer(self, kind: str, make: Callable[[], bytes]) -> None:
        try:
            content = make()
        except InputError as error:
            self.send_error(500, explain=str(error))
            return
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:
        """A page that asks every two seconds is no news."""


def watch(
    run: str | Path, port: int = 0, say: Callable[[str], None] = print, *, open_page: bool = False
) -> None:
    """Serve the page until Ctrl-C."""
    with PageServer(run, port) as server:
        say(f"Watching {run} at {server.address} (press Ctrl-C to stop)")
        if open_page:
            webbrowser.open(server.address)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            say("Stopped.")
