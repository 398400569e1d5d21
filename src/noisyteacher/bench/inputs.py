"""Which tensors a model reads: text as words or tokens, images with the recipe's views."""

from __future__ import annotations

from dataclasses import replace

from noisyteacher.bench.recipe import Recipe
from noisyteacher.core.errors import InputError
from noisyteacher.data import Dataset, Featurizer, ResizedCropViews, Tfidf, Tokens, to_tensors
from noisyteacher.models import BagLinear, BagMLP, CustomModel, ModelSpec, TextEncoder
from noisyteacher.train import TrainData


def train_data(dataset: Dataset, recipe: Recipe, model: ModelSpec) -> TrainData:
    """The dataset as this model reads it."""
    reads_text = isinstance(model, TextEncoder | BagLinear | BagMLP)
    if (dataset.kind == "text") != reads_text and not isinstance(model, CustomModel):
        raise InputError(f"{model!r} cannot read {dataset.name}, whose kind is {dataset.kind}.")
    tensors = to_tensors(dataset, featurizer=_featurizer(recipe, model))
    if recipe.crop is not None:
        tensors = replace(tensors, views=ResizedCropViews.of(dataset, size=recipe.crop))
    return TrainData(
        tensors.inputs, tensors.views, len(dataset.classes), tensors.test_inputs, dataset.test_y
    )


def read_alike(recipe: Recipe) -> bool:
    """Whether teacher and student can share one copy of the inputs."""
    teacher, student = recipe.teacher, recipe.student
    if isinstance(teacher, TextEncoder) and isinstance(student, TextEncoder):
        return teacher.path_or_name == student.path_or_name
    words = [_words(model) for model in (teacher, student)]
    if None not in words:
        return words[0] == words[1]
    return not isinstance(teacher, TextEncoder) and not isinstance(student, TextEncoder)


def _featurizer(recipe: Recipe, model: ModelSpec) -> Featurizer | None:
    if isinstance(model, TextEncoder):
        return Tokens(model.path_or_name, recipe.text_length)
    words = _words(model)
    return None if words is None else Tfidf(words)


def _words(model: ModelSpec) -> int | None:
    """How many words a model that reads TF-IDF rows knows."""
    if isinstance(model, CustomModel):
        return model.words
    return model.features if isinstance(model, BagLinear | BagMLP) else None
