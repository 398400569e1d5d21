"""Datasets, the split into A, V, S and pool, and views of whole batches on the device."""

from noisyteacher.data.dataset import Dataset
from noisyteacher.data.image_views import (
    ImageViews,
    ResizedCropViews,
    StrongImage,
    crop_resize_view,
)
from noisyteacher.data.input_format import InputFormat, fit_format
from noisyteacher.data.load import load_dataset, read_examples
from noisyteacher.data.splits import Split, split, split_by_ids, split_outside
from noisyteacher.data.tensors import DatasetTensors, Inputs, image_tensor, to_tensors
from noisyteacher.data.text import (
    Featurizer,
    HashedNgrams,
    Tfidf,
    Tokens,
    load_featurizer,
    save_featurizer,
)
from noisyteacher.data.views import BagViews, EncoderViews, TableViews, Views

__all__ = [
    "BagViews",
    "Dataset",
    "DatasetTensors",
    "EncoderViews",
    "Featurizer",
    "HashedNgrams",
    "ImageViews",
    "InputFormat",
    "Inputs",
    "ResizedCropViews",
    "Split",
    "StrongImage",
    "TableViews",
    "Tfidf",
    "Tokens",
    "Views",
    "crop_resize_view",
    "fit_format",
    "image_tensor",
    "load_dataset",
    "load_featurizer",
    "read_examples",
    "save_featurizer",
    "split",
    "split_by_ids",
    "split_outside",
    "to_tensors",
]
