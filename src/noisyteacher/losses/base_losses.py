"""The losses that SLaM can mix into: cross-entropy, Taylor-CE, Poly-1 (and GCE, a rival).

Each is linear in the target: ``sum_j target_j * cost(q_j)``, so the expected loss under a noisy
label is the loss of the expected label. ``cross_entropy(target, probs)``, ``taylor_ce``, ``poly1``
and ``gce`` take NumPy or torch and check it. The classes (``TaylorCE(2)``) hold the settings;
called, or through ``from_log``, they are the unchecked torch form for training loops and graphs.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import TypeAlias

import torch
from jaxtyping import Float
from torch import Tensor

from noisyteacher.core.errors import InputError
from noisyteacher.losses.validation import (
    AnyArray,
    Array,
    Number,
    checked_pair,
    like_input,
    log_softmax,
    working_dtype,
)

BaseFunction: TypeAlias = Callable[[Tensor, Tensor], Tensor]  # (target, probs) -> (n,)


@dataclass(frozen=True, repr=False)
class BaseLoss(ABC):
    """A loss that is linear in the target. A subclass defines the cost of each class."""

    @abstractmethod
    def log_cost(self, log_probs: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """The cost of each class if it is the label, from its log-probability."""

    def cost(self, probs: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """The cost of each class if it is the label, from its probability."""
        return self.log_cost(safe_log(probs))

    def __call__(
        self, target: Float[Tensor, "n L"], probs: Float[Tensor, "n L"]
    ) -> Float[Tensor, " n"]:
        """Loss of each example from probabilities, which need not sum to 1."""
        probs = probs.to(working_dtype(probs.dtype))
        return (target.detach() * self.cost(probs)).sum(-1)

    def from_log(
        self, target: Float[Tensor, "n L"], log_probs: Float[Tensor, "n L"]
    ) -> Float[Tensor, " n"]:
        """The loss of each example from log-probabilities, safe where probabilities underflow."""
        return (target.detach() * self.log_cost(log_probs)).sum(-1)

    def __repr__(self) -> str:
        values = ", ".join(repr(getattr(self, field.name)) for field in fields(self))
        return f"{type(self).__name__}({values})"


@dataclass(frozen=True, repr=False)
class CrossEntropy(BaseLoss):
    """``-log q``."""

    def log_cost(self, log_probs: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        return -log_probs


@dataclass(frozen=True, repr=False)
class TaylorCE(BaseLoss):
    """``sum_{i=1..order} (1 - q)^i / i``: 1 - q for order 1, cross-entropy for order → ∞."""

    order: int = 2

    def __post_init__(self) -> None:
        if not isinstance(self.order, int) or self.order < 1:
            raise InputError(f"the order of Taylor-CE must be 1, 2, 3 ..., not {self.order!r}.")

    def cost(self, probs: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        return self._series(1 - probs)

    def log_cost(self, log_probs: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        return self._series(-torch.expm1(log_probs))

    def _series(self, miss: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        total = miss / self.order
        for i in range(self.order - 1, 0, -1):
            total = miss * (total + 1 / i)
        return total


@dataclass(frozen=True, repr=False)
class Poly1(BaseLoss):
    """``-log q + epsilon * (1 - q)``; epsilon = -1 cancels the first Taylor term of the log."""

    epsilon: Number = 2.0

    def __post_init__(self) -> None:
        if not (-1 <= self.epsilon < math.inf):
            raise InputError(f"the epsilon of Poly-1 must be at least -1, not {self.epsilon}.")
        object.__setattr__(self, "epsilon", float(self.epsilon))  # one name per loss in tables

    def log_cost(self, log_probs: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        return -log_probs - self.epsilon * torch.expm1(log_probs)


@dataclass(frozen=True, repr=False)
class GCE(BaseLoss):
    """Generalized cross-entropy ``(1 - p^q) / q``: cross-entropy for q → 0, 1 - p for q = 1."""

    q: Number = 0.7

    def __post_init__(self) -> None:
        if not 0 < self.q <= 1:
            raise InputError(
                f"the q of generalized cross-entropy must lie in (0, 1], not {self.q}."
            )
        object.__setattr__(self, "q", float(self.q))

    def log_cost(self, log_probs: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        return -torch.expm1(self.q * log_probs) / self.q


def cross_entropy(target: AnyArray, probs: Array) -> Array:
    """Cross-entropy ``-sum_j target_j log probs_j`` of each example.

    Args:
        target: (n, L) soft labels, or one-hot rows for hard labels. They carry no gradients.
        probs: (n, L) probabilities or mixes; a mix need not sum to 1.

    Returns:
        (n,), NumPy or torch as ``probs``. A zero is replaced by the smallest normal number, so a
            label that the student excludes costs about 87 in float32, not infinity.
    """
    y, f = checked_pair(target, probs)
    return like_input(CrossEntropy()(y, f), probs)


def taylor_ce(target: AnyArray, probs: Array, order: int = 2) -> Array:
    """Taylor cross-entropy ``sum_j target_j sum_{i=1..order} (1 - probs_j)^i / i``, (n,).

    Linear in the label. This is not the Taylor-softmax, which is sometimes called by the same name.
    """
    y, f = checked_pair(target, probs)
    return like_input(TaylorCE(order)(y, f), probs)


def poly1(target: AnyArray, probs: Array, epsilon: Number = 2.0) -> Array:
    """Poly-1 ``cross_entropy + epsilon * sum_j target_j (1 - probs_j)``, (n,); epsilon ≥ -1."""
    y, f = checked_pair(target, probs)
    return like_input(Poly1(epsilon)(y, f), probs)


def gce(target: AnyArray, probs: Array, q: Number = 0.7) -> Array:
    """Generalized cross-entropy ``sum_j target_j (1 - probs_j^q) / q``, (n,); q in (0, 1]."""
    y, f = checked_pair(target, probs)
    return like_input(GCE(q)(y, f), probs)


SHORT_NAMES: dict[str, BaseLoss] = {
    "ce": CrossEntropy(),
    "taylor_ce": TaylorCE(),
    "poly1": Poly1(),
}


def resolve_base(base: str | BaseFunction) -> BaseFunction:
    """The loss with a short name; any other ``f(target, probs) -> (n,)`` is returned as it is."""
    if not isinstance(base, str):
        return base
    if base not in SHORT_NAMES:
        names = ", ".join(map(repr, SHORT_NAMES))
        raise InputError(f"base must be one of {names} or a function, not {base!r}.")
    return SHORT_NAMES[base]


def apply_base(
    base: BaseFunction, target: Float[Tensor, "n L"], log_probs: Float[Tensor, "n L"]
) -> Float[Tensor, " n"]:
    """Apply a base loss to log-probabilities; a user's own loss gets probabilities."""
    if isinstance(base, BaseLoss):
        return base.from_log(target, log_probs)
    losses = base(target.detach(), log_probs.exp())
    if losses.shape != target.shape[:1]:
        raise InputError(
            f"a base loss must return shape ({len(target)},), not {tuple(losses.shape)}."
        )
    return losses


def vanilla_loss(
    logits: Float[Tensor, "n L"], target: Float[Tensor, "n L"], base: BaseFunction
) -> Float[Tensor, " n"]:
    """A base loss on the student's own prediction, without the mix. Arguments are not checked."""
    return apply_base(base, target, log_softmax(logits))


def safe_log(probs: Tensor) -> Tensor:
    """Log with zeros raised to the smallest normal number, so that 0 · log 0 is 0.

    The floor must be that low: at 1e-7 it would kill the gradient of most of 1 000 classes.
    """
    return probs.clamp(min=torch.finfo(probs.dtype).tiny).log()
