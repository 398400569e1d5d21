"""Batch norm, residual add and activation of a training step in two kernels each way.

``act(bn(x) + residual)`` in plain PyTorch reads and writes the activation once per operation; small
CIFAR ResNets spend most of their step on that. Here the forward pass reads x twice and writes y
once, and the backward pass touches each tensor as seldom as the formulas allow. There is no host
synchronization, no tuning at run time, no atomics and no scratch shared between calls, so calls can
be captured in CUDA graphs and run on several streams at once; results are deterministic.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.autograd.graph import increment_version

from noisyteacher.core.errors import InputError
from noisyteacher.models.layers import (
    ACTIVATIONS,
    is_channels_last,
    power_of_two_above,
    programs_of_one,
)

try:
    from noisyteacher.models import fused_norm_kernels as kernels

    AVAILABLE = True
except ImportError:
    AVAILABLE = False

DTYPES = (torch.bfloat16, torch.float16, torch.float32)
MAX_CHANNELS = 2048

# The shape of the work. Constants, not functions of the GPU, so that sums come out the same on all.
TILE_ELEMENTS = 8192  # of one tile
THREAD_ELEMENTS = 16  # of a tile: two 16-byte loads of bf16, few enough to stay in registers
BLOCK_CHANNELS = 64  # at most, of one tile: 128 bytes of bf16, a full cache line
PROGRAMS = 128  # at most, of the launches under way: about one per multiprocessor of a Hopper GPU
MIN_PROGRAMS = 16  # of one launch, however many students share the GPU
PARTIAL_ELEMENTS = 2048  # per sum; every program of the second kernel reads all of them ...
PART_TILES = 4  # ... so parts are joined down to that, while each still has no more tiles than this


@dataclass(frozen=True)
class NormPlan:
    """How a (rows, channels) matrix is cut into tiles and shared among programs."""

    block_rows: int
    block_channels: int
    channel_tiles: int
    parts: int  # programs of the first kernel, per channel tile; a power of two
    programs: int  # programs of the second kernel, per channel tile
    warps: int

    @classmethod
    def of(cls, rows: int, channels: int) -> NormPlan:
        block_channels = min(power_of_two_above(channels), BLOCK_CHANNELS)
        channel_tiles = -(-channels // block_channels)
        block_rows = min(TILE_ELEMENTS // block_channels, power_of_two_above(rows))
        tiles = -(-rows // block_rows)
        wanted = programs_of_one(PROGRAMS, MIN_PROGRAMS)
        programs = min(tiles, max(1, wanted // channel_tiles))
        parts = power_of_two_above(programs + 1) // 2
        while parts * block_channels > PARTIAL_ELEMENTS and 2 * tiles <= PART_TILES * parts:
            parts //= 2
        warps = max(1, min(16, block_rows * block_channels // (32 * THREAD_ELEMENTS)))
        return cls(block_rows, block_channels, channel_tiles, parts, programs, warps)

    def sums_options(self) -> dict[str, int]:
        """The keywords of the kernels that sum."""
        return {
            "BLOCK_R": self.block_rows,
            "BLOCK_C": self.block_channels,
            "num_warps": self.warps,
        }

    def apply_options(self) -> dict[str, int]:
        """The keywords of the kernels that add up the parts and map."""
        at_once = min(self.parts, max(1, TILE_ELEMENTS // 2 // self.block_channels))
        return {**self.sums_options(), "PARTS": self.parts, "PARTS_AT_ONCE": at_once}


def suits(x: Tensor, residual: Tensor | None, weight: Tensor) -> bool:
    """Whether ``batch_norm_act`` takes these as they are, without copies, and can run at all."""
    if not AVAILABLE or weight.dtype != torch.float32 or len(weight) > MAX_CHANNELS:
        return False
    if x.dtype not in DTYPES or not is_channels_last(x):
        return False
    return residual is None or (
        residual.dtype == x.dtype and residual.shape == x.shape and is_channels_last(residual)
    )


def batch_norm_act(
    x: Tensor,
    weight: Tensor,
    bias: Tensor,
    running_mean: Tensor,
    running_var: Tensor,
    momentum: float,
    eps: float,
    residual: Tensor | None = None,
    activation: str = "relu",
    num_batches_tracked: Tensor | None = None,
) -> Tensor:
    """``activation(batch_norm(x) + residual)`` with batch statistics, as training does it.

    x (N, C, H, W), bfloat16, float16 or float32, and a residual of the same shape and dtype, both
    best in channels_last (else they are copied); weight, bias, running_mean, running_var (C,)
    float32. Gives (N, C, H, W) in the dtype of x, channels_last. Updates the running statistics in
    place as ``nn.BatchNorm2d`` does, and adds one to ``num_batches_tracked`` () int64 where given.
    """
    _check(x, (weight, bias, running_mean, running_var), residual, activation)
    x = x.contiguous(memory_format=torch.channels_last)
    if residual is not None:
        residual = residual.contiguous(memory_format=torch.channels_last)
    running = (running_mean, running_var, num_batches_tracked)
    y: Tensor = _BatchNormAct.apply(  # type: ignore[no-untyped-call]
        x, weight, bias, residual, running, momentum, eps, activation
    )
    return y


class _BatchNormAct(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        weight: Tensor,
        bias: Tensor,
        residual: Tensor | None,
        running: tuple[Tensor, Tensor, Tensor | None],
        momentum: float,
        eps: float,
        activation: str,
    ) -> Tensor:
        y, stats = _forward(x, weight, bias, residual, running, momentum, eps, activation)
        # Without a residual, x tells where the activation was open, and y need not be read again.
        y_tells = residual is not None and activation != "none"
        ctx.save_for_backward(x, weight, bias, stats, y if y_tells else None)
        ctx.activation = activation
        ctx.has_residual = residual is not None
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, bias, stats, y = ctx.saved_tensors
        grad = grad.contiguous(memory_format=torch.channels_last)
        dx, param_grads, dz = _backward(grad, x, weight, bias, stats, y, ctx.activation)
        residual_grad = dz if ctx.has_residual else None
        return dx, param_grads[0], param_grads[1], residual_grad, None, None, None, None


def _forward(
    x: Tensor,
    weight: Tensor,
    bias: Tensor,
    residual: Tensor | None,
    running: tuple[Tensor, Tensor, Tensor | None],
    momentum: float,
    eps: float,
    activation: str,
) -> tuple[Tensor, Tensor]:
    """y like x, and stats (2, C): the mean and one over the standard deviation."""
    channels = x.shape[1]
    rows = x.numel() // channels
    plan = NormPlan.of(rows, channels)
    y = torch.empty_like(x, memory_format=torch.channels_last)
    partial = _float32(x, 2, plan.parts, channels)
    stats = _float32(x, 2, channels)
    with torch.cuda.device_of(x):
        kernels.forward_sums[plan.parts, plan.channel_tiles](
            x, partial, rows, C=channels, **plan.sums_options()
        )
        kernels.forward_apply[plan.programs, plan.channel_tiles](
            *(x, residual, y, weight, bias, *running, partial, stats, rows, momentum, eps),
            C=channels,
            ACTIVATION=activation,
            **plan.apply_options(),
        )
    for written in running:
        if written is not None:
            increment_version(written)
    return y, stats


def _backward(
    grad: Tensor,
    x: Tensor,
    weight: Tensor,
    bias: Tensor,
    stats: Tensor,
    y: Tensor | None,
    activation: str,
) -> tuple[Tensor, Tensor, Tensor]:
    """dx like x, the gradients of weight and bias (2, C), and dz like x where y is given.

    Where y is not given, the third is grad itself: what a residual gets if nothing is activated.
    """
    channels = x.shape[1]
    rows = x.numel() // channels
    plan = NormPlan.of(rows, channels)
    dx = torch.empty_like(x, memory_format=torch.channels_last)
    dz = None if y is None else torch.empty_like(dx, memory_format=torch.channels_last)
    partial = _float32(x, 2, plan.parts, channels)
    param_grads = _float32(x, 2, channels)
    with torch.cuda.device_of(x):
        kernels.backward_sums[plan.parts, plan.channel_tiles](
            *(grad, x, y, dz, weight, bias, stats, partial, rows),
            C=channels,
            ACTIVATION=activation,
            **plan.sums_options(),
        )
        kernels.backward_apply[plan.programs, plan.channel_tiles](
            *(grad if dz is None else dz, x, dx, weight, bias, stats, partial, param_grads, rows),
            C=channels,
            ACTIVATION=activation if dz is None else "none",
            **plan.apply_options(),
        )
    return dx, param_grads, grad if dz is None else dz


def _float32(like: Tensor, *shape: int) -> Tensor:
    return torch.empty(shape, dtype=torch.float32, device=like.device)


def _check(
    x: Tensor, vectors: tuple[Tensor, ...], residual: Tensor | None, activation: str
) -> None:
    if not AVAILABLE:
        raise InputError("batch_norm_act needs Triton, which is not installed.")
    if not x.is_cuda and os.environ.get("TRITON_INTERPRET") != "1":
        raise InputError(f"batch_norm_act needs a tensor on a CUDA device, not on {x.device}.")
    if activation not in ACTIVATIONS:
        raise InputError(f"activation must be one of {', '.join(ACTIVATIONS)}, not {activation!r}.")
    if x.dim() != 4 or not 1 <= x.shape[1] <= MAX_CHANNELS or x.dtype not in DTYPES:
        raise InputError(
            f"batch_norm_act needs x as (N, C, H, W) with C up to {MAX_CHANNELS} in bfloat16, "
            f"float16 or float32, not {tuple(x.shape)} in {x.dtype}."
        )
    if x.numel() <= x.shape[1]:
        raise InputError(f"Batch norm needs two values per channel, but x is {tuple(x.shape)}.")
    for vector in vectors:
        if vector.shape != x.shape[1:2] or vector.dtype != torch.float32:
            raise InputError(
                f"weight, bias and running statistics must be ({x.shape[1]},) in float32, "
                f"not {tuple(vector.shape)} in {vector.dtype}."
            )
        if not vector.is_contiguous() or vector.device != x.device:
            raise InputError("weight, bias and running statistics must be contiguous and beside x.")
    if residual is not None and (residual.shape != x.shape or residual.dtype != x.dtype):
        raise InputError(
            f"residual must be {tuple(x.shape)} in {x.dtype} as x is, "
            f"not {tuple(residual.shape)} in {residual.dtype}."
        )
