"""Mean and standard deviation of the training part, which the views normalize with."""

from __future__ import annotations

import numpy as np


class ChannelHistogram:
    """Counts of the 256 values of each channel: exact statistics from blocks of any number."""

    def __init__(self) -> None:
        self._counts = np.zeros((3, 256), np.int64)

    def add(self, images: np.ndarray) -> None:
        """Take in a block (b, H, W, 3) of uint8."""
        for channel in range(3):
            values = images[..., channel].reshape(-1)
            self._counts[channel] += np.bincount(values, minlength=256)

    def mean_and_std(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """Per channel, of values scaled to 0..1."""
        values = np.arange(256) / 255
        total = self._counts.sum(1)
        mean = self._counts @ values / total
        variance = self._counts @ values**2 / total - mean**2
        return tuple(mean.tolist()), _usable(np.sqrt(variance.clip(0)))


def feature_statistics(table: np.ndarray) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Per column of a table (n, d)."""
    mean = table.mean(0, dtype=np.float64)
    return tuple(mean.tolist()), _usable(table.std(0, dtype=np.float64))


def _usable(std: np.ndarray) -> tuple[float, ...]:
    # A constant channel or feature carries nothing; 1 keeps the division harmless.
    return tuple(np.where(std > 1e-8, std, 1.0).tolist())
