"""What the benchmarks share: where a figure was measured, tables, files and memory."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from rich.console import Console
from rich.table import Table

from noisyteacher.core.machine import commit, hardware, versions


@dataclass(frozen=True)
class Measurement:
    """One line of a table of times."""

    what: str
    rows: int
    seconds: float
    note: str
    peak_gib: float | None = None


def this_machine(device: str | torch.device = "cpu") -> dict[str, str]:
    """The columns that say where a row was measured."""
    numbers = " ".join(f"{name} {number}" for name, number in versions().items())
    return {"hardware": hardware(device), "versions": numbers}


def write_csv(path: Path | None, rows: Iterable[Mapping[str, object]]) -> None:
    """The rows under a header made from the first; nothing where there is no path."""
    if path is None:
        return
    known = list(rows)
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(known[0]))
        writer.writeheader()
        writer.writerows(known)


def report(
    measurements: Iterable[Measurement], settings: Mapping[str, object], path: Path | None
) -> None:
    """Print a table of times, and write it with its settings."""
    known = list(measurements)
    table = Table("what", "rows", "seconds", "peak GiB", "")
    for m in known:
        peak = "" if m.peak_gib is None else f"{m.peak_gib:.2f}"
        table.add_row(m.what, f"{m.rows:,}", f"{m.seconds:.3f}", peak, m.note)
    console = Console(width=120)
    console.print(table)
    threads = torch.get_num_threads()
    console.print(f"{hardware()}, {threads} threads; {versions()}; {commit()}")
    where = {"hardware": hardware(), "threads": threads, "commit": commit(), **versions()}
    write_csv(path, [asdict(m) | dict(settings) | where for m in known])


def peak_gib() -> float:
    """The most memory this process has held; unlike getrusage, nothing of its parent's."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 2**20
    raise RuntimeError("this system does not tell a process its peak memory")
