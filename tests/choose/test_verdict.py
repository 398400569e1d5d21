"""The verdict in words."""

from __future__ import annotations

import numpy as np

from noisyteacher.choose.choice import Choice, ComparisonLine
from noisyteacher.choose.decision import Interval
from noisyteacher.choose.verdict import shares_note, verdict


def told(
    score: Interval,
    gain: Interval,
    teacher: Interval | None = None,
    rows: int = 400,
    gold_weight: float = 0.5,
) -> str:
    """The verdict on a blend of two candidates, beside students without the teacher at 80%."""
    gold = Interval(0.80, 0.76, 0.84)
    lines = tuple(
        ComparisonLine("", None, taught, score, weight)
        for taught, weight in ((False, gold_weight), (True, 1 - gold_weight))
    )
    y = np.arange(rows) % 2
    choice = Choice((), lines, score, gold, teacher, gain, y, "accuracy", np.zeros((rows, 2)))
    return verdict(choice, y, ["ham", "spam"])


def test_the_verdict_says_whether_the_teacher_was_worth_it() -> None:
    score, teacher = Interval(0.84, 0.80, 0.87), Interval(0.78, 0.73, 0.82)
    assert told(score, Interval(0.04, 0.01, 0.07), teacher) == (
        "The student's accuracy on held-out gold rows is 84.0% (80.0 to 87.0); without the "
        "teacher's labels it would be 80.0% (76.0 to 84.0), and the teacher's own is 78.0% (73.0 "
        "to 82.0). The teacher's labels were worth it: +4.0 points (1.0 to 7.0) over training "
        "without them. These figures hold for data that resembles your gold rows."
    )
    wide = Interval(0.84, 0.74, 0.90)
    open_question = told(wide, Interval(0.01, -0.01, 0.03), rows=40, gold_weight=0.95)
    assert (
        "40 gold rows are too few to tell whether the teacher's labels helped: +1.0"
        in open_question
    )
    assert "Students trained without the teacher's labels have 95.0% of the weight" in open_question
    assert "With only 40 gold rows, the accuracy is known to within 8 points." in open_question
    assert "did not help: -4.0 points" in told(score, Interval(-0.04, -0.07, -0.01))
    assert "were not worth it: +0.1 points" in told(score, Interval(0.001, -0.02, 0.02))
    assert "400 gold rows are too few to tell" in told(score, Interval(0.001, -0.04, 0.04))


def test_the_verdict_points_out_a_teacher_that_is_always_right() -> None:
    score, gain = Interval(0.9, 0.85, 0.95), Interval(0.1, 0.05, 0.15)
    always, mostly = Interval.wilson(1.0, 50), Interval.wilson(0.98, 50)
    suspicious = "The teacher is right on all of these rows. It was probably trained on them"
    assert suspicious in told(score, gain, always, rows=50)
    assert suspicious not in told(score, gain, always, rows=49)
    assert suspicious not in told(score, gain, mostly, rows=50)


def test_other_shares_on_the_pool_are_pointed_out() -> None:
    gold = np.repeat([0, 1], [50, 50])
    note = shares_note(gold, np.repeat([0, 1], [90, 10]), ["ham", "spam"])
    assert note is not None
    assert "predicts 'ham' for 90.0% of the pool, while 50.0%" in note
    assert shares_note(gold, np.repeat([0, 1], [55, 45]), ["ham", "spam"]) is None
