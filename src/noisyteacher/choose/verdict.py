"""The verdict in plain words: the same sentences in console, page, card and audit."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from noisyteacher.choose.decision import Estimate
from noisyteacher.choose.linear_choice import FEW_ROWS, LinearChoice

_NAMES = {"accuracy": "accuracy", "macro_f1": "macro-F1"}
ENOUGH_GOLD = 0.9  # a weight of gold labels alone from which they are called enough
_SHARES_DIFFER = 0.1  # a class whose shares of gold rows and of predictions differ by more is named


def percent(value: float) -> str:
    return f"{100 * value:.1f} %"


def with_interval(found: Estimate) -> str:
    """Such as "84.1 % (79.8 to 87.7)"."""
    return f"{percent(found.value)} ({100 * found.low:.1f} to {100 * found.high:.1f})"


def points(found: Estimate) -> str:
    """Such as "+2.1 points (0.3 to 3.9)"."""
    value, low, high = (round(100 * end, 1) + 0.0 for end in (found.value, found.low, found.high))
    return f"{value:+.1f} points ({low:.1f} to {high:.1f})"


def headline(gain: Estimate, rows: int) -> str:
    """Whether the teacher's labels were worth it, in one sentence."""
    if gain.low > 0:
        return f"The teacher's labels were worth it: {points(gain)} over gold labels alone."
    if gain.high < 0:
        return f"The teacher's labels did not help: {points(gain)} against gold labels alone."
    return (
        f"{rows} gold rows cannot tell whether the teacher's labels helped: {points(gain)} "
        "over gold labels alone."
    )


def key_figures(
    score: Estimate, gold_only: Estimate, teacher: Estimate | None, gain: Estimate
) -> dict[str, list[float] | None]:
    """Percent with the ends of the interval, for the top of a page."""
    named = {"teacher": teacher, "gold_only": gold_only, "student": score, "gain": gain}
    return {
        name: None
        if e is None
        else [round(100 * float(end), 4) for end in (e.value, e.low, e.high)]
        for name, e in named.items()
    }


def verdict(
    score: Estimate,
    gold_only: Estimate,
    teacher: Estimate | None,
    gain: Estimate,
    rows: int,
    *,
    metric: str = "accuracy",
    gold_weight: float | None = None,
) -> str:
    """Accuracy of the student, of gold labels alone and of the teacher, and what that means.

    ``gold_weight`` is the share of the blend that students of gold labels alone have.
    """
    what = _NAMES[metric]
    told = [
        f"The student's {what} on held-out gold rows is {with_interval(score)}; gold labels alone "
        f"reach {with_interval(gold_only)}"
        + ("." if teacher is None else f", the teacher {with_interval(teacher)}.")
    ]
    told.append(headline(gain, rows))
    if gold_weight is not None and gold_weight >= ENOUGH_GOLD:
        told.append(
            f"Gold labels alone carry {percent(gold_weight)} of the weight: they are enough here."
        )
    if rows < FEW_ROWS:
        half = 50 * (score.high - score.low)
        told.append(f"With {rows} gold rows the {what} is known to within {half:.0f} points only.")
    told.append("This holds for rows drawn like your gold rows.")
    return " ".join(told)


def verdict_of(choice: LinearChoice, classes: Sequence[str]) -> str:
    """The verdict on a choice between linear students, with a note on the shares of classes."""
    told = verdict(
        choice.score,
        choice.gold_only,
        choice.teacher,
        choice.gain,
        choice.rows,
        metric=choice.metric,
        gold_weight=choice.gold_weight,
    )
    note = shares_note(choice.y, choice.said_of_pool, classes) if len(choice.said_of_pool) else None
    return told if note is None else f"{told} {note}"


def gold_verdict(gold_only: Estimate, teacher: Estimate | None) -> str:
    """What is known where no student of the teacher's labels could be trained."""
    beside = "" if teacher is None else f"; the teacher's is {with_interval(teacher)}"
    return (
        f"The accuracy of linear students of gold labels alone on held-out gold rows is "
        f"{with_interval(gold_only)}{beside}. Whether the teacher's labels would help was not "
        "tested: that needs the inputs of the pool too."
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
        f"{percent(gold[worst])} of the gold rows are {classes[worst]!r}: if gold rows were drawn "
        "differently from the pool, the stated accuracy may not hold there."
    )
