"""Texts as embeddings of a frozen sentence encoder, computed once and cached.

The encoder is a Transformers or sentence-transformers model, by name or folder. It is pooled as
its own configuration says (``1_Pooling/config.json``; the mean over tokens where there is none)
and its vectors are scaled to unit length. No code from the model's folder is ever run.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import torch
from safetensors import SafetensorError
from safetensors.numpy import load, save
from torch import Tensor

from noisyteacher.core.errors import InputError
from noisyteacher.core.files import write_atomic
from noisyteacher.core.hub import check_model_name
from noisyteacher.core.progress import track
from noisyteacher.data.cache import cache_folder
from noisyteacher.data.views import TableViews

_BATCH = 32
_PART = 2048  # texts in one file of the cache: what a kill loses at most
_KEY_BYTES = 16
_MAX_LENGTH = 256
_POOLINGS = {
    "pooling_mode_cls_token": "cls",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_max_tokens": "max",
}


class Embeddings:
    """A featurizer of texts: unit-length vectors of a frozen encoder.

    Args:
        encoder: a folder, or a name on the Hugging Face hub.
        max_length: how many tokens of a text are read; None is what the encoder was made for, at
            most 256.
        cache: where vectors are kept, by text and encoder; None keeps nothing. Half precision is
            stored, and used in the first run too, so that later runs are identical.
        device: where the encoder runs; None is a GPU where there is one.
    """

    def __init__(
        self,
        encoder: str | Path,
        max_length: int | None = None,
        *,
        cache: str | Path | None = None,
        device: str | torch.device | None = None,
    ) -> None:
        self.encoder = str(encoder)
        self.cache = None if cache is None else Path(cache)
        self.device = device or ("cuda" if torch.cuda.is_available() else "cpu")
        self.max_length = max_length or self._longest()

    @classmethod
    def cached(cls, encoder: str | Path, cache: str | Path | None = None) -> Embeddings:
        """With the usual cache: ``NOISYTEACHER_CACHE``, or ``~/.cache/noisyteacher``."""
        return cls(encoder, cache=cache_folder(cache) / "embeddings")

    @property
    def fitted(self) -> bool:
        return True

    @property
    def features(self) -> int:
        return int(self._config.hidden_size)

    @cached_property
    def digest(self) -> str:
        """Tells encoders apart: their weights, tokenizer, pooling and length."""
        found = hashlib.sha256(f"{self.pooling} {self.max_length}".encode())
        folder = Path(self.encoder)
        if folder.is_dir():
            for path in sorted(folder.rglob("*")):
                if path.suffix in (".safetensors", ".bin", ".json", ".txt", ".model"):
                    found.update(str(path.relative_to(folder)).encode())
                    with path.open("rb") as file:
                        found.update(hashlib.file_digest(file, "sha256").digest())
        else:
            revision = getattr(self._config, "_commit_hash", None)
            found.update(f"{self.encoder} {revision}".encode())
        return found.hexdigest()

    @cached_property
    def pooling(self) -> str:
        """ "mean", "cls" or "max", as the encoder's own configuration says."""
        path = Path(self.encoder) / "1_Pooling" / "config.json"
        if not path.is_file():
            return "mean"
        try:
            saved = orjson.loads(path.read_bytes())
            found = [short for name, short in _POOLINGS.items() if saved.get(name)]
        except (OSError, orjson.JSONDecodeError, AttributeError) as error:
            raise InputError(f"{path} cannot be read: {error}.") from error
        if len(found) != 1:
            raise InputError(
                f"{path} asks for a pooling that is not supported; mean, cls and max are."
            )
        return found[0]

    def fit_transform(self, texts: Sequence[str]) -> Tensor:
        """Nothing is learned."""
        return self.transform(texts)

    def transform(self, texts: Sequence[str]) -> Tensor:
        """(n, d) float32 of unit length (to half precision)."""
        if not texts:
            return torch.empty(0, self.features)
        if self.cache is None:
            return torch.from_numpy(np.concatenate(list(self._embedded(list(texts)))))
        return torch.from_numpy(self._through_cache(list(texts), self.cache))

    def views(self) -> TableViews:
        return TableViews((0.0,) * self.features, (1.0,) * self.features)

    def to_json(self) -> dict[str, Any]:
        return {"kind": "embeddings", "encoder": self.encoder, "max_length": self.max_length}

    @classmethod
    def from_json(cls, saved: dict[str, Any]) -> Embeddings:
        """Made again from the encoder's name or folder; new texts are not cached."""
        return cls(saved["encoder"], saved["max_length"])

    def save_encoder(self, folder: Path) -> None:
        """Write the encoder itself, so that a student's folder needs nothing else."""
        self._model.save_pretrained(folder)
        self._tokenizer.save_pretrained(folder)
        pooling = Path(self.encoder) / "1_Pooling"
        if pooling.is_dir():
            shutil.copytree(pooling, folder / "1_Pooling")

    # -- the encoder ------------------------------------------------------------------------

    @cached_property
    def _config(self) -> Any:
        return self._load("AutoConfig")

    @cached_property
    def _tokenizer(self) -> Any:
        return self._load("AutoTokenizer")

    @cached_property
    def _model(self) -> Any:
        return self._load("AutoModel").float().eval().to(self.device)

    def _load(self, auto: str) -> Any:
        try:
            import transformers
        except ImportError as error:
            raise InputError(
                "An encoder needs transformers: install it with `pip install noisyteacher[hf]`."
            ) from error
        check_model_name(self.encoder)
        try:
            return getattr(transformers, auto).from_pretrained(
                self.encoder, trust_remote_code=False
            )
        except (OSError, ValueError) as error:
            first = str(error).partition("\n")[0]
            raise InputError(
                f"No encoder could be loaded from {self.encoder!r}: {first}"
            ) from error

    def _longest(self) -> int:
        path = Path(self.encoder) / "sentence_bert_config.json"
        if path.is_file():
            return int(orjson.loads(path.read_bytes()).get("max_seq_length") or _MAX_LENGTH)
        return min(_MAX_LENGTH, int(getattr(self._config, "max_position_embeddings", _MAX_LENGTH)))

    @torch.inference_mode()
    def _embedded(self, texts: list[str]) -> Iterator[np.ndarray]:
        """Vectors of consecutive texts, a batch at a time."""
        for start in range(0, len(texts), _BATCH):
            tokens = self._tokenizer(
                texts[start : start + _BATCH],
                truncation=True,
                max_length=self.max_length,
                padding=True,
                return_tensors="pt",
            ).to(self.device)
            hidden = self._model(**tokens).last_hidden_state
            mask = tokens["attention_mask"][..., None]
            if self.pooling == "cls":
                pooled = hidden[:, 0]
            elif self.pooling == "max":
                pooled = hidden.masked_fill(mask == 0, -torch.inf).amax(1)
            else:
                pooled = (hidden * mask).sum(1) / mask.sum(1).clamp(min=1)
            unit = torch.nn.functional.normalize(pooled.float(), dim=1)
            yield unit.half().float().cpu().numpy()

    # -- the cache --------------------------------------------------------------------------

    def _through_cache(self, texts: list[str], cache: Path) -> np.ndarray:
        folder = cache / self.digest[:16]
        keys = np.array([_key(text) for text in texts])
        unique, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
        vectors = np.empty((len(unique), self.features), np.float32)
        known = _read_parts(folder, unique, vectors)
        missing = np.flatnonzero(~known)
        if len(missing):
            # Texts of like length together: padding costs as much as words.
            missing = missing[np.argsort([-len(texts[first[i]]) for i in missing], kind="stable")]
            blocks = (missing[i : i + _PART] for i in range(0, len(missing), _PART))
            for rows in track(blocks, len(missing), "Embedding texts"):
                found = self._embedded([texts[first[i]] for i in rows])
                vectors[rows] = np.concatenate(list(found))
                _write_part(folder, unique[rows], vectors[rows])
        return vectors[inverse]


def _key(text: str) -> bytes:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=_KEY_BYTES).digest()


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
