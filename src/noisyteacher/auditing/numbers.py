"""Everything the audit measures, before anyone draws conclusions."""

from __future__ import annotations

from dataclasses import dataclass

from noisyteacher.auditing.curve import AlphaCurve, PoolTrust
from noisyteacher.auditing.drift import Drift
from noisyteacher.auditing.leakage import Leakage
from noisyteacher.auditing.per_class import PerClass
from noisyteacher.auditing.probe import Probe
from noisyteacher.auditing.quality import Quality


@dataclass(frozen=True)
class Numbers:
    """The measurements; intervals are 95 % bootstrap intervals over the rows of V."""

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
    probe: Probe | None  # None without inputs
