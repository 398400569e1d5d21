"""A frozen Transformers encoder as a featurizer: unit-length vectors, computed once and cached.

What texts and images share: loading, the digest that tells encoders apart, and the cache. No code
from a model's folder is ever run.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.numpy import load, save
from torch import Tensor

from noisyteacher.core.files import write_atomic
from noisyteacher.core.hub import load_pretrained, model_digest, without_tilde
from noisyteacher.core.progress import track
from noisyteacher.data.cache import cache_folder
from noisyteacher.data.text import Featurizer
from noisyteacher.data.views import TableViews

_BATCH = 32
_KEY_BYTES = 16


class FrozenEncoder(Featurizer, ABC):
    """A featurizer of texts or images: unit-length vectors of an encoder that is not trained.

    Args:
        encoder: a folder, or a name on the Hugging Face hub.
        cache: where vectors are kept, by content and encoder; None keeps nothing. Half precision is
            stored, and used in the first run too, so that later runs are identical.
        device: where the encoder runs; None is a GPU where there is one.
    """

    noun: ClassVar[str]  # of the inputs, for the progress display
    part: ClassVar[int]  # inputs in one file of the cache: what a kill loses at most
    input_names: ClassVar[tuple[str, ...]]  # of what the encoder itself reads

    def __init__(
        self,
        encoder: str | Path,
        *,
        cache: str | Path | None = None,
        device: str | torch.device | None = None,
    ) -> None:
        self.encoder = without_tilde(encoder)
        self.cache = None if cache is None else Path(cache)
        self.device = device or ("cuda" if torch.cuda.is_available() else "cpu")

    @classmethod
    def cached(cls, encoder: str | Path) -> Self:
        """With the usual cache: ``NOISYTEACHER_CACHE``, or ``~/.cache/noisyteacher``."""
        return cls(encoder, cache=cache_folder(None) / "embeddings")

    @property
    @abstractmethod
    def pooling(self) -> str:
        """How the encoder's output becomes one vector."""

    @abstractmethod
    def save_encoder(self, folder: Path) -> None:
        """Write the encoder itself, so that a student's folder needs nothing else."""

    @abstractmethod
    def encoder_inputs(self, inputs: Any) -> Mapping[str, Tensor]:
        """What the encoder reads of these texts or images."""

    @abstractmethod
    def pooled(self, read: Mapping[str, Tensor]) -> Tensor:
        """(n, d) the encoder's vectors of what it read, of any length."""

    @abstractmethod
    def _settings(self) -> str:
        """Whatever changes the vectors, beside the encoder's files."""

    @cached_property
    def digest(self) -> str:
        """Tells encoders apart: their weights, settings, pooling and length."""
        return model_digest(self.encoder, self._settings())

    def transform(self, inputs: Any) -> Tensor:
        """(n, d) float32 of unit length (to half precision)."""
        if not len(inputs):
            return torch.empty(0, self.features)
        if self.cache is None:
            return torch.from_numpy(np.concatenate(list(self._embedded(list(inputs)))))
        return torch.from_numpy(self._through_cache(list(inputs), self.cache))

    def views(self) -> TableViews:
        return TableViews((0.0,) * self.features, (1.0,) * self.features)

    def unit_vectors(self, read: Mapping[str, Tensor]) -> Tensor:
        """(n, d) float32 of unit length, rounded as the cache stores them."""
        unit = torch.nn.functional.normalize(self.pooled(read).float(), dim=1)
        return unit.half().float()

    # -- the encoder ------------------------------------------------------------------------

    @cached_property
    def _config(self) -> Any:
        return self._load("AutoConfig")

    @cached_property
    def model(self) -> torch.nn.Module:
        """The encoder, frozen."""
        loaded: torch.nn.Module = self._load("AutoModel").float().eval().to(self.device)
        return loaded.requires_grad_(False)

    def _load(self, auto: str, **options: Any) -> Any:
        return load_pretrained(auto, self.encoder, "encoder", **options)

    @torch.inference_mode()
    def _embedded(self, inputs: list[Any]) -> Iterator[np.ndarray]:
        """Vectors of consecutive inputs, a batch at a time."""
        for start in range(0, len(inputs), _BATCH):
            read = self.encoder_inputs(inputs[start : start + _BATCH])
            on_device = {name: value.to(self.device) for name, value in read.items()}
            yield self.unit_vectors(on_device).cpu().numpy()

    # -- the cache --------------------------------------------------------------------------

    def _through_cache(self, inputs: list[Any], cache: Path) -> np.ndarray:
        folder = cache / self.digest[:16]
        keys = np.array([_key(one) for one in inputs])
        unique, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
        vectors = np.empty((len(unique), self.features), np.float32)
        known = _read_parts(folder, unique, vectors)
        missing = np.flatnonzero(~known)
        if len(missing):
            # Texts of like length together: padding costs as much as words.
            missing = missing[np.argsort([-len(inputs[first[i]]) for i in missing], kind="stable")]
            blocks = (missing[i : i + self.part] for i in range(0, len(missing), self.part))
            for rows in track(blocks, len(missing), f"Embedding {self.noun}"):
                found = self._embedded([inputs[first[i]] for i in rows])
                vectors[rows] = np.concatenate(list(found))
                _write_part(folder, unique[rows], vectors[rows])
        return vectors[inverse]


def _key(one: str | np.ndarray) -> bytes:
    if isinstance(one, str):
        content = one.encode("utf-8", "surrogatepass")
    else:
        content = str(one.shape).encode() + np.ascontiguousarray(one).tobytes()
    return hashlib.blake2b(content, digest_size=_KEY_BYTES).digest()


def _checksum(content: bytes) -> str:
    return hashlib.blake2b(content, digest_size=16).hexdigest()


def _write_part(folder: Path, keys: np.ndarray, vectors: np.ndarray) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    # Trailing zero bytes of a key are not kept by NumPy's byte strings; as numbers they are.
    as_bytes = np.frombuffer(b"".join(k.ljust(_KEY_BYTES, b"\0") for k in keys.tolist()), np.uint8)
    content = save({"key": as_bytes.reshape(-1, _KEY_BYTES), "vector": vectors.astype(np.float16)})
    write_atomic(folder / f"{_checksum(content)}.safetensors", content)


def _read_parts(folder: Path, wanted: np.ndarray, into: np.ndarray) -> np.ndarray:
    """Fill in what the cache has of the wanted keys (sorted); which were found."""
    known = np.zeros(len(wanted), bool)
    for path in sorted(folder.glob("*.safetensors")) if folder.is_dir() else ():
        try:
            content = path.read_bytes()
            if _checksum(content) != path.stem:
                raise ValueError("damaged")
            part = load(content)
            stored = np.ascontiguousarray(part["key"]).view(f"S{_KEY_BYTES}").ravel()
            vectors = part["vector"]
        except (OSError, SafetensorError, KeyError, ValueError):
            path.unlink(missing_ok=True)  # a part that does not match its name is computed anew
            continue
        place = np.searchsorted(wanted, stored).clip(max=len(wanted) - 1)
        here = wanted[place] == stored
        into[place[here]] = vectors[here]
        known[place[here]] = True
    return known
