"""Models from text, as a user types them on the command line; text is never run.

A network of the user's own is named as ``module:name``, and imported.
"""

from __future__ import annotations

import ast
from dataclasses import fields
from typing import Any

from noisyteacher.core.errors import InputError
from noisyteacher.models import ModelSpec, from_config
from noisyteacher.models.build import SPECS
from noisyteacher.pipeline.defaults import named_student


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
