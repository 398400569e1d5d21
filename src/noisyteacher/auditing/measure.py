"""All measurements of one checked case."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np

from noisyteacher.auditing.bootstrap import Bootstrap, Interval
from noisyteacher.auditing.curve import PoolTrust, fit_alpha_curve
from noisyteacher.auditing.drift import compare_with_pool
from noisyteacher.auditing.leakage import look_for_leaks
from noisyteacher.auditing.numbers import Numbers
from noisyteacher.auditing.per_class import look_at_classes
from noisyteacher.auditing.probe import Features, probe_gold
from noisyteacher.auditing.quality import measure_quality
from noisyteacher.auditing.reading import read_val, summarise_rows
from noisyteacher.core.errors import NoisyTeacherWarning
from noisyteacher.labels import TeacherLabels
from noisyteacher.noise.teacher import TeacherNoise
from noisyteacher.noise.trust import Trust


@dataclass(frozen=True)
class GoldInputs:
    """What the gold-only probe learns from."""

    val: Features
    gold: Features | None  # of A, with its classes; None and empty where they were not given
    gold_y: np.ndarray


@dataclass(frozen=True)
class Case:
    """What the user asked, after all checks."""

    val: TeacherLabels
    y: np.ndarray  # (v,) int64
    pool: TeacherLabels | None  # without V's and A's rows
    val_ids: np.ndarray
    gold_ids: np.ndarray
    shown_pool_ids: np.ndarray  # of the pool as it was given, where it was given apart
    inputs: GoldInputs | None
    noise: TeacherNoise
    bootstrap: Bootstrap


def measure(case: Case) -> Numbers:
    """Every number of the audit."""
    noise = case.noise.fit(case.val, case.y)
    val, bootstrap = read_val(case.val, case.y), case.bootstrap
    # Without a pool, V shows what one like it would look like.
    pool_labels = case.val if case.pool is None else case.pool
    pool = summarise_rows(pool_labels)
    trust = _predict(noise, pool_labels)
    curve, spread = fit_alpha_curve(
        val.margin, val.right, pool.margin, trust.lower_bound, bootstrap
    )
    probe = None
    if case.inputs is not None:
        given = case.inputs
        probe = probe_gold(given.val, val.y, given.gold, given.gold_y, val.right, bootstrap)
    return Numbers(
        teacher=case.val.teacher,
        num_classes=val.num_classes,
        stored=val.stored,
        val_rows=len(val),
        pool_rows=0 if case.pool is None else len(pool),
        lower_bound=float(noise.lower_bound),
        threshold=float(noise.threshold),
        replicates=bootstrap.replicates,
        seed=bootstrap.seed,
        quality=measure_quality(val, bootstrap),
        curve=curve,
        trust=_pool_trust(trust, spread),
        drift=None if case.pool is None else compare_with_pool(val, pool, bootstrap),
        per_class=look_at_classes(val, pool, case.val.classes),
        leakage=look_for_leaks(
            val.margin,
            None if case.pool is None else pool.margin,
            case.val_ids,
            case.gold_ids,
            case.shown_pool_ids,
        ),
        probe=probe,
    )


def _predict(noise: TeacherNoise, labels: TeacherLabels) -> Trust:
    with warnings.catch_warnings():
        # Rows beyond the stored classes become a finding.
        warnings.simplefilter("ignore", NoisyTeacherWarning)
        return noise.predict(labels)


def _pool_trust(trust: Trust, spread: dict[str, Interval]) -> PoolTrust:
    sizes, rows = np.unique(np.asarray(trust.k), return_counts=True)
    return PoolTrust(
        rows=len(trust),
        **spread,
        k_rows=dict(zip(sizes.tolist(), rows.tolist(), strict=True)),
        k_median=float(np.median(np.asarray(trust.k))),
        unreachable_share=trust.unreachable_share,
    )
