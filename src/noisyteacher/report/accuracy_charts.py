"""Charts of the students' accuracies, as Vega-Lite."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import altair as alt

from noisyteacher.bench.result_lines import ACCURACIES, Line, TrialMean, blank_or
from noisyteacher.report.chart_base import DASHES, data, finished, percent_axis, zoom
from noisyteacher.report.parts import Chart, Table


def draw_accuracies(found: Sequence[Line]) -> Chart | None:
    """The three accuracies of each method, with the spread over trials."""
    points: list[dict[str, Any]] = [
        {"method": line.name, "which": name} | _spread(cell)
        for line in found
        for key, name in ACCURACIES.items()
        if (cell := line.accuracy[key]) is not None
    ]
    if not points:
        return None
    order = list(ACCURACIES.values())
    scale = percent_axis([p[end] for p in points for end in ("low", "high")])
    base = alt.Chart(data(points)).encode(
        y=alt.Y("method:N", title=None, sort=None),
        yOffset=alt.YOffset("which:N", sort=order),
        color=alt.Color("which:N", title=None, sort=order),
    )
    bars = base.mark_rule(strokeWidth=2, opacity=0.5).encode(
        x=alt.X("low:Q", title="test accuracy (%)", scale=scale), x2="high:Q"
    )
    dots = base.mark_point(filled=True, size=80, opacity=1).encode(
        x=alt.X("mean:Q", title="test accuracy (%)", scale=scale),
        shape=alt.Shape("which:N", legend=None, sort=order),
        tooltip=["method:N", alt.Tooltip("which:N", title="accuracy at"), *_TOLD],
    )
    rows = [
        (line.name, *(blank_or(line.accuracy[key]) for key in ACCURACIES), str(line.trials))
        for line in found
    ]
    height = 90 + 52 * len({line.name for line in found})
    return Chart(
        "Accuracy of each method",
        "Test accuracy after the last epoch, at the epoch chosen on S, and at the best test "
        "epoch; bars reach one standard deviation over trials to each side.",
        finished(alt.layer(bars, dots.add_params(zoom("x"))), height),
        Table("Test accuracy, percent", ("method", *order, "n"), rows),
    )


def draw_by_size(found: Sequence[Line]) -> Chart | None:
    """Accuracy after the last epoch against the size of A, where there are several sizes."""
    points: list[dict[str, Any]] = [
        {"method": line.name, "labelled": line.labeled} | _spread(cell)
        for line in found
        if (cell := line.accuracy["last"]) is not None
    ]
    if len({p["labelled"] for p in points}) < 2:
        return None
    scale = percent_axis([p[end] for p in points for end in ("low", "high")])
    y = alt.Y("mean:Q", title="test accuracy, last epoch (%)", scale=scale)
    base = alt.Chart(data(points)).encode(
        x=alt.X("labelled:Q", title="gold labels in A", scale=alt.Scale(zero=False, padding=12)),
        color=alt.Color("method:N", title=None, sort=None),
    )
    drawn = alt.layer(
        base.mark_rule(opacity=0.5).encode(y=alt.Y("low:Q", scale=scale), y2="high:Q"),
        base.mark_line(strokeWidth=2).encode(
            y=y, strokeDash=alt.StrokeDash("method:N", legend=None, sort=None, scale=DASHES)
        ),
        base.mark_point(filled=True, size=70, opacity=1)
        .encode(
            y=y,
            tooltip=["method:N", alt.Tooltip("labelled:Q", title="gold labels"), *_TOLD],
        )
        .add_params(zoom()),
    )
    return Chart(
        "Accuracy against the number of gold labels",
        "Test accuracy after the last epoch for each size of A; bars reach one standard "
        "deviation over trials to each side.",
        finished(drawn, 340),
        Table(
            "Test accuracy after the last epoch, percent",
            ("method", "gold labels", "accuracy", "n"),
            [(p["method"], str(p["labelled"]), p["told"], str(p["n"])) for p in points],
        ),
    )


_TOLD = (alt.Tooltip("told:N", title="percent"), alt.Tooltip("n:Q", title="trials"))


def _spread(cell: TrialMean) -> dict[str, Any]:
    std = cell.std or 0.0
    ends = {"low": cell.mean - std, "high": cell.mean + std}
    return ends | {"mean": cell.mean, "told": str(cell), "n": cell.n}
