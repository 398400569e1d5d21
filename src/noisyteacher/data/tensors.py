"""A dataset as the tensors that training reads, and the views that suit it."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import torch
from torch import Tensor

from noisyteacher.data.dataset import Dataset
from noisyteacher.data.image_views import ImageViews
from noisyteacher.data.table_views import TableViews
from noisyteacher.data.text import Featurizer, Tfidf
from noisyteacher.data.views import Views

TensorInputs: TypeAlias = Tensor | tuple[Tensor, ...]


@dataclass(frozen=True, eq=False)
class DatasetTensors:
    """Raw inputs on a device: uint8 images (n, 3, H, W), tables (n, d), or pairs (n, m) of text."""

    inputs: TensorInputs
    test_inputs: TensorInputs
    views: Views
    featurizer: Featurizer | None = None


def to_tensors(
    dataset: Dataset,
    device: torch.device | str = "cpu",
    featurizer: Featurizer | None = None,
    dtype: torch.dtype = torch.float32,
) -> DatasetTensors:
    """Move a dataset to the device, with its default views, whose output has ``dtype``.

    Texts need a featurizer; TF-IDF of 20 000 words is the default. One that is not fitted yet is
    fitted on the training texts, the pool's among them: no labels are used. On the CPU, images stay
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
    inputs = _moved(first, device)
    if len(dataset.test_inputs):
        test_inputs = _moved(featurizer.transform(list(dataset.test_inputs)), device)
    else:
        test_inputs = (inputs[0][:0], inputs[1][:0])
    return DatasetTensors(inputs, test_inputs, featurizer.views(), featurizer)


def image_tensor(images: np.ndarray, device: torch.device | str = "cpu") -> Tensor:
    """(n, H, W, 3) uint8 -> (n, 3, H, W), on the CPU the same bytes: channels last in memory."""
    with warnings.catch_warnings():
        # Memory-mapped images are read-only, and nothing here writes into its inputs.
        warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
        return torch.from_numpy(images).to(device).permute(0, 3, 1, 2)


def _moved(pair: tuple[Tensor, Tensor], device: torch.device) -> tuple[Tensor, Tensor]:
    first, second = pair
    return first.to(device), second.to(device)
