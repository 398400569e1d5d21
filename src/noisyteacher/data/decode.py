"""Encoded images to uint8 arrays of one size, several at a time."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from io import BytesIO
from itertools import chain, islice

import numpy as np
from PIL import Image

from noisyteacher.data.source import EncodedImages
from noisyteacher.errors import InputError

DEFAULT_SIDE = 256  # for photographs of many sizes: the usual store for 224×224 crops
_LOOK_AT = 64  # images that decide whether a source has one size
_BLOCK = 256  # images decoded before they are written


@dataclass(frozen=True)
class DecodedImages:
    """A stream of uint8 blocks (b, height, width, 3) that holds ``count`` images in all."""

    count: int
    height: int
    width: int
    blocks: Iterator[np.ndarray]


def decoded(images: np.ndarray | EncodedImages, size: tuple[int, int] | None) -> DecodedImages:
    """Start decoding to ``size`` (height, width); None keeps the size the first images share.

    Where they share none, it is 256×256. An image of another size is scaled until both sides reach
    the target, and its middle kept.
    """
    if isinstance(images, np.ndarray):
        if size is not None and images.shape[1:3] != size:
            fitted = [_fit(Image.fromarray(image), *size) for image in images]
            images = np.stack(fitted) if fitted else np.empty((0, *size, 3), np.uint8)
        _, height, width, _ = images.shape
        return DecodedImages(len(images), height, width, _slices(images))
    stream = images.stream()
    first = list(islice(stream, _LOOK_AT))
    size = size or _common_size(first)
    return DecodedImages(len(images), *size, _decode_blocks(chain(first, stream), *size))


def _slices(images: np.ndarray) -> Iterator[np.ndarray]:
    for start in range(0, len(images), _BLOCK):
        yield images[start : start + _BLOCK]


def _common_size(items: list[tuple[str, bytes]]) -> tuple[int, int]:
    sizes = set()
    for name, data in items:
        with _opened(name, data) as image:
            sizes.add((image.height, image.width))
    if len(sizes) == 1:
        return sizes.pop()
    return (DEFAULT_SIDE, DEFAULT_SIDE)


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
    """(height, width, 3) uint8; ``name`` stands in the error when the bytes are no image."""
    with _opened(name, data) as image:
        # A JPEG far larger than needed is decoded at half, a quarter or an eighth of its size.
        image.draft("RGB", (2 * width, 2 * height))
        try:
            picture = _eight_bits(image).convert("RGB")
        except (OSError, SyntaxError, ValueError) as error:
            raise InputError(f"Image {name} cannot be decoded: {error}.") from error
    return _fit(picture, height, width)


def _eight_bits(image: Image.Image) -> Image.Image:
    """Greys of 16 bits scaled down, where Pillow would cut them off at 255."""
    # Older releases of Pillow call such a PNG's mode "I", as if it had 32.
    if not image.mode.startswith("I;16") and (image.mode, image.format) != ("I", "PNG"):
        return image
    grey = np.asarray(image).astype(np.int64)
    return Image.fromarray((grey.clip(0, 65535) >> 8).astype(np.uint8))


def _opened(name: str, data: bytes) -> Image.Image:
    try:
        return Image.open(BytesIO(data))
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
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
