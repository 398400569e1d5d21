"""Batch normalisation, an optional residual and the activation as one module."""

from __future__ import annotations

from collections.abc import Callable
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
FUSED_DTYPES = (torch.bfloat16, torch.float16, torch.float32)


class NormAct(nn.BatchNorm2d):
    """``act(bn(x) + residual)`` over (b, C, H, W), with the state-dict names of BatchNorm2d.

    In training on a GPU, for channels_last tensors and float32 weights, two Triton kernels each way
    do it all; everywhere else, and with ``NormAct.fused = False``, plain PyTorch does it.
    ``nn.SyncBatchNorm.convert_sync_batchnorm`` would drop the activation: use ``synchronise``.
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
        kernel = _kernel_for(x, residual, self.weight) if wanted else None
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
    """A NormAct whose batch statistics are those of all processes; made by ``synchronise``."""

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


def synchronise(model: nn.Module) -> None:
    """Replace every NormAct inside ``model`` by a SyncNormAct of the same tensors, in place."""
    for name, child in model.named_children():
        if isinstance(child, NormAct):
            setattr(model, name, SyncNormAct(child))
        else:
            synchronise(child)


def _add_and_activate(y: Tensor, residual: Tensor | None, activation: str) -> Tensor:
    if residual is not None:
        y = y + residual
    return ACTIVATIONS[activation](y)


def _kernel_for(x: Tensor, residual: Tensor | None, weight: Tensor) -> Callable[..., Tensor] | None:
    """The fused kernels, or None where they are not installed or not made for these tensors."""
    if not x.is_cuda:
        return None
    # Here and not above: Triton takes its time to import, and only a GPU needs it.
    from noisyteacher.models import fused_norm

    usable = fused_norm.AVAILABLE and _suits_kernels(x, residual, weight, fused_norm.MAX_CHANNELS)
    return fused_norm.batch_norm_act if usable else None


def _suits_kernels(x: Tensor, residual: Tensor | None, weight: Tensor, max_channels: int) -> bool:
    if weight.dtype != torch.float32 or len(weight) > max_channels:
        return False
    if x.dtype not in FUSED_DTYPES or not is_channels_last(x):
        return False
    return residual is None or (
        residual.dtype == x.dtype and residual.shape == x.shape and is_channels_last(residual)
    )


def is_channels_last(x: Tensor) -> bool:
    """Whether (b, C, H, W) lies in memory as the kernels read it."""
    return x.is_contiguous(memory_format=torch.channels_last)
