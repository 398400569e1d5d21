"""3×3 convolutions of narrow maps (16 or 32 channels) on a Hopper GPU, faster than the library's.

The first stages of CIFAR ResNets hold most of a step's bytes and few of its operations, and there
cuDNN is far from what the memory allows. Here the forward pass and the gradient of x are one kernel
each, the gradient of the weight two. They take the float32 weight as it is and give a float32
gradient, in the weight's own memory format, so no kernels are spent on casts. There is no tuning at
run time, no atomics and no scratch shared between calls: calls can be captured in CUDA graphs and
run on several streams at once, and results are deterministic.
"""

from __future__ import annotations

import functools
import os
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from noisyteacher.core.errors import InputError
from noisyteacher.models.layers import is_channels_last, power_of_two_above, programs_of_one

try:
    from noisyteacher.models import fused_conv_kernels as kernels

    AVAILABLE = True
except ImportError:
    AVAILABLE = False

DTYPES = (torch.bfloat16, torch.float16)
MAX_ELEMENTS = 2**31 - 1  # of x: the kernels count in int32

# The shape of the work. Constants, not functions of the GPU, so that sums come out the same on all.
# By channels. BLOCK: the pairs of one tile, at least 64 for Hopper's tensor cores. STAGES: tiles in
# shared memory at once, of which all but one are still on their way.
CONVOLVE = {
    16: {"BLOCK": 64, "STAGES": 4, "num_warps": 4},
    32: {"BLOCK": 64, "STAGES": 3, "num_warps": 8},
}
WEIGHT_PARTS = {
    16: {"BLOCK": 64, "STAGES": 4, "num_warps": 4},
    32: {"BLOCK": 64, "STAGES": 3, "num_warps": 8},
}
JOIN_PARTS = {"BLOCK": 16, "num_warps": 4}
PROGRAMS = 256  # wanted of the convolutions under way: about two per multiprocessor ...
MIN_PROGRAMS = 64  # of one convolution, however many students share the GPU
MIN_ROWS = 4  # ... while each still walks down this many rows; it reads two more than it writes
PARTS = {16: 128, 32: 64}  # at most, that the weight's gradient is summed in; powers of two


@dataclass(frozen=True)
class ConvPlan:
    """How maps (images, channels, height, width) are shared among programs."""

    tiles: int
    strips: int  # into which a convolution cuts each tile's rows
    rows: int  # of one strip
    parts: int  # into which the gradient of the weight cuts all rows of all tiles
    steps: int  # of one part: rows of tiles

    @classmethod
    def of(cls, images: int, channels: int, height: int, width: int) -> ConvPlan:
        pairs = images * (width // 2)
        tiles = -(-pairs // CONVOLVE[channels]["BLOCK"])
        strips = min(height, max(1, programs_of_one(PROGRAMS, MIN_PROGRAMS) // tiles))
        rows = min(height, max(MIN_ROWS, -(-height // strips)))
        all_steps = -(-pairs // WEIGHT_PARTS[channels]["BLOCK"]) * height
        parts = min(PARTS[channels], power_of_two_above(all_steps))
        return cls(
            tiles=tiles,
            strips=-(-height // rows),
            rows=rows,
            parts=parts,
            steps=-(-all_steps // parts),
        )


def suits(x: Tensor, weight: Tensor) -> bool:
    """Whether ``conv3x3_narrow`` takes these as they are, on the kind of GPU it was made for."""
    return AVAILABLE and x.is_cuda and _is_hopper(x.device) and _problem(x, weight) is None


def conv3x3_narrow(x: Tensor, weight: Tensor) -> Tensor:
    """``F.conv2d(x, weight.to(x.dtype), padding=1)``, and the weight's gradient in float32.

    x (N, C, H, W) in bfloat16 or float16 with an even W, best in channels_last (else it is copied);
    weight (C, C, 3, 3) float32. C is 16 or 32. Gives (N, C, H, W) like x, channels_last. A pixel
    that is not finite may spoil one more pixel on its left or right than it should.
    """
    if not AVAILABLE:
        raise InputError("conv3x3_narrow needs Triton, which is not installed.")
    if not x.is_cuda and os.environ.get("TRITON_INTERPRET") != "1":
        raise InputError(f"conv3x3_narrow needs a tensor on a CUDA device, not on {x.device}.")
    x = x.contiguous(memory_format=torch.channels_last) if x.dim() == 4 else x
    problem = _problem(x, weight)
    if problem is not None:
        raise InputError(f"conv3x3_narrow needs {problem}.")
    if not is_channels_last(weight):
        weight = weight.contiguous()
    y: Tensor = _Conv3x3Narrow.apply(x, weight)  # type: ignore[no-untyped-call]
    return y


class _Conv3x3Narrow(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor) -> Tensor:
        ctx.save_for_backward(x, weight)
        return _convolve(x, weight, transposed=False)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor | None]:
        x, weight = ctx.saved_tensors
        grad = grad.contiguous(memory_format=torch.channels_last)
        for_x, for_weight = ctx.needs_input_grad
        return (
            _convolve(grad, weight, transposed=True) if for_x else None,
            _weight_grad(x, grad, weight) if for_weight else None,
        )


def _convolve(x: Tensor, weight: Tensor, transposed: bool) -> Tensor:
    """y like x; ``transposed``, the gradient of x from that of y."""
    images, channels, height, width = x.shape
    plan = ConvPlan.of(images, channels, height, width)
    y = torch.empty_like(x, memory_format=torch.channels_last)
    with torch.cuda.device_of(x):
        kernels.convolve[plan.tiles, plan.strips](
            *(x, weight, y, images, plan.rows),
            H=height,
            W=width,
            C=channels,
            CHANNELS_LAST=is_channels_last(weight),
            TRANSPOSED=transposed,
            **CONVOLVE[channels],
        )
    return y


def _weight_grad(x: Tensor, grad: Tensor, weight: Tensor) -> Tensor:
    """The gradient of the weight, float32 in the weight's memory format."""
    images, channels, height, width = x.shape
    plan = ConvPlan.of(images, channels, height, width)
    partial = torch.empty(
        (plan.parts, 3, 4 * channels, 2 * channels), dtype=torch.float32, device=x.device
    )
    dweight = torch.empty_like(weight)
    with torch.cuda.device_of(x):
        kernels.weight_parts[(plan.parts,)](
            *(x, grad, partial, images, plan.steps),
            H=height,
            W=width,
            C=channels,
            **WEIGHT_PARTS[channels],
        )
        kernels.join_parts[(weight.numel() // JOIN_PARTS["BLOCK"],)](
            *(partial, dweight),
            C=channels,
            CHANNELS_LAST=is_channels_last(weight),
            PARTS=plan.parts,
            **JOIN_PARTS,
        )
    return dweight


def _problem(x: Tensor, weight: Tensor) -> str | None:
    """What is wrong with the input, to follow "needs", or None."""
    if x.dim() != 4 or x.shape[1] not in CONVOLVE or x.shape[3] % 2 or x.dtype not in DTYPES:
        return (
            f"x as (N, {' or '.join(map(str, CONVOLVE))}, H, even W) in bfloat16 or float16, "
            f"not {tuple(x.shape)} in {x.dtype}"
        )
    if not 0 < x.numel() <= MAX_ELEMENTS:
        return f"x with 1 to {MAX_ELEMENTS} numbers, not {x.numel()}"
    if not is_channels_last(x):
        return f"x in channels_last, not with strides {x.stride()}"
    channels = x.shape[1]
    if weight.shape != (channels, channels, 3, 3) or weight.dtype != torch.float32:
        return (
            f"a weight ({channels}, {channels}, 3, 3) in float32, "
            f"not {tuple(weight.shape)} in {weight.dtype}"
        )
    if weight.device != x.device:
        return f"the weight on {x.device} as x is, not on {weight.device}"
    return None


@functools.cache
def _is_hopper(device: torch.device) -> bool:
    # Elsewhere tiles may not fit into shared memory, and nothing has been measured.
    return torch.cuda.get_device_capability(device)[0] == 9
