"""A finished student: weights, classes and how it reads raw inputs."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from noisyteacher.data.input_format import InputFormat, RawInputs
from noisyteacher.models import ModelSpec, Network

_BATCH = 256


class Student:
    """Predicts classes of raw inputs: texts, uint8 images or image paths, or tables.

    ``about`` is how it came to be: data sizes, teacher, method, accuracies, versions.
    """

    def __init__(
        self,
        spec: ModelSpec,
        state: Mapping[str, Tensor],
        classes: tuple[str, ...],
        inputs: InputFormat,
        about: Mapping[str, Any] | None = None,
    ) -> None:
        self.spec = spec
        self.state = dict(state)
        self.classes = tuple(classes)
        self.inputs = inputs
        self.about = dict(about or {})

    @cached_property
    def network(self) -> Network:
        """The network in evaluation mode, on the CPU."""
        made = self.spec.build()
        made.load_state_dict(self.state)
        return made.eval()

    @torch.no_grad()
    def logits(self, inputs: RawInputs) -> np.ndarray:
        """(n, L) float32."""
        views, found = self.inputs.views(), []
        for start in range(0, len(inputs), _BATCH):
            shown = views.plain(self.inputs.tensors(inputs[start : start + _BATCH]))
            found.append(self.network(shown).float().numpy())
        return np.concatenate(found) if found else np.empty((0, len(self.classes)), np.float32)

    def predict_proba(self, inputs: RawInputs) -> np.ndarray:
        """(n, L) float32: class probabilities, in the order of ``classes``."""
        probs: np.ndarray = torch.from_numpy(self.logits(inputs)).softmax(1).numpy()
        return probs

    def predict(self, inputs: RawInputs) -> np.ndarray:
        """(n,) the most probable class of each input, by name."""
        best = self.logits(inputs).argmax(1)
        return np.array([self.classes[c] for c in best], np.str_)

    def __repr__(self) -> str:
        return f"Student({self.spec!r}, {self.inputs.kind}, {len(self.classes)} classes)"
