"""What every model is: a frozen dataclass of settings that builds a network with an embedding."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from numbers import Integral, Real
from typing import Any

from torch import Tensor, nn

from noisyteacher.core.errors import InputError


class Network(nn.Module):
    """A classifier that returns logits and, on request, the embedding of its penultimate layer.

    Inputs are images (b, 3, H, W), tables (b, d), or the pair of tensors described by the model's
    settings. ``forward(x)`` is ``classify(embed(x))``.
    """

    spec: ModelSpec
    classes: int
    embedding_dim: int
    fc: nn.Module

    def __init__(self, spec: ModelSpec, embedding_dim: int) -> None:
        super().__init__()
        self.spec = spec
        self.classes = spec.classes
        self.embedding_dim = embedding_dim

    def embed(self, x: Any) -> Tensor:
        """(b, embedding_dim): the input of the last linear layer, before any dropout."""
        raise TypeError(f"{type(self).__name__} does not implement embed()")

    def classify(self, embedding: Tensor) -> Tensor:
        """(b, embedding_dim) -> logits (b, L): the last linear layer, unless overridden."""
        logits: Tensor = self.fc(embedding)
        return logits

    def forward(self, x: Any) -> Tensor:
        """Logits (b, L)."""
        return self.classify(self.embed(x))


def embed_and_classify(network: Network, x: Any) -> tuple[Tensor, Tensor]:
    """The embedding (b, d) and the logits (b, L) of a batch.

    This takes one pass, except for a network of the user's own that cannot classify embeddings.
    """
    embedding = network.embed(x)
    if getattr(network, "classifies_embeddings", True):
        return embedding, network.classify(embedding)
    return embedding, network(x)


class ModelSpec(ABC):
    """The settings of an architecture; subclasses are frozen dataclasses that fit into JSON."""

    classes: int

    @abstractmethod
    def build(self) -> Network:
        """Make the network with fresh weights, drawn from torch's default generator."""


def is_whole(value: object, least: int = 1) -> bool:
    """Whether the value is a whole number (NumPy's too, but no bool) of at least ``least``."""
    return not isinstance(value, bool) and isinstance(value, Integral) and int(value) >= least


def require_whole(spec: ModelSpec, *names: str, least: int = 1) -> None:
    """Refuse fields that are not whole numbers of at least ``least``; store them as plain ints."""
    for name in names:
        value = getattr(spec, name)
        if not is_whole(value, least):
            raise InputError(
                f"{type(spec).__name__}: {name} must be a whole number of at least {least}, "
                f"not {value!r}."
            )
        object.__setattr__(spec, name, int(value))


def require_classes(spec: ModelSpec) -> None:
    """Refuse fewer than two classes."""
    require_whole(spec, "classes", least=2)


def require_dropout(spec: ModelSpec) -> None:
    """Refuse a dropout outside [0, 1)."""
    require_real(spec, "dropout", "in [0, 1)", lambda dropout: 0 <= dropout < 1)


def require_real(spec: ModelSpec, name: str, wanted: str, is_good: Callable[[float], bool]) -> None:
    """Refuse a field that is no number, or not as ``wanted``; store it as a float."""
    value = getattr(spec, name)
    if isinstance(value, bool) or not isinstance(value, Real) or not is_good(float(value)):
        raise InputError(f"{type(spec).__name__}: {name} must be {wanted}, not {value!r}.")
    object.__setattr__(spec, name, float(value))


def require_choice(spec: ModelSpec, name: str, choices: tuple[int | str | None, ...]) -> None:
    """Refuse a field whose value is not one of ``choices``."""
    value = getattr(spec, name)
    if isinstance(value, bool | float) or value not in choices:
        raise InputError(
            f"{type(spec).__name__}: {name} must be one of {', '.join(map(repr, choices))}, "
            f"not {value!r}."
        )
