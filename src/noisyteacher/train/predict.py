"""Bulk labelling: what a trained model says about many examples, as teacher labels."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
import torch
from torch import Tensor

from noisyteacher.core.errors import InputError
from noisyteacher.data import Views
from noisyteacher.labels import TeacherLabels
from noisyteacher.models import Network
from noisyteacher.train.config import TrainConfig
from noisyteacher.train.job import BuildsModel, Inputs, gather_rows, rows_in, to_device

# Temperatures at which per-view statistics are kept (UPS tempers its negatives by 2).
VIEW_TEMPERATURES = (1.0, 2.0)


@dataclass(frozen=True)
class _Asker:
    """A model on its device, asked batch by batch."""

    model: Network
    views: Views
    device: torch.device

    @torch.no_grad()
    def logits_and_embedding(self, shown: Inputs, embeddings: bool) -> tuple[Tensor, Tensor | None]:
        dtype = TrainConfig().autocast_dtype(self.device)
        with torch.autocast(self.device.type, dtype=dtype, enabled=dtype is not None):
            if not embeddings:
                return self.model(shown).float(), None
            embedding = self.model.embed(shown)
            return self.model.classify(embedding).float(), embedding.float()

    @torch.no_grad()
    def view_statistics(
        self, raw: Inputs, passes: int, generator: torch.Generator
    ) -> tuple[Tensor, Tensor]:
        """Mean and unbiased standard deviation over crop-and-resize views, (b, 2, L) each."""
        crop = getattr(self.views, "crop", None)
        if crop is None:
            raise InputError("Per-view statistics need image views that can crop.")
        runs = []
        for _ in range(passes):
            logits, _ = self.logits_and_embedding(crop(raw, generator), False)
            tempered = [(logits / t).softmax(1) for t in VIEW_TEMPERATURES]
            runs.append(torch.stack(tempered, dim=1))
        stacked = torch.stack(runs)
        return stacked.mean(0), stacked.std(0)


def label(
    model: BuildsModel,
    state: dict[str, Tensor],
    inputs: Inputs,
    views: Views,
    *,
    ids: np.ndarray,
    classes: Sequence[str] | None = None,
    k: int | None = None,
    device: torch.device | str = "cpu",
    batch_size: int = 1024,
    embeddings: bool = False,
    view_passes: int = 0,
    seed: int = 0,
    name: str | None = None,
) -> TeacherLabels:
    """Label ``inputs`` with the model, un-augmented and in evaluation mode.

    ``embeddings`` keeps the penultimate layer (VID needs it); ``view_passes`` (10 in the paper)
    keeps the mean and spread over that many random crops (UPS and fidelity weighting need them).
    """
    if len(ids) != rows_in(inputs):
        raise InputError(f"{len(ids)} ids do not match {rows_in(inputs)} inputs.")
    if view_passes == 1:
        raise InputError("A spread over views needs at least 2 view passes.")
    where = torch.device(device)
    network = cast(Network, model.build())
    network.load_state_dict(state)
    network.eval().to(where, memory_format=torch.channels_last)  # type: ignore[call-overload]
    asker = _Asker(network, views, where)
    generator = torch.Generator(where).manual_seed(seed)
    # An encoder may refuse an empty batch, so the columns of no rows are made without asking it.
    found = {} if len(ids) else _no_rows(network, embeddings, view_passes)
    for raw in _batches(inputs, batch_size, where):
        for column, values in _ask(asker, raw, embeddings, view_passes, generator).items():
            found.setdefault(column, []).append(values.cpu().numpy())
    columns = {column: np.concatenate(parts) for column, parts in found.items()}
    return TeacherLabels.from_logits(
        ids, columns.pop("logits"), classes=classes, k=k, extras=columns, teacher=name
    )


def _ask(
    asker: _Asker, raw: Inputs, embeddings: bool, view_passes: int, generator: torch.Generator
) -> dict[str, Tensor]:
    logits, embedding = asker.logits_and_embedding(asker.views.plain(raw), embeddings)
    columns = {"logits": logits}
    if embedding is not None:
        columns["embedding"] = embedding
    if view_passes:
        mean, std = asker.view_statistics(raw, view_passes, generator)
        columns |= {"view_mean": mean, "view_std": std}
    return columns


def _no_rows(network: Network, embeddings: bool, view_passes: int) -> dict[str, list[np.ndarray]]:
    shapes: dict[str, tuple[int, ...]] = {"logits": (network.classes,)}
    if embeddings:
        shapes["embedding"] = (network.embedding_dim,)
    if view_passes:
        per_view = (len(VIEW_TEMPERATURES), network.classes)
        shapes |= {"view_mean": per_view, "view_std": per_view}
    return {column: [np.empty((0, *shape), np.float32)] for column, shape in shapes.items()}


def _batches(inputs: Inputs, size: int, device: torch.device) -> Iterator[Inputs]:
    for first in range(0, rows_in(inputs), size):
        index = torch.arange(first, min(first + size, rows_in(inputs)))
        yield to_device([gather_rows(inputs, index)], device)
