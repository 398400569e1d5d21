"""Convolutions and the initialisation that the image models share."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn


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
