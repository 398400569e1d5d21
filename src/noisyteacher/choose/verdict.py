"""The verdict in plain words: the same sentences in console, page, card and audit."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from noisyteacher.choose.decision import Estimate
from noisyteacher.choose.linear_choice import FEW_ROWS

_NAMES = {"accuracy": "accuracy", "macro_f1": "macro-F1"}
_SHARES_DIFFER = 0.1  # a class whose shares of gold rows and of predictions differ by more is named


def percent(value: float) -> str:
    return f"{100 * value:.1f} %"


def with_interval(found: Estimate) -> str:
    """Such as "84.1 % (79.8 to 87.7)"."""
    return f"{percent(found.value)} ({100 * found.low:.1f} to {100 * found.high:.1f})"


def points(found: Estimate) -> str:
    """Such as "+2.1 points (0.3 to 3.9)"."""
    return f"{100 * found.value:+.1f} points ({100 * found.low:.1f} to {100 * found.high:.1f})"


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
    if gain.low > 0:
        told.append(f"The teacher's labels were worth it: {points(gain)} over gold labels alone.")
    elif gain.high < 0:
        told.append(f"The teacher's labels did not help: {points(gain)} against gold labels alone.")
    else:
        told.append(
            f"{rows} gold rows cannot tell whether the teacher's labels helped: {points(gain)} "
            "over gold labels alone."
        )
    if gold_weight is not None and gold_weight >= 0.9:
        told.append(
            f"Gold labels alone carry {percent(gold_weight)} of the weight: they are enough here."
        )
    if rows < FEW_ROWS:
        half = 50 * (score.high - score.low)
        told.append(f"With {rows} gold rows the {what} is known to within {half:.0f} points only.")
    told.append("This holds for rows drawn like your gold rows.")
    return " ".join(told)


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
