"""The strong view of images: an affine change, colours, and a blanked square."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from torch import Generator, Tensor

from noisyteacher.core.errors import InputError
from noisyteacher.data.views import DeviceConstants


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
    _constants: DeviceConstants = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        for name in ("rotation", "shear", "shift", "brightness"):
            if not getattr(self, name) >= 0:
                raise InputError(f"{name} must be at least 0, not {getattr(self, name)!r}.")
        for name in ("scale", "saturation", "contrast"):
            first, last = getattr(self, name)
            if not 0 <= first <= last:
                raise InputError(f"{name} must be a range of numbers from 0 up, not {first, last}.")
        if not 0 <= self.square <= 1:
            raise InputError(f"square must be a share of the width, not {self.square!r}.")
        ranges = (
            (-self.rotation, self.rotation),
            self.scale,
            (-self.shear, self.shear),
            (-self.shift, self.shift),
            (-self.shift, self.shift),
            self.saturation,
            self.contrast,
            (-self.brightness, self.brightness),
            (0.0, 1.0),
            (0.0, 1.0),
        )
        low = tuple(float(first) for first, _ in ranges)
        width = tuple(float(last - first) for first, last in ranges)
        object.__setattr__(self, "_constants", DeviceConstants((low, width)))

    def __call__(self, x: Tensor, generator: Generator) -> Tensor:
        """(b, 3, H, W) normalised float32 -> the same shape."""
        low, width = self._constants.on(x.device)
        # All draws at once: ten small ones would take longer than the pixels.
        drawn = torch.rand(len(low), len(x), generator=generator, device=x.device)
        drawn = torch.addcmul(low[:, None], drawn, width[:, None])
        angle, scale, shear, right, down, saturation, contrast, brightness, top, left = drawn
        x = _transformed(x, angle, scale, shear, right, down)
        return self._blanked(_recoloured(x, saturation, contrast, brightness), top, left)

    def _blanked(self, x: Tensor, top: Tensor, left: Tensor) -> Tensor:
        """Set one square, wholly inside the image, to 0 (the mean colour)."""
        height, width = x.shape[2:]
        side = min(round(self.square * width), height, width)
        rows, columns = _stretch(height, side, top), _stretch(width, side, left)
        return x.masked_fill((rows[:, :, None] & columns[:, None, :])[:, None], 0.0)


def _stretch(length: int, side: int, place: Tensor) -> Tensor:
    """(b, length) bool: ``side`` pixels in a row, placed by a share (b,) of the free room."""
    start = (place * (length - side + 1)).floor_().clamp_(max=length - side)[:, None]
    index = torch.arange(length, device=place.device)
    return (index >= start) & (index < start + side)


def _transformed(
    x: Tensor, angle: Tensor, scale: Tensor, shear: Tensor, right: Tensor, down: Tensor
) -> Tensor:
    """Rotate, scale, shear and shift, each (b,), with reflected borders."""
    height, width = x.shape[2:]
    across = _span(width, x.device)[None, None, :]
    along = _span(height, x.device)[None, :, None]
    cos, sin = scale * angle.cos(), scale * angle.sin()
    # Written out rather than by affine_grid, whose matrix product would run in bfloat16 or TF32
    # where these are allowed and misplace pixels. Rotating in pixels, not in shares of each side,
    # keeps angles right where an image is not square.
    aspect = height / width
    matrix = torch.stack(
        [cos, (shear * cos - sin) * aspect, right, sin / aspect, shear * sin + cos, down]
    )
    xx, xy, x0, yx, yy, y0 = matrix[:, :, None, None]
    grid = torch.stack([xx * across + (xy * along + x0), yx * across + (yy * along + y0)], dim=-1)
    return F.grid_sample(x, grid, mode="bilinear", padding_mode="reflection", align_corners=False)


def _recoloured(x: Tensor, saturation: Tensor, contrast: Tensor, brightness: Tensor) -> Tensor:
    """Saturation around each pixel's grey, contrast around each image's mean, brightness."""
    saturation, contrast, brightness = (
        change[:, None, None, None] for change in (saturation, contrast, brightness)
    )
    x = torch.lerp(x.mean(1, keepdim=True), x, saturation)
    # Contrast and brightness in one pass: c·x + (1 − c)·mean + b.
    offset = torch.addcmul(brightness, 1 - contrast, x.mean((1, 2, 3), keepdim=True))
    return torch.addcmul(offset, x, contrast)


def _span(length: int, device: torch.device) -> Tensor:
    """(length,) centres of pixels, from -1 to 1 across a side."""
    return (torch.arange(length, device=device) * 2 + 1) / length - 1
