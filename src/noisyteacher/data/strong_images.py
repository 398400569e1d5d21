"""The strong view of images: an affine change, colours, and a blanked square."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Generator, Tensor

from noisyteacher.data.views import uniform


@dataclass(frozen=True)
class StrongImage:
    """Ranges of the change, drawn per image and evenly.

    ``rotation`` in radians, ``shift`` as a share of half a side, ``brightness`` in normalised
    units, ``square`` as a share of the width (half of it: 16×16 on 32×32).
    """

    rotation: float = 0.5
    scale: tuple[float, float] = (0.8, 1.2)
    shear: float = 0.3
    shift: float = 0.25
    saturation: tuple[float, float] = (0.3, 1.7)
    contrast: tuple[float, float] = (0.5, 1.6)
    brightness: float = 0.6
    square: float = 0.5

    def __call__(self, x: Tensor, generator: Generator) -> Tensor:
        """(b, 3, H, W) normalised float32 -> the same shape."""
        return self._blank(self._recolour(self._transform(x, generator), generator), generator)

    def _transform(self, x: Tensor, generator: Generator) -> Tensor:
        """Rotate, scale, shear and shift, with reflected borders."""
        count, _, height, width = x.shape

        def draw(low: float, high: float) -> Tensor:
            return uniform((count, 1, 1), low, high, generator, x.device)

        angle, scale = draw(-self.rotation, self.rotation), draw(*self.scale)
        shear = draw(-self.shear, self.shear)
        right, down = draw(-self.shift, self.shift), draw(-self.shift, self.shift)
        cos, sin = scale * angle.cos(), scale * angle.sin()
        across = _span(width, x.device)[None, None, :]
        along = _span(height, x.device)[None, :, None]
        # Written out rather than by affine_grid, whose matrix product would run in bfloat16 or
        # TF32 where these are allowed and misplace pixels. Rotating in pixels, not in shares of
        # each side, keeps angles right where an image is not square.
        aspect = height / width
        horizontal = cos * across + (shear * cos - sin) * aspect * along + right
        vertical = sin / aspect * across + (shear * sin + cos) * along + down
        grid = torch.stack([horizontal, vertical], dim=-1)
        return F.grid_sample(
            x, grid, mode="bilinear", padding_mode="reflection", align_corners=False
        )

    def _recolour(self, x: Tensor, generator: Generator) -> Tensor:
        """Saturation around each pixel's grey, contrast around each image's mean, brightness."""

        def draw(low: float, high: float) -> Tensor:
            return uniform((len(x), 1, 1, 1), low, high, generator, x.device)

        grey = x.mean(1, keepdim=True)
        x = torch.lerp(grey, x, draw(*self.saturation))
        middle = x.mean((1, 2, 3), keepdim=True)
        x = torch.lerp(middle, x, draw(*self.contrast))
        return x + draw(-self.brightness, self.brightness)

    def _blank(self, x: Tensor, generator: Generator) -> Tensor:
        """Set one square, wholly inside the image, to 0 (the mean colour)."""
        count, _, height, width = x.shape
        side = min(round(self.square * width), height, width)
        inside = []
        for length in (height, width):
            last = length - side + 1
            start = torch.randint(last, (count, 1), generator=generator, device=x.device)
            index = torch.arange(length, device=x.device)
            inside.append((index >= start) & (index < start + side))
        rows, columns = inside
        return x.masked_fill((rows[:, :, None] & columns[:, None, :])[:, None], 0.0)


def _span(length: int, device: torch.device) -> Tensor:
    """(length,) centres of pixels, from -1 to 1 across a side."""
    return (torch.arange(length, device=device) * 2 + 1) / length - 1
