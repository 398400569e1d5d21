"""Checkpoints: one safetensors file per student, replaced atomically, with its story in the header.

Nothing is ever unpickled, and a damaged file is refused by its checksum. All randomness is seeded
by epoch, so weights, optimizer state and the number of epochs done are the whole state of a run.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import orjson
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from noisyteacher.core.errors import InputError
from noisyteacher.core.files import write_atomic
from noisyteacher.core.integrity import check_tensors, seal_tensors


@dataclass(frozen=True)
class EpochRecord:
    """One point of a student's curve. Accuracies are in percent, None if not evaluated."""

    epoch: int  # 1-based: epochs done
    loss: float
    selection: float | None = None
    test: float | None = None


@dataclass
class History:
    """The progress of a student, and its curve."""

    fingerprint: str
    curve: list[EpochRecord] = field(default_factory=list)
    seconds: float = 0.0
    examples: int = 0  # rows stepped through in these seconds
    macro_f1: float | None = None
    failed: str | None = None  # why it was stopped
    windows_done: int = 0  # of the epoch after the last of the curve

    @property
    def epochs_done(self) -> int:
        return self.curve[-1].epoch if self.curve else 0


def checkpoint_path(folder: Path, name: str) -> Path:
    """Where a run's folder keeps the student of this name."""
    return folder / "checkpoints" / f"{name}.safetensors"


def save_checkpoint(path: Path, state: dict[str, Tensor], history: History) -> None:
    """Write state and history as one file."""
    tensors = {name: value.cpu().contiguous() for name, value in state.items()}
    story = orjson.dumps(asdict(history)).decode()
    write_atomic(path, seal_tensors(save(tensors, metadata={"history": story})))


def read_history(path: Path) -> History | None:
    """The story alone, or None where there is no checkpoint."""
    if not path.exists():
        return None
    with _opened(path) as file:
        return _history(file)


def load_checkpoint(path: Path, fingerprint: str) -> tuple[dict[str, Tensor], History] | None:
    """State and history, or None where there is no checkpoint yet."""
    if not path.exists():
        return None
    with _opened(path) as file:
        history = _history(file)
        state = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    if history.fingerprint != fingerprint:
        raise InputError(
            f"{path} belongs to another run (other data, method, model or settings); "
            "choose another folder, or delete it."
        )
    return state, history


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    check_tensors(path, "delete it to train this student anew")
    try:
        with safe_open(path, framework="pt") as file:
            yield file
    except (SafetensorError, KeyError, TypeError, orjson.JSONDecodeError) as error:
        raise InputError(
            f"{path} is not a complete checkpoint ({error}); delete it to start over."
        ) from error


def _history(file: Any) -> History:
    story = orjson.loads(file.metadata()["history"])
    story["curve"] = [EpochRecord(**record) for record in story["curve"]]
    return History(**story)
