"""Everything the audit measures, before anyone draws conclusions."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np

from noisyteacher.auditing.bootstrap import Bootstrap
from noisyteacher.auditing.curves import (
    AlphaCurve,
    PerClass,
    PoolTrust,
    fit_alpha_curve,
    report_classes,
)
from noisyteacher.auditing.drift import Drift, Leakage, check_leakage, compare_with_pool
from noisyteacher.auditing.gold_comparison import (
    GoldComparison,
    GoldInputs,
    compare_with_gold,
)
from noisyteacher.auditing.quality import Quality, measure_quality, read_val, summarize_rows
from noisyteacher.choose.decision import Interval
from noisyteacher.core.errors import NoisyTeacherWarning
from noisyteacher.labels import TeacherLabels
from noisyteacher.noise import TeacherNoise, Trust
from noisyteacher.noise.saving import lowest_alpha


@dataclass(frozen=True)
class Numbers:
    """The measurements of the audit. Their 95% intervals are over the rows of V."""

    teacher: str | None
    num_classes: int
    stored: int  # classes stored per row
    val_rows: int
    pool_rows: int  # 0 where no pool was given; then V stands in for it below
    lower_bound: float
    threshold: float  # the accuracy that k(x) asks of a shortlist
    replicates: int
    seed: int
    quality: Quality
    curve: AlphaCurve
    trust: PoolTrust
    drift: Drift | None  # None without a pool
    per_class: PerClass
    leakage: Leakage
    comparison: GoldComparison | None  # None without inputs

    @property
    def pool_name(self) -> str:
        """What the numbers about the pool refer to, for use in a sentence."""
        return "the pool" if self.pool_rows else "the gold rows"


@dataclass(frozen=True)
class Case:
    """What the audit was asked, after all checks."""

    val: TeacherLabels
    y: np.ndarray  # (v,) int64
    pool: TeacherLabels | None  # without V's and A's rows
    gold_ids: np.ndarray  # of A
    given_pool_ids: np.ndarray  # of the pool as it was given; empty where it is the store's rest
    inputs: GoldInputs | None
    noise: TeacherNoise
    bootstrap: Bootstrap


def measure(case: Case) -> Numbers:
    """Every number of the audit."""
    noise = case.noise.fit(case.val, case.y)
    val, bootstrap = read_val(case.val, case.y), case.bootstrap
    # Without a pool, V shows what one like it would look like.
    pool_labels = case.val if case.pool is None else case.pool
    pool = summarize_rows(pool_labels)
    with warnings.catch_warnings():
        # Rows beyond the stored classes become a finding.
        warnings.simplefilter("ignore", NoisyTeacherWarning)
        trust = noise.predict(pool_labels)
    curve, intervals = fit_alpha_curve(val, pool, lowest_alpha(noise.lower_bound), bootstrap)
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
        trust=_pool_trust(trust, intervals),
        drift=None if case.pool is None else compare_with_pool(val, pool, bootstrap),
        per_class=report_classes(val, pool, case.val.classes),
        leakage=check_leakage(
            val.margin,
            None if case.pool is None else pool.margin,
            case.val.ids,
            case.gold_ids,
            case.given_pool_ids,
        ),
        comparison=None
        if case.inputs is None
        else compare_with_gold(case.inputs, case.val, case.pool, bootstrap.seed),
    )


def _pool_trust(trust: Trust, intervals: dict[str, Interval]) -> PoolTrust:
    sizes, rows = np.unique(np.asarray(trust.k), return_counts=True)
    return PoolTrust(
        rows=len(trust),
        **intervals,
        k_rows=dict(zip(sizes.tolist(), rows.tolist(), strict=True)),
        k_median=float(np.median(np.asarray(trust.k))),
        unreachable_share=trust.unreachable_share,
    )
