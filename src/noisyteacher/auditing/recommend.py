"""What to do with this teacher, and why, in plain words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from noisyteacher.auditing import findings as found
from noisyteacher.auditing.findings import Finding
from noisyteacher.auditing.measurements import Numbers
from noisyteacher.core.errors import first_few
from noisyteacher.methods import (
    Calibrated,
    Consistency,
    GoldOnly,
    Method,
    SLaM,
    TaylorCE,
    Vanilla,
)

_UNLIKELY = "SLaM is unlikely to help here"
_MIX_FORM = (
    'Keep normalize="sum": of the three ways to normalize the mix, it made the best students on '
    "CIFAR-100."
)
_SHIFTED = (
    "The gold rows are not like the pool, so alpha(x) holds for the pool only if labels of equal "
    "margins are equally accurate in both. Draw the gold rows at random from the pool, and audit "
    "again."
)
_BLIND = (
    f"{_UNLIKELY}: the teacher's margins do not show which of its labels are wrong, so SLaM would "
    "discount all labels alike. A robust loss needs no noise model."
)
_NARROW = 0.005  # a band that is shown as 0.00
_MISCALIBRATED = {"overconfident", "underconfident", "miscalibrated"}


@dataclass(frozen=True)
class Recommendation:
    """The recommended method, the methods to compare it with, and the reasons."""

    distill: bool  # whether to train on the teacher's labels at all
    slam_helps: bool  # whether a noise model is likely to pay
    method: Method
    without_views: Method  # the same for inputs that have no weak and strong view
    rivals: list[Method]  # to compare it with
    lower_bound: float
    k: int | str
    normalize: str
    per_class: bool
    temperature: float  # of the labels, for methods without a noise model; 1: as they are
    val_rows: int  # how many rows V should have for the alpha band to halve
    reasons: list[str]


def recommend(
    numbers: Numbers, findings: Sequence[Finding], kind: str | None = None
) -> Recommendation:
    """The best guess that the numbers and the findings allow, for inputs of ``kind``."""
    per_class = found.curves_differ(numbers)
    against = list(_reasons_against(numbers))
    codes = {finding.code for finding in findings}
    if "blind_margins" in codes and not against and not per_class:
        against = [(TaylorCE(2), _BLIND)]
    k, k_reason = _shortlist(numbers)
    slam = SLaM(
        hard=per_class,
        lower_bound=numbers.lower_bound,
        k=k,
        threshold=numbers.threshold,
        per_class=per_class,
    )
    plain = against[0][0] if against else slam
    views = not against and kind != "table"
    reasons = [reason for _, reason in against]
    if not against:
        reasons = [*_reasons_for(numbers, kind, per_class), k_reason, _MIX_FORM]
    if codes & {"shifted", "shifted_classes"}:
        reasons.append(_SHIFTED)
    calibration = codes & {"calibrated", *_MISCALIBRATED}
    reasons += [_calibration_reason(numbers, code, bool(against)) for code in calibration]
    if numbers.curve.band_width >= _NARROW:
        reasons.append(
            f"The 95% band around the alpha curve is {numbers.curve.band_width:.2f} wide on "
            f"average; about {numbers.curve.rows_to_halve_band} gold rows instead of "
            f"{numbers.val_rows} would halve it."
        )
    rescaled = bool(codes & _MISCALIBRATED) and found.temperature_helps(numbers)
    return Recommendation(
        distill=plain != GoldOnly(),
        slam_helps=not against,
        method=Consistency(plain) if views else plain,
        without_views=plain,
        rivals=_rivals(plain, slam, kind),
        lower_bound=numbers.lower_bound,
        k=k,
        normalize=slam.normalize,
        per_class=per_class,
        temperature=numbers.quality.temperature.value if rescaled else 1.0,
        val_rows=numbers.curve.rows_to_halve_band,
        reasons=reasons,
    )


def _reasons_against(numbers: Numbers) -> Iterator[tuple[Method, str]]:
    """What to use in place of SLaM, and why; the weightiest first."""
    if numbers.comparison is not None and numbers.comparison.gold_is_enough:
        yield (
            GoldOnly(),
            f"{_UNLIKELY}: linear students trained on gold and teacher labels do no better than "
            "those trained on gold labels alone.",
        )
    if found.nothing_trusted(numbers):
        yield (
            Calibrated(),
            f"{_UNLIKELY}: alpha is at its lower bound for nearly all of {numbers.pool_name}, "
            "where a label can only narrow the choice to a shortlist. Calibrated labels still "
            "convey what the teacher knows.",
        )
    if found.is_leaked(numbers):
        yield (
            TaylorCE(2),
            f"The gold rows look leaked: replace them first. {_UNLIKELY}, because its noise model "
            "would be fitted on rows that the teacher seems to know. Until then, use a robust "
            "loss, which needs no noise model.",
        )
    if found.is_nearly_perfect(numbers):
        yield (
            Vanilla(),
            f"{_UNLIKELY}: the teacher is nearly perfect, so there is hardly any noise to model.",
        )
    if found.too_small(numbers):
        yield (
            TaylorCE(2),
            f"{_UNLIKELY}: there are too few gold rows to tell which labels to trust. A robust "
            "loss needs no noise model.",
        )


def _reasons_for(numbers: Numbers, kind: str | None, per_class: bool) -> Iterator[str]:
    trust = numbers.trust
    worth = (
        f" The pool's {trust.rows} labels are worth about {trust.effective_labels.value:.0f} gold "
        "labels."
    )
    yield (
        f"Use SLaM, because the teacher is wrong on {1 - numbers.quality.accuracy.value:.1%} of "
        f"the gold rows{_where_wrong(numbers, per_class)}.{worth if numbers.pool_rows else ''}"
    )
    if kind == "table":
        yield (
            "SLaM alone takes one pass per training step. Inside Consistency, which adds noise to "
            "the columns, it gained another point on embeddings of reviews and eight points on "
            "scanned digits, so try both, as distill does."
        )
    else:
        yield (
            "Use it inside Consistency, which gained the most of all methods on images and on "
            "reviews but takes two passes per training step. Use SLaM alone if the inputs cannot "
            "be augmented."
            + " This advice is for networks. For linear students, distill returns a weighted "
            "average of several methods." * (kind != "image")
        )
    broken = [c.name for c in numbers.per_class.classes if c.broken]
    if broken:
        yield (
            f"The labels {first_few(broken)} are often wrong: use them only with separate alpha "
            "curves (per_class=True), or check those rows yourself."
        )
    if per_class:
        yield (
            "Set per_class=True, because labels of some classes deserve less trust than their "
            "margins suggest, and hard=True, because the soft labels share the teacher's bias."
        )
        few = len(numbers.per_class.few_predicted)
        if few:
            yield (
                f"The teacher predicts {few} of {numbers.num_classes} classes for fewer than 50 "
                "gold rows, so these classes share one alpha curve. With more gold rows, they "
                "would have separate curves."
            )
    yield (
        f"With lower_bound={numbers.lower_bound:g}, alpha is at this bound for "
        f"{trust.share_at_lower_bound.value:.0%} of {numbers.pool_name}. At 0.5 such labels hardly "
        "influence the student; below 0.5 they would push it away from the teacher."
    )


def _where_wrong(numbers: Numbers, per_class: bool) -> str:
    if found.all_alike(numbers):
        return ", and all its labels deserve the same trust"
    if found.margins_tell(numbers):
        return ", and its margins show where"
    if per_class:
        return ", and the class that it names shows where"
    return ", which are too few to tell whether its margins show where"


def _calibration_reason(numbers: Numbers, code: str, against: bool) -> str:
    if code == "calibrated":
        lead = "" if against else ": expect SLaM's lead over Vanilla to be small"
        return f"The teacher is calibrated, so plain soft labels are right on average{lead}."
    slam = (
        ""
        if against
        else "SLaM estimates alpha from the gold rows and uses the labels as they are; "
    )
    if not found.temperature_helps(numbers):
        return f"The teacher is {code}: {slam}for other methods, no temperature corrects this."
    return (
        f"The teacher is {code}: {slam}a method without a noise model should see its labels at "
        f"temperature {numbers.quality.temperature:.2f}, as in Calibrated."
    )


def _shortlist(numbers: Numbers) -> tuple[int | str, str]:
    if numbers.num_classes == 2:
        return 2, "Set k=2, because there are two classes."
    unreachable = numbers.trust.unreachable_share
    if unreachable > found.MANY_UNREACHABLE:
        return (
            "level",
            f'Set k="level", one shortlist size for all rows, because k(x) exceeds the '
            f"{numbers.stored} stored classes for {unreachable:.0%} of {numbers.pool_name}.",
        )
    return (
        "auto",
        'Set k="auto", a shortlist size for each row: the median of k(x) is '
        f"{numbers.trust.k_median:.0f}.",
    )


def _rivals(plain: Method, slam: SLaM, kind: str | None) -> list[Method]:
    rivals: list[Method] = [GoldOnly(), Vanilla(), Calibrated(TaylorCE(2)), slam]
    if kind != "table":
        rivals[3:] = [Consistency(None), slam if plain == slam else Consistency(slam)]
    return [rival for rival in rivals if rival != plain]
