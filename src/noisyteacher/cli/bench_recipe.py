"""A recipe with the changes that the options of ``noisyteacher bench`` ask for."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from noisyteacher.core.errors import InputError, first_few, warn

if TYPE_CHECKING:
    from noisyteacher.bench import Arm, Recipe
    from noisyteacher.methods import Method


def with_models(name: str, teacher: str | None, student: str | None, quick: bool) -> Recipe:
    from noisyteacher.bench.recipe import smoke as shrunk
    from noisyteacher.bench.recipes import find_recipe, parse_model

    models = [parse_model(text) if text else None for text in (teacher, student)]
    recipe = find_recipe(name, *models)
    for role, text in (("teacher", teacher), ("student", student)):
        if text:
            # Where an encoder lies is nobody's business but this machine's.
            told = text.strip() if "(" in text else Path(text).resolve().name
            recipe = recipe.variant(f"{role}={told}")
    return shrunk(recipe) if quick else recipe


def with_training(
    recipe: Recipe,
    teacher_epochs: int | None,
    pretrain_epochs: int | None,
    batch: int | None,
    lr: float | None,
    seed: int | None,
) -> Recipe:
    """Settings that join the recipe's name."""
    if teacher_epochs is not None:
        training = replace(recipe.teacher_training, epochs=teacher_epochs)
        recipe = recipe.variant(f"teacher_epochs={teacher_epochs}", teacher_training=training)
    if pretrain_epochs is not None:
        pretraining = recipe.pretraining if pretrain_epochs else None
        if pretraining is not None:
            pretraining = replace(pretraining, epochs=pretrain_epochs)
        elif pretrain_epochs:
            raise InputError(
                f"The recipe {recipe.name!r} has no pre-training, so --pretrain-epochs cannot be "
                "used."
            )
        recipe = recipe.variant(f"pretrain_epochs={pretrain_epochs}", pretraining=pretraining)
    if batch is not None:
        recipe = recipe.with_batch(batch)
    if lr is not None:
        if not 0 < lr < math.inf:
            raise InputError(f"--lr must be a finite number above 0, not {lr}.")
        training = recipe.student_training
        optimizer = replace(training.optimizer, lr=lr)
        recipe = recipe.variant(
            f"lr={lr:g}", student_training=replace(training, optimizer=optimizer)
        )
    return recipe if seed in (None, recipe.seed) else recipe.variant(f"seed={seed}", seed=seed)


def with_students(recipe: Recipe, labeled: str | None, methods: str, trials: int | None) -> Recipe:
    """What every row tells by itself."""
    from noisyteacher.bench.method_sets import parse_methods

    changes: dict[str, Any] = {}
    if labeled is not None:
        changes["labeled"] = _sizes(labeled)
        if recipe.at_most is not None:
            # A quick run has few rows, so that any command can be tried with --quick added.
            fits, small = recipe.at_most // 2, max(recipe.labeled)
            large = [size for size in changes["labeled"] if size > fits]
            if large:
                warn(
                    f"A quick run reads {recipe.at_most} rows, so {small} labeled examples are "
                    f"used instead of {first_few(large)}."
                )
            cut = (size if size <= fits else small for size in changes["labeled"])
            changes["labeled"] = tuple(dict.fromkeys(cut))
    if methods:
        changes["methods"] = parse_methods(methods)
        changes["arms"] = tuple(_arms_for(recipe, changes["methods"]))
    if trials is not None:
        changes["trials"] = trials
    return replace(recipe, **changes)


def _arms_for(recipe: Recipe, methods: tuple[Method, ...]) -> Iterator[Arm]:
    """The recipe's arms with these methods.

    Arms of another weight decay train only what the recipe gives them, where it is asked for.
    """
    for arm in recipe.arms:
        if arm.weight_decay is None:
            yield replace(arm, methods=None)
        elif asked := tuple(method for method in arm.methods or () if method in methods):
            yield replace(arm, methods=asked)


def _sizes(text: str) -> tuple[int, ...]:
    try:
        sizes = tuple(int(part.replace("_", "")) for part in text.split(",") if part.strip())
    except ValueError:
        sizes = ()
    if not sizes or min(sizes) < 1:
        raise InputError(
            "--labeled takes numbers of examples separated by commas, for example 5000,7500, not "
            f"{text!r}."
        )
    return tuple(dict.fromkeys(sizes))


def with_second_generation(recipe: Recipe, methods: str, first: str, students: int) -> Recipe:
    from noisyteacher.bench import Generation
    from noisyteacher.bench.method_sets import parse_methods
    from noisyteacher.methods import Consistency, SLaM, import_method

    generation = Generation(import_method(first), parse_methods(methods), students)
    usual = Generation(Consistency(SLaM()), generation.methods)
    if generation == usual:
        return replace(recipe, second=generation)
    return recipe.variant(f"first={students}x{generation.first!r}", second=generation)


def folder_name(recipe: str) -> str:
    kept = "".join(sign if sign.isalnum() or sign in "-._=" else "-" for sign in recipe)
    return kept.strip("-")[:120]
