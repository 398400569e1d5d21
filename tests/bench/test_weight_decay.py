"""The weight decay of a recipe: of its students, or of what learns from gold alone."""

from __future__ import annotations

import pytest

from noisyteacher.bench.recipe import Recipe
from noisyteacher.bench.recipes.images import cifar100, imagenet


def decays(recipe: Recipe) -> list[float]:
    trainings = (recipe.student_training, recipe.teacher_training, recipe.pretraining)
    return [training.optimizer.weight_decay for training in trainings if training is not None]


@pytest.mark.parametrize("recipe", [cifar100(), imagenet()], ids=["Adam", "SGD"])
def test_each_decay_reaches_its_trainings_and_the_name(recipe: Recipe) -> None:
    students, teacher, pretraining = decays(recipe)
    changed = recipe.with_weight_decay(0.3)
    assert decays(changed) == [0.3, teacher, pretraining]
    assert changed.name == f"{recipe.name} weight_decay=0.3"
    changed = recipe.with_gold_weight_decay(0.7)
    assert decays(changed) == [students, 0.7, 0.7]
    assert changed.name == f"{recipe.name} gold_weight_decay=0.7"


def test_a_weight_decay_for_all_leaves_no_arm_with_another() -> None:
    assert [arm.weight_decay for arm in cifar100().arms] == [None, 1.0]
    assert [arm.weight_decay for arm in cifar100().with_weight_decay(0.3).arms] == [None]


def test_only_gold_training_decays_weights_by_default() -> None:
    assert decays(cifar100()) == [0, 1, 1]
