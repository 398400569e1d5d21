"""Times of GPU kernels: medians over replays of CUDA graphs, alone or side by side."""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

from measuring import parser_of, write_csv

BATCH = 256
CALLS, REPLAYS, STREAMS = 20, 15, 8


def kernel_parser(description: str | None, seconds: float) -> argparse.ArgumentParser:
    """The options of all benchmarks of kernels."""
    parser = parser_of(description)
    parser.add_argument("--sweep", action="store_true", help="try other launch shapes of ours")
    parser.add_argument(
        "--budget", type=float, default=seconds, help="seconds after which it stops"
    )
    return parser


def activation(shape: tuple[int, ...]) -> Tensor:
    """A batch of random maps in bfloat16 and channels_last."""
    values = torch.randn(BATCH, *shape, device="cuda", dtype=torch.bfloat16)
    return values.contiguous(memory_format=torch.channels_last)


def print_device() -> None:
    """What the times below are of."""
    name = torch.cuda.get_device_name()
    print(f"{name}, torch {torch.__version__}, batch {BATCH}, bf16, µs/call")


def measure_all(
    measurements: Iterable[tuple[str, Callable[[], Any]]],
    print_row: Callable[[Any], None],
    arguments: argparse.Namespace,
) -> None:
    """Print each row when it is measured, until the budget is spent, and write them all."""
    deadline, rows = time.monotonic() + arguments.budget, []
    for name, measure in measurements:
        if time.monotonic() > deadline:
            print(f"the budget of {arguments.budget:.0f} s ends before {name!r} is measured")
            break
        rows.append(measure())
        print_row(rows[-1])
    write_csv(arguments.csv, map(asdict, rows), None)


def capture(calls: Sequence[Callable[[], object]]) -> torch.cuda.CUDAGraph:
    """A graph of CALLS calls that takes the given ones in turn."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            calls[0]()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        for number in range(CALLS):
            calls[number % len(calls)]()
    return graph


def microseconds(graphs: Sequence[torch.cuda.CUDAGraph]) -> float:
    """Median time per call of graphs replayed side by side, each on a stream of its own."""
    streams = [torch.cuda.Stream() for _ in graphs]
    times: list[float] = []
    for _ in range(REPLAYS + 2):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda.synchronize()
        start.record()
        for graph, stream in zip(graphs, streams, strict=True):
            stream.wait_event(start)
            with torch.cuda.stream(stream):
                graph.replay()
        for stream in streams:
            torch.cuda.current_stream().wait_stream(stream)
        end.record()
        torch.cuda.synchronize()
        times.append(start.elapsed_time(end))
    return 1000 * statistics.median(times[2:]) / (CALLS * len(graphs))


@contextmanager
def changed(module: ModuleType, constants: dict[str, Any]) -> Iterator[None]:
    """Other constants in a module, for a while."""
    kept = {name: getattr(module, name) for name in constants}
    vars(module).update(constants)
    try:
        yield
    finally:
        vars(module).update(kept)
