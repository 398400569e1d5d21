"""The L2 term of a recipe: in every training, told by the name."""

from __future__ import annotations

import pytest

from noisyteacher.bench.recipes.cifar100 import cifar100
from noisyteacher.bench.recipes.imagenet import imagenet
from noisyteacher.errors import InputError


def test_l2_reaches_every_training_and_the_name() -> None:
    recipe = cifar100().with_l2(2e-4)
    trainings = (recipe.teacher_training, recipe.student_training, recipe.pretraining)
    assert [training.optimizer.l2 for training in trainings] == [2e-4] * 3
    assert recipe.name == "cifar100 l2=0.0002"


def test_only_adam_takes_it() -> None:
    with pytest.raises(InputError, match="setting of Adam"):
        imagenet().with_l2(1e-4)
