"""Model settings as JSON and back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, Field, fields
from typing import Any

from noisyteacher.core.errors import InputError, first_few
from noisyteacher.models.linear import MLP, BagLinear, BagMLP, Linear
from noisyteacher.models.mobilenet import MobileNet
from noisyteacher.models.resnet import ResNetCifar, ResNetImageNet
from noisyteacher.models.spec import ModelSpec
from noisyteacher.models.text_encoder import TextEncoder

SPECS: dict[str, type[ModelSpec]] = {
    spec.__name__: spec
    for spec in (
        BagLinear,
        BagMLP,
        Linear,
        MLP,
        MobileNet,
        ResNetCifar,
        ResNetImageNet,
        TextEncoder,
    )
}


def to_config(spec: ModelSpec) -> dict[str, Any]:
    """Settings as a dict that JSON can hold: ``{"model": "ResNetCifar", "depth": 56, ...}``."""
    name = type(spec).__name__
    if SPECS.get(name) is not type(spec):
        raise InputError(f"{spec!r} is not the settings of a model; known: {', '.join(SPECS)}.")
    values = {field.name: getattr(spec, field.name) for field in _fields_of(type(spec))}
    as_json = {
        key: list(value) if isinstance(value, tuple) else value for key, value in values.items()
    }
    return {"model": name, **as_json}


def from_config(config: Mapping[str, Any]) -> ModelSpec:
    """The settings that ``to_config`` wrote; anything unknown, missing or wrong is refused."""
    if not isinstance(config, Mapping):
        raise InputError(f"A model's config must be a dict, not {config!r}.")
    name = config.get("model")
    if not isinstance(name, str) or name not in SPECS:
        raise InputError(f"Unknown model {name!r}; known: {', '.join(SPECS)}.")
    kind = SPECS[name]
    given = {key: value for key, value in config.items() if key != "model"}
    known = _fields_of(kind)
    unknown = [key for key in given if key not in {field.name for field in known}]
    if unknown:
        raise InputError(f"{name} has no setting called {first_few(unknown)}.")
    missing = [f.name for f in known if f.name not in given and _is_required(f)]
    if missing:
        raise InputError(f"{name} needs the setting {first_few(missing)}.")
    return kind(**given)


def _fields_of(kind: type[ModelSpec]) -> tuple[Field[Any], ...]:
    return fields(kind)  # type: ignore[arg-type]  # every ModelSpec is a dataclass


def _is_required(field: Field[Any]) -> bool:
    return field.default is MISSING and field.default_factory is MISSING
