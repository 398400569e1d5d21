"""What the noise model says of a pool."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from torch import Tensor


@dataclass(frozen=True)
class Trust:
    """How far each teacher label can be trusted; torch when the labels were torch, else NumPy."""

    alpha: np.ndarray | Tensor  # (n,) float32: the chance that the teacher's top class is right
    k: np.ndarray | Tensor  # (n,) int64: how many of its top classes hold the truth, from 2 to L
    lower_bound: float  # what alpha is cut off at from below
    unreachable: int = 0  # rows with k = L because k(x) lay beyond the stored probabilities

    def __len__(self) -> int:
        return len(self.alpha)

    @property
    def share_at_lower_bound(self) -> float:
        """The share of rows whose alpha is the lower bound; SLaM mostly ignores these at 0.5."""
        alpha = np.asarray(self.alpha.cpu() if isinstance(self.alpha, Tensor) else self.alpha)
        return float((alpha <= np.float32(self.lower_bound)).mean()) if len(self) else 0.0

    @property
    def unreachable_share(self) -> float:
        """The share of rows with k = L because k(x) lay beyond the stored probabilities."""
        return self.unreachable / len(self) if len(self) else 0.0
