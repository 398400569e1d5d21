"""Taylor cross-entropy: a truncated logarithm that gives wrong labels less pull."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from noisyteacher import losses
from noisyteacher.methods.base import Grid
from noisyteacher.methods.targets import PlainMethod


@dataclass(frozen=True, repr=False)
class TaylorCE(PlainMethod):
    """The first ``order`` terms of the Taylor series of cross-entropy, linear in the label.

    It is also a base loss: ``SLaM(base=TaylorCE(2))``.
    """

    order: int = 2
    hard: bool = False

    positional: ClassVar[tuple[str, ...]] = ("order",)  # as it reads inside SLaM(base=...)
    formula: ClassVar[str] = "Σ_j ys_j Σ_{i≤order} (1 − f_j)^i / i"
    reference: ClassVar[str] = "Feng et al. IJCAI 2020"
    unverified: ClassVar[str] = "read as an abstract; the paper's CIFAR grid is not stated"
    other_grids: ClassVar[dict[str, Grid]] = {
        "imagenet": {"order": (1, 2, 3, 4, 5, 6, 10, 20, 50, 80, 100)}
    }

    def base_loss(self) -> losses.BaseLoss:
        return losses.TaylorCE(self.order)
