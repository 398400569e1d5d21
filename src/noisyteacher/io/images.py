"""Image files and other encoded images, to uint8 arrays of one size, several at a time."""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from io import BytesIO
from itertools import chain, islice
from pathlib import Path

import numpy as np
from PIL import Image

from noisyteacher.core.errors import InputError, warn

IMAGE_SUFFIXES = (
    *(".jpg", ".jpeg", ".jfif"),
    *(".png", ".webp", ".bmp", ".ppm", ".tif", ".tiff", ".gif"),
)
DEFAULT_SIDE = 256  # for photographs of many sizes: the usual store for 224×224 crops
# For small images of many sizes, what students of small images are made for. It is one side for
# all of them, so that a gold set and its pool, which are read one after the other, agree.
SMALL_SIDE = 32
_SMALL_BELOW = 64  # images whose sides are all shorter than this are small
_LOOK_AT = 64  # images that decide whether a source has one size
_BLOCK = 256  # images decoded before they are written
_ORIENTATION = 0x0112  # EXIF's tag for how the camera was held
_UPRIGHT = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}


@dataclass(frozen=True)
class EncodedImages:
    """Image files as bytes, in order; ``stream`` opens a fresh pass of (name, bytes)."""

    count: int
    stream: Callable[[], Iterator[tuple[str, bytes]]]

    def __len__(self) -> int:
        return self.count


def image_files(files: Sequence[Path]) -> EncodedImages:
    """Image files, read one by one as they are decoded."""

    def stream() -> Iterator[tuple[str, bytes]]:
        for file in files:
            try:
                data = file.read_bytes()
            except OSError as error:
                raise InputError(f"Image {file} cannot be read: {error.strerror}.") from error
            yield str(file), data

    return EncodedImages(len(files), stream)


@dataclass(frozen=True)
class DecodedImages:
    """A stream of uint8 blocks (b, height, width, 3) that holds ``count`` images in all."""

    count: int
    height: int
    width: int
    blocks: Iterator[np.ndarray]


def decoded(images: np.ndarray | EncodedImages, size: tuple[int, int] | None) -> DecodedImages:
    """Start decoding to ``size`` (height, width); None keeps the size the first images share.

    Where they share none, it is 256×256, or 32×32 where all their sides are below 64, and a
    warning says so. An image of another size is scaled until both sides reach the target, and its
    middle kept.
    """
    if isinstance(images, np.ndarray):
        if size is not None and images.shape[1:3] != size:
            fitted = [_fit(Image.fromarray(image), *size) for image in images]
            images = np.stack(fitted) if fitted else np.empty((0, *size, 3), np.uint8)
        count, height, width, _ = images.shape
        blocks = (images[start : start + _BLOCK] for start in range(0, count, _BLOCK))
        return DecodedImages(count, height, width, blocks)
    stream = images.stream()
    first = list(islice(stream, _LOOK_AT))
    size = size or _common_size(first)
    return DecodedImages(len(images), *size, _decode_blocks(chain(first, stream), *size))


def _common_size(items: list[tuple[str, bytes]]) -> tuple[int, int]:
    sizes = set()
    for name, data in items:
        with _opened(name, data) as image:
            height, width = image.height, image.width
            sizes.add((width, height) if _lies(image) else (height, width))
    if not sizes:
        return DEFAULT_SIDE, DEFAULT_SIDE
    if len(sizes) == 1:
        return sizes.pop()
    side = SMALL_SIDE if max(map(max, sizes)) < _SMALL_BELOW else DEFAULT_SIDE
    (low, narrow), *_, (high, wide) = sorted(sizes, key=lambda size: (size[0] * size[1], size))
    warn(
        f"The images differ in size: the first {len(items)} are {low}×{narrow} to {high}×{wide} "
        f"(height × width). All are resized to {side}×{side}; choose another side with image_size= "
        "(--image-size)."
    )
    return side, side


def _decode_blocks(
    items: Iterable[tuple[str, bytes]], height: int, width: int
) -> Iterator[np.ndarray]:
    def decode(item: tuple[str, bytes]) -> np.ndarray:
        return decode_image(*item, height, width)

    stream = iter(items)
    with ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
        while block := list(islice(stream, _BLOCK)):
            yield np.stack(list(pool.map(decode, block)))


def decode_image(name: str, data: bytes, height: int, width: int) -> np.ndarray:
    """(height, width, 3) uint8, as a viewer shows it: upright, on white where it is transparent.

    ``name`` stands in the error when the bytes are no image.
    """
    with _opened(name, data) as image:
        # A JPEG far larger than needed is decoded at half, a quarter or an eighth of its size.
        wanted = (2 * height, 2 * width) if _lies(image) else (2 * width, 2 * height)
        image.draft("RGB", wanted)
        try:
            image.load()
            picture = _on_white(_eight_bits(_upright(image)))
        except (OSError, SyntaxError, ValueError) as error:
            raise InputError(f"Image {name} cannot be decoded: {error}.") from error
    return _fit(picture, height, width)


def _orientation(image: Image.Image) -> int:
    """1 to 8 as EXIF numbers them; 1, upright, where nothing is said that can be read."""
    try:
        return int(image.getexif().get(_ORIENTATION, 1))
    except (OSError, SyntaxError, ValueError, TypeError, KeyError, struct.error):
        return 1  # damaged notes of a camera are no reason to refuse its picture


def _lies(image: Image.Image) -> bool:
    """Whether the stored rows are columns of the picture; a TIFF is turned by Pillow itself."""
    return image.format != "TIFF" and _orientation(image) in (5, 6, 7, 8)


def _upright(image: Image.Image) -> Image.Image:
    """A loaded image turned as EXIF says."""
    # Not ImageOps.exif_transpose: it writes the other tags anew, and fails where one is damaged.
    turn = _UPRIGHT.get(_orientation(image))
    if turn is None:
        return image
    turned = image.transpose(turn)
    turned.format = image.format  # forgotten by transpose, and asked for below
    return turned


def _on_white(image: Image.Image) -> Image.Image:
    """RGB; under transparent pixels files keep any colour, which nobody is meant to see."""
    if image.mode not in ("RGBA", "RGBa", "LA", "PA") and "transparency" not in image.info:
        return image.convert("RGB")
    ground = Image.new("RGBA", image.size, "white")
    ground.alpha_composite(image.convert("RGBA"))
    return ground.convert("RGB")


def _eight_bits(image: Image.Image) -> Image.Image:
    """Greys of 16 bits or of fractions scaled to 0..255, where Pillow would cut them off."""
    if image.mode == "F":
        shares = np.nan_to_num(np.asarray(image))
        # Floats are shares of white, unless one of them is too large for that.
        if shares.min() >= 0 and shares.max() <= 1:
            shares = shares * 255
        return Image.fromarray(shares.clip(0, 255).round().astype(np.uint8))
    # Older releases of Pillow call such a PNG's mode "I", as if it had 32.
    if not image.mode.startswith("I;16") and (image.mode, image.format) != ("I", "PNG"):
        return image
    grey = np.asarray(image).astype(np.int64)
    return Image.fromarray((grey.clip(0, 65535) >> 8).astype(np.uint8))


def _opened(name: str, data: bytes) -> Image.Image:
    try:
        return Image.open(BytesIO(data))
    except Image.DecompressionBombError as error:
        raise InputError(
            f"Image {name} has more pixels than is safe to decode; scale it down first."
        ) from error
    except (OSError, SyntaxError, ValueError) as error:
        why = "it is empty" if not data else "its bytes are not those of a known image format"
        raise InputError(f"Image {name} cannot be decoded: {why}.") from error


def _fit(picture: Image.Image, height: int, width: int) -> np.ndarray:
    """Scale until both sides reach the target, then keep the middle."""
    if (picture.height, picture.width) != (height, width):
        scale = max(height / picture.height, width / picture.width)
        across = max(width, round(picture.width * scale))
        down = max(height, round(picture.height * scale))
        picture = picture.resize((across, down), Image.Resampling.BICUBIC)
        left, top = (across - width) // 2, (down - height) // 2
        picture = picture.crop((left, top, left + width, top + height))
    return np.asarray(picture, dtype=np.uint8)
