"""Where the numbers of a run go while it runs: JSONL always, others on request."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import orjson

from noisyteacher.core.errors import InputError
from noisyteacher.core.files import append_line
from noisyteacher.core.user_code import import_extra


class Tracker(Protocol):
    """Anything that takes a student's numbers, epoch by epoch."""

    def log(self, student: str, epoch: int, numbers: dict[str, float]) -> None: ...

    def close(self) -> None: ...


class JsonlTracker:
    """One JSON line per student and epoch in ``curves.jsonl``."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "curves.jsonl"

    def log(self, student: str, epoch: int, numbers: dict[str, float]) -> None:
        append_line(self.path, orjson.dumps({"student": student, "epoch": epoch, **numbers}))

    def close(self) -> None:
        pass


class TensorBoardTracker:
    """Event files in ``tensorboard/``, one run per student."""

    def __init__(self, folder: Path) -> None:
        module = _import("torch.utils.tensorboard")
        self._writer: Any = module.SummaryWriter
        self._folder = folder / "tensorboard"
        self._writers: dict[str, Any] = {}

    def log(self, student: str, epoch: int, numbers: dict[str, float]) -> None:
        if student not in self._writers:
            self._writers[student] = self._writer(str(self._folder / student))
        for name, value in numbers.items():
            self._writers[student].add_scalar(name, value, epoch)

    def close(self) -> None:
        for writer in self._writers.values():
            writer.close()


class WandbTracker:
    """One Weights & Biases run; each student's numbers under its name."""

    def __init__(self, folder: Path) -> None:
        with _no_questions("wandb", "run `wandb login` first, or set WANDB_MODE=offline"):
            self._run = _import("wandb").init(project="noisyteacher", dir=str(folder))

    def log(self, student: str, epoch: int, numbers: dict[str, float]) -> None:
        named = {f"{student}/{name}": value for name, value in numbers.items()}
        self._run.log({**named, f"{student}/epoch": epoch})

    def close(self) -> None:
        self._run.finish()


class MlflowTracker:
    """One MLflow run in ``mlruns/``; each student's numbers under its name."""

    def __init__(self, folder: Path) -> None:
        with _no_questions("mlflow", "check its settings"):
            self._mlflow = _import("mlflow")
            self._mlflow.set_tracking_uri((folder / "mlruns").resolve().as_uri())
            self._mlflow.start_run()

    def log(self, student: str, epoch: int, numbers: dict[str, float]) -> None:
        named = {f"{student}.{name}": value for name, value in numbers.items()}
        self._mlflow.log_metrics(named, step=epoch)

    def close(self) -> None:
        self._mlflow.end_run()


TRACKERS: dict[str, type[TensorBoardTracker] | type[WandbTracker] | type[MlflowTracker]] = {
    "tensorboard": TensorBoardTracker,
    "wandb": WandbTracker,
    "mlflow": MlflowTracker,
}


def open_trackers(folder: Path | None, names: Sequence[str] = ()) -> list[Tracker]:
    """JSONL in the folder, and the trackers named; nothing where there is no folder."""
    unknown = [name for name in names if name not in TRACKERS]
    if unknown:
        raise InputError(f"Unknown tracker {unknown[0]!r}; known are {', '.join(TRACKERS)}.")
    if folder is None:
        if names:
            raise InputError("Trackers need a folder to write to.")
        return []
    folder.mkdir(parents=True, exist_ok=True)
    return [JsonlTracker(folder), *(TRACKERS[name](folder) for name in names)]


@contextmanager
def _no_questions(name: str, remedy: str) -> Iterator[None]:
    """Start a tracker without a terminal to ask on: a run that waits for an answer is stuck."""
    before = sys.stdin
    with open(os.devnull) as nothing:  # noqa: PTH123
        sys.stdin = nothing
        try:
            yield
        except InputError:
            raise
        except Exception as error:
            raise InputError(f"{name} does not start ({error}); {remedy}.") from error
        finally:
            sys.stdin = before


def _import(module: str) -> Any:
    return import_extra(module, "track", f"{module} is not installed")
