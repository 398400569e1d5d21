"""Sets of methods that recipes and ``--method`` name: the paper's comparisons and more."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import product

from noisyteacher.core.errors import InputError
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
    import_method,
)


def on_hard_labels(methods: Iterable[Method]) -> tuple[Method, ...]:
    """The same methods on hard labels; those with one form only stay as they are."""
    return tuple(
        replace(method, hard=True) if hasattr(method, "hard") else method  # type: ignore[call-arg]
        for method in methods
    )


BETAS = Fidelity.grid["beta"]
TEMPERATURES = Temperature.grid["t_a"]

# What every table is to show besides: gold alone, and the pool without its teacher.
FLOOR: tuple[Method, ...] = (GoldOnly(), Consistency(None))
PAPER_SOFT: tuple[Method, ...] = (Vanilla(), TaylorCE(), UPS(), VID(), Weighted(), SLaM())
PAPER_HARD = on_hard_labels(PAPER_SOFT)
FIDELITY: tuple[Method, ...] = (
    SLaM(),
    *(Fidelity(beta) for beta in BETAS),
    *(Fidelity(beta, inner=SLaM()) for beta in BETAS),
)
TEMPERATURE: tuple[Method, ...] = tuple(
    Temperature(t_a, t_b, inner=inner)
    for inner in (Vanilla(), SLaM())
    for t_a, t_b in product(TEMPERATURES, TEMPERATURES)
)
OTHER_LOSSES: tuple[Method, ...] = (
    Vanilla(),
    SLaM(),
    TaylorCE(),
    SLaM(base=TaylorCE()),
    PolyLoss(),
    SLaM(base=PolyLoss()),
)
CONSISTENCY: tuple[Method, ...] = (
    Consistency(None),
    Consistency(Vanilla()),
    SLaM(),
    Consistency(SLaM()),
)
RIVALS: tuple[Method, ...] = (
    Calibrated(TaylorCE()),
    ForwardCorrection(),
    GCE(),
    # Both published settings of each: for CIFAR-10 and CIFAR-100; in general and for ResNets.
    SymmetricCE(),
    SymmetricCE(alpha=6.0),
    DKD(),
    DKD(beta=2.0),
    TTM(),
    PartialLabels(),
    TruncatedGCE(),
    ConfidenceFilter(),
    ConfidentPruning(),
    CutStat(),
    FixMatch(),
)

METHOD_SETS: dict[str, tuple[Method, ...]] = {
    "floor": FLOOR,
    "paper-soft": PAPER_SOFT,
    "paper-hard": PAPER_HARD,
    "fidelity": FIDELITY,
    "temperature": TEMPERATURE,
    "other-losses": OTHER_LOSSES,
    "consistency": CONSISTENCY,
    "rivals": RIVALS,
}


def parse_methods(text: str) -> tuple[Method, ...]:
    """Methods and names of sets, divided by ``;``: ``"floor; SLaM(hard=True)"``, no repeats.

    ``my_losses:MyLoss(beta=2)`` imports a method of the user's own.
    """
    found: list[Method] = []
    for part in text.split(";"):
        name = part.strip()
        if name in METHOD_SETS:
            found += METHOD_SETS[name]
        elif name:
            found.append(import_method(name))
    if not found:
        raise InputError(
            f"No method in {text!r}; write methods separated by semicolons, or the names of sets: "
            f"{', '.join(METHOD_SETS)}."
        )
    return tuple(dict.fromkeys(found))
