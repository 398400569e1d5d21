"""Bulk labeling: a trained model's predictions on many examples, as teacher labels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from noisyteacher.core.errors import InputError
from noisyteacher.data import Inputs, Views
from noisyteacher.data.tensors import gather_rows, rows_in, to_device
from noisyteacher.labels import TeacherLabels
from noisyteacher.models import Network, embed_and_classify
from noisyteacher.train.config import TrainConfig

# Temperatures at which per-view statistics are kept (UPS tempers its negatives by 2).
VIEW_TEMPERATURES = (1.0, 2.0)
_BATCH = 1024


def label(
    network: Network,
    inputs: Inputs,
    views: Views,
    *,
    ids: np.ndarray,
    classes: Sequence[str] | None = None,
    k: int | None = None,
    device: torch.device | str = "cpu",
    batch_size: int = _BATCH,
    embeddings: bool = False,
    view_passes: int = 0,
    seed: int = 0,
    name: str | None = None,
) -> TeacherLabels:
    """Label ``inputs``, un-augmented; the network is put on the device, in evaluation mode.

    ``embeddings`` keeps the penultimate layer (VID needs it); ``view_passes`` (10 in the paper)
    keeps the mean and spread over that many random crops (UPS and fidelity weighting need them).
    """
    if len(ids) != rows_in(inputs):
        raise InputError(f"{len(ids)} ids do not match {rows_in(inputs)} inputs.")
    if view_passes == 1:
        raise InputError("A spread over views needs at least 2 view passes.")
    where = torch.device(device)
    _put(network, where)
    generator = torch.Generator(where).manual_seed(seed)
    # An encoder may refuse an empty batch, so the columns of no rows are made without it.
    found = {} if len(ids) else _no_rows(network, embeddings, view_passes)
    for first in range(0, len(ids), batch_size):
        index = torch.arange(first, min(first + batch_size, len(ids)))
        raw = to_device([gather_rows(inputs, index)], where)
        logits, embedding = _predict(network, views.plain(raw), where, embeddings)
        columns = {"logits": logits}
        if embedding is not None:
            columns["embedding"] = embedding
        if view_passes:
            mean, std = _view_statistics(network, views, raw, view_passes, generator)
            columns |= {"view_mean": mean, "view_std": std}
        for column, values in columns.items():
            found.setdefault(column, []).append(values.cpu().numpy())
    arrays = {column: np.concatenate(parts) for column, parts in found.items()}
    return TeacherLabels.from_logits(
        ids, arrays.pop("logits"), classes=classes, k=k, extras=arrays, teacher=name
    )


def predict_logits(
    network: Network, inputs: Inputs, views: Views, *, device: torch.device | str = "cpu"
) -> np.ndarray:
    """(n, L) float32: the network's logits; as ``label`` does it."""
    where, found = torch.device(device), []
    _put(network, where)
    for index in torch.arange(rows_in(inputs)).split(_BATCH):
        shown = views.plain(to_device([gather_rows(inputs, index)], where))
        found.append(_predict(network, shown, where)[0].cpu().numpy())
    return np.concatenate(found)


def _put(network: Network, device: torch.device) -> None:
    network.eval().to(device, memory_format=torch.channels_last)  # type: ignore[call-overload]


@torch.no_grad()
def _predict(
    network: Network, shown: Any, device: torch.device, embeddings: bool = False
) -> tuple[Tensor, Tensor | None]:
    """Logits (b, L), and where asked for the embedding (b, d)."""
    dtype = TrainConfig().autocast_dtype(device)
    with torch.autocast(device.type, dtype=dtype, enabled=dtype is not None):
        if not embeddings:
            return network(shown).float(), None
        embedding, logits = embed_and_classify(network, shown)
        return logits.float(), embedding.float()


def _view_statistics(
    network: Network, views: Views, raw: Inputs, passes: int, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """Mean and unbiased standard deviation over crop-and-resize views, (b, 2, L) each."""
    crop = getattr(views, "crop", None)
    if crop is None:
        raise InputError("Per-view statistics need image views that can crop.")
    runs = []
    for _ in range(passes):
        logits, _ = _predict(network, crop(raw, generator), generator.device)
        runs.append(torch.stack([(logits / t).softmax(1) for t in VIEW_TEMPERATURES], dim=1))
    stacked = torch.stack(runs)
    return stacked.mean(0), stacked.std(0)


def _no_rows(network: Network, embeddings: bool, view_passes: int) -> dict[str, list[np.ndarray]]:
    shapes: dict[str, tuple[int, ...]] = {"logits": (network.classes,)}
    if embeddings:
        shapes["embedding"] = (network.embedding_dim,)
    if view_passes:
        per_view = (len(VIEW_TEMPERATURES), network.classes)
        shapes |= {"view_mean": per_view, "view_std": per_view}
    return {column: [np.empty((0, *shape), np.float32)] for column, shape in shapes.items()}
