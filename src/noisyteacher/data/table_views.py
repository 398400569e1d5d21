"""Views of tables and embeddings: standardised, with features dropped and noise added."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Generator, Tensor

from noisyteacher.core.errors import InputError
from noisyteacher.data.dataset import Dataset
from noisyteacher.data.views import DeviceConstants, require_share


@dataclass(frozen=True)
class TableViews:
    """Rows (b, d), standardised by ``mean`` and ``std`` of the training part.

    A dropped feature takes its mean; noise is normal, in units of each feature's deviation. The
    weak view is plain unless asked otherwise.
    """

    mean: tuple[float, ...] = field(repr=False)
    std: tuple[float, ...] = field(repr=False)
    weak_drop: float = 0.0
    weak_noise: float = 0.0
    strong_drop: float = 0.2
    strong_noise: float = 0.2
    dtype: torch.dtype = torch.float32
    _constants: DeviceConstants = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if len(self.mean) != len(self.std) or not all(s > 0 for s in self.std):
            raise InputError(
                f"A table needs as many deviations above 0 as means; there are {len(self.mean)} "
                f"means and {len(self.std)} deviations."
            )
        for name in ("weak_drop", "strong_drop"):
            require_share(name, getattr(self, name))
        for name in ("weak_noise", "strong_noise"):
            if not getattr(self, name) >= 0:
                raise InputError(f"{name} must be at least 0, not {getattr(self, name)!r}.")
        scale = tuple(1 / s for s in self.std)
        object.__setattr__(self, "_constants", DeviceConstants((self.mean, scale)))

    @classmethod
    def of(cls, dataset: Dataset, dtype: torch.dtype = torch.float32) -> TableViews:
        """With the dataset's own statistics."""
        return cls(dataset.mean, dataset.std, dtype=dtype)

    @property
    def has_strong(self) -> bool:
        return True

    def plain(self, x: Tensor) -> Tensor:
        """(b, d) -> standardised."""
        return self._standardised(x).to(self.dtype)

    def weak(self, x: Tensor, generator: Generator) -> Tensor:
        """(b, d) -> standardised, lightly changed where asked for."""
        return self._changed(x, self.weak_drop, self.weak_noise, generator)

    def strong(self, x: Tensor, generator: Generator) -> Tensor:
        """(b, d) -> standardised, with dropped features and noise."""
        return self._changed(x, self.strong_drop, self.strong_noise, generator)

    def _standardised(self, x: Tensor) -> Tensor:
        mean, scale = self._constants.on(x.device)
        return (x - mean) * scale

    def _changed(self, x: Tensor, drop: float, noise: float, generator: Generator) -> Tensor:
        x = self._standardised(x)
        if noise:
            x = x + noise * torch.randn(x.shape, generator=generator, device=x.device)
        if drop:
            x = x * (torch.rand(x.shape, generator=generator, device=x.device) >= drop)
        return x.to(self.dtype)
