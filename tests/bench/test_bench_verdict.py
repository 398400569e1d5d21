"""The verdict on a benchmark, against differences computed by hand."""

from __future__ import annotations

import numpy as np
from scipy import stats
from test_gold_sizes import row

from noisyteacher.bench.bench_verdict import bench_verdict, best_lines
from noisyteacher.bench.result_lines import lines, trial_mean
from noisyteacher.runs import Row


def rows(gold: list[float], slam: list[float], labeled: int = 30) -> list[Row]:
    found = {"GoldOnly()": gold, "SLaM()": slam, "Vanilla()": [value - 9 for value in slam]}
    return [row(m, labeled, t, v) for m, values in found.items() for t, v in enumerate(values)]


def test_the_interval_is_that_of_the_paired_difference() -> None:
    told = bench_verdict(lines(rows([60.0, 62.0, 61.0], [70.0, 73.0, 71.5])))
    half = stats.t.ppf(0.975, 2) * np.std([10, 11, 10.5], ddof=1) / np.sqrt(3)
    assert told == (
        "The teacher's labels were worth it: SLaM() reaches 71.50% and gold labels alone 61.00%, "
        f"+10.50 points ({10.5 - half:.2f} to {10.5 + half:.2f})."
    )


def test_gold_labels_that_do_better_are_named() -> None:
    told = bench_verdict(lines(rows([80.0, 82.0], [70.0, 72.0])))
    assert told.startswith("Gold labels alone do better: SLaM() reaches 71.00%")
    told = bench_verdict(lines(rows([70.0, 73.0, 71.0], [71.0, 70.0, 73.0])))
    assert told.startswith("The teacher's labels made no measurable difference: SLaM()")


def test_one_trial_decides_nothing() -> None:
    told = bench_verdict(lines(rows([60.0], [70.0])))
    assert told == (
        "One trial is only an indication: SLaM() reaches 70.00% and gold labels alone 60.00%, "
        "+10.00 points (one trial)."
    )


def test_sizes_share_one_sentence_and_nothing_is_said_without_a_floor() -> None:
    both = rows([60.0], [70.0]) + rows([80.0], [79.0], labeled=400)
    assert bench_verdict(lines(both)) == (
        "The best use of the teacher's labels, compared with gold labels alone: +10.00 points (one "
        "trial) with 30 gold labels, -1.00 points (one trial) with 400 gold labels."
    )
    assert bench_verdict(lines([row("SLaM()", 30, 0, 70.0)])) == ""
    floor, best = best_lines(lines([row("SLaM()", 30, 0, 70.0)]))
    assert floor is None
    assert best is not None


def test_half_width_is_students() -> None:
    found = trial_mean([1.0, 2.0, 4.0])
    assert found is not None
    low, high = stats.t.interval(0.95, 2, np.mean([1, 2, 4]), stats.sem([1, 2, 4]))
    assert np.isclose(found.half_width, (high - low) / 2)
    single = trial_mean([1.0])
    assert single is not None
    assert single.half_width is None
