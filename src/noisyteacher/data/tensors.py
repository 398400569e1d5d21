"""Raw inputs as tensors: rows gathered, joined and moved; and a whole dataset with its views."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import torch
from scipy.sparse import csr_matrix
from torch import Tensor

from noisyteacher.data.dataset import Dataset
from noisyteacher.data.image_views import ImageViews
from noisyteacher.data.text import Featurizer, Tfidf
from noisyteacher.data.views import TableViews, Views

# Uint8 images (n, 3, H, W), tables (n, d), or the two columns (n, m) of texts side by side.
Inputs: TypeAlias = Tensor | tuple[Tensor, ...]
FeatureMatrix: TypeAlias = np.ndarray | csr_matrix  # (n, d)


def parts_of(inputs: Inputs) -> tuple[Tensor, ...]:
    """The tensors that raw inputs are made of, side by side."""
    return inputs if isinstance(inputs, tuple) else (inputs,)


def rows_in(inputs: Inputs) -> int:
    """How many rows raw inputs hold."""
    return len(parts_of(inputs)[0])


def row_bytes(rows: Tensor) -> int:
    """The memory that a row takes, in bytes."""
    return rows[:1].numel() * rows.element_size()


def gather_rows(inputs: Inputs, index: Tensor) -> Inputs:
    """The rows of raw inputs, whether one tensor or several side by side."""
    if isinstance(inputs, tuple):
        return tuple(part.index_select(0, index) for part in inputs)
    return inputs.index_select(0, index)


def join_batches(parts: Sequence[Inputs]) -> Inputs:
    """Concatenate batches of the same structure."""
    return parts[0] if len(parts) == 1 else _by_column(torch.cat, parts)


def to_device(parts: Sequence[Inputs], device: torch.device) -> Inputs:
    """Raw inputs of the same structure, one after the other on the device."""
    return _by_column(partial(_to_device, device=device), parts)


def _by_column(join: Callable[[Any], Tensor], parts: Sequence[Inputs]) -> Inputs:
    if isinstance(parts[0], tuple):
        return tuple(join(column) for column in zip(*parts, strict=True))
    return join(parts)


def _to_device(parts: Sequence[Tensor], device: torch.device) -> Tensor:
    if len(parts) == 1:
        return parts[0].to(device)
    # Straight to their place: images may fill the device, and half of the host.
    shape = (sum(len(part) for part in parts), *parts[0].shape[1:])
    joined = torch.empty(shape, dtype=parts[0].dtype, device=device)
    for part, place in zip(parts, joined.split([len(part) for part in parts]), strict=True):
        place.copy_(part)
    return joined


def feature_matrix(inputs: Inputs, width: int) -> FeatureMatrix:
    """Tables (n, d) as they are, bags of words as sparse rows with ``width`` columns."""
    if not isinstance(inputs, tuple):
        return inputs.cpu().numpy()
    index, values = (part.cpu().numpy() for part in inputs)
    ends = np.arange(len(index) + 1) * index.shape[1]
    columns = (values.reshape(-1), index.reshape(-1), ends)
    # A copy: what is done to the matrix must not change the inputs.
    return csr_matrix(columns, shape=(len(index), width), copy=True)


@dataclass(frozen=True, eq=False)
class DatasetTensors:
    """Both parts of a dataset on a device, and their views."""

    inputs: Inputs
    test_inputs: Inputs
    views: Views
    featurizer: Featurizer | None = None


def to_tensors(
    dataset: Dataset,
    device: torch.device | str = "cpu",
    featurizer: Featurizer | None = None,
    dtype: torch.dtype = torch.float32,
) -> DatasetTensors:
    """Move a dataset to the device, with its default views, whose output has ``dtype``.

    Texts need a featurizer; the default is TF-IDF of 20 000 words. If it is not fitted yet, it is
    fitted on all training texts, including the pool's; no labels are used. On the CPU, images stay
    memory-mapped.
    """
    device = torch.device(device)
    if dataset.kind == "text":
        return _text_tensors(dataset, device, featurizer or Tfidf())
    parts = [np.asarray(part) for part in (dataset.inputs, dataset.test_inputs)]
    if dataset.kind == "image":
        views: Views = ImageViews.of(dataset, dtype)
        train, test = (image_tensor(part, device) for part in parts)
        return DatasetTensors(train, test, views)
    train, test = (torch.from_numpy(np.ascontiguousarray(part)).to(device) for part in parts)
    return DatasetTensors(train, test, TableViews.of(dataset, dtype))


def _text_tensors(dataset: Dataset, device: torch.device, featurizer: Featurizer) -> DatasetTensors:
    texts = list(dataset.inputs)
    first = featurizer.transform(texts) if featurizer.fitted else featurizer.fit_transform(texts)
    inputs = to_device([first], device)
    if len(dataset.test_inputs):
        test_inputs = to_device([featurizer.transform(list(dataset.test_inputs))], device)
    else:
        test_inputs = (inputs[0][:0], inputs[1][:0])
    return DatasetTensors(inputs, test_inputs, featurizer.views(), featurizer)


def image_tensor(images: np.ndarray, device: torch.device | str = "cpu") -> Tensor:
    """(n, H, W, 3) uint8 -> (n, 3, H, W) in channels_last format; on the CPU without a copy."""
    with warnings.catch_warnings():
        # Memory-mapped images are read-only, and nothing here writes into its inputs.
        warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
        return torch.from_numpy(images).to(device).permute(0, 3, 1, 2)
