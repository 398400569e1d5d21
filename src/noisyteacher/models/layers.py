"""What the image models are made of: convolutions, and batch norm with its activation."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from noisyteacher.core.errors import InputError

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": F.relu,
    "relu6": F.relu6,
    "none": lambda y: y,
}


_students = 1  # that share the GPU


@contextmanager
def side_by_side(students: int) -> Iterator[None]:
    """Shape the fused kernels' launches for so many students that share the GPU meanwhile.

    One student alone needs many small programs to fill the GPU. Many students fill it together,
    and a few long programs each waste less on starting. Sums are cut differently, so that results
    differ in their last bits.
    """
    global _students
    before, _students = _students, max(1, students)
    try:
        yield
    finally:
        _students = before


def programs_of_one(programs: int, least: int) -> int:
    """How many programs of a launch one student gets, of those that fill the GPU."""
    return min(programs, max(least, programs // _students))


class Conv3x3(nn.Conv2d):
    """A 3×3 convolution of stride 1 without bias, (b, C, H, W) -> (b, C', H, W).

    For few channels, under autocast on a Hopper GPU, Triton kernels do it; everywhere else, and
    with ``Conv3x3.fused = False``, plain PyTorch does.
    """

    fused: ClassVar[bool] = True

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__(inputs, outputs, 3, padding=1, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        kernel = _conv_kernel(x, self.weight) if self.fused else None
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


class NormAct(nn.BatchNorm2d):
    """``act(bn(x) + residual)`` over (b, C, H, W), with the state-dict names of BatchNorm2d.

    When training on a GPU, with channels_last tensors and float32 weights, two Triton kernels in
    each direction compute it; otherwise, and with ``NormAct.fused = False``, plain PyTorch does.
    ``nn.SyncBatchNorm.convert_sync_batchnorm`` would drop the activation: use ``synchronize``.
    """

    fused: ClassVar[bool] = True

    def __init__(
        self, features: int, activation: str = "relu", eps: float = 1e-5, momentum: float = 0.1
    ) -> None:
        if activation not in ACTIVATIONS:
            raise InputError(
                f"NormAct: activation must be one of {', '.join(map(repr, ACTIVATIONS))}, "
                f"not {activation!r}."
            )
        super().__init__(features, eps=eps, momentum=momentum)
        self.activation = activation

    def forward(self, x: Tensor, residual: Tensor | None = None) -> Tensor:
        """(b, C, H, W), and a residual of the same shape or none -> (b, C, H, W)."""
        wanted = self.training and self.fused
        kernel = _norm_kernel(x, residual, self.weight) if wanted else None
        if kernel is not None:
            return kernel(
                x,
                self.weight,
                self.bias,
                self.running_mean,
                self.running_var,
                self.momentum,
                self.eps,
                residual,
                self.activation,
                self.num_batches_tracked,
            )
        return _add_and_activate(super().forward(x), residual, self.activation)

    def extra_repr(self) -> str:
        shape = super().extra_repr()  # type: ignore[no-untyped-call]
        return f"{shape}, activation={self.activation!r}"


class SyncNormAct(nn.SyncBatchNorm):
    """A NormAct whose batch statistics are those of all processes; made by ``synchronize``."""

    def __init__(self, norm: NormAct) -> None:
        super().__init__(norm.num_features, eps=norm.eps, momentum=norm.momentum)
        self.activation = norm.activation
        self.weight, self.bias = norm.weight, norm.bias
        self.running_mean, self.running_var = norm.running_mean, norm.running_var
        self.num_batches_tracked = norm.num_batches_tracked
        self.train(norm.training)

    def forward(self, x: Tensor, residual: Tensor | None = None) -> Tensor:
        """As ``NormAct.forward``; across processes it needs a GPU."""
        return _add_and_activate(super().forward(x), residual, self.activation)


def synchronize(model: nn.Module) -> None:
    """Make every batch norm inside ``model`` use the statistics of all processes, in place."""
    for name, child in model.named_children():
        if isinstance(child, NormAct):
            setattr(model, name, SyncNormAct(child))
        elif isinstance(child, nn.modules.batchnorm._BatchNorm):
            setattr(model, name, nn.SyncBatchNorm.convert_sync_batchnorm(child))
        else:
            synchronize(child)


def _add_and_activate(y: Tensor, residual: Tensor | None, activation: str) -> Tensor:
    if residual is not None:
        y = y + residual
    return ACTIVATIONS[activation](y)


def _conv_kernel(x: Tensor, weight: Tensor) -> Callable[[Tensor, Tensor], Tensor] | None:
    """The fused kernels, or None where they are not installed or not made for these tensors."""
    # Without autocast, PyTorch refuses a weight that is not of x's dtype, and so it shall stay.
    if not x.is_cuda or not torch.is_autocast_enabled("cuda"):
        return None
    if torch.get_autocast_dtype("cuda") != x.dtype:
        return None
    # Here and not above: Triton takes its time to import, and only a GPU needs it.
    from noisyteacher.models import fused_conv

    return fused_conv.conv3x3_narrow if fused_conv.suits(x, weight) else None


def _norm_kernel(
    x: Tensor, residual: Tensor | None, weight: Tensor
) -> Callable[..., Tensor] | None:
    """The fused kernels, or None where they are not installed or not made for these tensors."""
    if not x.is_cuda:
        return None
    from noisyteacher.models import fused_norm

    return fused_norm.batch_norm_act if fused_norm.suits(x, residual, weight) else None


def is_channels_last(x: Tensor) -> bool:
    """Whether (b, C, H, W) lies in memory as the kernels read it."""
    return x.is_contiguous(memory_format=torch.channels_last)


def power_of_two_above(n: int) -> int:
    """The smallest power of two that is at least n."""
    return 1 << (n - 1).bit_length()
