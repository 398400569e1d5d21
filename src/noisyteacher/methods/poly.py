"""PolyLoss: cross-entropy with another weight on its first polynomial term."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from noisyteacher import losses
from noisyteacher.methods.base import Grid
from noisyteacher.methods.targets import PlainMethod


@dataclass(frozen=True, repr=False)
class PolyLoss(PlainMethod):
    """Poly-1. It is also a base loss: ``SLaM(base=PolyLoss(2.0))``, printed as ``Poly1(2.0)``."""

    epsilon: float = 2.0
    hard: bool = False

    formula: ClassVar[str] = "ce(ys, f) + ε Σ_j ys_j (1 − f_j)"
    reference: ClassVar[str] = "Leng et al. ICLR 2022"
    grid: ClassVar[Grid] = {"epsilon": (-1.0, -0.8, -0.6, -0.4, -0.2, 0.5, 1.0, 2.0, 50.0, 100.0)}
    other_grids: ClassVar[dict[str, Grid]] = {
        "imagenet": {"epsilon": (1.0, 2.0, 50.0, 100.0)},
        "imdb": {"epsilon": (-1.0, -0.8, -0.6, -0.4, -0.2, 0.5, 1.0, 2.0)},
    }

    def base_loss(self) -> losses.BaseLoss:
        return losses.Poly1(self.epsilon)
