"""Times batch norm + ReLU (+ residual), forward and backward, on one GPU: PyTorch against ours.

    PYTHONPATH=src python benchmarks/norm.py [--csv norm.csv] [--sweep] [--no-compile] [--budget 30]

Tensors are bfloat16 and channels_last, parameters float32. Each time is the median over replays of
a CUDA graph of 20 calls, per call: ``hot`` repeats one set of inputs (they stay in the L2 cache, as
the output of the convolution before would), ``cold`` takes another set in each call, ``8 streams``
replays eight such graphs side by side. GB/s counts the fewest bytes the job could move (every
tensor once: 5 without a residual, 8 with one) over the cold time. Errors are relative to float64.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from functools import partial
from itertools import product

import torch
import torch.nn.functional as F
from torch import Tensor

from graph_timing import (
    CALLS,
    STREAMS,
    activation,
    capture,
    changed,
    kernel_parser,
    measure_all,
    microseconds,
    print_device,
)
from noisyteacher.models import fused_norm
from noisyteacher.models.fused_norm import batch_norm_act

SHAPES = ((16, 32, 32), (32, 16, 16), (64, 8, 8))
# What --sweep tries in place of the constants in fused_norm.
SWEEP = (
    {"PARTIAL_ELEMENTS": 1024},
    {"PARTIAL_ELEMENTS": 4096},
    {"PARTIAL_ELEMENTS": 8192},
    {"PROGRAMS": 256},
    {"PROGRAMS": 256, "PARTIAL_ELEMENTS": 4096},
    {"PROGRAMS": 256, "TILE_ELEMENTS": 4096},
    {"PROGRAMS": 512, "TILE_ELEMENTS": 4096},
    {"PROGRAMS": 256, "TILE_ELEMENTS": 4096, "THREAD_ELEMENTS": 8},
)


@dataclass
class Inputs:
    """One call's tensors."""

    x: Tensor
    weight: Tensor
    bias: Tensor
    running_mean: Tensor
    running_var: Tensor
    residual: Tensor | None
    grad: Tensor

    @classmethod
    def draw(cls, shape: tuple[int, ...], residual: bool) -> Inputs:
        def vector() -> Tensor:
            return torch.rand(shape[0], device="cuda") + 0.5

        return cls(
            x=activation(shape).requires_grad_(),
            weight=vector().requires_grad_(),
            bias=vector().requires_grad_(),
            running_mean=vector(),
            running_var=vector(),
            residual=activation(shape).requires_grad_() if residual else None,
            grad=activation(shape),
        )

    def arguments(self) -> tuple[Tensor | None, ...]:
        return tuple(getattr(self, field.name) for field in fields(self) if field.name != "grad")

    def double(self) -> Inputs:
        values = {
            name: value.detach().double() if isinstance(value, Tensor) else None
            for name, value in vars(self).items()
        }
        for name in ("x", "weight", "bias", "residual"):
            if values[name] is not None:
                values[name].requires_grad_()
        return Inputs(**values)


@dataclass
class Row:
    """One line of the table; times in microseconds per call."""

    shape: str
    residual: bool
    version: str
    hot: float
    cold: float
    eight_streams: float
    gb_per_s: float
    y_error: float
    dx_error: float
    dweight_error: float


Version = Callable[..., Tensor]


def plain(
    x: Tensor,
    weight: Tensor,
    bias: Tensor,
    running_mean: Tensor,
    running_var: Tensor,
    residual: Tensor | None,
) -> Tensor:
    z = F.batch_norm(x, running_mean, running_var, weight, bias, True, 0.1, 1e-5)
    return F.relu(z if residual is None else z + residual)


def ours(*inputs: Tensor | None) -> Tensor:
    *known, residual = inputs
    return batch_norm_act(*known, 0.1, 1e-5, residual)


def forward_backward(version: Version, inputs: Inputs) -> tuple[Tensor, ...]:
    y = version(*inputs.arguments())
    leaves = [inputs.x, inputs.weight, inputs.bias]
    if inputs.residual is not None:
        leaves.append(inputs.residual)
    return (y, *torch.autograd.grad(y, leaves, inputs.grad))


def measure(
    name: str,
    version: Version,
    constants: dict[str, int],
    shape: tuple[int, ...],
    residual: bool,
) -> Row:
    """With other constants in fused_norm."""
    sets = [Inputs.draw(shape, residual) for _ in range(CALLS)]
    expected = forward_backward(plain, sets[0].double())
    calls = [partial(forward_backward, version, inputs) for inputs in sets]
    with changed(fused_norm, constants):
        # Detached: a living graph would tie the leaves to this stream and break the capture.
        actual = [value.detach() for value in calls[0]()]
        hot, cold = (microseconds([capture(part)]) for part in (calls[:1], calls))
        together = microseconds([capture([call]) for call in calls[:STREAMS]])
    errors = [
        ((a.double() - e).norm() / e.norm()).item()
        for a, e in zip(actual[:3], expected[:3], strict=True)
    ]
    fewest_bytes = (8 if residual else 5) * sets[0].x.nbytes
    label = "×".join(map(str, shape))
    return Row(label, residual, name, hot, cold, together, fewest_bytes / cold / 1e3, *errors)


def versions(arguments: argparse.Namespace) -> Iterator[tuple[str, Version, dict[str, int]]]:
    """Name, function, and the constants of fused_norm to change while it runs."""
    yield "eager", plain, {}
    yield "ours", ours, {}
    if arguments.sweep:
        for change in SWEEP:
            words = (f"{name.split('_')[0].lower()} {value}" for name, value in change.items())
            yield "ours " + ", ".join(words), ours, change
    if not arguments.no_compile:
        yield "compiled", torch.compile(plain, dynamic=False), {}


def print_row(row: Row) -> None:
    print(
        f"{row.shape:9} {'yes' if row.residual else 'no':8} {row.version:44} {row.hot:8.1f} "
        f"{row.cold:8.1f} {row.eight_streams:10.1f} {row.gb_per_s:7.0f} "
        f"{row.y_error:9.1e} {row.dx_error:9.1e} {row.dweight_error:9.1e}",
        flush=True,
    )


def copy_bandwidth() -> float:
    """GB/s of a large copy on the device, bytes read and written: the ceiling."""
    source = torch.randn(2**28, device="cuda")
    target = torch.empty_like(source)
    times = []
    for _ in range(8):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        target.copy_(source)
        end.record()
        torch.cuda.synchronize()
        times.append(start.elapsed_time(end))
    return 2 * source.nbytes / statistics.median(times[2:]) / 1e6


def main() -> None:
    parser = kernel_parser(__doc__, seconds=30.0)
    parser.add_argument("--no-compile", action="store_true", help="leave torch.compile out")
    arguments = parser.parse_args()
    torch.manual_seed(0)
    print_device()
    print(f"device copy: {copy_bandwidth():.0f} GB/s")
    print(
        f"{'shape':9} {'residual':8} {'version':44} {'hot':>8} {'cold':>8} {'8 streams':>10} "
        f"{'GB/s':>7} {'y err':>9} {'dx err':>9} {'dw err':>9}"
    )
    measurements = (
        (name, partial(measure, name, version, constants, shape, residual))
        for name, version, constants in versions(arguments)
        for shape, residual in product(SHAPES, (False, True))
    )
    measure_all(measurements, print_row, arguments)


if __name__ == "__main__":
    main()
