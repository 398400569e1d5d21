"""Convolutions and the initialisation that the image models share."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Conv3x3(nn.Conv2d):
    """A 3×3 convolution of stride 1 without bias, (b, C, H, W) -> (b, C', H, W).

    For few channels, under autocast on a Hopper GPU, Triton kernels do it; everywhere else, and
    with ``Conv3x3.fused = False``, plain PyTorch does.
    """

    fused: ClassVar[bool] = True

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__(inputs, outputs, 3, padding=1, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        kernel = _kernel_for(x, self.weight) if self.fused else None
        return super().forward(x) if kernel is None else kernel(x, self.weight)


class TrailingPadConv2d(nn.Conv2d):
    """A 3×3 convolution of stride 2 that pads the bottom and the right only, as Keras does.

    (b, C, H, W) -> (b, C', H//2, W//2).
    """

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(F.pad(x, (0, 1, 0, 1)))


def conv1x1(inputs: int, outputs: int, stride: int = 1, bias: bool = False) -> nn.Conv2d:
    """(b, inputs, H, W) -> (b, outputs, H/stride, W/stride)."""
    return nn.Conv2d(inputs, outputs, 1, stride, bias=bias)


def conv3x3(
    inputs: int,
    outputs: int,
    stride: int = 1,
    *,
    groups: int = 1,
    bias: bool = False,
    keras: bool = False,
) -> nn.Conv2d:
    """(b, inputs, H, W) -> (b, outputs, H/stride, W/stride); ``keras`` pads as Keras does."""
    if keras and stride == 2:
        return TrailingPadConv2d(inputs, outputs, 3, stride, groups=groups, bias=bias)
    if stride == 1 and groups == 1 and not bias:
        return Conv3x3(inputs, outputs)
    return nn.Conv2d(inputs, outputs, 3, stride, padding=1, groups=groups, bias=bias)


def he_normal_(model: nn.Module) -> None:
    """Draw the weights of all convolutions and linear layers anew; biases become zero.

    Normal with variance 2/fan_in. Keras's ``he_normal`` has the same variance and cuts the tails
    off at two standard deviations; here they stay.
    """
    for module in model.modules():
        if isinstance(module, nn.Conv2d | nn.Linear):
            nn.init.kaiming_normal_(module.weight, nonlinearity="relu")
            if module.bias is not None:
                nn.init.zeros_(module.bias)


def _kernel_for(x: Tensor, weight: Tensor) -> Callable[[Tensor, Tensor], Tensor] | None:
    """The fused kernels, or None where they are not installed or not made for these tensors."""
    # Without autocast, PyTorch refuses a weight that is not of x's dtype, and so it shall stay.
    if not x.is_cuda or not _autocast_to(x.dtype):
        return None
    # Here and not above: Triton takes its time to import, and only a GPU needs it.
    from noisyteacher.models import fused_conv

    return fused_conv.conv3x3_narrow if fused_conv.suits(x, weight) else None


def _autocast_to(dtype: torch.dtype) -> bool:
    return torch.is_autocast_enabled("cuda") and torch.get_autocast_dtype("cuda") == dtype
