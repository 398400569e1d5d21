"""One dataset in memory: its training part, its test part and the names of its classes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from noisyteacher.core.errors import InputError, MissingIdsError, first_few
from noisyteacher.io.ids import IdLookup, repeated_ids

Kind = Literal["image", "text", "table"]


def take_rows(inputs: np.ndarray | list[str], rows: np.ndarray) -> np.ndarray | list[str]:
    """Some inputs, in that order, whether they are an array or a list of texts."""
    return [inputs[i] for i in rows] if isinstance(inputs, list) else inputs[rows]


@dataclass(frozen=True, eq=False)
class Dataset:
    """A training part and a test part; the test part is not used by any split or fit.

    ``inputs`` are images (n, H, W, 3) uint8, usually memory-mapped; tables (n, d) float32; or n
    strings. ``mean`` and ``std`` are those of the training part, in the units that the views
    normalize: per channel in 0..1 for images, per feature for tables, empty for text.
    """

    name: str
    kind: Kind
    ids: np.ndarray  # (n,) strings or integers, unique
    inputs: np.ndarray | list[str]
    y: np.ndarray  # (n,) int64, -1 where unknown
    test_ids: np.ndarray  # (t,), t may be 0
    test_inputs: np.ndarray | list[str]
    test_y: np.ndarray  # (t,) int64
    classes: tuple[str, ...]
    mean: tuple[float, ...] = field(default=(), repr=False)
    std: tuple[float, ...] = field(default=(), repr=False)
    features: tuple[str, ...] = field(default=(), repr=False)  # a table's columns, where named
    # Of classes called by their numbers, where the file tells them.
    class_label: tuple[str, ...] = field(default=(), repr=False)

    def __post_init__(self) -> None:
        if self.kind not in ("image", "text", "table"):
            raise InputError(f'kind is "image", "text" or "table", not {self.kind!r}.')
        self._check_part("training", self.ids, self.inputs, self.y)
        self._check_part("test", self.test_ids, self.test_inputs, self.test_y)

    def _check_part(
        self, part: str, ids: np.ndarray, inputs: np.ndarray | list[str], y: np.ndarray
    ) -> None:
        if not len(ids) == len(inputs) == len(y):
            raise InputError(
                f"{self.name}: the {part} part has {len(ids)} ids, {len(inputs)} inputs and "
                f"{len(y)} labels; these must agree."
            )
        if repeated := repeated_ids(np.asarray(ids)):
            # Most sets of examples have no test part, and their users know of no parts.
            which = f"ids of the {part} part" if len(self.test_ids) else "ids"
            raise InputError(
                f"{self.name}: {which} must be unique; repeated: {first_few(repeated)}."
            )
        if len(y) and (y.min() < -1 or y.max() >= len(self.classes)):
            wrong = np.unique(y[(y < -1) | (y >= len(self.classes))])
            raise InputError(
                f"{self.name}: labels of the {part} part must lie in -1 (unknown) to "
                f"{len(self.classes) - 1}, not {first_few(wrong.tolist())}."
            )

    def __len__(self) -> int:
        return len(self.ids)

    def positions(self, ids: np.ndarray) -> np.ndarray:
        """(m,) ids -> (m,) int64 positions in the training part; unknown ids are an error."""
        return positions_of(self.ids, ids, f"the training part of {self.name}")


def positions_of(known: np.ndarray, wanted: np.ndarray, where: str) -> np.ndarray:
    """(m,) int64: where each wanted id stands among the known ones."""
    wanted = np.asarray(wanted)
    found = IdLookup(np.asarray(known)).find(wanted)
    missing = wanted[found < 0].tolist()
    if missing:
        raise MissingIdsError(f"{len(missing)} ids are not in {where}: {first_few(missing)}.")
    return found


def as_inputs(given: Any) -> tuple[Kind, np.ndarray | list[str]]:
    """What users hand in, as a dataset holds it: texts, uint8 images or a table of float32."""
    kind = _kind_of(given)
    if kind == "image":
        return kind, rgb_images(given)
    if kind == "table":
        table = np.asarray(given, np.float32)
        if rows := np.flatnonzero(~np.isfinite(table).all(1)).tolist():
            raise InputError(f"The table has infinite or NaN values in rows {first_few(rows)}.")
        return kind, table
    return kind, [str(text) for text in given]


def _kind_of(inputs: object) -> Kind:
    """Whether inputs are texts, images or a table."""
    if isinstance(inputs, np.ndarray):
        if inputs.dtype == np.uint8 and inputs.ndim in (3, 4):
            return "image"
        if inputs.ndim == 2 and inputs.dtype.kind in "biuf":
            return "table"
        if inputs.ndim == 1 and inputs.dtype.kind in "UO":
            return "text"
        raise InputError(
            "Inputs must be texts, uint8 images (n, H, W, 3) or a table (n, d), not "
            f"{inputs.dtype} of shape {inputs.shape}."
        )
    if isinstance(inputs, Sequence) and all(isinstance(text, str) for text in inputs):
        return "text"
    raise InputError(
        "Inputs must be a list of texts, or a NumPy array: uint8 images (n, H, W, 3) or a table "
        f"(n, d); not {type(inputs).__name__}."
    )


def rgb_images(images: np.ndarray) -> np.ndarray:
    """(n, H, W), (n, H, W, 1) or (n, H, W, 3) uint8 -> (n, H, W, 3)."""
    if images.dtype != np.uint8 or images.ndim not in (3, 4):
        raise InputError(
            "Images must be uint8 (n, H, W, 3) or (n, H, W), or paths of image files, not "
            f"{images.dtype} of shape {images.shape}."
        )
    if images.ndim == 3:
        images = images[..., None]
    if images.shape[-1] not in (1, 3):
        raise InputError(f"Images have 1 or 3 channels, not {images.shape[-1]}.")
    return np.ascontiguousarray(np.broadcast_to(images, (*images.shape[:3], 3)))


# -- what the views normalize with ---------------------------------------------------------------


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
