"""Times the 3×3 convolutions of narrow maps, each way, on one Hopper GPU: cuDNN against ours.

    PYTHONPATH=src python benchmarks/conv.py [--csv conv.csv] [--sweep] [--budget 25]

Maps are bfloat16 and channels_last, weights float32. cuDNN may search for its fastest algorithm
first; autocast's casts of the weight count to its forward and to its dweight, as in training.
Each time is the median over replays of a CUDA graph of 20 calls, in microseconds per call: ``hot``
repeats one set of inputs (they stay in the L2 cache, as the output of the layer before would),
``8 streams`` replays eight such graphs with inputs of their own side by side. GB/s counts the
fewest bytes the job could move (two maps) over the hot time. Errors are relative to float64.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from graph_timing import (
    STREAMS,
    activation,
    capture,
    changed,
    kernel_parser,
    measure_all,
    microseconds,
    print_device,
)
from noisyteacher.models import fused_conv

SHAPES = ((16, 32, 32), (32, 16, 16))


def launch(block: int, stages: int, warps: int) -> dict[str, int]:
    return {"BLOCK": block, "STAGES": stages, "num_warps": warps}


# What --sweep tries in place of the constants in fused_conv, and the jobs that it changes.
SWEEP: tuple[tuple[str, dict[str, Any]], ...] = (
    ("forward dx", {"PROGRAMS": 128}),
    ("forward dx", {"PROGRAMS": 512, "MIN_ROWS": 2}),
    ("forward dx", {"CONVOLVE": {16: launch(64, 3, 4), 32: launch(64, 2, 8)}}),
    ("forward dx", {"CONVOLVE": {16: launch(64, 6, 4), 32: launch(64, 3, 4)}}),
    ("forward dx", {"CONVOLVE": {16: launch(128, 3, 8), 32: launch(128, 2, 8)}}),
    (
        "forward dx",
        {"CONVOLVE": {16: launch(128, 3, 8), 32: launch(128, 2, 8)}, "PROGRAMS": 128},
    ),
    ("dweight", {"PARTS": {16: 64, 32: 32}}),
    ("dweight", {"PARTS": {16: 256, 32: 128}}),
    ("dweight", {"WEIGHT_PARTS": {16: launch(64, 3, 4), 32: launch(64, 2, 8)}}),
    ("dweight", {"WEIGHT_PARTS": {16: launch(128, 3, 4), 32: launch(128, 2, 8)}}),
    ("dweight", {"WEIGHT_PARTS": {16: launch(128, 3, 8), 32: launch(64, 3, 4)}}),
    ("dweight", {"JOIN_PARTS": {"BLOCK": 32, "num_warps": 4}}),
)


@dataclass
class Inputs:
    """One call's tensors."""

    x: Tensor
    weight: Tensor
    cast_weight: Tensor  # what autocast has kept for the backward pass
    grad: Tensor

    @classmethod
    def draw(cls, shape: tuple[int, ...]) -> Inputs:
        weight = torch.randn(shape[0], shape[0], 3, 3, device="cuda") / 12
        # Rounded, so that errors are those of the convolution and not of the weight's cast.
        cast = weight.bfloat16().contiguous(memory_format=torch.channels_last)
        return cls(activation(shape), cast.float(), cast, activation(shape))

    def double(self) -> Inputs:
        return Inputs(*(value.double() for value in vars(self).values()))


@dataclass
class Row:
    """One line of the table; times in microseconds per call."""

    shape: str
    job: str
    version: str
    hot: float
    eight_streams: float
    gb_per_s: float
    error: float


Job = Callable[[Inputs], Tensor]


def library_backward(inputs: Inputs, for_x: bool) -> Tensor:
    tensors = (inputs.grad, inputs.x, inputs.cast_weight)
    dx, dweight, _ = torch.ops.aten.convolution_backward(
        *(*tensors, None, [1, 1], [1, 1], [1, 1], False, [0, 0], 1),
        [for_x, not for_x, False],
    )
    gradient: Tensor = dx if for_x else dweight.to(inputs.weight.dtype)
    return gradient


LIBRARY: dict[str, Job] = {
    "forward": lambda i: torch.conv2d(i.x, i.weight.to(i.x.dtype), padding=1),
    "dx": lambda i: library_backward(i, for_x=True),
    "dweight": lambda i: library_backward(i, for_x=False),
}
OURS: dict[str, Job] = {
    "forward": lambda i: fused_conv.conv3x3_narrow(i.x, i.weight),
    "dx": lambda i: fused_conv._convolve(i.grad, i.weight, transposed=True),
    "dweight": lambda i: fused_conv._weight_grad(i.x, i.grad, i.weight),
}


@torch.no_grad()
def measure(
    shape: tuple[int, ...], name: str, version: str, job: Job, constants: dict[str, Any]
) -> Row:
    """With other constants in fused_conv."""
    sets = [Inputs.draw(shape) for _ in range(STREAMS)]
    expected = LIBRARY[name](sets[0].double())
    with changed(fused_conv, constants):
        error = ((job(sets[0]).double() - expected).norm() / expected.norm()).item()
        hot = microseconds([capture([partial(job, sets[0])])])
        together = microseconds([capture([partial(job, inputs)]) for inputs in sets])
    label = "×".join(map(str, shape))
    return Row(label, name, version, hot, together, 2 * sets[0].x.nbytes / hot / 1e3, error)


def versions(sweep: bool) -> Iterator[tuple[str, dict[str, Job], dict[str, Any]]]:
    """Name, its jobs, and the constants of fused_conv to change while they run."""
    yield "cudnn", LIBRARY, {}
    yield "ours", OURS, {}
    if sweep:
        for names, change in SWEEP:
            yield f"ours {change}", {name: OURS[name] for name in names.split()}, change


def print_row(row: Row) -> None:
    version = row.version.replace("'", "").replace("num_warps", "warps")
    print(
        f"{row.shape:9} {row.job:8} {row.hot:8.1f} {row.eight_streams:10.1f} {row.gb_per_s:7.0f} "
        f"{row.error:9.1e}  {version}",
        flush=True,
    )


def main() -> None:
    arguments = kernel_parser(__doc__, seconds=25.0).parse_args()
    torch.manual_seed(0)
    torch.backends.cudnn.benchmark = True
    print_device()
    print(
        f"{'shape':9} {'job':8} {'hot':>8} {'8 streams':>10} {'GB/s':>7} {'error':>9}  version",
    )
    measurements = (
        (version, partial(measure, shape, name, version, job, constants))
        for version, jobs, constants in versions(arguments.sweep)
        for shape in SHAPES
        for name, job in jobs.items()
    )
    measure_all(measurements, print_row, arguments)


if __name__ == "__main__":
    main()
