"""Views of text: bags of weighted entries, and token sequences for encoders."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

import torch
from torch import Generator, Tensor

from noisyteacher.core.errors import InputError
from noisyteacher.data.views import require_share

Pair = tuple[Tensor, Tensor]


@dataclass(frozen=True)
class BagViews:
    """TF-IDF or hashed entries, (indices, values) each (b, m): some dropped, the rest scaled up.

    The values that stay are multiplied by 1/√(1−p), so that a bag keeps its expected length.
    """

    weak_drop: float = 0.1
    strong_drop: float = 0.6

    def __post_init__(self) -> None:
        require_share("weak_drop", self.weak_drop)
        require_share("strong_drop", self.strong_drop)

    @property
    def has_strong(self) -> bool:
        return True

    def plain(self, x: Pair) -> Pair:
        """The bag as it is."""
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

    def __post_init__(self) -> None:
        require_share("strong_drop", self.strong_drop)
        if self.mask_id is not None and self.mask_id < 0:
            raise InputError(f"mask_id must be a token's number, not {self.mask_id}.")

    @property
    def has_strong(self) -> bool:
        return True

    def plain(self, x: Pair) -> Pair:
        """The tokens as they are."""
        return x

    def weak(self, x: Pair, generator: Generator) -> Pair:
        """The tokens as they are: encoders are fine-tuned without augmentation."""
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
