"""The demo's sweep over numbers of gold rows: its splits, its summary and its sentences."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure
from scipy import stats

import results_rows
from noisyteacher.bench.gold_sizes import (
    ALONE,
    BLEND,
    SHOWN,
    SIZES,
    draw_gold_sizes,
    run_sizes,
    sizes_table,
    sizes_title,
    sizes_verdict,
    split_digits,
    summarize,
)
from noisyteacher.bench.result_lines import TrialMean
from noisyteacher.runs import Row, RunFolder


def row(method: str, labeled: int, trial: int, last: float, teacher: float = 88.0) -> Row:
    accuracy = {"last": last, "selected": None, "best_test": None}
    where = {"recipe": "gold rows", "dataset": "digits", "labeled": labeled, "trial": trial}
    kind = None if method in ALONE else "soft"
    known = {"teacher_accuracy": teacher + trial, "distillation": kind}
    return replace(results_rows.row(method, **where, **known, epochs=0), accuracy=accuracy)


def rows(by_size: dict[int, dict[str, float]]) -> list[Row]:
    """Three splits each; the accuracy of a split is one point above that of the one before."""
    return [
        row(method, size, trial, value + trial)
        for size, values in by_size.items()
        for trial in range(3)
        for method, value in values.items()
    ]


def level(gold: float, vanilla: float, slam: float, blend: float) -> dict[str, float]:
    return dict(zip(SHOWN, (gold, gold - 5, vanilla, slam, blend), strict=True))


def test_the_parts_of_a_split_are_apart_and_the_teacher_saw_none_of_them() -> None:
    parts = split_digits(0, 3)
    used = np.concatenate([parts.test, parts.gold, parts.pool])
    assert len(np.unique(used)) == len(used) == 1597
    said = parts.labels.probs.argmax(1)
    right = sum(said[row] == parts.y[row] for row in parts.test)
    assert parts.teacher_accuracy == pytest.approx(100 * right / len(parts.test))
    assert 80 < parts.teacher_accuracy < 92
    again, other = split_digits(0, 3), split_digits(0, 4)
    assert (again.gold == parts.gold).all()
    assert not (other.gold == parts.gold).all()


def test_intervals_are_students() -> None:
    values = [88.0, 90.0, 93.0, 89.5]
    found = TrialMean.of(values)
    low, high = stats.t.interval(0.95, 3, np.mean(values), stats.sem(values))
    assert (found.mean, found.low, found.high) == pytest.approx((90.125, low, high))


def test_gains_are_paired_split_by_split() -> None:
    found = {(p.method, p.size): p for p in summarize(rows({20: level(60, 88, 89, 90)}))}
    gain = found[BLEND, 20].gain
    assert (gain.mean, gain.low, gain.high) == pytest.approx((30, 30, 30))
    assert found[BLEND, 20].accuracy.mean == pytest.approx(91)
    better = {"GoldOnly()": 60, "SelfTraining()": 70, "Vanilla()": 88, "SLaM()": 89, BLEND: 90}
    (blend,) = (p for p in summarize(rows({20: better})) if p.method == BLEND)
    assert blend.gain.mean == pytest.approx(20), "the best student without a teacher is the floor"


def test_a_split_that_was_cut_short_is_computed_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = rows({size: level(60, 88, 89, 90) for size in SIZES})
    whole.sort(key=lambda one: one.trial)
    computed: list[int] = []

    def run_split(seed: int, trial: int) -> list[Row]:
        computed.append(trial)
        return [one for one in whole if one.trial == trial]

    monkeypatch.setattr("noisyteacher.bench.gold_sizes.run_split", run_split)
    monkeypatch.setattr("os.cpu_count", lambda: 1)
    folder = RunFolder(tmp_path)
    for one in whole[: len(SIZES) * len(SHOWN) + 7]:
        folder.append(one)
    for _ in range(2):
        assert run_sizes(folder, splits=3) == whole
    assert computed == [1, 2]


def test_the_verdict_names_where_the_teacher_pays_and_where_not() -> None:
    told = sizes_verdict(
        rows({20: level(60, 88, 89, 90), 50: level(80, 88, 89, 90), 400: level(95, 92, 93, 94)})
    )
    assert told == (
        "The teacher's labels pay off with 20 and 50 gold rows: distill's blend is ahead of the "
        "best student without a teacher by 30.0 points at 20 rows and by 10.0 at 50. With 400 gold "
        "rows, students without a teacher are better. Vanilla distillation falls behind them at "
        "400 rows."
    )


def test_differences_within_the_interval_are_called_ties() -> None:
    uneven = rows({100: level(88, 88, 88, 88)})
    tied = [
        row(one.method, 100, one.trial, one.accuracy["last"] + (one.method == BLEND) * change)
        for one, change in zip(uneven, np.repeat([1.0, -1.0, 0.2], 5), strict=True)
    ]
    assert sizes_verdict(tied) == (
        "With 100 gold rows, the blend and the best student without a teacher are not "
        "significantly different."
    )


def test_the_table_has_a_line_per_size_with_half_widths() -> None:
    found = rows({20: level(60, 88, 89, 90), 50: level(80, 88, 89, 90)})
    header, lines = sizes_table(found)
    assert header == ["gold rows", *SHOWN.values()]
    half = stats.t.ppf(0.975, 2) / np.sqrt(3)
    assert lines[0] == ["20", *(f"{v:.1f} ± {half:.1f}" for v in (61, 56, 89, 90, 91))]
    assert sizes_title(found) == (
        "Test accuracy in percent, mean ± 95% interval over 3 random splits; the teacher reaches "
        f"89.0 ± {half:.1f}"
    )


def test_the_chart_shows_every_mean_with_its_interval(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[Figure] = []
    monkeypatch.setattr(
        "noisyteacher.bench.gold_sizes.save_figure", lambda figure, stem: drawn.append(figure)
    )
    draw_gold_sizes(rows({20: level(60, 88, 89, 90), 50: level(80, 88, 89, 90)}), Path("chart"))
    (axes,) = drawn[0].axes
    half = stats.t.ppf(0.975, 2) / np.sqrt(3)
    at_20, at_50 = (61, 56, 89, 90, 91), (81, 76, 89, 90, 91)
    means = {
        name: [(20, few), (50, more)]
        for name, few, more in zip(SHOWN.values(), at_20, at_50, strict=True)
    }
    for container in axes.containers:
        line, _, (bars,) = container.lines
        wanted = means.pop(container.get_label())
        assert [*map(tuple, line.get_xydata())] == wanted
        ends = [[(size, mean - half), (size, mean + half)] for size, mean in wanted]
        np.testing.assert_allclose(bars.get_segments(), ends)
    assert not means
    legend = axes.get_legend()
    assert legend is not None
    assert {text.get_text() for text in legend.get_texts()} == {"the teacher", *SHOWN.values()}
