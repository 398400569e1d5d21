"""Is the teacher worth it at all? A linear model of the gold labels alone, cross-validated."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse as sp
from jaxtyping import Int
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.model_selection import StratifiedKFold
from torch import Tensor

from noisyteacher.auditing.bootstrap import Bootstrap, Interval, interval, share_interval
from noisyteacher.auditing.quality import ValReading
from noisyteacher.core.errors import InputError
from noisyteacher.labels.checks import as_array

FOLDS = 5
_WORDS = 20_000
_STRENGTH = 10.0  # C of rows of unit length, from TF-IDF or scaled to it
_LARGE = 2e8  # rows x features x classes beyond which a logistic regression takes minutes

Features: TypeAlias = np.ndarray | sp.csr_matrix | list[str]


@dataclass(frozen=True)
class GoldInputs:
    """What the probe learns from."""

    val: Features
    gold: Features | None  # of A, with its classes; None and empty where they were not given
    gold_y: np.ndarray


@dataclass(frozen=True)
class Probe:
    """Gold labels alone against the teacher, on the rows of V."""

    accuracy: Interval  # out of fold
    lead: Interval  # accuracy less the teacher's, on the same rows
    rows: int  # gold rows, of V and A, that the model learned from
    kind: str  # "text", "image" or "table": what the inputs are

    @property
    def clearly_better(self) -> bool:
        """Whether chance does not explain that gold alone wins."""
        return self.lead.low > 0

    @property
    def clearly_worse(self) -> bool:
        """Whether chance does not explain that the teacher wins."""
        return self.lead.high < 0


def read_features(inputs: Any, rows: int, what: str) -> Features:
    """Inputs as users give them: n texts, or numbers of shape (n, ...), dense or sparse."""
    if _is_texts(inputs):
        texts = [str(text) for text in inputs]
        _check_rows(len(texts), rows, what)
        return texts
    if sp.issparse(inputs):
        features = sp.csr_matrix(inputs, dtype=np.float64)
        numbers = features.data
    else:
        given = as_array(inputs, what)
        features = numbers = np.asarray(given.cpu() if isinstance(given, Tensor) else given)
        if numbers.ndim < 2:
            raise InputError(f"{what} must have shape (n, ...), but has {numbers.shape}.")
    _check_rows(features.shape[0], rows, what)
    if not np.isfinite(numbers).all():
        raise InputError(f"{what} must be finite numbers, but hold NaN or infinity.")
    return features


def _check_rows(found: int, wanted: int, what: str) -> None:
    if found != wanted:
        raise InputError(f"{what} must have {wanted} rows, one for each label, but has {found}.")


def take_features(features: Features, rows: Int[np.ndarray, " r"]) -> Features:
    """Some of the rows, in that order."""
    return [features[row] for row in rows] if isinstance(features, list) else features[rows]


def probe_gold(given: GoldInputs, val: ValReading, bootstrap: Bootstrap) -> Probe:
    """Predict each fold of V from the others and all of A, and compare with the teacher."""
    both, y = _joined(given.val, given.gold), np.concatenate([val.y, given.gold_y])
    if len(y) < 2:
        raise InputError("inputs need at least 2 gold rows: one to learn from and one to judge.")
    answer = np.empty(len(val), np.int64)
    for held_out in _folds(val.y, bootstrap.seed):
        kept = np.setdiff1d(np.arange(len(y)), held_out)
        answer[held_out] = _learn_and_answer(both, y, kept, held_out)
    right = answer == val.y
    lead = right.astype(np.float64) - val.right
    drawn = bootstrap.means(np.column_stack([right, lead]).astype(np.float64))
    return Probe(
        accuracy=share_interval(float(right.mean()), drawn[:, 0], len(val)),
        lead=interval(float(lead.mean()), drawn[:, 1]),
        rows=len(y),
        kind=_kind(given.val),
    )


def _learn_and_answer(
    inputs: Features,
    y: Int[np.ndarray, " n"],
    kept: Int[np.ndarray, " k"],
    held_out: Int[np.ndarray, " h"],
) -> Int[np.ndarray, " h"]:
    if len(np.unique(y[kept])) == 1:
        return np.full(len(held_out), y[kept][0])
    seen, new = _as_numbers(inputs, kept, held_out)
    size = seen.nnz if sp.issparse(seen) else seen.size
    if size * len(np.unique(y[kept])) > _LARGE:
        model = RidgeClassifier(alpha=1.0)
    else:
        model = LogisticRegression(C=_STRENGTH, max_iter=200, tol=1e-3)
    return np.asarray(model.fit(seen, y[kept]).predict(new))


def _as_numbers(inputs: Features, kept: np.ndarray, held_out: np.ndarray) -> tuple[Any, Any]:
    """Rows of about unit length; everything that is learned, on the kept rows only."""
    if isinstance(inputs, list):
        words = TfidfVectorizer(max_features=_WORDS, sublinear_tf=True)
        try:
            seen = words.fit_transform([inputs[i] for i in kept])
        except ValueError:  # scikit-learn has no error of its own for this
            raise InputError("inputs must be texts, but have no words of two letters.") from None
        return seen, words.transform([inputs[i] for i in held_out])
    if sp.issparse(inputs):
        seen, new = inputs[kept], inputs[held_out]
        scale = np.sqrt(max(float(seen.multiply(seen).sum()) / len(kept), 1e-12))
        return seen / scale, new / scale
    flat = inputs.reshape(len(inputs), -1).astype(np.float64)
    seen, new = flat[kept], flat[held_out]
    mean, spread = seen.mean(axis=0), seen.std(axis=0)
    scale = np.where(spread > 0, spread, 1.0) * np.sqrt(flat.shape[1])
    return (seen - mean) / scale, (new - mean) / scale


def _folds(y: Int[np.ndarray, " n"], seed: int) -> list[Int[np.ndarray, " h"]]:
    """The held-out rows of each fold, every class spread over the folds as evenly as can be."""
    folds = min(FOLDS, int(np.bincount(y).max()))
    if folds < 2:  # no class has two rows
        return list(np.arange(len(y))[:, None])
    splitter = StratifiedKFold(folds, shuffle=True, random_state=seed)
    with warnings.catch_warnings():
        # Classes with fewer rows than folds cannot be in every fold, and need not be.
        warnings.filterwarnings("ignore", message="The least populated class")
        return [held_out for _, held_out in splitter.split(y, y)]


def _joined(val: Features, train: Features | None) -> Features:
    if train is None:
        return val
    if isinstance(val, list) and isinstance(train, list):
        return val + train
    if isinstance(val, list) or isinstance(train, list) or val.shape[1:] != train.shape[1:]:
        raise InputError("the inputs of A and of V must be of one kind and one shape.")
    if isinstance(val, np.ndarray) and isinstance(train, np.ndarray):
        return np.concatenate([val, train])
    return sp.csr_matrix(sp.vstack([sp.csr_matrix(val), sp.csr_matrix(train)]))


def _kind(features: Features) -> str:
    if isinstance(features, list):
        return "text"
    return "image" if features.ndim == 4 else "table"


def _is_texts(inputs: Any) -> bool:
    if isinstance(inputs, np.ndarray):
        return bool(inputs.dtype.kind == "U")
    return isinstance(inputs, Sequence) and len(inputs) > 0 and isinstance(inputs[0], str)
