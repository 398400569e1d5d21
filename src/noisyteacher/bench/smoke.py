"""A recipe shrunk to seconds: every stage is walked, nothing is learned."""

from __future__ import annotations

from dataclasses import replace

from noisyteacher.bench.recipe import Recipe
from noisyteacher.models import (
    MLP,
    BagLinear,
    BagMLP,
    MobileNet,
    ModelSpec,
    ResNetCifar,
    ResNetImageNet,
)
from noisyteacher.train import TrainConfig

MOST_METHODS = 12


def smoke(recipe: Recipe) -> Recipe:
    """A few rows, tiny models, at most a dozen methods, few steps; its name says so."""
    pretraining = recipe.pretraining
    every = -(-len(recipe.methods) // MOST_METHODS)
    outside = {"outside": 30, "pool": 40} if recipe.outside else {}
    return recipe.variant(
        "smoke",
        labeled=(24,),
        val=40,
        selection=16,
        methods=recipe.methods[::every],
        trials=1,
        at_most=120,
        **outside,
        teacher=_tiny(recipe.teacher),
        student=_tiny(recipe.student),
        teacher_training=_short(recipe.teacher_training, 1),
        student_training=_short(recipe.student_training, 2),
        pretraining=None if pretraining is None else _short(pretraining, 1),
        view_passes=2,
        text_length=min(recipe.text_length, 32),
        crop=None if recipe.crop is None else min(recipe.crop, 32),
    )


def _short(config: TrainConfig, epochs: int) -> TrainConfig:
    return replace(config, epochs=epochs, batch_size=8, steps_per_epoch=2, checkpoint_every=1)


def _tiny(model: ModelSpec) -> ModelSpec:
    """The smallest of the family; text encoders stay as they are."""
    if isinstance(model, ResNetCifar):
        return replace(model, depth=8 if model.version == 1 else 11)
    if isinstance(model, MobileNet):
        return replace(model, width=0.25, depth_multiplier=1)
    if isinstance(model, ResNetImageNet):
        return replace(model, depth=18)
    if isinstance(model, MLP):
        return replace(model, hidden=(16,))
    if isinstance(model, BagLinear | BagMLP):
        return replace(model, features=min(model.features, 500))
    return model
