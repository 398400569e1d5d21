"""Recipes: plain functions that return a complete one; and what the command line names."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import fields
from typing import Any

from noisyteacher.bench.recipe import Recipe
from noisyteacher.bench.recipes import digits, images, imdb
from noisyteacher.core.errors import InputError
from noisyteacher.models import ModelSpec, from_config
from noisyteacher.models.build import SPECS
from noisyteacher.pipeline.defaults import named_student

# What the command line calls them; each takes another teacher and student.
RECIPES: dict[str, Callable[[ModelSpec | None, ModelSpec | None], Recipe]] = {
    function.__name__.replace("_", "-"): function
    for function in (
        digits.digits,
        images.cifar10,
        images.cifar10_hard,
        images.cifar100,
        images.cifar100_hard,
        images.cifar100_fidelity,
        images.cifar100_temperature,
        images.cifar100_losses,
        images.cifar100_outside,
        images.ablations,
        images.celeba,
        images.celeba_hard,
        images.imagenet,
        images.imagenet_losses,
        imdb.imdb,
        imdb.imdb_paper_rates,
        imdb.imdb_words,
    )
}


def find_recipe(
    name: str, teacher: ModelSpec | None = None, student: ModelSpec | None = None
) -> Recipe:
    """The recipe of this name, with another teacher or student where given."""
    if name not in RECIPES:
        raise InputError(f"There is no recipe {name!r}; the recipes are {', '.join(RECIPES)}.")
    return RECIPES[name](teacher, student)


def parse_model(text: str) -> ModelSpec:
    """``ResNetCifar(depth=20)``, the folder or hub name of a text encoder, or ``module:name``.

    The number of classes may be left out: it follows the dataset.
    """
    if "(" not in text:
        own = named_student(text.strip())
        if isinstance(own, ModelSpec):
            return own
        return from_config({"model": "TextEncoder", "path_or_name": text.strip(), "classes": 2})
    try:
        call = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        call = None
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name):
        raise InputError(f"{text!r} is not a model; write one like ResNetCifar(depth=20).")
    name = call.func.id
    if name not in SPECS:
        raise InputError(f"There is no model {name!r}; the models are {', '.join(SPECS)}.")
    known = [f.name for f in fields(SPECS[name])]  # type: ignore[arg-type]
    if len(call.args) > len(known):
        raise InputError(f"{name} takes at most {len(known)} values, not {len(call.args)}.")
    given = {key: _value(node, text) for key, node in zip(known, call.args, strict=False)}
    for keyword in call.keywords:
        if keyword.arg is None or keyword.arg in given:
            raise InputError(f"{text!r}: {keyword.arg or '**'} is given twice or unpacked.")
        given[keyword.arg] = _value(keyword.value, text)
    return from_config({"classes": 2, **given, "model": name})


def _value(node: ast.expr, text: str) -> Any:
    try:
        return ast.literal_eval(node)
    except ValueError:
        raise InputError(f"{text!r}: {ast.unparse(node)!r} is not a plain value.") from None
