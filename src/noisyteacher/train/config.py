"""How a student is trained: optimizer, learning-rate schedule, epochs and batches.

Schedules give factors of the peak rate, step by step; each is written for the number of epochs of
its source and scales to any other.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal, Protocol

import torch
from torch import Tensor

from noisyteacher.core.errors import InputError


@dataclass(frozen=True)
class Adam:
    """Adam; ``weight_decay`` is decoupled, as in AdamW: a step shrinks weights by rate × decay."""

    lr: float = 1e-3
    weight_decay: float = 0.0

    def build(self, parameters: Iterable[Tensor], on_gpu: bool) -> torch.optim.Optimizer:
        # A tensor rate lives on the device, so that a captured graph can change it.
        rate = torch.tensor(self.lr, device="cuda") if on_gpu else self.lr
        return torch.optim.AdamW(
            parameters,
            lr=rate,
            weight_decay=self.weight_decay,
            fused=True,  # one pass over the weights: on a CPU eight times as fast
            capturable=on_gpu,
        )


@dataclass(frozen=True)
class SGD:
    """SGD with momentum and L2 weight decay."""

    lr: float = 0.1
    momentum: float = 0.9
    weight_decay: float = 0.0

    def build(self, parameters: Iterable[Tensor], on_gpu: bool) -> torch.optim.Optimizer:
        rate = torch.tensor(self.lr, device="cuda") if on_gpu else self.lr
        return torch.optim.SGD(
            parameters,
            lr=rate,
            momentum=self.momentum,
            weight_decay=self.weight_decay,
            fused=True,
        )


class Schedule(Protocol):
    """Any schedule of the learning rate within each epoch."""

    def factors(self, epoch: int, epochs: int, steps: int) -> list[float]:
        """Factors of the peak rate for the ``steps`` steps of 0-based ``epoch``."""
        ...


@dataclass(frozen=True)
class Constant:
    """A constant rate."""

    def factors(self, epoch: int, epochs: int, steps: int) -> list[float]:
        return [1.0] * steps


@dataclass(frozen=True)
class Steps:
    """Fixed factors after given shares of the run, and an optional linear warm-up before.

    ``after`` has pairs (share of the run, factor). Factors are relative to the *initial* rate, not
    cumulative. The default is the paper's CIFAR schedule: 80/120/160/180 of 200 epochs, where an
    epoch counts as "after" if its 0-based number is strictly greater.
    """

    after: tuple[tuple[float, float], ...] = ((0.4, 1e-1), (0.6, 1e-2), (0.8, 1e-3), (0.9, 5e-4))
    warmup: float = 0.0

    def factors(self, epoch: int, epochs: int, steps: int) -> list[float]:
        factor = 1.0
        for share, after in self.after:
            # Rounded, so that 0.6 * 200 is 120 and not a hair below it.
            if epoch > round(share * epochs, 9):
                factor = after
        ramp = self.warmup * epochs * steps
        done = [epoch * steps + i + 1 for i in range(steps)]
        return [factor * min(1.0, d / ramp) if ramp else factor for d in done]


# ImageNet in the paper: linear warm-up over 5 of 100 epochs, then tenths after 30, 60 and 80.
IMAGENET_STEPS = Steps(after=((0.3, 1e-1), (0.6, 1e-2), (0.8, 1e-3)), warmup=0.05)


@dataclass(frozen=True)
class Cosine:
    """Half a cosine from the peak to zero, after an optional linear warm-up."""

    warmup: float = 0.0

    def factors(self, epoch: int, epochs: int, steps: int) -> list[float]:
        total = epochs * steps
        ramp = self.warmup * total
        return [self._factor(epoch * steps + i, total, ramp) for i in range(steps)]

    @staticmethod
    def _factor(step: int, total: int, ramp: float) -> float:
        if step < ramp:
            # A ramp of a fraction of a step must not lift the rate above its peak.
            return min(1.0, (step + 1) / ramp)
        return 0.5 * (1.0 + math.cos(math.pi * (step - ramp) / max(total - ramp, 1)))


@dataclass(frozen=True)
class TrainConfig:
    """How to train a student. ``precision="auto"`` is bfloat16 on a GPU and float32 elsewhere.

    ``gold_repeat`` repeats gold rows in the index: it changes the proportion of gold rows, not the
    number of steps. ``steps_per_epoch`` replaces ⌈rows / batch_size⌉, for tests and benchmarks.
    """

    epochs: int = 200
    batch_size: int = 128
    optimizer: Adam | SGD = field(default_factory=Adam)
    schedule: Schedule = field(default_factory=Steps)
    gold_repeat: int = 1
    precision: Literal["auto", "float32", "bfloat16"] = "auto"
    eval_every: int = 1
    eval_batch: int = 1024
    checkpoint_every: int = 1
    steps_per_epoch: int | None = None

    def __post_init__(self) -> None:
        counts = ("epochs", "batch_size", "gold_repeat", "eval_every", "eval_batch")
        for name in (*counts, "checkpoint_every", "steps_per_epoch"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise InputError(f"{name} must be at least 1, not {value}.")
        if self.precision not in ("auto", "float32", "bfloat16"):
            raise InputError(
                f'precision is "auto", "float32" or "bfloat16", not {self.precision!r}.'
            )

    def autocast_dtype(self, device: torch.device) -> torch.dtype | None:
        """The dtype of the forward pass, None if it is plain float32."""
        if self.precision == "bfloat16" or (self.precision == "auto" and device.type == "cuda"):
            return torch.bfloat16
        return None
