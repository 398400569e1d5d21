"""Charts of a run's students, as Vega-Lite."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import altair as alt
import numpy as np

from noisyteacher.bench.results import Row
from noisyteacher.bench.tables import ACCURACIES, Line, blank_or, lines
from noisyteacher.report.comparison import Confusion
from noisyteacher.report.parts import Chart, Table

# Colours are names of the page's style sheet: one drawing serves light, dark and paper.
INK, LINE = "var(--ink)", "var(--line)"
CONFIG: dict[str, Any] = {
    "aria": False,  # the page has words and a table for each chart instead
    "background": "transparent",
    "view": {"stroke": "transparent"},
    "axis": {
        "labelColor": INK,
        "titleColor": INK,
        "gridColor": LINE,
        "domainColor": LINE,
        "tickColor": LINE,
        "labelFontSize": 12,
        "titleFontSize": 12,
        "titleFontWeight": "normal",
        "labelLimit": 170,
    },
    "legend": {
        "labelColor": INK,
        "titleColor": INK,
        "orient": "bottom",
        "columns": 2,
        "labelFontSize": 12,
        "labelLimit": 280,
        "symbolStrokeWidth": 2,
    },
    "text": {"color": INK},
    "range": {"category": [f"var(--c{i})" for i in range(1, 9)]},
}
_MOST_POINTS = 6_000  # of all training curves together
_TABLE_EPOCHS = 6
_MOST_CLASSES = 25
_CLASSES_WITH_COUNTS = 10
_HEIGHT = 300


def data(rows: list[dict[str, Any]]) -> alt.InlineData:
    """Rows inside the chart, as many as there are."""
    return alt.InlineData(values=rows)


def zoom(name: str) -> alt.Parameter:
    """Dragging moves, Ctrl with the wheel zooms (the wheel alone scrolls the page)."""
    return alt.selection_interval(
        name=name, bind="scales", zoom="wheel![event.ctrlKey || event.metaKey]"
    )


def finished(chart: alt.LayerChart | alt.Chart, height: int = _HEIGHT) -> dict[str, Any]:
    """The chart as JSON, as wide as its place on the page."""
    spec: dict[str, Any] = chart.properties(width="container", height=height).to_dict()
    spec.pop("$schema", None)
    return spec | {"config": CONFIG, "autosize": {"type": "fit-x", "contains": "padding"}}


def percent_axis(values: Sequence[float]) -> alt.Scale:
    """As much of 0 to 100 as the values need."""
    low, high = min(values), max(values)
    room = max(1.0, 0.06 * (high - low))
    return alt.Scale(domain=[max(0.0, low - room), min(100.0, high + room)], nice=True, zero=False)


def draw_accuracies(found: Sequence[Line]) -> Chart | None:
    """The three accuracies of each method, with the spread over trials."""
    points: list[dict[str, Any]] = []
    for line in found:
        for key, name in ACCURACIES.items():
            cell = line.accuracy[key]
            if cell is not None:
                std = cell.std or 0.0
                told = {"low": cell.mean - std, "high": cell.mean + std, "n": cell.n}
                points.append(
                    {"method": line.name, "which": name, "mean": cell.mean, "told": str(cell)}
                    | told
                )
    if not points:
        return None
    scale = percent_axis([p[end] for p in points for end in ("low", "high")])
    y = alt.Y("method:N", title=None, sort=None)
    base = alt.Chart(data(points)).encode(
        y=y,
        yOffset=alt.YOffset("which:N", sort=list(ACCURACIES.values())),
        color=alt.Color("which:N", title=None, sort=list(ACCURACIES.values())),
    )
    bars = base.mark_rule(strokeWidth=2, opacity=0.5).encode(
        x=alt.X("low:Q", title="test accuracy (%)", scale=scale), x2="high:Q"
    )
    dots = base.mark_point(filled=True, size=80, opacity=1).encode(
        x=alt.X("mean:Q", scale=scale, title="test accuracy (%)"),
        shape=alt.Shape("which:N", title=None, sort=list(ACCURACIES.values())),
        tooltip=[
            alt.Tooltip("method:N"),
            alt.Tooltip("which:N", title="accuracy at"),
            alt.Tooltip("told:N", title="percent"),
            alt.Tooltip("n:Q", title="trials"),
        ],
    )
    rows = [
        (line.name, *(blank_or(line.accuracy[key]) for key in ACCURACIES), str(line.trials))
        for line in found
    ]
    return Chart(
        "Accuracy of each method",
        "Test accuracy after the last epoch, at the epoch chosen on S, and at the best test "
        "epoch; bars reach one standard deviation over trials to each side.",
        finished(
            alt.layer(bars, dots.add_params(zoom("zoom"))),
            90 + 52 * len({line.name for line in found}),
        ),
        Table("Test accuracy, percent", ("method", *ACCURACIES.values(), "n"), rows),
    )


def draw_by_size(found: Sequence[Line]) -> Chart | None:
    """Accuracy after the last epoch against the size of A, where there are several sizes."""
    known = [line for line in found if line.accuracy["last"] is not None]
    sizes = sorted({line.labeled for line in known})
    if len(sizes) < 2:
        return None
    points: list[dict[str, Any]] = []
    for line in known:
        cell = line.accuracy["last"]
        assert cell is not None
        std = cell.std or 0.0
        points.append(
            {
                "method": line.name,
                "labelled": line.labeled,
                "mean": cell.mean,
                "low": cell.mean - std,
                "high": cell.mean + std,
                "told": str(cell),
                "n": cell.n,
            }
        )
    scale = percent_axis([p[end] for p in points for end in ("low", "high")])
    base = alt.Chart(data(points)).encode(
        x=alt.X("labelled:Q", title="gold labels in A", scale=alt.Scale(zero=False, nice=False)),
        color=alt.Color("method:N", title=None, sort=None),
    )
    y = alt.Y("mean:Q", title="test accuracy, last epoch (%)", scale=scale)
    tooltip = [
        alt.Tooltip("method:N"),
        alt.Tooltip("labelled:Q", title="gold labels"),
        alt.Tooltip("told:N", title="percent"),
        alt.Tooltip("n:Q", title="trials"),
    ]
    dash = alt.StrokeDash("method:N", title=None, sort=None)
    drawn = alt.layer(
        base.mark_rule(opacity=0.5).encode(y=alt.Y("low:Q", scale=scale), y2="high:Q"),
        base.mark_line(strokeWidth=2).encode(y=y, strokeDash=dash),
        base.mark_point(filled=True, size=70, opacity=1)
        .encode(y=y, tooltip=tooltip)
        .add_params(zoom("zoom")),
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


# -- training curves ------------------------------------------------------------------------------


def draw_curves(rows: Sequence[Row]) -> list[Chart]:
    """Accuracy and loss, epoch by epoch, as means over trials."""
    tested = any(point["test"] is not None for row in rows for point in row.curve)
    accuracy = ("test", "test part") if tested else ("selection", "selection set S")
    wanted = [
        (accuracy[0], "Accuracy by epoch", f"accuracy on the {accuracy[1]} (%)"),
        ("loss", "Training loss by epoch", "training loss"),
    ]
    charts = [_draw_curve(rows, *one) for one in wanted]
    return [chart for chart in charts if chart is not None]


def _draw_curve(rows: Sequence[Row], field: str, title: str, axis: str) -> Chart | None:
    curves = _mean_curves(rows, field)
    if not curves:
        return None
    most = max(20, _MOST_POINTS // len(curves))
    points = [
        {"method": name, "labelled": labeled, "epoch": epoch, "value": round(value, 4)}
        for (name, labeled), curve in curves.items()
        for epoch, value in _thinned(curve, most)
    ]
    sizes = sorted({labeled for _, labeled in curves})
    by_method = alt.selection_point(name="picked", fields=["method"], bind="legend")
    base = alt.Chart(data(points))
    if len(sizes) > 1:
        choice = alt.binding_select(options=sizes, name="Gold labels in A: ")
        size = alt.param(name="size", value=sizes[-1], bind=choice)
        base = base.add_params(size).transform_filter("datum.labelled == size")
    scale = percent_axis([p["value"] for p in points]) if field != "loss" else alt.Scale()
    lines_drawn = (
        base.mark_line(strokeWidth=2)
        .encode(
            x=alt.X("epoch:Q", title="epoch"),
            y=alt.Y("value:Q", title=axis, scale=scale),
            color=alt.Color("method:N", title=None, sort=None),
            strokeDash=alt.StrokeDash("method:N", title=None, sort=None),
            opacity=alt.condition(by_method, alt.value(1.0), alt.value(0.15)),
        )
        .add_params(by_method, zoom("zoom"))
    )
    # Lines are too thin to point at: unseen dots around them carry the tooltip.
    dots = base.mark_point(size=120, opacity=0, filled=True).encode(
        x="epoch:Q",
        y=alt.Y("value:Q", scale=scale),
        tooltip=[
            alt.Tooltip("method:N"),
            alt.Tooltip("epoch:Q"),
            alt.Tooltip("value:Q", title=axis, format=".3f" if field == "loss" else ".2f"),
        ],
    )
    table = [
        (name, str(labeled), str(epoch), f"{value:.3f}" if field == "loss" else f"{value:.2f}")
        for (name, labeled), curve in curves.items()
        for epoch, value in _thinned(curve, _TABLE_EPOCHS)
    ]
    return Chart(
        title,
        f"{axis[0].upper()}{axis[1:]} after each epoch, mean over trials. Choose a method in the "
        "legend to bring it out.",
        finished(alt.layer(lines_drawn, dots)),
        Table(f"{title}, some epochs", ("method", "gold labels", "epoch", axis), table),
    )


def _mean_curves(
    rows: Sequence[Row], field: str
) -> dict[tuple[str, int], list[tuple[int, float]]]:
    groups: dict[tuple[str, int], dict[int, list[float]]] = {}
    lengths = {row.epochs for row in rows if row.curve}
    for row in rows:
        name = lines([row])[0].name + (f", {row.epochs} epochs" if len(lengths) > 1 else "")
        for point in row.curve:
            if point[field] is not None:
                epochs = groups.setdefault((name, row.labeled), {})
                epochs.setdefault(point["epoch"], []).append(point[field])
    return {
        key: [(epoch, float(np.mean(values))) for epoch, values in sorted(epochs.items())]
        for key, epochs in groups.items()
    }


def _thinned(curve: list[tuple[int, float]], most: int) -> list[tuple[int, float]]:
    if len(curve) <= most:
        return curve
    kept = np.linspace(0, len(curve) - 1, most).round().astype(int)
    return [curve[i] for i in kept]


# -- confusions -----------------------------------------------------------------------------------


def draw_confusion(confusion: Confusion, classes: Sequence[str], shown: list[int]) -> Chart | None:
    """True against said classes; ``shown`` picks the classes of both axes."""
    of_class: dict[int, int] = {}
    for truth, _, rows in confusion.counts:
        of_class[truth] = of_class.get(truth, 0) + rows
    place, total = {c: i for i, c in enumerate(shown)}, sum(of_class.values())
    cells = [
        {
            "truth": classes[truth],
            "said": classes[said],
            "rows": rows,
            "share": rows / of_class[truth],
            "right": "right" if truth == said else "wrong",
        }
        for truth, said, rows in confusion.counts
        if truth in place and said in place
    ]
    if not cells:
        return None
    right = sum(rows for truth, said, rows in confusion.counts if truth == said) / total
    names = [classes[c] for c in shown]
    base = alt.Chart(data(cells)).encode(
        x=alt.X("said:N", title=f"what the {confusion.who} says", sort=names),
        y=alt.Y("truth:N", title="what it is", sort=names),
        tooltip=[
            alt.Tooltip("truth:N", title="it is"),
            alt.Tooltip("said:N", title=f"the {confusion.who} says"),
            alt.Tooltip("rows:Q"),
            alt.Tooltip("share:Q", title="of that class", format=".1%"),
        ],
    )
    drawn = base.mark_rect().encode(
        color=alt.Color("right:N", title=None, scale=alt.Scale(domain=["right", "wrong"])),
        opacity=alt.Opacity(
            "share:Q", legend=None, scale=alt.Scale(domain=[0, 1], range=[0.05, 0.65])
        ),
    )
    if len(shown) <= _CLASSES_WITH_COUNTS:
        drawn = alt.layer(drawn, base.mark_text(fontSize=11).encode(text="rows:Q"))
    worst = sorted(
        (c for c in cells if c["right"] == "wrong"), key=lambda c: c["rows"], reverse=True
    )
    some = "" if len(shown) == len(classes) else f" The {len(shown)} most confused classes."
    return Chart(
        f"What the {confusion.who} takes for what",
        f"On {total} rows of {confusion.rows_of}; {right:.1%} are right.{some}",
        finished(drawn, max(160, min(26 * len(shown), 560))),
        Table(
            f"Most frequent mistakes of the {confusion.who}",
            ("it is", f"the {confusion.who} says", "rows", "of that class"),
            [(c["truth"], c["said"], str(c["rows"]), f"{c['share']:.1%}") for c in worst[:30]],
        ),
    )


def confused_classes(confusions: Sequence[Confusion], classes: int) -> list[int]:
    """All classes, or those with the most mistakes where they are too many to draw."""
    wrong = np.zeros(classes, np.int64)
    for confusion in confusions:
        for truth, said, rows in confusion.counts:
            if truth != said:
                wrong[[truth, said]] += rows
    if classes <= _MOST_CLASSES:
        return list(range(classes))
    return sorted(np.argsort(-wrong, kind="stable")[:_MOST_CLASSES].tolist())
