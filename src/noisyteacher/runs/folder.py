"""The folder of a run: claimed by its settings, locked by its process, filled with rows."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import orjson

from noisyteacher.core.errors import InputError
from noisyteacher.core.files import remove_leftovers, write_atomic
from noisyteacher.core.integrity import read_json, sealed_json
from noisyteacher.core.locks import hold_lock, rank
from noisyteacher.runs.rows import Row, append_row, read_rows

AUDITS, COMMANDS = "audits", "story.json"
PROGRESS = "progress.json"
SIZES = "sizes"  # the run inside a demo's folder that compares numbers of gold rows
ANOTHER_FOLDER = "choose another folder with out= (--out)"


@dataclass(frozen=True)
class RunFolder:
    """The folder of a run: ``recipe.json``, ``results.jsonl`` and other files."""

    path: Path

    @property
    def results(self) -> Path:
        return self.path / "results.jsonl"

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Lock the folder; if another process has locked it, raise an error.

        The processes that torchrun starts for one run share the lock of the first.
        """
        if rank() > 0:
            yield
            return
        if self.path.exists() and not self.path.is_dir():
            raise InputError(f"{self.path} is a file; the run needs a folder: out= (--out).")
        there_before = self.path.exists()
        try:
            with hold_lock(self.path / ".lock", str(self.path), ANOTHER_FOLDER):
                for folder in (self.path, self.path / "checkpoints"):
                    remove_leftovers(folder)
                yield
        finally:
            if not there_before:
                with suppress(OSError):
                    self.path.rmdir()  # where nothing was written to it

    def claim(
        self,
        settings: Mapping[str, Any],
        *,
        last_call: Mapping[str, Any] | None = None,
        optional: tuple[str, ...] = (),
        in_words: Mapping[str, str] | None = None,
        write: bool = True,
    ) -> None:
        """Write ``recipe.json``, or raise an error if the folder's run has other ``settings``.

        ``last_call`` is written beside them and may change. ``optional`` settings may be missing
        in either, but do not change. ``in_words`` tells what differs, by the setting's name.
        Without ``write`` the folder is only checked.
        """
        path = self.path / "recipe.json"
        fixed: dict[str, Any] = orjson.loads(orjson.dumps(settings))
        if path.exists():
            stored = self._stored_settings(path)
            for one, other in ((fixed, stored), (stored, fixed)):
                one.update({name: other[name] for name in optional if name in other.keys() - one})
            changed = [name for name, value in fixed.items() if stored.get(name) != value]
            if changed:
                differs = (in_words or {}).get(changed[0], f"another {changed[0]}")
                raise InputError(f"{self.path} holds a run with {differs}; {ANOTHER_FOLDER}.")
        told = fixed if last_call is None else {**last_call, "lasting": fixed}
        content = sealed_json(told)
        if write and not (path.exists() and path.read_bytes() == content):
            write_atomic(path, content)

    def _stored_settings(self, path: Path) -> dict[str, Any]:
        stored = read_json(path, ANOTHER_FOLDER)
        stored = stored.get("lasting", stored)
        if not isinstance(stored, dict):
            raise InputError(f"{path} does not hold the settings of a run; {ANOTHER_FOLDER}.")
        return stored

    def rows(self) -> list[Row]:
        """The rows so far."""
        return read_rows(self.results)

    def append(self, row: Row) -> None:
        """Add a row, unless a resumed run has added it already."""
        if all(stored.key != row.key for stored in self.rows()):
            append_row(self.results, row)


class ProgressFile:
    """How far a run is, in ``progress.json`` of its folder, for a page that watches it."""

    def __init__(self, folder: str | Path | None) -> None:
        self._path = None if folder is None else Path(folder) / PROGRESS
        self._began = time.monotonic()
        self._written = -math.inf

    def write(self, told: str, done: int, total: int) -> None:
        """At most once a second; the time left is estimated from the time so far."""
        now = time.monotonic()
        if self._path is None or (now - self._written < 1 and done < total):
            return
        self._written = now
        left = (now - self._began) / done * (total - done) if done else None
        content = {"told": told, "done": done, "total": total, "seconds_left": left}
        write_atomic(self._path, orjson.dumps(content))


@dataclass(frozen=True)
class CommandLog:
    """The commands that made a run, and the notes they printed."""

    commands: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def read_command_log(folder: str | Path) -> CommandLog:
    """Empty where the run left none."""
    path = Path(folder) / COMMANDS
    if not path.exists():
        return CommandLog()
    stored = read_json(path, "delete it")
    for name in ("commands", "notes"):
        listed = stored.get(name)
        if not isinstance(listed, list) or not all(isinstance(one, str) for one in listed):
            raise InputError(f"{path} has no list of {name}; delete it.")
    return CommandLog(stored["commands"], stored["notes"])


def record_command(folder: str | Path, command: str, notes: Sequence[str] = ()) -> None:
    """Record a command (shell text) and its notes. A resumed run has several; each is kept once."""
    before = read_command_log(folder)
    log = CommandLog(
        list(dict.fromkeys([*before.commands, command])),
        list(dict.fromkeys([*before.notes, *notes])),
    )
    write_atomic(Path(folder) / COMMANDS, sealed_json(asdict(log)))
