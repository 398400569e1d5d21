"""Texts to tensors: TF-IDF or hashed n-grams as padded bags, or a tokenizer's sequences.

A fitted featurizer is saved as JSON, so that a student's folder can read new texts in the same way.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import orjson
import torch
from scipy.sparse import csr_matrix
from sklearn.feature_extraction.text import HashingVectorizer, TfidfVectorizer
from torch import Tensor

from noisyteacher.core.errors import InputError, warn
from noisyteacher.core.files import write_atomic
from noisyteacher.core.hub import load_pretrained, model_digest, without_tilde
from noisyteacher.data.views import BagViews, EncoderViews, Views

if TYPE_CHECKING:
    from noisyteacher.data.tensors import Inputs


class Featurizer(Protocol):
    """Turns texts into two tensors with one row per text, and has their views.

    By default a subclass makes bags of words and needs no fitting; it overrides methods otherwise.
    """

    @property
    def features(self) -> int:
        """The number of different entries (words, tokens)."""
        ...

    @property
    def fitted(self) -> bool:
        """Whether ``transform`` can be called."""
        return True

    def fit_transform(self, texts: Sequence[str]) -> Inputs:
        """Fit on the training texts, and transform them."""
        return self.transform(texts)

    def transform(self, texts: Sequence[str]) -> Inputs:
        """(n, m) indices or token ids, and (n, m) values or attention mask; or (n, d) vectors."""
        ...

    def views(self) -> Views:
        """The views for these tensors."""
        return BagViews()

    def to_json(self) -> dict[str, Any]:
        """Everything needed to restore it, under its ``kind``."""
        ...

    @property
    def digest(self) -> str:
        """A digest that identifies the featurizer, as a run's folder records it."""
        return hashlib.sha256(orjson.dumps(self.to_json())).hexdigest()


@dataclass(eq=False, repr=False)
class Tfidf(Featurizer):
    """TF-IDF entries of the most frequent words and pairs of words, as rows of (index, value).

    Pairs distinguish "not good" from "good": on IMDB they make every linear student one to two
    points better. Words and pairs that fewer than ``min_texts`` of the training texts contain are
    left out, unless none would remain. With ``sublinear``, a word that occurs c times counts as 1 +
    log c. Rows are zero-padded, as wide as the longest training text needs and at most
    ``max_entries``. A longer text keeps the entries with the largest values, and a warning is
    issued.
    """

    max_features: int = 20_000
    ngrams: tuple[int, int] = (1, 2)
    sublinear: bool = True
    max_entries: int = 512
    min_texts: int = 2

    def fit(self, texts: Sequence[str]) -> Tfidf:
        """Fit the vocabulary and its weights."""
        self.fit_transform(texts)
        return self

    def fit_transform(self, texts: Sequence[str]) -> tuple[Tensor, Tensor]:
        """Fit and transform in a single pass over the texts, which takes most of the time."""
        self.vectorizer_, matrix = self._fit(texts)
        self.width_ = min(self.max_entries, int(np.diff(matrix.indptr).max(initial=1)))
        return _bags(matrix, self.width_)

    @property
    def fitted(self) -> bool:
        return hasattr(self, "vectorizer_")

    @property
    def features(self) -> int:
        return len(self._fitted().vocabulary_)

    def transform(self, texts: Sequence[str]) -> tuple[Tensor, Tensor]:
        """(n, m) int64 indices and (n, m) float32 values."""
        return _bags(self._fitted().transform(texts), self.width_)

    def to_json(self) -> dict[str, Any]:
        fitted = self._fitted()
        words = sorted(fitted.vocabulary_, key=fitted.vocabulary_.get)
        return {
            "kind": "tfidf",
            "max_features": self.max_features,
            "ngrams": self.ngrams,
            "sublinear": self.sublinear,
            "max_entries": self.max_entries,
            "width": self.width_,
            "words": words,
            "idf": fitted.idf_.tolist(),
        }

    @classmethod
    def from_json(cls, saved: dict[str, Any]) -> Tfidf:
        """Restore it as it was fitted."""
        words, idf, width = saved["words"], saved["idf"], saved["width"]
        if not isinstance(words, list) or len(set(words)) != len(words):
            raise TypeError("its words are not a list of different words")
        if not isinstance(idf, list) or len(idf) != len(words):
            raise TypeError("it has not one idf for each word")
        if type(width) is not int or not 0 < width <= max(len(words), 1):
            raise TypeError(f"its width is {width!r}")
        made = cls(
            saved["max_features"], tuple(saved["ngrams"]), saved["sublinear"], saved["max_entries"]
        )
        vocabulary = {word: i for i, word in enumerate(words)}
        made.vectorizer_ = made._vectorizer(vocabulary=vocabulary)
        made.width_ = width
        made.vectorizer_.idf_ = np.array(idf, np.float64)
        made.vectorizer_.vocabulary_ = vocabulary
        return made

    def _fit(self, texts: Sequence[str]) -> tuple[TfidfVectorizer, csr_matrix]:
        for least in dict.fromkeys((min(self.min_texts, len(texts)), 1)):
            vectorizer = self._vectorizer(max_features=self.max_features, min_df=least)
            try:
                return vectorizer, vectorizer.fit_transform(texts)
            except ValueError:  # no words are left
                continue
        raise InputError(f"TF-IDF found no words in {len(texts)} texts.")

    def _vectorizer(self, **more: Any) -> TfidfVectorizer:
        return TfidfVectorizer(
            ngram_range=self.ngrams, sublinear_tf=self.sublinear, dtype=np.float64, **more
        )

    def _fitted(self) -> TfidfVectorizer:
        if not self.fitted:
            raise InputError("This Tfidf is not fitted yet; call fit(texts) first.")
        return self.vectorizer_


@dataclass(frozen=True)
class HashedNgrams(Featurizer):
    """Counts of hashed words and n-grams: there is nothing to fit and no vocabulary to store.

    Rows are as wide as the longest text needs and at most ``max_entries``. A text with more entries
    keeps those with the largest values, and a warning is issued.
    """

    buckets: int = 2**18
    ngrams: tuple[int, int] = (1, 2)
    max_entries: int = 1024

    @property
    def features(self) -> int:
        return self.buckets

    def transform(self, texts: Sequence[str]) -> tuple[Tensor, Tensor]:
        """(n, m) int64 indices and (n, m) float32 values; rows of unit length."""
        vectorizer = HashingVectorizer(n_features=self.buckets, ngram_range=self.ngrams)
        matrix = vectorizer.transform(texts)
        return _bags(matrix, min(self.max_entries, int(np.diff(matrix.indptr).max(initial=1))))

    def to_json(self) -> dict[str, Any]:
        return {"kind": "hashed", **asdict(self)}

    @classmethod
    def from_json(cls, saved: dict[str, Any]) -> HashedNgrams:
        """Restore it from its settings."""
        buckets, entries = saved["buckets"], saved["max_entries"]
        if type(buckets) is not int or type(entries) is not int or not 0 < entries <= buckets:
            raise TypeError(f"it has {entries!r} entries of {buckets!r} buckets")
        return cls(buckets, tuple(saved["ngrams"]), entries)


class Tokens(Featurizer):
    """Sequences of a Hugging Face tokenizer, by name or local folder, truncated and padded."""

    def __init__(self, tokenizer: str | Path, max_length: int = 256) -> None:
        self.tokenizer = without_tilde(tokenizer)
        self.max_length = max_length
        self._loaded = load_pretrained("AutoTokenizer", self.tokenizer, "tokenizer")

    @property
    def features(self) -> int:
        return len(self._loaded)

    def transform(self, texts: Sequence[str]) -> tuple[Tensor, Tensor]:
        """(n, max_length) int64 token ids and attention mask."""
        coded = self._loaded(
            list(texts),
            truncation=True,
            padding="max_length",
            max_length=self.max_length,
            return_tensors="pt",
        )
        return coded["input_ids"], coded["attention_mask"]

    def views(self) -> EncoderViews:
        mask = self._loaded.mask_token_id
        mask = self._loaded.unk_token_id if mask is None else mask
        special = tuple(sorted(set(self._loaded.all_special_ids) - {self._loaded.unk_token_id}))
        return EncoderViews(mask_id=mask, keep_ids=special)

    def to_json(self) -> dict[str, Any]:
        return {"kind": "tokens", "tokenizer": self.tokenizer, "max_length": self.max_length}

    @property
    def digest(self) -> str:
        """A digest of the files in its folder, including the encoder that is fine-tuned."""
        return model_digest(self.tokenizer, str(self.max_length))

    @classmethod
    def from_json(cls, saved: dict[str, Any]) -> Tokens:
        """Restore it from the tokenizer's name or folder."""
        return cls(saved["tokenizer"], saved["max_length"])


def _bags(matrix: csr_matrix, width: int) -> tuple[Tensor, Tensor]:
    """As ``padded_bags``, with a warning where texts are cut."""
    # It says nothing of these very texts, so that the batches of a run give one warning in all.
    if np.diff(matrix.indptr).max(initial=0) > width:
        warn(
            f"Some texts have more than {width} different words and n-grams, the most that a row "
            "holds (the longest training text's number, or max_entries): of each, the "
            f"{width} largest values are kept."
        )
    return padded_bags(matrix, width)


def padded_bags(matrix: csr_matrix, width: int) -> tuple[Tensor, Tensor]:
    """(n, d) sparse rows -> (n, width) int64 indices and (n, width) float32 values.

    Rows with more entries keep those of the largest size; padding has index 0 and value 0.
    """
    lengths = np.diff(matrix.indptr)
    row = np.repeat(np.arange(len(lengths)), lengths)
    # Within each row, the largest entries first; of equal ones, the lower index.
    order = np.lexsort((matrix.indices, -np.abs(matrix.data), row))
    rank = np.arange(len(order)) - np.repeat(matrix.indptr[:-1], lengths)
    kept = rank < width
    indices = np.zeros((len(lengths), width), np.int64)
    values = np.zeros((len(lengths), width), np.float32)
    indices[row[kept], rank[kept]] = matrix.indices[order][kept]
    values[row[kept], rank[kept]] = matrix.data[order][kept]
    return torch.from_numpy(indices), torch.from_numpy(values)


_FROM_JSON: dict[str, Callable[[dict[str, Any]], Featurizer]] = {
    "tfidf": Tfidf.from_json,
    "hashed": HashedNgrams.from_json,
    "tokens": Tokens.from_json,
}


def save_featurizer(featurizer: Featurizer, path: str | Path) -> None:
    """Write a featurizer as JSON."""
    write_atomic(path, orjson.dumps(featurizer.to_json()))


def load_featurizer(path: str | Path) -> Featurizer:
    """Load a saved featurizer; its output is the same as before saving."""
    try:
        saved = orjson.loads(Path(path).read_bytes())
        return _FROM_JSON[saved["kind"]](saved)
    except (OSError, orjson.JSONDecodeError, KeyError, TypeError, ValueError) as error:
        raise InputError(f"{path} is not a saved featurizer: {error}.") from error
