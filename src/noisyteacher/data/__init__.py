"""Datasets, the split into A, V, S and U, and views of whole batches on the device."""

from noisyteacher.data.dataset import Dataset
from noisyteacher.data.image_views import ImageViews, ResizedCropViews, crop_resize_view
from noisyteacher.data.load import load_dataset
from noisyteacher.data.splits import Split, split, split_by_ids, split_outside
from noisyteacher.data.strong_images import StrongImage
from noisyteacher.data.table_views import TableViews
from noisyteacher.data.tensors import DatasetTensors, image_tensor, to_tensors
from noisyteacher.data.text import (
    Featurizer,
    HashedNgrams,
    Tfidf,
    Tokens,
    load_featurizer,
    save_featurizer,
)
from noisyteacher.data.text_views import BagViews, EncoderViews
from noisyteacher.data.views import Views

__all__ = [
    "BagViews",
    "Dataset",
    "DatasetTensors",
    "EncoderViews",
    "Featurizer",
    "HashedNgrams",
    "ImageViews",
    "ResizedCropViews",
    "Split",
    "StrongImage",
    "TableViews",
    "Tfidf",
    "Tokens",
    "Views",
    "crop_resize_view",
    "image_tensor",
    "load_dataset",
    "load_featurizer",
    "save_featurizer",
    "split",
    "split_by_ids",
    "split_outside",
    "to_tensors",
]
