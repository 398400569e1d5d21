"""The verdict in plain words: the same sentences in console, page, card and audit."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from noisyteacher.choose.choice import Choice
from noisyteacher.choose.decision import Interval
from noisyteacher.choose.linear_choice import FEW_ROWS

_BASELINE = "compared with training without them"
_NAMES = {"accuracy": "accuracy", "macro_f1": "macro-F1"}
ENOUGH_GOLD = 0.9  # a weight of gold labels alone from which they are called enough
# A gain below the first whose interval ends below the second is called none.
_NO_GAIN, _LITTLE_GAIN = 0.01, 0.03
SUSPICIOUS_ROWS = 50  # a teacher that is right on all of so many rows has likely seen them
_SHARES_DIFFER = 0.1  # a class whose shares of gold rows and of predictions differ by more is named


def percent(value: float) -> str:
    return f"{100 * value:.1f}%"


def with_interval(found: Interval) -> str:
    """Such as "84.1% (79.8 to 87.7)"."""
    return f"{percent(found.value)} ({100 * found.low:.1f} to {100 * found.high:.1f})"


def points(found: Interval) -> str:
    """Such as "+2.1 points (0.3 to 3.9)"."""
    value, low, high = (round(100 * end, 1) + 0.0 for end in (found.value, found.low, found.high))
    return f"{value:+.1f} points ({low:.1f} to {high:.1f})"


def in_percent(found: Interval) -> list[float]:
    """The number and the ends of its interval, as files state them."""
    return [round(100 * end, 4) for end in (found.value, found.low, found.high)]


def is_no_gain(value: float, high: float) -> bool:
    """Whether a gain with this upper end is none: negative, or small and surely not large."""
    return high < 0 or (value < _NO_GAIN and high < _LITTLE_GAIN)


def headline(gain: Interval, rows: int) -> str:
    """Whether the teacher's labels were worth it, in one sentence."""
    if gain.low > 0:
        return f"The teacher's labels were worth it: {points(gain)} over training without them."
    if gain.high < 0:
        return f"The teacher's labels did not help: {points(gain)} {_BASELINE}."
    if is_no_gain(gain.value, gain.high):
        return f"The teacher's labels were not worth it: {points(gain)} {_BASELINE}."
    return (
        f"{rows} gold rows are too few to tell whether the teacher's labels helped: {points(gain)} "
        f"{_BASELINE}."
    )


def key_figures(
    score: Interval, gold_only: Interval, teacher: Interval | None, gain: Interval
) -> dict[str, list[float] | None]:
    """Percent with the ends of the interval, for the top of a page."""
    named = {"teacher": teacher, "gold_only": gold_only, "student": score, "gain": gain}
    return {name: None if e is None else in_percent(e) for name, e in named.items()}


def verdict(
    choice: Choice,
    said: np.ndarray,
    classes: Sequence[str],
    *,
    blended: bool = True,
    more: Sequence[str] = (),
) -> str:
    """Accuracy of the student, of gold labels alone and of the teacher, and what that means.

    Args:
        choice: the candidates, and the estimates for the returned student.
        said: (p,) classes that the student predicts for pool rows.
        classes: their names.
        blended: whether the student is a blend, of which gold labels alone have a share.
        more: sentences that only one kind of student has.
    """
    score, gain, rows, what = choice.score, choice.gain, choice.rows, _NAMES[choice.metric]
    teacher, gold_weight = choice.teacher, choice.gold_weight
    if blended or gold_weight == 0:
        told = [
            f"The student's {what} on held-out gold rows is {with_interval(score)}; without the "
            f"teacher's labels it would be {with_interval(choice.gold_only)}"
            + ("." if teacher is None else f", and the teacher's own is {with_interval(teacher)}.")
        ]
    else:
        told = [
            f"The best student was trained without the teacher's labels: its {what} on held-out "
            f"gold rows is {with_interval(score)}"
            + ("." if teacher is None else f"; the teacher's is {with_interval(teacher)}.")
        ]
    told.append(headline(gain, rows))
    if teacher is not None and teacher.value == 1 and rows >= SUSPICIOUS_ROWS:
        told.append(
            "The teacher is right on all of these rows. It was probably trained on them, which "
            "would make these figures too high; measure it on rows that it was not trained on "
            "(--val)."
        )
    if blended and gold_weight >= ENOUGH_GOLD:
        told.append(
            f"Students trained without the teacher's labels have {percent(gold_weight)} of the "
            "weight, so the gold labels are enough here."
        )
    if rows < FEW_ROWS:
        half = 50 * (score.high - score.low)
        told.append(f"With only {rows} gold rows, the {what} is known to within {half:.0f} points.")
    told.append("These figures hold for data that resembles your gold rows.")
    note = shares_note(choice.y, said, classes) if len(said) else None
    return " ".join([*told, *more, *([] if note is None else [note])])


def gold_verdict(gold_only: Interval, teacher: Interval | None) -> str:
    """The verdict if no student could be trained on the teacher's labels."""
    beside = "" if teacher is None else f"; the teacher's is {with_interval(teacher)}"
    return (
        "Trained on the gold labels alone, linear students have an accuracy of "
        f"{with_interval(gold_only)} on held-out gold rows{beside}. Whether the teacher's labels "
        "would help was not tested, because that needs the inputs of the pool as well."
    )


def shares_note(gold_y: np.ndarray, said: np.ndarray, classes: Sequence[str]) -> str | None:
    """A sentence if the student predicts classes on the pool in other shares than gold has them."""
    count = len(classes)
    gold = np.bincount(gold_y, minlength=count) / max(1, len(gold_y))
    pool = np.bincount(said, minlength=count) / max(1, len(said))
    worst = int(np.abs(gold - pool).argmax())
    if abs(gold[worst] - pool[worst]) < _SHARES_DIFFER:
        return None
    return (
        f"The student predicts {classes[worst]!r} for {percent(pool[worst])} of the pool, while "
        f"{percent(gold[worst])} of the gold rows are {classes[worst]!r}. If the gold rows were "
        "not drawn at random from the pool, its accuracy on the pool may be different."
    )
