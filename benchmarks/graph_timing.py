"""Times of GPU kernels: medians over replays of CUDA graphs, alone or side by side."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import torch

CALLS, REPLAYS, STREAMS = 20, 15, 8


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
