"""Learning-rate schedules, as factors of the peak rate, step by step.

Each is written for the number of epochs of its source and scales to any other.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol


class Schedule(Protocol):
    """Anything that names the factor of the rate at each step of an epoch."""

    def factors(self, epoch: int, epochs: int, steps: int) -> list[float]:
        """Factors of the peak rate for the ``steps`` steps of 0-based ``epoch``."""
        ...


@dataclass(frozen=True)
class Constant:
    """The same rate all along."""

    def factors(self, epoch: int, epochs: int, steps: int) -> list[float]:
        return [1.0] * steps


@dataclass(frozen=True)
class Steps:
    """Absolute factors after given shares of the run; an optional linear warm-up before.

    ``after`` holds (share of the run, factor). Factors are of the *initial* rate, not cumulative.
    The default is the paper's CIFAR schedule: 80/120/160/180 of 200 epochs, and an epoch counts
    as "after" when its 0-based number is strictly greater.
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
    """From the peak to zero along half a cosine, after an optional linear warm-up."""

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
