"""The machine: which device to use; and the hardware, versions and commit beside every number."""

from __future__ import annotations

import os
import platform
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import torch
from threadpoolctl import ThreadpoolController

from noisyteacher.core.errors import InputError

_PACKAGES = ("noisyteacher", "torch", "numpy", "scipy", "scikit-learn", "pyarrow")


def choose_device(asked: str | torch.device | None = None) -> torch.device:
    """The device asked for, else a GPU where there is one; torchrun gives each process its own."""
    has_gpu = torch.cuda.is_available()
    try:
        device = torch.device(asked or ("cuda" if has_gpu else "cpu"))
    except RuntimeError as error:
        raise InputError(f"The device must be cpu, cuda or cuda:N, not {asked!r}.") from error
    if device.type not in ("cpu", "cuda"):
        raise InputError(f"The device must be cpu, cuda or cuda:N, not {asked!r}.")
    if device.type == "cpu":
        return device
    if not has_gpu:
        raise InputError(f"This machine has no GPU for the device {asked}; leave it out.")
    index = device.index if device.index is not None else int(os.environ.get("LOCAL_RANK", "0"))
    if index >= torch.cuda.device_count():
        raise InputError(f"There is no GPU {index}: this machine has {torch.cuda.device_count()}.")
    return torch.device("cuda", index)


def memory_of(device: torch.device | str = "cpu") -> int:
    """How many bytes of memory a GPU or this machine has in all."""
    device = torch.device(device)
    if device.type == "cuda":
        return int(torch.cuda.get_device_properties(device).total_memory)
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return 16 * 10**9


@contextmanager
def one_thread() -> Iterator[int]:
    """One thread of torch and of BLAS meanwhile; gives how many torch had before.

    Where the work is small, threads mostly wait for each other, many times slower than one if
    other programs use the same cores.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with _thread_pools().limit(limits=1, user_api="blas"):
            yield before
    finally:
        torch.set_num_threads(before)


@cache
def _thread_pools() -> ThreadpoolController:
    return ThreadpoolController()


@cache
def processor() -> str:
    """The processor's name as the system gives it."""
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def hardware(device: torch.device | str = "cpu") -> str:
    """One line: the GPU's name where the work ran on one, else the processor and its cores."""
    device = torch.device(device)
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return f"{processor()}, {os.cpu_count()} cores"


@cache
def versions() -> dict[str, str]:
    """Python's version and those of the packages that shape the numbers."""
    found = {"python": platform.python_version()}
    for name in _PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            # Run from a source tree that was never installed.
            continue
    return found


@cache
def commit() -> str | None:
    """The commit of the source tree this package runs from, "+" where files were changed.

    ``NOISYTEACHER_COMMIT`` tells it to a copy without git's own folder, or with another's.
    """
    if told := os.environ.get("NOISYTEACHER_COMMIT"):
        return told
    folder = _checkout()
    if folder is None:
        return None
    try:
        revision = _git("rev-parse", "--short=12", "HEAD", folder=folder)
        changed = _git("status", "--porcelain", "--untracked-files=no", folder=folder)
    except (OSError, subprocess.SubprocessError):
        return None
    return revision + ("+" if changed else "")


def source_is_committed() -> bool:
    """False where this package runs from a git checkout and its source has uncommitted changes."""
    folder = None if os.environ.get("NOISYTEACHER_COMMIT") else _checkout()
    return folder is None or not _git("status", "--porcelain", "--", "..", folder=folder)


def _checkout() -> Path | None:
    """A folder of this package that git tracks; None where it was installed without git."""
    folder = Path(__file__).parent
    try:
        # Installed inside somebody's project, git would answer for that project.
        _git("ls-files", "--error-unmatch", Path(__file__).name, folder=folder)
    except (OSError, subprocess.SubprocessError):
        return None
    return folder


def _git(*arguments: str, folder: Path) -> str:
    done = subprocess.run(
        ["git", *arguments], cwd=folder, check=True, capture_output=True, text=True, timeout=10
    )
    return done.stdout.strip()
