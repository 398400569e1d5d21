"""Charts of students as Vega-Lite: accuracies, training curves and mistakes, and their look."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import altair as alt
import numpy as np

from noisyteacher.bench.result_lines import ACCURACIES, Line, TrialMean, blank_or, lines
from noisyteacher.core.reprs import ShortRepr
from noisyteacher.runs import Row
from noisyteacher.runs.comparison import Confusion

# Colours are names of the page's style sheet: one drawing serves light, dark and paper.
INK, LINE = "var(--ink)", "var(--line)"
CONFIG: dict[str, Any] = {
    "aria": False,  # the page has words and a table for each chart instead
    "background": "transparent",
    "font": "system-ui, sans-serif",
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
        "labelFlush": False,
        "labelSeparation": 6,
    },
    "legend": {
        "labelColor": INK,
        "titleColor": INK,
        "orient": "bottom",
        "columns": 1,
        "labelFontSize": 12,
        "labelLimit": 320,
        "symbolStrokeWidth": 2,
        "symbolOpacity": 1,
    },
    "text": {"color": INK},
    "range": {"category": [f"var(--c{i})" for i in range(1, 9)]},
}
# As many as colours, so that lines differ in print too; fine dots would look like a paler colour.
DASHES = alt.Scale(range=[[1, 0], [7, 3], [3, 2], [9, 3, 2, 3], [14, 4], [1, 0], [7, 3], [3, 2]])
WHOLE = alt.Axis(tickMinStep=1, format="d")
_HEIGHT = 300


@dataclass(frozen=True, repr=False)
class Table(ShortRepr):
    """Texts in rows; the first column names its row."""

    caption: str
    header: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]


@dataclass(frozen=True, repr=False)
class Chart(ShortRepr):
    """A Vega-Lite chart, what it shows in words, and its numbers for who cannot see it."""

    title: str
    text: str
    spec: dict[str, Any]
    table: Table


def data(rows: list[dict[str, Any]]) -> alt.InlineData:
    """Rows inside the chart, as many as there are."""
    return alt.InlineData(values=rows)


def zoom(*axes: Literal["x", "y"]) -> alt.Parameter:
    """Dragging moves, Ctrl with the wheel zooms (the wheel alone scrolls the page)."""
    return alt.selection_interval(
        name="zoom",
        bind="scales",
        encodings=list(axes or ("x", "y")),
        zoom="wheel![event.ctrlKey || event.metaKey]",
    )


def hover_points(chart: Any, tooltip: list[Any]) -> Any:
    """Unseen points that carry the tooltips: lines are too thin to point at."""
    return chart.mark_point(size=120, opacity=0, filled=True).encode(tooltip=tooltip)


def finished(chart: Any, height: int = _HEIGHT) -> dict[str, Any]:
    """The chart as JSON, as wide as its place on the page."""
    spec: dict[str, Any] = chart.properties(width="container", height=height).to_dict()
    spec.pop("$schema", None)
    return spec | {"config": CONFIG, "autosize": {"type": "fit-x", "contains": "padding"}}


def percent_axis(values: Sequence[float]) -> alt.Scale:
    """As much of 0 to 100 as the values need."""
    low, high = min(values), max(values)
    room = max(1.0, 0.06 * (high - low))
    return alt.Scale(domain=[max(0.0, low - room), min(100.0, high + room)], nice=True, zero=False)


# -- accuracies -----------------------------------------------------------------------------------


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
        {"method": line.name, "labeled": line.labeled} | _spread(cell)
        for line in found
        if (cell := line.accuracy["last"]) is not None
    ]
    if len({p["labeled"] for p in points}) < 2:
        return None
    scale = percent_axis([p[end] for p in points for end in ("low", "high")])
    y = alt.Y("mean:Q", title="test accuracy, last epoch (%)", scale=scale)
    base = alt.Chart(data(points)).encode(
        x=alt.X("labeled:Q", title="gold labels in A", scale=alt.Scale(zero=False, padding=12)),
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
            tooltip=["method:N", alt.Tooltip("labeled:Q", title="gold labels"), *_TOLD],
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
            [(p["method"], str(p["labeled"]), p["told"], str(p["n"])) for p in points],
        ),
    )


_TOLD = (alt.Tooltip("told:N", title="percent"), alt.Tooltip("n:Q", title="trials"))


def _spread(cell: TrialMean) -> dict[str, Any]:
    std = cell.std or 0.0
    ends = {"low": cell.mean - std, "high": cell.mean + std}
    return ends | {"mean": cell.mean, "told": str(cell), "n": cell.n}


# -- training curves ------------------------------------------------------------------------------

_MOST_POINTS = 2_400  # of all curves together
_FEWEST_POINTS = 12  # of one curve
_TABLE_EPOCHS = 6

Curves = dict[tuple[str, int], list[tuple[int, float]]]  # by method and size of A


def draw_curves(rows: Sequence[Row]) -> list[Chart]:
    """Accuracy and loss, epoch by epoch, as means over trials."""
    tested = any(point["test"] is not None for row in rows for point in row.curve)
    key, part = ("test", "test part") if tested else ("selection", "selection set S")
    accuracy, loss = _mean_curves(rows, key), _mean_curves(rows, "loss")
    charts = []
    if accuracy:
        scale = percent_axis([value for curve in accuracy.values() for _, value in curve])
        axis = f"accuracy on the {part} (%)"
        charts.append(_draw_curve(accuracy, "Accuracy by epoch", axis, scale, ".2f"))
    if loss:
        axis = "training loss"
        charts.append(_draw_curve(loss, "Training loss by epoch", axis, alt.Scale(), ".3f"))
    return charts


def _draw_curve(curves: Curves, title: str, axis: str, scale: alt.Scale, form: str) -> Chart:
    points = [
        {"method": name, "labeled": labeled, "epoch": epoch, "value": round(value, 4)}
        for (name, labeled), curve in curves.items()
        for epoch, value in _thinned(curve, max(_FEWEST_POINTS, _MOST_POINTS // len(curves)))
    ]
    base = _with_choice_of_size(alt.Chart(data(points)), sorted({size for _, size in curves}))
    base = base.encode(
        x=alt.X("epoch:Q", title="epoch", axis=WHOLE), y=alt.Y("value:Q", title=axis, scale=scale)
    )
    picked = alt.selection_point(name="picked", fields=["method"], bind="legend")
    drawn = base.mark_line(strokeWidth=2).encode(
        color=alt.Color("method:N", title=None, sort=None),
        strokeDash=alt.StrokeDash("method:N", title=None, sort=None, scale=DASHES),
        opacity=alt.condition(picked, alt.value(1.0), alt.value(0.15)),
    )
    value = alt.Tooltip("value:Q", title=axis, format=form)
    points_to_hover = hover_points(base, ["method:N", "epoch:Q", value])
    table = [
        (name, str(labeled), str(epoch), format(value, form))
        for (name, labeled), curve in curves.items()
        for epoch, value in _thinned(curve, _TABLE_EPOCHS)
    ]
    return Chart(
        title,
        f"{axis[0].upper()}{axis[1:]} after each epoch, mean over trials. Choose a method in the "
        "legend to bring it out.",
        finished(alt.layer(drawn.add_params(picked, zoom()), points_to_hover)),
        Table(f"{title}, some epochs", ("method", "gold labels", "epoch", axis), table),
    )


def _with_choice_of_size(chart: Any, sizes: list[int]) -> Any:
    if len(sizes) == 1:
        return chart
    choice = alt.binding_select(options=sizes, name="Gold labels in A: ")
    size = alt.param(name="size", value=sizes[-1], bind=choice)
    return chart.add_params(size).transform_filter("datum.labeled == size")


def _mean_curves(rows: Sequence[Row], field: str) -> dict[tuple[str, int], list[tuple[int, float]]]:
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


# -- mistakes -------------------------------------------------------------------------------------

_MOST_CLASSES = 25
_MOST_MISTAKES = 30
_CLASSES_WITH_COUNTS = 10
_WIDTH_IN_SIGNS = 24  # of level class names that fit below a chart on a phone


def draw_confusion(confusion: Confusion, classes: Sequence[str], shown: list[int]) -> Chart | None:
    """True against said classes; ``shown`` picks the classes of both axes."""
    cells = [
        c for c in _confusion_cells(confusion, classes) if {c["truth"], c["said"]} <= set(shown)
    ]
    if not cells:
        return None
    who, total = confusion.who, sum(rows for _, _, rows in confusion.counts)
    right = sum(rows for truth, said, rows in confusion.counts if truth == said) / total
    wrong = sorted((c for c in cells if c["is"] == "wrong"), key=lambda c: -c["rows"])
    some = "" if len(shown) == len(classes) else f" The {len(shown)} most confused classes."
    return Chart(
        f"What the {who} takes for what",
        f"On {total:,} rows of {confusion.rows_of}; {right:.1%} are right.{some}",
        finished(
            _draw_squares(cells, who, [classes[c] for c in shown]),
            max(160, min(26 * len(shown), 560)),
        ),
        Table(
            f"Most frequent mistakes of the {who}",
            ("it is", f"the {who} says", "rows", "of that class"),
            [
                (c["true name"], c["said name"], str(c["rows"]), f"{c['share']:.1%}")
                for c in wrong[:_MOST_MISTAKES]
            ],
        ),
    )


def _confusion_cells(confusion: Confusion, classes: Sequence[str]) -> list[dict[str, Any]]:
    of_class: dict[int, int] = {}
    for truth, _, rows in confusion.counts:
        of_class[truth] = of_class.get(truth, 0) + rows
    return [
        {
            "truth": truth,
            "said": said,
            "true name": classes[truth],
            "said name": classes[said],
            "rows": rows,
            "share": rows / of_class[truth],
            "is": "right" if truth == said else "wrong",
        }
        for truth, said, rows in confusion.counts
    ]


def _draw_squares(cells: list[dict[str, Any]], who: str, names: list[str]) -> Any:
    level = max(map(len, names)) * len(names) <= _WIDTH_IN_SIGNS
    base = alt.Chart(data(cells)).encode(
        x=alt.X(
            "said name:N",
            title=f"what the {who} says",
            scale=alt.Scale(domain=names),
            axis=alt.Axis(labelAngle=0 if level else -90, labelLimit=90),
        ),
        y=alt.Y(
            "true name:N",
            title="what it is",
            scale=alt.Scale(domain=names),
            axis=alt.Axis(labelLimit=90),
        ),
        tooltip=[
            alt.Tooltip("true name:N", title="it is"),
            alt.Tooltip("said name:N", title=f"the {who} says"),
            "rows:Q",
            alt.Tooltip("share:Q", title="of that class", format=".1%"),
        ],
    )
    squares = base.mark_rect().encode(
        color=alt.Color("is:N", title=None, scale=alt.Scale(domain=["right", "wrong"])),
        opacity=alt.Opacity(
            "share:Q", legend=None, scale=alt.Scale(domain=[0, 1], range=[0.05, 0.65])
        ),
    )
    if len(names) > _CLASSES_WITH_COUNTS:
        return squares
    return alt.layer(squares, base.mark_text(fontSize=11).encode(text="rows:Q"))


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
