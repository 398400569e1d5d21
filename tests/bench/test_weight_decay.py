"""The weight decay of a recipe: in every training, told by the name."""

from __future__ import annotations

import pytest

from noisyteacher.bench.recipe import Recipe
from noisyteacher.bench.recipes.cifar100 import cifar100
from noisyteacher.bench.recipes.imagenet import imagenet


@pytest.mark.parametrize("recipe", [cifar100(), imagenet()], ids=["Adam", "SGD"])
def test_weight_decay_reaches_every_training_and_the_name(recipe: Recipe) -> None:
    changed = recipe.with_weight_decay(0.3)
    trainings = (changed.teacher_training, changed.student_training, changed.pretraining)
    assert [training.optimizer.weight_decay for training in trainings if training] == [0.3] * 3
    assert changed.name == f"{recipe.name} weight_decay=0.3"


def test_only_gold_training_decays_weights_by_default() -> None:
    recipe = cifar100()
    assert recipe.student_training.optimizer.weight_decay == 0
    assert recipe.teacher_training == recipe.pretraining
    assert recipe.teacher_training.optimizer.weight_decay > 0
