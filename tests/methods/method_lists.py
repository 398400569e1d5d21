"""Every method in a few settings, and every way to compose them."""

from __future__ import annotations

from itertools import permutations

from noisyteacher.methods import (
    DKD,
    GCE,
    TTM,
    UPS,
    VID,
    Calibrated,
    ConfidenceFilter,
    ConfidentPruning,
    Consistency,
    CutStat,
    Fidelity,
    FixMatch,
    ForwardCorrection,
    GoldOnly,
    Method,
    PartialLabels,
    PolyLoss,
    SLaM,
    SymmetricCE,
    TaylorCE,
    Temperature,
    TruncatedGCE,
    Vanilla,
    Weighted,
)

PLAIN: tuple[Method, ...] = (
    GoldOnly(),
    GoldOnly(use_val=False),
    Vanilla(),
    Vanilla(hard=True),
    SLaM(),
    SLaM(hard=True, normalize="k-1", per_class=True),
    SLaM(base=TaylorCE(2), k=3, normalize="none"),
    SLaM(base=PolyLoss(1.0), k="level", metric="entropy"),
    TaylorCE(3),
    TaylorCE(2, hard=True),
    PolyLoss(-1.0),
    VID(weight=0.5),
    VID(layers=3, on="pool", hard=True),
    Weighted(),
    Weighted(hard=True, every=0),
    UPS(negative_threshold=0.3, negative_std=0.1),
    UPS(negative_threshold=0.3, negative_std=0.1, binary=True, balance=True),
    ForwardCorrection(),
    ForwardCorrection(hard=True),
    GCE(),
    SymmetricCE(),
    DKD(),
    TTM(),
    PartialLabels(),
    TruncatedGCE(),
    ConfidentPruning(),
    CutStat(neighbours=5),
    ConfidenceFilter(precision=0.8),
    ConfidenceFilter(threshold=0.5, score="margin", hard=True),
    FixMatch(threshold=0.5),
)
WRAPPERS = {
    "Fidelity": lambda inner: Fidelity(beta=2.0, inner=inner),
    "Temperature": lambda inner: Temperature(t_a=0.5, t_b=2, squared=True, inner=inner),
    "Calibrated": lambda inner: Calibrated(inner=inner),
}
COMPOSED: list[Method] = [
    *PLAIN,
    *(wrap(method) for wrap in WRAPPERS.values() for method in PLAIN),
    *(
        WRAPPERS[outer](WRAPPERS[inner](method))
        for outer, inner in permutations(WRAPPERS, 2)
        for method in PLAIN
    ),
]
COMPOSED += [Consistency(inner=method) for method in COMPOSED[: 4 * len(PLAIN)]]
COMPOSED += [Consistency(inner=None)]

# Each method alone, under Consistency, and a few in each wrapper: what is new in a loss is here.
REPRESENTATIVE: list[Method] = [
    *PLAIN,
    *(Consistency(inner=method) for method in PLAIN),
    *(wrap(inner) for wrap in WRAPPERS.values() for inner in (SLaM(), VID(), FixMatch())),
    Consistency(inner=None),
]
