"""Which model is meant: settings of ours, a network of the user's own, or a saved config."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, Field, fields, replace
from typing import Any, TypeAlias

from torch import nn

from noisyteacher.core.errors import InputError, first_few
from noisyteacher.models.custom import CustomModel, Factory
from noisyteacher.models.linear import MLP, BagLinear, BagMLP, Linear
from noisyteacher.models.mobilenet import MobileNet
from noisyteacher.models.resnet import ResNetCifar, ResNetImageNet
from noisyteacher.models.spec import ModelSpec
from noisyteacher.models.text_encoder import TextEncoder

# Settings of a model, or a network of the user's own.
ModelLike: TypeAlias = ModelSpec | nn.Module | Factory

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
_CUSTOM = CustomModel.__name__


def as_spec(model: ModelLike) -> ModelSpec:
    """Return settings unchanged, and a module, or a function that makes one, as ``CustomModel``."""
    if isinstance(model, CustomModel) or type(model) in SPECS.values():
        return model  # type: ignore[return-value]  # all of these are settings
    if isinstance(model, nn.Module):
        # A copy: the caller may go on to train the module.
        return CustomModel(CustomModel(model).build().module)
    if isinstance(model, ModelSpec):
        return CustomModel(model.build, model.classes)
    if callable(model):
        return CustomModel(model)
    raise InputError(
        "A model is given by its settings, as a torch module, or as a function without arguments "
        f"that makes one, not as {model!r}."
    )


def to_config(spec: ModelSpec) -> dict[str, Any]:
    """Settings as a dict for JSON: ``{"model": "ResNetCifar", "depth": 56, ...}``.

    For a network of your own it contains the name, for information only; its code is never saved.
    """
    if isinstance(spec, CustomModel):
        return {
            "model": _CUSTOM,
            "factory": spec.name,
            "classes": spec.classes,
            "words": spec.words,
        }
    name = type(spec).__name__
    if SPECS.get(name) is not type(spec):
        raise InputError(f"{spec!r} is not the settings of a model; known: {', '.join(SPECS)}.")
    values = {field.name: getattr(spec, field.name) for field in _fields_of(type(spec))}
    as_json = {
        key: list(value) if isinstance(value, tuple) else value for key, value in values.items()
    }
    return {"model": name, **as_json}


def from_config(config: Mapping[str, Any], custom: ModelLike | None = None) -> ModelSpec:
    """The settings that ``to_config`` wrote. Unknown, missing or invalid entries are an error.

    ``custom`` is the network itself if the config only has the name of a network of your own;
    nothing is ever imported by that name.
    """
    if not isinstance(config, Mapping):
        raise InputError(f"A model's config must be a dict, not {config!r}.")
    name = config.get("model")
    if name == _CUSTOM:
        if custom is None:
            raise InputError(
                f"The student is a network of your own, {config.get('factory')!r}, and its code is "
                "not saved with it: pass the module, or the function that makes it, as student= "
                "(--student module:name)."
            )
        spec = as_spec(custom)
        if not isinstance(spec, CustomModel):
            raise InputError(f"The student is {config.get('factory')!r}, not {spec!r}.")
        return replace(spec, classes=config["classes"], words=config["words"])
    if custom is not None:
        raise InputError(f"The student is a {name}, which is loaded without student= (--student).")
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
