"""What the benchmarks share: where a figure was measured, tables, files and memory."""

from __future__ import annotations

import argparse
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


def parser_of(description: str | None) -> argparse.ArgumentParser:
    """Tells what a script says of itself, and takes ``--csv``."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--csv", type=Path, help="write the table here as well")
    return parser


def told(row: dict[str, object]) -> dict[str, object]:
    """The row, printed."""
    print("  ".join(f"{name}={value}" for name, value in row.items()), flush=True)
    return row


def write_csv(
    path: Path | None,
    rows: Iterable[Mapping[str, object]],
    device: str | torch.device | None = "cpu",
) -> None:
    """The rows under a header made from the first, with the machine that they were measured on.

    Nothing where there is no path; without the machine where ``device`` is None. Rows that name
    another machine, from an earlier run, keep it.
    """
    if path is None:
        return
    numbers = " ".join(f"{name} {number}" for name, number in versions().items())
    where = {} if device is None else {"hardware": hardware(device), "versions": numbers}
    known = [dict(row) | where | dict(row) for row in rows]
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
    write_csv(path, [asdict(m) | dict(settings) | where for m in known], None)


def peak_gib() -> float:
    """The most memory this process has held; unlike getrusage, nothing of its parent's."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 2**20
    raise RuntimeError("this system does not tell a process its peak memory")
