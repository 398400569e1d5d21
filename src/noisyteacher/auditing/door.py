"""The audit's door: what the user hands in, checked once."""

from __future__ import annotations

from typing import Any

import numpy as np

from noisyteacher.auditing.bootstrap import Bootstrap
from noisyteacher.auditing.findings import find
from noisyteacher.auditing.measure import Case, GoldInputs, measure
from noisyteacher.auditing.probe import Features, read_features
from noisyteacher.auditing.recommend import recommend
from noisyteacher.auditing.result import Audit
from noisyteacher.core.errors import InputError
from noisyteacher.io.classes import class_numbers
from noisyteacher.io.ids import IdLookup, check_unique, clean_ids
from noisyteacher.labels import TeacherLabels
from noisyteacher.labels.checks import as_array, check_shape
from noisyteacher.noise.isotonic import Number
from noisyteacher.noise.rows import LabelsOrProbs
from noisyteacher.noise.teacher import TeacherNoise

_FEWEST_REPLICATES = 50


def audit(
    labels: LabelsOrProbs,
    y: Any,
    ids: Any = None,
    *,
    pool: LabelsOrProbs | None = None,
    inputs: Any = None,
    gold_ids: Any = None,
    gold_y: Any = None,
    gold_inputs: Any = None,
    kind: str | None = None,
    lower_bound: Number = 0.5,
    threshold: Number = 0.9,
    replicates: int = 1000,
    seed: int = 0,
) -> Audit:
    """Measure a teacher on V and say whether, and how, to distil it.

    Args:
        labels: what the teacher said: TeacherLabels, or probabilities (n, L). Rows that are not
            V's or A's are the pool, unless ``pool`` is given.
        y: the true classes of V, (v,), as numbers or class names.
        ids: the ids of V's rows, (v,); by default all rows of ``labels`` are V, in their order.
        pool: what the teacher said of the pool, when it is kept apart.
        inputs: V's inputs for the gold-only probe: texts, or numbers (v, ...) such as embeddings.
        gold_ids: ids of A, which the teacher may have been trained on.
        gold_y, gold_inputs: A's classes and inputs, so that the probe learns from A too.
        kind: "text", "image" or "table": what the student will read; by default as ``inputs``.
        lower_bound, threshold: those of ``TeacherNoise``.
        replicates, seed: of the bootstrap.
    """
    if replicates < _FEWEST_REPLICATES:
        raise InputError(f"replicates must be at least {_FEWEST_REPLICATES}, not {replicates}.")
    if kind not in (None, "text", "image", "table"):
        raise InputError(f'kind must be "text", "image" or "table", not {kind!r}.')
    store = _as_labels(labels)
    truth = class_numbers(y, store.classes)
    val_ids = store.ids if ids is None else _unique(ids)
    if len(val_ids) != len(truth):
        raise InputError(f"{len(truth)} true classes were given for {len(val_ids)} rows of V.")
    a_ids = store.ids[:0] if gold_ids is None else _unique(gold_ids)
    given_pool = None if pool is None else _given_pool(pool, labels, store)
    case = Case(
        val=store if ids is None else store.take(val_ids),
        y=truth,
        pool=_pool(store, given_pool, val_ids, a_ids),
        val_ids=val_ids,
        gold_ids=a_ids,
        shown_pool_ids=val_ids[:0] if given_pool is None else given_pool.ids,
        inputs=_probe_inputs(inputs, gold_inputs, gold_y, len(truth), store),
        noise=TeacherNoise(lower_bound=lower_bound, threshold=threshold),
        bootstrap=Bootstrap(len(truth), replicates, seed),
    )
    numbers = measure(case)
    findings = find(numbers)
    probed = None if numbers.probe is None else numbers.probe.kind
    return Audit(numbers, findings, recommend(numbers, findings, kind or probed))


def _as_labels(labels_or_probs: LabelsOrProbs, first_id: int = 0) -> TeacherLabels:
    """Probabilities as they would be stored, so that the audit sees what training will see."""
    if isinstance(labels_or_probs, TeacherLabels):
        return labels_or_probs
    given = as_array(labels_or_probs, "Teacher probabilities")
    check_shape(given, "Teacher probabilities", ("n", "L"))
    return TeacherLabels.from_probs(np.arange(first_id, first_id + len(given)), given)


def _given_pool(pool: LabelsOrProbs, labels: LabelsOrProbs, store: TeacherLabels) -> TeacherLabels:
    if isinstance(pool, TeacherLabels) != isinstance(labels, TeacherLabels):
        raise InputError("labels and pool must both be TeacherLabels, or both probabilities.")
    made = _as_labels(pool, first_id=len(store))  # arrays have no ids: none may be shared
    if made.classes != store.classes:
        raise InputError("the pool's labels have other classes than V's.")
    return made


def _unique(ids: Any) -> np.ndarray:
    cleaned = clean_ids(ids)
    check_unique(cleaned)
    return cleaned


def _pool(
    store: TeacherLabels, given: TeacherLabels | None, val_ids: np.ndarray, gold_ids: np.ndarray
) -> TeacherLabels | None:
    """The pool without rows of V and A; None where nothing is left."""
    source = store if given is None else given
    known = IdLookup(val_ids).find(source.ids) >= 0
    known |= IdLookup(gold_ids).find(source.ids) >= 0
    if known.all():
        return None
    return source.take(source.ids[~known]) if known.any() else source


def _probe_inputs(
    inputs: Any, gold_inputs: Any, gold_y: Any, rows: int, store: TeacherLabels
) -> GoldInputs | None:
    if inputs is None:
        if gold_inputs is not None:
            raise InputError("gold_inputs needs inputs too: the probe is judged on V.")
        return None
    if (gold_inputs is None) != (gold_y is None):
        raise InputError("gold_inputs and gold_y belong together: one of them is missing.")
    val = read_features(inputs, rows, "inputs")
    if gold_inputs is None:
        return GoldInputs(val, None, np.empty(0, np.int64))
    truth = class_numbers(gold_y, store.classes)
    gold: Features = read_features(gold_inputs, len(truth), "gold_inputs")
    return GoldInputs(val, gold, truth)
