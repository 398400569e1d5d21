"""What distilling would bring: linear students with and without the teacher, as distill compares.

The rows, folds, candidates and sentences are those of ``distill`` on the same files, so both say
the same. Without inputs of the pool only students of gold labels alone can be trained; then nothing
is claimed about distilling.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse as sp
from torch import Tensor

from noisyteacher.choose.decision import Interval
from noisyteacher.choose.evidence import DecisionRows
from noisyteacher.choose.folds import LEAST_ROWS, input_groups
from noisyteacher.choose.linear_choice import choose_linear, default_methods, linear_candidates
from noisyteacher.choose.verdict import ENOUGH_GOLD, gold_verdict, is_no_gain, verdict
from noisyteacher.core.errors import InputError, counted, first_few, warn
from noisyteacher.data import Tfidf
from noisyteacher.data.dataset import Kind, take_rows
from noisyteacher.data.input_format import fit_format
from noisyteacher.data.tensors import FeatureMatrix
from noisyteacher.labels import TeacherLabels
from noisyteacher.labels.checks import as_array
from noisyteacher.labels.teacher_labels import join_labels
from noisyteacher.methods import GoldOnly

_LARGEST_SIDE = 32  # pixels; larger images are averaged down for linear students

AuditInputs: TypeAlias = np.ndarray | sp.csr_matrix | list[str]


@dataclass(frozen=True)
class GoldInputs:
    """Inputs of V, of A with its classes, and of the pool; None where they were not given.

    Rows of V without a teacher label are used for the students, but not to measure the teacher.
    """

    val: AuditInputs
    y: np.ndarray  # (v,) true classes of V
    labeled: np.ndarray  # (v,) bool: the rows of V that have a teacher label
    gold: AuditInputs | None
    gold_y: np.ndarray
    pool: AuditInputs | None
    pool_ids: np.ndarray  # of the pool's inputs


@dataclass(frozen=True)
class GoldComparison:
    """Linear students of gold labels alone, and of both, beside the teacher on the same rows."""

    kind: Kind  # what the inputs are
    rows: int  # gold rows on which students are compared, by cross-validation
    learned_from: int  # gold rows, of V and A
    gold_only: Interval
    student: Interval | None  # with the teacher's labels; None without inputs of the pool
    gain: Interval | None  # of the student over gold labels alone
    gold_weight: float  # the share of the student that gold labels alone have
    verdict: str

    @property
    def gold_is_enough(self) -> bool:
        """Whether the teacher's labels add nothing, in the words of the verdict."""
        if self.gain is None:
            return False
        return is_no_gain(self.gain.value, self.gain.high) or self.gold_weight >= ENOUGH_GOLD


def read_inputs(inputs: Any, rows: int, what: str) -> AuditInputs:
    """Inputs as users give them: n texts, or numbers of shape (n, ...), dense or sparse."""
    if _is_texts(inputs):
        texts = [str(text) for text in inputs]
        _check_rows(len(texts), rows, what)
        return texts
    if sp.issparse(inputs):
        features = sp.csr_matrix(inputs, dtype=np.float32)
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


def _is_texts(inputs: Any) -> bool:
    if isinstance(inputs, np.ndarray):
        return bool(inputs.dtype.kind == "U")
    return isinstance(inputs, Sequence) and len(inputs) > 0 and isinstance(inputs[0], str)


def compare_with_gold(
    given: GoldInputs, val: TeacherLabels, pool: TeacherLabels | None, seed: int
) -> GoldComparison:
    """Cross-fit linear students over the rows of V; rows of A are in every training part.

    Args:
        given: the inputs.
        val: teacher labels of V's labeled rows.
        pool: teacher labels of the pool; rows without inputs, or with those of a gold row, take
            no part.
    """
    if len(val) < LEAST_ROWS:
        raise InputError(
            f"{len(val)} gold rows are too few to compare students on; use at least {LEAST_ROWS}, "
            "or leave out the inputs."
        )
    known = len(given.gold_y)  # rows of A come first, and no teacher label of theirs is used
    pool_inputs, pool_labels = _with_both(given, pool)
    joined = _joined([part for part in (given.gold, given.val, pool_inputs) if part is not None])
    groups = input_groups(joined)
    if pool_labels is not None:
        new = _not_among_gold(groups, known + len(given.y), pool_labels.ids)
        pool_labels = pool_labels.take(pool_labels.ids[new]) if new.any() else None
        kept = np.concatenate([np.ones(known + len(given.y), bool), new])
        joined, groups = take_rows(joined, np.flatnonzero(kept)), groups[kept]
    labels = val if pool_labels is None else join_labels([val, pool_labels])
    truth = np.concatenate([given.gold_y, given.y, np.full(len(labels) - len(val), -1)])
    ids = np.arange(len(truth))
    judges = (ids >= known) & (truth >= 0)
    labeled = np.concatenate([known + np.flatnonzero(given.labeled), np.flatnonzero(truth < 0)])
    features = _features(joined)
    rows = DecisionRows(
        features,
        ids,
        truth,
        judges,
        judges,
        replace(labels, ids=labeled),
        len(val.classes),
        groups=groups,
    )
    taught = pool_labels is not None
    methods = default_methods(sp.issparse(features)) if taught else (GoldOnly(),)
    choice = choose_linear(rows, linear_candidates(methods), seed=seed)
    return GoldComparison(
        kind=_kind(given.val),
        rows=choice.rows,
        learned_from=int((truth >= 0).sum()),
        gold_only=choice.gold_only,
        student=choice.score if taught else None,
        gain=choice.gain if taught else None,
        gold_weight=choice.gold_weight,
        verdict=verdict(choice, choice.said_of_pool, val.classes)
        if taught
        else gold_verdict(choice.gold_only, choice.teacher),
    )


def _with_both(
    given: GoldInputs, pool: TeacherLabels | None
) -> tuple[AuditInputs | None, TeacherLabels | None]:
    """Inputs and teacher labels of the pool's rows that have both, in the order of the inputs."""
    if given.pool is None or pool is None:
        return None, None
    both = np.flatnonzero(pool.has(given.pool_ids))
    if not len(both):
        return None, None
    return take_rows(given.pool, both), pool.take(given.pool_ids[both])


def _not_among_gold(groups: np.ndarray, gold: int, ids: np.ndarray) -> np.ndarray:
    """(p,) bool: the pool's rows whose inputs no gold row has; warns of the others.

    ``groups`` holds the ``gold`` rows first, then the pool's.
    """
    copies = np.isin(groups[gold:], groups[:gold])
    if copies.any():
        warn(
            "Left out of the pool, because the gold rows have the same inputs: "
            f"{counted(int(copies.sum()), 'example')} ({first_few(ids[copies].tolist())}).",
        )
    return np.asarray(~copies)


def _joined(parts: list[AuditInputs]) -> AuditInputs:
    kinds = {_kind(part) for part in parts}
    if len(kinds) > 1 or len({np.shape(part)[1:] for part in parts}) > 1:
        raise InputError("inputs, gold_inputs and pool_inputs must be of one kind and one shape.")
    if kinds == {"text"}:
        return [text for part in parts for text in part]
    if any(sp.issparse(part) for part in parts):
        return sp.csr_matrix(sp.vstack([sp.csr_matrix(part) for part in parts]))
    return np.concatenate(parts)


def _features(inputs: AuditInputs) -> FeatureMatrix:
    """What linear students of distill read; pixels of images are the columns of a table."""
    if sp.issparse(inputs):
        return inputs
    if isinstance(inputs, list):
        made, tensors = fit_format("text", inputs, Tfidf())
    else:
        inputs = _pixels(inputs) if inputs.ndim == 4 else inputs
        made, tensors = fit_format("table", inputs.reshape(len(inputs), -1))
    return made.matrix(tensors)


def _pixels(images: np.ndarray) -> np.ndarray:
    """Means of squares of pixels, so that neither side is longer than ``_LARGEST_SIDE``."""
    n, height, width, channels = images.shape
    step = -(-max(height, width) // _LARGEST_SIDE)
    images = images[:, : height - height % step, : width - width % step]
    blocks = images.reshape(n, height // step, step, width // step, step, channels)
    return np.asarray(blocks.mean((2, 4), dtype=np.float32))


def _kind(inputs: AuditInputs) -> Kind:
    if isinstance(inputs, list):
        return "text"
    return "image" if inputs.ndim == 4 else "table"
