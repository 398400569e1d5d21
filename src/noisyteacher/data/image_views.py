"""Views of images: flip and shift, or a random resized crop; and the strong view of both."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from math import log

import torch
import torch.nn.functional as F
from torch import Generator, Tensor

from noisyteacher.core.errors import InputError
from noisyteacher.data.dataset import Dataset
from noisyteacher.data.views import DeviceConstants, require_share, uniform


@dataclass(frozen=True)
class StrongImage:
    """Ranges of the strong changes, which are drawn uniformly for each image.

    ``rotation`` in radians, ``shift`` as a share of half a side, ``brightness`` in normalized
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
        """(b, 3, H, W) normalized float32 -> the same shape."""
        low, width = self._constants.on(x.device)
        # All draws at once: ten small ones would take longer than the pixels.
        drawn = torch.rand(len(low), len(x), generator=generator, device=x.device)
        drawn = torch.addcmul(low[:, None], drawn, width[:, None])
        angle, scale, shear, right, down, saturation, contrast, brightness, top, left = drawn
        x = _transformed(x, angle, scale, shear, right, down)
        return self._blanked(_recolored(x, saturation, contrast, brightness), top, left)

    def _blanked(self, x: Tensor, top: Tensor, left: Tensor) -> Tensor:
        """Set one square, wholly inside the image, to 0 (the mean color)."""
        height, width = x.shape[2:]
        side = min(round(self.square * width), height, width)
        rows, columns = _stretch(height, side, top), _stretch(width, side, left)
        return x.masked_fill((rows[:, :, None] & columns[:, None, :])[:, None], 0.0)


@dataclass(frozen=True)
class _NormalizedViews(ABC):
    """Normalization with the training part's mean and standard deviation (channels in 0..1)."""

    mean: tuple[float, ...]
    std: tuple[float, ...]
    strong_view: StrongImage | None = field(default_factory=StrongImage, kw_only=True)
    dtype: torch.dtype = field(default=torch.float32, kw_only=True)
    _constants: DeviceConstants = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if len(self.mean) != 3 or len(self.std) != 3 or min(self.std) <= 0:
            raise InputError(
                f"Images need three means and three deviations above 0, not {self.mean} and "
                f"{self.std}."
            )
        scale = tuple(1 / (255 * s) for s in self.std)
        bias = tuple(-m / s for m, s in zip(self.mean, self.std, strict=True))
        object.__setattr__(self, "_constants", DeviceConstants((scale, bias)))

    @property
    def has_strong(self) -> bool:
        return self.strong_view is not None

    def _normalize(self, x: Tensor) -> Tensor:
        """(b, 3, H, W) values in 0..255 -> the same in float32, channels last in memory."""
        scale, bias = self._constants.on(x.device)
        return torch.addcmul(bias, _pixels(x), scale).permute(0, 3, 1, 2)

    def _as_input(self, x: Tensor) -> Tensor:
        return x.to(self.dtype, memory_format=torch.channels_last)

    @abstractmethod
    def _weak(self, x: Tensor, generator: Generator) -> Tensor:
        """The weak view in float32, on which the strong view builds."""

    def _shown_size(self, x: Tensor) -> tuple[int, int]:
        """Height and width of what the model sees."""
        height, width = x.shape[2:]
        return height, width

    def weak(self, x: Tensor, generator: Generator) -> Tensor:
        """(b, 3, H, W) uint8 -> the augmented, normalized batch."""
        return self._as_input(self._weak(x, generator))

    def strong(self, x: Tensor, generator: Generator) -> Tensor:
        """(b, 3, H, W) uint8 -> its own draw of the weak view, then the strong change."""
        if self.strong_view is None:
            raise InputError("These views have no strong view.")
        return self._as_input(self.strong_view(self._weak(x, generator), generator))

    def crop(self, x: Tensor, generator: Generator) -> Tensor:
        """(b, 3, H, W) uint8 -> one random crop-and-resize view, for view statistics."""
        view = crop_resize_view(x, generator, size=self._shown_size(x))
        return self._as_input(self._normalize(view))


@dataclass(frozen=True)
class ImageViews(_NormalizedViews):
    """Small images: horizontal flips, and shifts by whole pixels up to ``shift`` of each side.

    The area that a shift uncovers is filled by repeating the border. Because shifts are by whole
    pixels, the weak view is a single gather, and pixels are unchanged.
    """

    flip: bool = True
    shift: float = 0.1

    def __post_init__(self) -> None:
        super().__post_init__()
        require_share("shift", self.shift)

    @classmethod
    def of(cls, dataset: Dataset, dtype: torch.dtype = torch.float32) -> ImageViews:
        """Views with the dataset's own normalization."""
        return cls(dataset.mean, dataset.std, dtype=dtype)

    def plain(self, x: Tensor) -> Tensor:
        """(b, 3, H, W) uint8 -> the normalized batch."""
        return self._as_input(self._normalize(x))

    def _weak(self, x: Tensor, generator: Generator) -> Tensor:
        height, width = x.shape[2:]
        down, across = round(self.shift * height), round(self.shift * width)
        if not (self.flip or down or across):
            return self._normalize(x)
        rows = _shifted(x, height, down, generator)
        columns = _shifted(x, width, across, generator)
        if self.flip:
            columns = torch.where(_mirrored(x, generator), width - 1 - columns, columns)
        # Each image at its own (b, H) rows and (b, W) columns.
        image = torch.arange(len(x), device=x.device)[:, None, None]
        return self._normalize(
            _pixels(x)[image, rows[:, :, None], columns[:, None, :]].permute(0, 3, 1, 2)
        )


@dataclass(frozen=True)
class ResizedCropViews(_NormalizedViews):
    """Photographs: a crop of random area and shape, resized to ``size``, and a horizontal flip.

    A crop that is wider or taller than the image is cut off, while the usual recipe draws again:
    this keeps shapes static. ``plain`` takes the middle ``size`` × ``size``. Sampling is bilinear,
    so store images at most about twice as large as ``size``.
    """

    size: int = 224
    area: tuple[float, float] = (0.08, 1.0)
    ratio: tuple[float, float] = (3 / 4, 4 / 3)
    flip: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.size < 1:
            raise InputError(f"size must be at least 1, not {self.size}.")
        _check_crop(self.area, self.ratio)

    @classmethod
    def of(
        cls, dataset: Dataset, size: int = 224, dtype: torch.dtype = torch.float32
    ) -> ResizedCropViews:
        """Views with the dataset's own normalization."""
        return cls(dataset.mean, dataset.std, size=size, dtype=dtype)

    def plain(self, x: Tensor) -> Tensor:
        """(b, 3, H, W) uint8 -> (b, 3, size, size), the normalized middle."""
        height, width = x.shape[2:]
        if min(height, width) < self.size:
            shown = F.interpolate(x.float(), (self.size, self.size), mode="bilinear")
        else:
            top, left = (height - self.size) // 2, (width - self.size) // 2
            shown = x[:, :, top : top + self.size, left : left + self.size]
        return self._as_input(self._normalize(shown))

    def _weak(self, x: Tensor, generator: Generator) -> Tensor:
        mirror = _mirrored(x, generator) if self.flip else None
        cropped = _random_crop(x, generator, self.area, self.ratio, (self.size, self.size), mirror)
        return self._normalize(cropped)

    def _shown_size(self, x: Tensor) -> tuple[int, int]:
        return self.size, self.size


def crop_resize_view(
    x: Tensor,
    generator: Generator,
    area: tuple[float, float] = (0.5, 1.0),
    ratio: tuple[float, float] = (3 / 4, 4 / 3),
    size: tuple[int, int] | None = None,
) -> Tensor:
    """(b, 3, H, W) -> a random crop of each image, resized: float32, same range of values.

    UPS and Fidelity compute the variation of the teacher's predictions over such views. The paper
    does not state the size of the crops; here a crop keeps half of the image or more.
    """
    _check_crop(area, ratio)
    height, width = size or x.shape[2:]
    return _random_crop(x, generator, area, ratio, (height, width), mirror=None)


def _check_crop(area: tuple[float, float], ratio: tuple[float, float]) -> None:
    if not 0 < area[0] <= area[1] <= 1:
        raise InputError(f"A crop's area is a range of shares within (0, 1], not {area}.")
    if not 0 < ratio[0] <= ratio[1]:
        raise InputError(f"A crop's ratio is a range of numbers above 0, not {ratio}.")


def _pixels(x: Tensor) -> Tensor:
    """(b, 3, H, W) -> (b, H, W, 3), a view."""
    return x.permute(0, 2, 3, 1)


def _shifted(x: Tensor, length: int, reach: int, generator: Generator) -> Tensor:
    """(b, length) int64: which row (or column) is shown where, after each image's own shift."""
    count, device = len(x), x.device
    index = torch.arange(length, device=device)
    if not reach:
        return index.expand(count, length)
    by = torch.randint(-reach, reach + 1, (count, 1), generator=generator, device=device)
    return (index + by).clamp_(0, length - 1)


def _mirrored(x: Tensor, generator: Generator) -> Tensor:
    """(b, 1) bool: every second image, on average."""
    return torch.rand(len(x), 1, generator=generator, device=x.device) < 0.5


def _random_crop(
    x: Tensor,
    generator: Generator,
    area: tuple[float, float],
    ratio: tuple[float, float],
    size: tuple[int, int],
    mirror: Tensor | None,
) -> Tensor:
    """(b, 3, H, W) -> float32 (b, 3, *size): one crop per image, bilinear."""
    count, _, height, width = x.shape
    device = x.device
    share = uniform((count, 1), *area, generator, device) * (height * width)
    shape = uniform((count, 1), log(ratio[0]), log(ratio[1]), generator, device).exp_()
    # As shares of the image's own sides; what would stand out is cut off.
    across = (share * shape).sqrt_().div_(width).clamp_(max=1)
    down = (share / shape).sqrt_().div_(height).clamp_(max=1)
    left, top = (
        (1 - side) * torch.rand(count, 1, generator=generator, device=device)
        for side in (across, down)
    )
    columns = left + across * _centers(size[1], device)
    rows = top + down * _centers(size[0], device)
    if mirror is not None:
        columns = torch.where(mirror, columns.flip(1), columns)
    places = (columns[:, None, :], rows[:, :, None])
    grid = torch.stack([place.expand(count, *size) for place in places], dim=-1)
    return F.grid_sample(
        x.float(), grid * 2 - 1, mode="bilinear", padding_mode="border", align_corners=False
    )


def _centers(length: int, device: torch.device) -> Tensor:
    """(length,) centers of pixels, as shares of a side."""
    return (torch.arange(length, device=device) + 0.5) / length


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
    # From -1 to 1 across a side.
    across = (_centers(width, x.device) * 2 - 1)[None, None, :]
    along = (_centers(height, x.device) * 2 - 1)[None, :, None]
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


def _recolored(x: Tensor, saturation: Tensor, contrast: Tensor, brightness: Tensor) -> Tensor:
    """Saturation around each pixel's grey, contrast around each image's mean, brightness."""
    saturation, contrast, brightness = (
        change[:, None, None, None] for change in (saturation, contrast, brightness)
    )
    x = torch.lerp(x.mean(1, keepdim=True), x, saturation)
    # Contrast and brightness in one pass: c·x + (1 − c)·mean + b.
    offset = torch.addcmul(brightness, 1 - contrast, x.mean((1, 2, 3), keepdim=True))
    return torch.addcmul(offset, x, contrast)
