"""Generalised cross-entropy: between cross-entropy and the robust absolute error."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from noisyteacher import losses
from noisyteacher.methods.targets import PlainMethod


@dataclass(frozen=True, repr=False)
class GCE(PlainMethod):
    """Cross-entropy for q → 0, absolute error at q = 1; ``TruncatedGCE`` is its truncated form."""

    q: float = 0.7
    hard: bool = False

    formula: ClassVar[str] = "Σ_j ys_j (1 − f_j^q) / q"
    reference: ClassVar[str] = "Zhang & Sabuncu 2018"

    def base_loss(self) -> losses.BaseLoss:
        return losses.GCE(self.q)
