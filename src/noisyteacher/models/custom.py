"""Networks of the user's own as students: any torch module, or a function that makes one."""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import torch
from torch import Tensor, nn

from noisyteacher.core.errors import InputError
from noisyteacher.models.spec import ModelSpec, Network, require_classes, require_whole

TFIDF_WORDS = 20_000  # as many as ``data.Tfidf`` has unless told otherwise

Factory = Callable[[], nn.Module]


@dataclass(frozen=True, repr=False)
class CustomModel(ModelSpec):
    """A network of your own: a torch module, or a function without arguments that returns one.

    The network maps a batch to logits (b, classes), as a tensor or as an object with the attribute
    ``logits``, like those that Hugging Face's models return. A batch is normalized images
    (b, 3, H, W), standardized rows of a table (b, d), or TF-IDF rows (b, ``words``) of texts. With
    ``words=None``, texts are passed as two arguments, token ids and attention mask (b, t).

    Training starts from a copy of the module's weights. A function draws its weights from torch's
    random generator, which is seeded for each student. For methods that need the student's
    embedding, the network has ``embed(batch)`` -> (b, d), and may have ``classify(embedding)``,
    which saves a second pass.
    """

    source: nn.Module | Factory
    classes: int = 2
    words: int | None = TFIDF_WORDS

    def __post_init__(self) -> None:
        require_classes(self)
        if self.words is not None:
            require_whole(self, "words")
        if not callable(self.source):
            raise InputError(
                "CustomModel: source must be a torch module, or a function without arguments that "
                f"makes one, not {self.source!r}."
            )

    @property
    def name(self) -> str:
        """Where the network comes from, as ``my_models:net``; for information only."""
        named = self.source.func if isinstance(self.source, partial) else self.source
        if isinstance(named, nn.Module) or not hasattr(named, "__qualname__"):
            named = type(named)
        return f"{named.__module__}:{named.__qualname__}"

    @cached_property
    def start(self) -> str:
        """A digest of the names, shapes and values of the weights that seed 0 starts from."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            state = self.build().state_dict()
        digest = hashlib.sha256()
        for name, value in state.items():
            digest.update(f"{name} {tuple(value.shape)} {value.dtype}\0".encode())
            digest.update(value.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
        return digest.hexdigest()

    def build(self) -> CustomNetwork:
        return CustomNetwork(self, self._made().cpu())

    def _made(self) -> nn.Module:
        if isinstance(self.source, nn.Module):
            try:
                return copy.deepcopy(self.source)
            except Exception as error:
                raise InputError(
                    f"{self.name} cannot be copied ({_first_line(error)}): give a function that "
                    "makes it instead."
                ) from error
        try:
            made = self.source()
        except Exception as error:
            raise InputError(
                f"{self.name} failed to make a network; it is called without arguments: "
                f"{_first_line(error)}"
            ) from error
        if isinstance(made, ModelSpec):
            made = made.build()
        if not isinstance(made, nn.Module):
            raise InputError(f"{self.name} must return a torch module, not {type(made).__name__}.")
        try:
            # A function may return the same module again, which another student then trains.
            return copy.deepcopy(made)
        except Exception:
            return made

    def __repr__(self) -> str:
        """All that tells it from another student; runs that are resumed must agree in it."""
        words = "" if self.words == TFIDF_WORDS else f", words={self.words}"
        return f"CustomModel({self.name}, classes={self.classes}{words}, start={self.start[:16]})"


class CustomNetwork(Network):
    """The user's ``module`` with the interface that training uses; its weights keep their names."""

    module: nn.Module

    def __init__(self, spec: CustomModel, module: nn.Module) -> None:
        super().__init__(spec, embedding_dim=getattr(module, "embedding_dim", 0))
        self.words, self.module = spec.words, module
        self.name = spec.name
        self.has_embedding = callable(getattr(module, "embed", None))
        self.classifies_embeddings = callable(getattr(module, "classify", None))

    def forward(self, x: Any) -> Tensor:
        output = self.module(*self._arguments(x))
        logits: Tensor = output if isinstance(output, Tensor) else output.logits
        return logits

    def embed(self, x: Any) -> Tensor:
        embedding: Tensor = self.module.embed(*self._arguments(x))  # type: ignore[operator]
        return embedding

    def classify(self, embedding: Tensor) -> Tensor:
        logits: Tensor = self.module.classify(embedding)  # type: ignore[operator]
        return logits

    def _arguments(self, x: Any) -> tuple[Tensor, ...]:
        if not isinstance(x, tuple):
            return (x,)
        if self.words is None:
            return x
        indices, values = x
        rows = values.new_zeros(values.shape[0], self.words)
        return (rows.scatter_add(1, indices, values),)

    # The wrapper has no weights of its own, and files are to fit the user's module.

    def state_dict(self, *args: Any, **kwargs: Any) -> Any:
        return self.module.state_dict(*args, **kwargs)

    def load_state_dict(self, *args: Any, **kwargs: Any) -> Any:
        return self.module.load_state_dict(*args, **kwargs)

    def check(self, x: Any, *, embedding_for: str | None = None, training: bool = False) -> None:
        """Raise an error if the network cannot be trained on batches such as ``x``.

        ``embedding_for`` is what needs its embedding, if anything does. ``training`` tries the
        network in training mode too, which may change its running statistics.
        """
        if embedding_for is not None and not self.has_embedding:
            raise InputError(
                f"{embedding_for} needs the student's embedding, and {self.name} has no method "
                "embed(batch) that gives it."
            )
        odd = [key for key, value in self.state_dict().items() if not isinstance(value, Tensor)]
        if odd:
            raise InputError(f"{self.name} keeps {odd[0]!r} in its state, which is not a tensor.")
        if not any(parameter.requires_grad for parameter in self.parameters()):
            raise InputError(f"{self.name} has no parameters to train.")
        before = self.training
        for mode in (True, False) if training else (False,):
            self._check_output(x, mode)
        self.train(before)

    @torch.no_grad()
    def _check_output(self, x: Any, training: bool) -> None:
        self.train(training)
        shapes = [tuple(part.shape) for part in self._arguments(x)]
        read = f"a batch of shape {' and '.join(map(str, shapes))}"
        try:
            logits = self(x)
            embedding = self.embed(x) if self.has_embedding else None
        except Exception as error:
            raise InputError(f"{self.name} fails on {read}: {_first_line(error)}") from error
        wanted = (shapes[0][0], self.classes)
        if tuple(logits.shape) != wanted:
            raise InputError(
                f"{self.name} gives an output of shape {tuple(logits.shape)} for {read}; with "
                f"{self.classes} classes it must be {wanted}."
            )
        if embedding is not None:
            if embedding.ndim != 2 or len(embedding) != shapes[0][0]:
                raise InputError(
                    f"{self.name}.embed gives an output of shape {tuple(embedding.shape)} for "
                    f"{read}; it must be ({shapes[0][0]}, d)."
                )
            self.embedding_dim = embedding.shape[1]


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0] or type(error).__name__
