"""Linear and multi-layer students for tables, embeddings and sparse text."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from noisyteacher.core.errors import InputError
from noisyteacher.models.layers import he_normal_
from noisyteacher.models.spec import (
    ModelSpec,
    Network,
    is_whole,
    require_classes,
    require_dropout,
    require_whole,
)

# One batch of sparse rows: indices (b, T) int64 in [0, features) and values (b, T) float32,
# padded with index 0 and value 0.
Bags = tuple[Tensor, Tensor]


@dataclass(frozen=True)
class _Flat(ModelSpec):
    features: int
    classes: int

    def __post_init__(self) -> None:
        require_whole(self, "features")
        require_classes(self)


@dataclass(frozen=True)
class _Layered(_Flat):
    hidden: tuple[int, ...] = (256,)
    dropout: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        require_dropout(self)
        widths = self.hidden
        if not isinstance(widths, tuple | list) or not widths or not all(map(is_whole, widths)):
            raise InputError(
                f"{type(self).__name__}: hidden must be one or more layer widths of at least 1, "
                f"not {widths!r}."
            )
        object.__setattr__(self, "hidden", tuple(int(width) for width in widths))


@dataclass(frozen=True)
class Linear(_Flat):
    """Settings of a logistic regression on tables (b, features); weights start at zero.

    Its embedding is the row of the table itself.
    """

    def build(self) -> Network:
        return LinearNetwork(self)


@dataclass(frozen=True)
class BagLinear(_Flat):
    """Settings of a logistic regression on sparse rows; weights start at zero.

    A batch is a pair: indices (b, T) int64 in [0, features) and values (b, T) float32, padded
    with index 0 and value 0. Its embedding is the weighted sum before the bias, (b, classes),
    because the dense row would be as wide as the vocabulary.
    """

    def build(self) -> Network:
        return BagLinearNetwork(self)


@dataclass(frozen=True)
class MLP(_Layered):
    """Settings of a multi-layer perceptron (ReLU, dropout) on tables (b, features)."""

    def build(self) -> Network:
        return MLPNetwork(self, nn.Linear(self.features, self.hidden[0]))


@dataclass(frozen=True)
class BagMLP(_Layered):
    """Settings of a multi-layer perceptron on sparse rows, given as for ``BagLinear``."""

    def build(self) -> Network:
        return MLPNetwork(self, BagLayer(self.features, self.hidden[0]))


class LinearNetwork(Network):
    """One linear layer."""

    def __init__(self, spec: Linear) -> None:
        super().__init__(spec, embedding_dim=spec.features)
        self.fc = nn.Linear(spec.features, spec.classes)
        nn.init.zeros_(self.fc.weight)
        nn.init.zeros_(self.fc.bias)

    def embed(self, x: Tensor) -> Tensor:
        return x


class BagLinearNetwork(Network):
    """Σ_t values_t · W[indices_t] + bias."""

    def __init__(self, spec: BagLinear) -> None:
        super().__init__(spec, embedding_dim=spec.classes)
        self.bag = nn.EmbeddingBag(spec.features, spec.classes, mode="sum")
        self.bias = nn.Parameter(torch.zeros(spec.classes))
        nn.init.zeros_(self.bag.weight)

    def embed(self, x: Bags) -> Tensor:
        indices, values = x
        summed: Tensor = self.bag(indices, per_sample_weights=values)
        return summed

    def classify(self, embedding: Tensor) -> Tensor:
        return embedding + self.bias


class BagLayer(nn.Module):
    """A linear layer that reads sparse rows."""

    def __init__(self, features: int, outputs: int) -> None:
        super().__init__()
        self.bag = nn.EmbeddingBag(features, outputs, mode="sum")
        self.bias = nn.Parameter(torch.zeros(outputs))
        # Rows of unit length, as TF-IDF gives, have no use for a scale by the vocabulary's size.
        nn.init.normal_(self.bag.weight, std=outputs**-0.5)

    def forward(self, x: Bags) -> Tensor:
        indices, values = x
        summed: Tensor = self.bag(indices, per_sample_weights=values)
        return summed + self.bias


class MLPNetwork(Network):
    """A first layer, more hidden layers, a linear layer; dropout between any two."""

    def __init__(self, spec: MLP | BagMLP, first: nn.Module) -> None:
        super().__init__(spec, embedding_dim=spec.hidden[-1])
        self.first = first
        widths = zip(spec.hidden, spec.hidden[1:], strict=False)
        self.layers = nn.ModuleList(nn.Linear(inputs, outputs) for inputs, outputs in widths)
        self.dropout = nn.Dropout(spec.dropout)
        self.fc = nn.Linear(spec.hidden[-1], spec.classes)
        he_normal_(self)

    def embed(self, x: Tensor | Bags) -> Tensor:
        hidden = F.relu(self.first(x))
        for layer in self.layers:
            hidden = F.relu(layer(self.dropout(hidden)))
        return hidden

    def classify(self, embedding: Tensor) -> Tensor:
        logits: Tensor = self.fc(self.dropout(embedding))
        return logits
