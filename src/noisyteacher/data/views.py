"""How an example is shown to a student: plain, weakly changed, strongly changed.

Views work on whole batches on the device, draw all randomness from the generator they are given,
and never wait for the device, so that a training step with its views can be captured in a CUDA
graph. Constants are moved to the device on the first call, which must come before a capture.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch
from torch import Generator, Tensor

from noisyteacher.core.errors import InputError


class Views(Protocol):
    """What the training engine asks of any kind of data.

    ``x`` is a raw batch: uint8 images (b, 3, H, W), a table (b, d), or a tuple of tensors.
    """

    @property
    def has_strong(self) -> bool:
        """Whether ``strong`` may be called."""
        ...

    def plain(self, x: Any) -> Any:
        """The model's input, unchanged but for normalisation."""
        ...

    def weak(self, x: Any, generator: Generator) -> Any:
        """The usual augmentation."""
        ...

    def strong(self, x: Any, generator: Generator) -> Any:
        """A heavy change that keeps the class, for consistency training."""
        ...


@dataclass
class DeviceConstants:
    """Numbers that live on each device they were asked for on, made once."""

    values: tuple[tuple[float, ...], ...]
    _made: dict[torch.device, tuple[Tensor, ...]] = field(default_factory=dict)

    def on(self, device: torch.device) -> tuple[Tensor, ...]:
        """The numbers as float32 vectors on the device."""
        if device not in self._made:
            self._made[device] = tuple(torch.tensor(v, device=device) for v in self.values)
        return self._made[device]


def uniform(
    shape: Sequence[int], low: float, high: float, generator: Generator, device: torch.device
) -> Tensor:
    """Draws between ``low`` and ``high``, on the device."""
    drawn = torch.rand(tuple(shape), generator=generator, device=device)
    return drawn.mul_(high - low).add_(low)


def require_share(name: str, value: float) -> None:
    """Refuse a probability or share outside [0, 1)."""
    if not 0 <= value < 1:
        raise InputError(f"{name} must be at least 0 and below 1, not {value!r}.")
