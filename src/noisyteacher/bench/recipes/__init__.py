"""Recipes: plain functions that return a complete one."""

from __future__ import annotations

from collections.abc import Callable

from noisyteacher.bench.recipe import Recipe
from noisyteacher.bench.recipes.celeba import celeba, celeba_hard
from noisyteacher.bench.recipes.cifar10 import cifar10, cifar10_hard
from noisyteacher.bench.recipes.cifar100 import (
    ablations,
    cifar100,
    cifar100_fidelity,
    cifar100_hard,
    cifar100_losses,
    cifar100_outside,
    cifar100_temperature,
)
from noisyteacher.bench.recipes.digits import digits
from noisyteacher.bench.recipes.imagenet import imagenet, imagenet_losses
from noisyteacher.bench.recipes.imdb import imdb, imdb_paper_rates, imdb_words
from noisyteacher.core.errors import InputError
from noisyteacher.models import ModelSpec

# What the command line calls them; each takes another teacher and student.
RECIPES: dict[str, Callable[[ModelSpec | None, ModelSpec | None], Recipe]] = {
    function.__name__.replace("_", "-"): function
    for function in (
        digits,
        cifar10,
        cifar10_hard,
        cifar100,
        cifar100_hard,
        cifar100_fidelity,
        cifar100_temperature,
        cifar100_losses,
        cifar100_outside,
        ablations,
        celeba,
        celeba_hard,
        imagenet,
        imagenet_losses,
        imdb,
        imdb_paper_rates,
        imdb_words,
    )
}


def find_recipe(
    name: str, teacher: ModelSpec | None = None, student: ModelSpec | None = None
) -> Recipe:
    """The recipe of this name, with another teacher or student where given."""
    if name not in RECIPES:
        raise InputError(f"There is no recipe {name!r}; the recipes are {', '.join(RECIPES)}.")
    return RECIPES[name](teacher, student)
