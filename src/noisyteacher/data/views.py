"""How an example of a table or text is shown to a student: plain, weakly or strongly changed.

Views work on whole batches on the device, draw all randomness from the generator they are given,
and never wait for the device, so that a training step with its views can be captured in a CUDA
graph. Constants are moved to the device on the first call, which must come before a capture.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import sqrt
from typing import Any, ClassVar, Protocol

import torch
from torch import Generator, Tensor

from noisyteacher.core.errors import InputError
from noisyteacher.data.dataset import Dataset

Pair = tuple[Tensor, Tensor]


class Views(Protocol):
    """The interface of views, for any kind of data.

    ``x`` is a raw batch: uint8 images (b, 3, H, W), a table (b, d), or a tuple of tensors.
    """

    @property
    def has_strong(self) -> bool:
        """Whether ``strong`` may be called."""
        ...

    def plain(self, x: Any) -> Any:
        """The model's input: only normalized."""
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


@dataclass(frozen=True)
class TableViews:
    """Rows (b, d), standardized by ``mean`` and ``std`` of the training part.

    A dropped feature is replaced by its mean; noise is normal, in units of each feature's
    deviation. By default the weak view is plain.
    """

    mean: tuple[float, ...] = field(repr=False)
    std: tuple[float, ...] = field(repr=False)
    weak_drop: float = 0.0
    weak_noise: float = 0.0
    strong_drop: float = 0.2
    strong_noise: float = 0.2
    dtype: torch.dtype = torch.float32
    _constants: DeviceConstants = field(init=False, repr=False, compare=False)
    has_strong: ClassVar[bool] = True

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
        """Views with the dataset's own statistics."""
        return cls(dataset.mean, dataset.std, dtype=dtype)

    def plain(self, x: Tensor) -> Tensor:
        """(b, d) -> standardized."""
        return self._standardized(x).to(self.dtype)

    def weak(self, x: Tensor, generator: Generator) -> Tensor:
        """(b, d) -> standardized, with ``weak_drop`` and ``weak_noise``."""
        return self._changed(x, self.weak_drop, self.weak_noise, generator)

    def strong(self, x: Tensor, generator: Generator) -> Tensor:
        """(b, d) -> standardized, with dropped features and noise."""
        return self._changed(x, self.strong_drop, self.strong_noise, generator)

    def _standardized(self, x: Tensor) -> Tensor:
        mean, scale = self._constants.on(x.device)
        return (x - mean) * scale

    def _changed(self, x: Tensor, drop: float, noise: float, generator: Generator) -> Tensor:
        x = self._standardized(x)
        if noise:
            x = x + noise * torch.randn(x.shape, generator=generator, device=x.device)
        if drop:
            x = x * (torch.rand(x.shape, generator=generator, device=x.device) >= drop)
        return x.to(self.dtype)


@dataclass(frozen=True)
class BagViews:
    """TF-IDF or hashed entries, (indices, values) each (b, m): some dropped, the others scaled up.

    The values that stay are multiplied by 1/√(1−p), so that the expected length of a row is
    unchanged.
    """

    weak_drop: float = 0.1
    strong_drop: float = 0.6
    has_strong: ClassVar[bool] = True

    def __post_init__(self) -> None:
        require_share("weak_drop", self.weak_drop)
        require_share("strong_drop", self.strong_drop)

    def plain(self, x: Pair) -> Pair:
        """The entries unchanged."""
        return x

    def weak(self, x: Pair, generator: Generator) -> Pair:
        """A tenth of the entries dropped."""
        return _drop_entries(x, self.weak_drop, generator)

    def strong(self, x: Pair, generator: Generator) -> Pair:
        """Most entries dropped."""
        return _drop_entries(x, self.strong_drop, generator)


def _drop_entries(x: Pair, share: float, generator: Generator) -> Pair:
    indices, values = x
    if not share:
        return x
    kept = torch.rand(values.shape, generator=generator, device=values.device) >= share
    return indices, values * kept * (1 / sqrt(1 - share))


@dataclass(frozen=True)
class EncoderViews:
    """Token sequences, (input_ids, attention_mask) each (b, t): plain when weak, words dropped
    when strong.

    A dropped token becomes ``mask_id``, or is hidden from attention where there is no such token.
    The first token, padding and ``keep_ids`` (separators) always stay.
    """

    strong_drop: float = 0.15
    mask_id: int | None = None
    keep_ids: tuple[int, ...] = ()
    has_strong: ClassVar[bool] = True

    def __post_init__(self) -> None:
        require_share("strong_drop", self.strong_drop)
        if self.mask_id is not None and self.mask_id < 0:
            raise InputError(f"mask_id must be a token's number, not {self.mask_id}.")

    def plain(self, x: Pair) -> Pair:
        """The tokens unchanged."""
        return x

    def weak(self, x: Pair, generator: Generator) -> Pair:
        """The tokens unchanged: encoders are fine-tuned without augmentation."""
        return x

    def strong(self, x: Pair, generator: Generator) -> Pair:
        """Words dropped at random."""
        tokens, attention = x
        drawn = torch.rand(tokens.shape, generator=generator, device=tokens.device)
        dropped = (drawn < self.strong_drop) & (attention > 0)
        for special in self.keep_ids:
            dropped &= tokens != special
        dropped[:, 0] = False
        if self.mask_id is None:
            return tokens, attention.masked_fill(dropped, 0)
        return tokens.masked_fill(dropped, self.mask_id), attention
