"""How a student is trained: the settings that do not belong to a method or a model."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

import torch
from torch import Tensor

from noisyteacher.core.errors import InputError
from noisyteacher.train.schedule import Schedule, Steps


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
            fused=on_gpu,
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
            fused=on_gpu,
        )


@dataclass(frozen=True)
class TrainConfig:
    """One student's training. ``precision="auto"`` is bfloat16 on a GPU and float32 elsewhere.

    ``gold_repeat`` repeats gold rows in the index: it changes the mixing ratio, not the number of
    steps. ``steps_per_epoch`` replaces ⌈rows / batch_size⌉, for smoke runs and benchmarks.
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
        """The dtype of the forward pass, None where it is plain float32."""
        if self.precision == "bfloat16" or (self.precision == "auto" and device.type == "cuda"):
            return torch.bfloat16
        return None
