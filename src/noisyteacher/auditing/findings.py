"""What the numbers say, one plain sentence or two each."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from noisyteacher.auditing.drift import Drift, DriftTest
from noisyteacher.auditing.measurements import Numbers
from noisyteacher.choose.decision import Interval
from noisyteacher.core.errors import first_few

# A distance or effect below these changes little, however surely it is there.
FAR, FAR_CLASSES = 0.1, 0.3
SURE = 0.01
MISCALIBRATED = 0.03
_SURE_WIDTHS = 0.66  # half a 99% interval in widths of a 95% one: 2.58 / (2 x 1.96)
CLASSES_DIFFER = 0.03
NEARLY_PERFECT = 0.97
FEWEST_ROWS, WIDEST_BAND = 100, 0.5
TELLING = 0.65  # AUC of margins; below it, alpha hardly rises
NEARLY_ALL = 0.95
MANY_UNREACHABLE = 0.2


@dataclass(frozen=True)
class Finding:
    """One finding of the audit, in a sentence or two."""

    code: str  # for programs: "overconfident", "leaked", ...
    warning: bool  # whether it speaks against using the labels, or the audit, as they are
    text: str


def find(numbers: Numbers) -> list[Finding]:
    """All findings, those about V itself first, because the others rest on V."""
    return [
        *_about_ids(numbers),
        *_about_val(numbers),
        *_about_calibration(numbers),
        *_about_classes(numbers),
        *_about_worth(numbers),
    ]


def _warning(code: str, text: str) -> Finding:
    return Finding(code, True, text)


def _note(code: str, text: str) -> Finding:
    return Finding(code, False, text)


def _about_ids(numbers: Numbers) -> Iterator[Finding]:
    leakage = numbers.leakage
    if leakage.val_in_gold:
        yield _warning(
            "val_in_gold",
            f"The teacher may have been trained on {len(leakage.val_in_gold)} of the gold rows "
            f"({first_few(leakage.val_in_gold)}). Leave them out, because they make the teacher "
            "look better than it is.",
        )
    shared = (
        ("val_in_pool", "gold rows", leakage.val_in_pool),
        ("gold_in_pool", "rows that the teacher may have been trained on", leakage.gold_in_pool),
    )
    for code, name, ids in shared:
        if ids:
            yield _warning(
                code,
                f"The pool contains {len(ids)} of the {name} ({first_few(ids)}); the audit left "
                "them out of the pool.",
            )


def _about_val(numbers: Numbers) -> Iterator[Finding]:
    if too_small(numbers):
        yield _warning(
            "small_val",
            f"The teacher was measured on only {numbers.val_rows} gold rows, so the alpha curve is "
            f"known only to within ±{numbers.curve.band_width / 2:.2f}. About "
            f"{numbers.curve.rows_to_halve_band} gold rows would halve this uncertainty.",
        )
    if all_alike(numbers):
        yield _warning(
            "hard_labels",
            "All labels are equally confident, so nothing distinguishes reliable labels from "
            "unreliable ones. If the teacher gives probabilities, store them.",
        )
    elif margins_tell(numbers) is False and numbers.curve.auc is not None:
        yield _warning(
            "blind_margins",
            "The teacher's margins do not show which of its labels are wrong: of a right and a "
            f"wrong label, the right one has the larger margin {numbers.curve.auc:.0%} of the "
            "time; by chance it would be 50%.",
        )
    if numbers.drift is None:
        yield _note(
            "no_pool",
            "No pool was given, so the audit could not test whether the gold rows resemble the "
            "pool, or whether the teacher was trained on them.",
        )
        return
    if numbers.leakage.suspected:
        margin = numbers.drift.margin
        yield _warning(
            "leaked",
            "The gold rows look leaked: the teacher's margins average "
            f"{margin.val_mean:.2f} on them and {margin.pool_mean:.2f} on the pool. Either the "
            "teacher was trained on them, or they are easier than the pool; either way, alpha is "
            "too high.",
        )
    yield from _about_drift(numbers, numbers.drift)


def _about_drift(numbers: Numbers, drift: Drift) -> Iterator[Finding]:
    tested = {"margins": drift.margin, "entropies": drift.entropy}
    apart = [name for name, found in tested.items() if _is_far(found)]
    if apart:
        yield _warning(
            "shifted",
            f"The gold rows are not like the pool: their {' and '.join(apart)} differ (distance "
            f"{max(drift.margin.distance, drift.entropy.distance):.2f}). If the gold "
            "rows are weighted to match the pool's margins, the teacher's accuracy is "
            f"{drift.reweighted_accuracy:.1%} instead of {numbers.quality.accuracy.value:.1%}, and "
            f"the {numbers.val_rows} gold rows carry only as much information as "
            f"{drift.reweighted_rows:.0f} rows. Draw the gold rows at random from the pool "
            "instead.",
        )
    if drift.classes_effect >= FAR_CLASSES and drift.classes_p_value < SURE:
        yield _warning(
            "shifted_classes",
            "The gold rows are not like the pool: the teacher predicts the classes in different "
            f"proportions (effect {drift.classes_effect:.2f}). An alpha that depends on the class "
            "may not hold for the pool.",
        )
    if drift.pool_outside_val >= 1 - NEARLY_ALL:
        yield _warning(
            "uncovered_pool",
            f"{drift.pool_outside_val:.0%} of the pool has margins outside the range of the gold "
            "rows, where alpha is extrapolated.",
        )


def _is_far(found: DriftTest) -> bool:
    return found.distance >= FAR and found.p_value < SURE


def _about_calibration(numbers: Numbers) -> Iterator[Finding]:
    if is_leaked(numbers):
        return  # calibration on rows that the teacher knows tells nothing about others
    scores, temperature = numbers.quality.before, numbers.quality.temperature
    gap, ece = scores.overconfidence, scores.ece
    after = ", and a temperature does not reduce it"
    if temperature_helps(numbers):
        after = f"; at temperature {temperature.value:.2f} it is {numbers.quality.after.ece:.3f}"
    if gap.value >= max(MISCALIBRATED, _SURE_WIDTHS * gap.width):
        yield _note(
            "overconfident",
            f"The teacher is overconfident: its stated confidence exceeds its accuracy by "
            f"{_points(gap)} points. Its calibration error is {ece:.3f}{after}.",
        )
    elif -gap.value >= max(MISCALIBRATED, _SURE_WIDTHS * gap.width):
        yield _note(
            "underconfident",
            f"The teacher is underconfident: its accuracy exceeds its stated confidence by "
            f"{-100 * gap.value:.1f} points. Its calibration error is {ece:.3f}{after}.",
        )
    elif scores.p_value < SURE and ece.value >= MISCALIBRATED:
        yield _note(
            "miscalibrated",
            f"The teacher is overconfident on some labels and underconfident on others: its "
            f"calibration error is {ece:.3f}{after}.",
        )
    elif not too_small(numbers):
        yield _note(
            "calibrated",
            "The teacher is calibrated as far as the gold rows can tell: its stated confidence "
            f"matches its accuracy (calibration error {ece:.3f}).",
        )


def _about_classes(numbers: Numbers) -> Iterator[Finding]:
    accuracy = numbers.quality.accuracy
    if numbers.num_classes == 2 and accuracy.high < 0.5:
        yield _warning(
            "swapped",
            f"The teacher is right on only {accuracy.value:.1%} of the gold rows: the two classes "
            "look swapped, in its labels or in the true ones. Check their order.",
        )
    per_class = numbers.per_class
    broken = [c for c in per_class.classes if c.broken]
    if broken:
        described = ", ".join(
            f"{c.name!r} is right {c.precision:.0%} of the time instead of "
            f"{c.expected_precision:.0%} (the truth is most often {c.confused_with!r})"
            for c in broken[:5]
        )
        more = f", and {len(broken) - 5} more" if len(broken) > 5 else ""
        yield _warning(
            "broken_class",
            f"Some labels are wrong far more often than their margins suggest: {described}{more}.",
        )
    if curves_differ(numbers):
        yield _note(
            "classes_differ",
            "How far a label can be trusted depends on its class, not only on its margin: at "
            f"equal margins, accuracies differ by {per_class.curves.effect:.0%} "
            f"(p = {per_class.curves.p_value:.1g}).",
        )
    if per_class.never_predicted:
        yield _warning(
            "never_predicted",
            f"The teacher predicts {first_few(per_class.never_predicted)} for none of the gold "
            "rows.",
        )
    if per_class.few_gold:
        yield _note(
            "few_gold",
            f"{len(per_class.few_gold)} of {numbers.num_classes} classes "
            f"{'has' if len(per_class.few_gold) == 1 else 'have'} fewer than 10 gold rows, too few "
            f"to measure the teacher on: {first_few(per_class.few_gold)}.",
        )


def _about_worth(numbers: Numbers) -> Iterator[Finding]:
    accuracy, trust = numbers.quality.accuracy, numbers.trust
    if numbers.comparison is not None:
        yield _note("compared", numbers.comparison.verdict)
    if is_nearly_perfect(numbers):
        yield _note(
            "nearly_perfect",
            f"The teacher is nearly perfect: it is right on {accuracy:.1%} of the gold rows.",
        )
    if nothing_trusted(numbers):
        yield _warning(
            "nothing_trusted",
            "SLaM would trust hardly any label: alpha is at its lower bound for "
            f"{trust.share_at_lower_bound:.0%} of {numbers.pool_name}.",
        )
    if trust.unreachable_share > MANY_UNREACHABLE:
        yield _warning(
            "unreachable_k",
            f"For {trust.unreachable_share:.0%} of {numbers.pool_name}, the shortlist would be "
            f"longer than the {numbers.stored} stored classes. Store more classes per row.",
        )


def _points(share: Interval) -> str:
    return f"{100 * share.value:.1f} ({100 * share.low:.1f} to {100 * share.high:.1f})"


def too_small(numbers: Numbers) -> bool:
    """Whether V cannot tell trust from chance."""
    return numbers.val_rows < FEWEST_ROWS or numbers.curve.band_width > WIDEST_BAND


def all_alike(numbers: Numbers) -> bool:
    """Whether all labels are equally confident, as one-hot ones are."""
    return numbers.curve.margin[0] == numbers.curve.margin[-1]


def margins_tell(numbers: Numbers) -> bool | None:
    """Whether margins tell right labels from wrong ones; None where V is too small to say."""
    auc = numbers.curve.auc
    if auc is not None and auc.low > 0.5:
        return True
    return None if auc is None or auc.high >= TELLING or too_small(numbers) else False


def temperature_helps(numbers: Numbers) -> bool:
    """Whether one temperature for all labels reduces the calibration error."""
    return numbers.quality.after.ece.value < numbers.quality.before.ece.value


def is_leaked(numbers: Numbers) -> bool:
    """Whether the teacher seems to know V, or much of it."""
    known = len(numbers.leakage.val_in_gold)
    return numbers.leakage.suspected or known > (1 - NEARLY_ALL) * numbers.val_rows


def curves_differ(numbers: Numbers) -> bool:
    """Whether each predicted class should have a curve of its own."""
    curves = numbers.per_class.curves
    found = curves.p_value is not None and curves.p_value < SURE
    return found and curves.effect >= CLASSES_DIFFER and curves.tested > 0


def is_nearly_perfect(numbers: Numbers) -> bool:
    """Whether there is hardly any noise to model; a leaked V cannot tell."""
    return numbers.quality.accuracy.low >= NEARLY_PERFECT and not is_leaked(numbers)


def nothing_trusted(numbers: Numbers) -> bool:
    """Whether the noise model would ignore the pool."""
    return numbers.trust.share_at_lower_bound.value >= NEARLY_ALL
