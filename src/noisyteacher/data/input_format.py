"""How a student reads raw inputs: texts, images or tables to the tensors its network takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import torch

from noisyteacher.core.errors import InputError
from noisyteacher.data.dataset import ChannelHistogram, Kind, feature_statistics, rgb_images
from noisyteacher.data.embeddings import EmbeddingsAndWords, ImageEmbeddings
from noisyteacher.data.image_views import ImageViews, ResizedCropViews
from noisyteacher.data.tensors import FeatureMatrix, Inputs, feature_matrix, image_tensor
from noisyteacher.data.text import Featurizer
from noisyteacher.data.views import TableViews, Views
from noisyteacher.io.images import decode_image, decoded

# Texts; images as uint8 (n, H, W, 3) or (n, H, W), or paths of image files; tables (n, d).
RawInputs: TypeAlias = np.ndarray | Sequence[str] | Sequence[Path]

# Images at least this large are photographs: the student sees crops of 7/8 of the side.
PHOTOGRAPH_SIDE = 128
_IMAGES_AT_ONCE = 4096
_MOST_PIXELS = 2**26  # of one image that a saved student may ask for


@dataclass(frozen=True, eq=False)
class InputFormat:
    """How inputs become tensors, fixed at training time: vocabulary, normalization, image size."""

    kind: Kind
    featurizer: Featurizer | None = None  # of texts, fitted; of images, a frozen encoder
    mean: tuple[float, ...] = field(default=(), repr=False)  # per channel in 0..1, or per feature
    std: tuple[float, ...] = field(default=(), repr=False)
    size: tuple[int, int] | None = None  # height and width of images
    flip: bool = True  # whether training may mirror images
    columns: tuple[str, ...] = field(default=(), repr=False)  # of a table, in order, where named

    @property
    def features(self) -> int:
        """The number of features, words or tokens; 0 for images."""
        return self.featurizer.features if self.featurizer is not None else len(self.mean)

    @property
    def encoded(self) -> int:
        """The number of features, the first ones, that come from a frozen encoder."""
        return self.featurizer.encoded if isinstance(self.featurizer, EmbeddingsAndWords) else 0

    @property
    def crop(self) -> int | None:
        """The side of the square crop of a photograph that a student sees; None for all of it."""
        if self.size is None or min(self.size) < PHOTOGRAPH_SIDE:
            return None
        return min(self.size) * 7 // 8

    def views(self) -> Views:
        """The views used in training and prediction."""
        if self.featurizer is not None:
            return self.featurizer.views()
        if self.kind == "table":
            return TableViews(self.mean, self.std)
        if self.crop is not None:
            return ResizedCropViews(self.mean, self.std, size=self.crop, flip=self.flip)
        return ImageViews(self.mean, self.std, flip=self.flip)

    def tensors(self, inputs: RawInputs) -> Inputs:
        """Raw inputs as tensors for the views; inputs of another kind or width are an error."""
        plain = self.plain_inputs(inputs)
        if self.featurizer is not None:
            return self.featurizer.transform(plain)
        return torch.from_numpy(plain) if self.kind == "table" else image_tensor(plain)

    def matrix(self, tensors: Inputs) -> FeatureMatrix:
        """(n, features): the rows of ``tensors`` as the input of a linear student."""
        return feature_matrix(self.views().plain(tensors), self.features)

    def plain_inputs(self, inputs: RawInputs) -> Any:
        """Inputs as a list of texts, (n, d) float32, or (n, H, W, 3) uint8."""
        if self.kind == "text":
            return _texts(inputs)
        return self._table(inputs) if self.kind == "table" else self._images(inputs)

    def _table(self, inputs: RawInputs) -> np.ndarray:
        try:
            table = np.ascontiguousarray(inputs, np.float32)
        except (TypeError, ValueError):
            raise InputError("This student reads tables of numbers (rows, features).") from None
        if table.ndim != 2 or table.shape[1] != len(self.mean):
            raise InputError(
                f"This student reads tables with {len(self.mean)} features, not of shape "
                f"{table.shape}."
            )
        if not np.isfinite(table).all():
            raise InputError("The table has infinite or NaN values.")
        return table

    def _images(self, inputs: RawInputs) -> np.ndarray:
        """(n, H, W, 3) uint8."""
        assert self.size is not None
        if isinstance(inputs, np.ndarray) and inputs.dtype.kind not in "UO":
            if inputs.ndim == 3 and inputs.shape[-1] == 3 != self.size[1]:
                raise InputError("Give a batch of images (n, H, W, 3), not one: images[None].")
            return _sized(inputs, self.size)
        if isinstance(inputs, str | Path):
            raise InputError("Give a list of paths, not one path.")
        found = [_read_image(path, self.size) for path in inputs]
        return np.stack(found) if found else np.empty((0, *self.size, 3), np.uint8)

    def to_json(self) -> dict[str, Any]:
        """Everything but the featurizer, which has a file of its own."""
        names = ("kind", "mean", "std", "size", "flip", "columns")
        return {name: getattr(self, name) for name in names}

    @classmethod
    def from_json(cls, saved: dict[str, Any], featurizer: Featurizer | None) -> InputFormat:
        """Restore what ``to_json`` wrote, with the featurizer; invalid contents are an error."""
        size, kind, flip = saved["size"], saved["kind"], saved["flip"]
        mean, std = (_numbers(saved[name], name) for name in ("mean", "std"))
        columns = saved.get("columns", [])
        channels = 3 if featurizer is None else 0
        sound = {
            "kind": kind in ("text", "image", "table"),
            "mean": len(mean) == len(std) and (kind != "image" or len(mean) == channels),
            "std": all(value > 0 for value in std),
            "size": _is_size(size) if kind == "image" else size is None,
            "flip": isinstance(flip, bool),
            "columns": isinstance(columns, list) and all(isinstance(c, str) for c in columns),
            "featurizer": featurizer is None
            if kind == "table"
            else isinstance(featurizer, ImageEmbeddings | None)
            if kind == "image"
            else featurizer is not None and not isinstance(featurizer, ImageEmbeddings),
        }
        wrong = [name for name, holds in sound.items() if not holds]
        if wrong:
            raise InputError(f"The inputs of a saved student have a wrong {wrong[0]}.")
        side = None if size is None else (size[0], size[1])
        return cls(kind, featurizer, mean, std, side, flip, tuple(columns))


def _numbers(values: Any, name: str) -> tuple[float, ...]:
    if not isinstance(values, list) or not all(type(v) in (int, float) for v in values):
        raise InputError(f"The inputs of a saved student have a wrong {name}.")
    return tuple(values)


def _is_size(size: Any) -> bool:
    whole = isinstance(size, list) and len(size) == 2 and all(type(v) is int for v in size)
    return whole and min(size) > 0 and size[0] * size[1] <= _MOST_PIXELS


def fit_format(
    kind: Kind,
    inputs: np.ndarray | list[str],
    featurizer: Featurizer | None = None,
    flip: bool = True,
    columns: tuple[str, ...] = (),
) -> tuple[InputFormat, Inputs]:
    """Fit the format on all training inputs (no labels are used); return it and their tensors."""
    if kind == "text":
        assert featurizer is not None
        texts = list(inputs)
        made = featurizer.transform(texts) if featurizer.fitted else featurizer.fit_transform(texts)
        return InputFormat(kind, featurizer), made
    array = np.asarray(inputs)
    if kind == "table":
        table = np.ascontiguousarray(array, np.float32)
        mean, std = feature_statistics(table)
        return InputFormat(kind, None, mean, std, columns=columns), torch.from_numpy(table)
    size = (int(array.shape[1]), int(array.shape[2]))
    if isinstance(featurizer, ImageEmbeddings):
        made = featurizer.transform(rgb_images(array))
        return InputFormat(kind, featurizer, size=size, flip=flip), made
    histogram = ChannelHistogram()
    for start in range(0, len(array), _IMAGES_AT_ONCE):
        histogram.add(array[start : start + _IMAGES_AT_ONCE])
    mean, std = histogram.mean_and_std()
    return InputFormat(kind, None, mean, std, size, flip), image_tensor(array)


def _texts(inputs: RawInputs) -> list[str]:
    if isinstance(inputs, str):
        raise InputError("Give a list of texts, not one text.")
    texts = list(inputs)
    odd = [text for text in texts if not isinstance(text, str)]
    if odd:
        raise InputError(f"This student reads texts, not {odd[0]!r}.")
    return texts


def _sized(images: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    color = rgb_images(images)
    if color.shape[1:3] == size:
        return color
    return np.concatenate([np.empty((0, *size, 3), np.uint8), *decoded(color, size).blocks])


def _read_image(path: object, size: tuple[int, int]) -> np.ndarray:
    if not isinstance(path, str | Path):
        raise InputError(f"Images are given as arrays or as paths of files, not {path!r}.")
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise InputError(f"Image {path} cannot be read: {error.strerror}.") from error
    return decode_image(str(path), data, *size)
