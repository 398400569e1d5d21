"""Embeddings of texts and of images by frozen Transformers encoders.

A text encoder is pooled as its own configuration says (``1_Pooling/config.json``; the mean over
tokens where there is none). An image encoder gives its image features (CLIP and its kin), else its
pooled output, else its class token, else the mean of its last hidden state.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import torch
from torch import Tensor

from noisyteacher.core.errors import InputError, first_few
from noisyteacher.data.frozen_encoder import FrozenEncoder
from noisyteacher.data.text import Featurizer, Tfidf

_MAX_LENGTH = 256
_POOLINGS = {
    "pooling_mode_cls_token": "cls",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_max_tokens": "max",
}
IMAGE_POOLINGS = ("features", "pooler", "cls", "mean")
WITH_WORDS = "embeddings and words"


class Embeddings(FrozenEncoder):
    """A featurizer of texts: unit-length vectors of a frozen encoder.

    Args:
        encoder: a folder, or a name on the Hugging Face hub.
        max_length: how many tokens of a text are read; None is what the encoder was made for, at
            most 256.
        cache, device: as in ``FrozenEncoder``.
    """

    noun, part = "texts", 2048
    input_names = ("input_ids", "attention_mask")

    def __init__(
        self,
        encoder: str | Path,
        max_length: int | None = None,
        *,
        cache: str | Path | None = None,
        device: str | torch.device | None = None,
    ) -> None:
        super().__init__(encoder, cache=cache, device=device)
        self.max_length = max_length or self._longest()

    @property
    def features(self) -> int:
        return int(self._config.hidden_size)

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
            raise InputError(f"{path} uses a pooling that is not supported; use mean, cls or max.")
        return found[0]

    def encoder_inputs(self, inputs: Any) -> Mapping[str, Tensor]:
        """Token ids and attention mask, padded to the longest text."""
        tokens: Mapping[str, Tensor] = self._tokenizer(
            list(inputs),
            truncation=True,
            max_length=self.max_length,
            padding=True,
            return_tensors="pt",
        )
        return tokens

    def pooled(self, read: Mapping[str, Tensor]) -> Tensor:
        hidden: Tensor = self.model(**read).last_hidden_state
        mask = read["attention_mask"][..., None]
        if self.pooling == "cls":
            return hidden[:, 0]
        if self.pooling == "max":
            return hidden.masked_fill(mask == 0, -torch.inf).amax(1)
        return (hidden * mask).sum(1) / mask.sum(1).clamp(min=1)

    def to_json(self) -> dict[str, Any]:
        return {"kind": "embeddings", "encoder": self.encoder, "max_length": self.max_length}

    def save_encoder(self, folder: Path) -> None:
        self.model.save_pretrained(folder)  # type: ignore[operator]
        # A fresh one: after its first batch a tokenizer saves the padding of that batch as well.
        self._load("AutoTokenizer").save_pretrained(folder)
        pooling = Path(self.encoder) / "1_Pooling"
        if pooling.is_dir():
            shutil.copytree(pooling, folder / "1_Pooling")

    @cached_property
    def _tokenizer(self) -> Any:
        return self._load("AutoTokenizer")

    def _settings(self) -> str:
        return f"{self.pooling} {self.max_length}"

    def _longest(self) -> int:
        path = Path(self.encoder) / "sentence_bert_config.json"
        if path.is_file():
            return int(orjson.loads(path.read_bytes()).get("max_seq_length") or _MAX_LENGTH)
        return min(_MAX_LENGTH, int(getattr(self._config, "max_position_embeddings", _MAX_LENGTH)))


class EmbeddingsAndWords(Featurizer):
    """A featurizer of texts: a frozen encoder's vectors, and TF-IDF beside them.

    Rows of (index, value): the first ``encoded`` indices are those of the vector, the others are
    words. The encoder knows synonyms; words add what it never learned, and the end of a long text.
    """

    def __init__(self, encoder: Embeddings, words: Tfidf) -> None:
        self.encoder, self.words = encoder, words

    @property
    def encoded(self) -> int:
        """How long the encoder's vectors are."""
        return self.encoder.features

    @property
    def features(self) -> int:
        return self.encoded + self.words.features

    @property
    def fitted(self) -> bool:
        return self.words.fitted

    def fit_transform(self, texts: Sequence[str]) -> tuple[Tensor, Tensor]:
        """Learn the vocabulary; the encoder learns nothing."""
        return join_words(self.encoder.transform(texts), *self.words.fit_transform(texts))

    def transform(self, texts: Sequence[str]) -> tuple[Tensor, Tensor]:
        """(n, m) int64 indices and (n, m) float32 values."""
        return join_words(self.encoder.transform(texts), *self.words.transform(texts))

    def to_json(self) -> dict[str, Any]:
        return {**self.encoder.to_json(), "kind": WITH_WORDS, "words": self.words.to_json()}

    @property
    def digest(self) -> str:
        return hashlib.sha256(f"{self.encoder.digest} {self.words.digest}".encode()).hexdigest()


def join_words(vectors: Tensor, indices: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
    """Vectors (n, d) and bags (n, m) as bags (n, d + m), the vectors first."""
    own = torch.arange(vectors.shape[1]).expand(vectors.shape)
    return torch.cat([own, indices + vectors.shape[1]], 1), torch.cat([vectors, values], 1)


class ImageEmbeddings(FrozenEncoder):
    """A featurizer of images: unit-length vectors of a frozen encoder.

    Args:
        encoder: a folder, or a name on the Hugging Face hub.
        pooling: one of ``IMAGE_POOLINGS``; None is the first of them that the encoder has.
        cache, device: as in ``FrozenEncoder``.
    """

    noun, part = "images", 256
    input_names = ("pixel_values",)

    def __init__(
        self,
        encoder: str | Path,
        pooling: str | None = None,
        *,
        cache: str | Path | None = None,
        device: str | torch.device | None = None,
    ) -> None:
        super().__init__(encoder, cache=cache, device=device)
        if pooling is not None and pooling not in IMAGE_POOLINGS:
            raise InputError(
                f"pooling must be one of {first_few(IMAGE_POOLINGS)}, not {pooling!r}."
            )
        self._given_pooling = pooling
        self._processor  # noqa: B018  a folder without one is no image encoder, which is said now

    @cached_property
    def features(self) -> int:
        blank = np.zeros((32, 32, 3), np.uint8)
        with torch.inference_mode():
            read = self.encoder_inputs([blank])
            return self.pooled({k: v.to(self.device) for k, v in read.items()}).shape[1]

    @cached_property
    def pooling(self) -> str:
        if self._given_pooling is not None:
            return self._given_pooling
        model, unloaded = self._found
        if hasattr(model, "get_image_features"):
            return "features"
        # A pooler that the checkpoint does not have would be random.
        names = [name for name, _ in model.named_modules()]
        if "pooler" in names and not any(key.startswith("pooler.") for key in unloaded):
            return "pooler"
        return (
            "cls" if any(n.endswith("cls_token") for n, _ in model.named_parameters()) else "mean"
        )

    def encoder_inputs(self, inputs: Any) -> Mapping[str, Tensor]:
        """Pixels, resized and normalized as the encoder's own processor does."""
        images = list(inputs)
        found = self._processor(
            images=images, return_tensors="pt", input_data_format="channels_last"
        )
        return {"pixel_values": found["pixel_values"]}

    def pooled(self, read: Mapping[str, Tensor]) -> Tensor:
        model: Any = self.model
        if self.pooling == "features":
            found = model.get_image_features(**read)
            features: Tensor = found if isinstance(found, Tensor) else found.pooler_output
            return features
        output = model(**read)
        if self.pooling == "pooler":
            pooled: Tensor = output.pooler_output
            return pooled.flatten(1)
        hidden: Tensor = output.last_hidden_state
        if self.pooling == "cls":
            return hidden[:, 0]
        # Of tokens (n, t, d), or of the places of a convolutional network (n, d, h, w).
        return hidden.mean(1) if hidden.ndim == 3 else hidden.flatten(2).mean(2)

    def to_json(self) -> dict[str, Any]:
        return {"kind": "image embeddings", "encoder": self.encoder, "pooling": self.pooling}

    def save_encoder(self, folder: Path) -> None:
        self.model.save_pretrained(folder)  # type: ignore[operator]
        self._processor.save_pretrained(folder)

    @cached_property
    def model(self) -> torch.nn.Module:
        return self._found[0]

    @cached_property
    def _found(self) -> tuple[torch.nn.Module, set[str]]:
        """The encoder, and the names of weights that its folder does not have."""
        model, about = self._load("AutoModel", output_loading_info=True)
        missing = {str(key) for key in about["missing_keys"]}
        others = sorted(key for key in missing if not key.startswith("pooler."))
        if others:
            raise InputError(
                f"The encoder {self.encoder!r} has no weights for {first_few(others)}; give one "
                "that was trained."
            )
        return model.float().eval().to(self.device).requires_grad_(False), missing

    @cached_property
    def _processor(self) -> Any:
        import transformers

        # Pillow's resizing everywhere: torchvision's, where it is installed, gives other pixels.
        newer = int(transformers.__version__.partition(".")[0]) >= 5
        return self._load(
            "AutoImageProcessor", **({"backend": "pil"} if newer else {"use_fast": False})
        )

    def _settings(self) -> str:
        return f"image {self.pooling}"
