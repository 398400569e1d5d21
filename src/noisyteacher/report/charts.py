"""Charts of students as Vega-Lite: accuracies, training curves and mistakes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import altair as alt
import numpy as np

from noisyteacher.bench.gold_sizes import SHOWN, SizePoint
from noisyteacher.bench.result_lines import ACCURACIES, Line, TrialMean, blank_or, lines
from noisyteacher.report.chart_look import (
    WHOLE,
    crosshair,
    data,
    finished,
    hover_points,
    legend_of,
    lines_with_bars,
    percent_axis,
    table_of,
    tooltip,
    zoom,
)
from noisyteacher.report.parts import Chart, Table, short_names
from noisyteacher.runs import Row
from noisyteacher.runs.comparison import Confusion

_ACCURACY_COLUMNS = (
    *(("full:N", "method", ""), ("name:N", "accuracy at", "")),
    *(("told:N", "percent", ""), ("n:Q", "trials", "")),
)
_LINES = alt.Axis(labelExpr="split(datum.label, ', ')")

# -- accuracies -----------------------------------------------------------------------------------


def draw_accuracies(found: Sequence[Line]) -> Chart | None:
    """The three accuracies of each method, with the spread over trials."""
    short = short_names(line.name for line in found)
    points: list[dict[str, Any]] = [
        {"method": short[line.name], "full": line.name, "name": name} | _spread(cell)
        for line in found
        for key, name in ACCURACIES.items()
        if (cell := line.accuracy[key]) is not None
    ]
    if not points:
        return None
    order = list(ACCURACIES.values())
    scale = percent_axis([p[end] for p in points for end in ("low", "high")])
    base = alt.Chart(data(points)).encode(
        # A name such as "vanilla distillation, hard labels" has a line for each of its parts.
        y=alt.Y("method:N", title=None, sort=None, axis=_LINES),
        yOffset=alt.YOffset("name:N", sort=order),
    )
    several = any(p["n"] > 1 for p in points)
    layers = []
    if several:
        bars = base.mark_rule(strokeWidth=2, opacity=0.5).encode(
            x=alt.X("low:Q", title="test accuracy (%)", scale=scale),
            x2="high:Q",
            color=alt.Color("name:N", title=None, scale=alt.Scale(domain=order)),
        )
        layers.append(bars)
    dots = base.mark_point(filled=True, size=80, opacity=1).encode(
        x=alt.X("mean:Q", title="test accuracy (%)", scale=scale),
        **legend_of(order, shapes=True),
        tooltip=tooltip(_ACCURACY_COLUMNS),
    )
    rows = [
        (short[line.name], *(blank_or(line.accuracy[key]) for key in ACCURACIES), str(line.trials))
        for line in found
    ]
    height = 90 + 52 * len(short)
    return Chart(
        "Accuracy of each method",
        "Test accuracy after the last epoch, at the epoch chosen on S, and at the best test "
        f"epoch{_bars_in_words(several)}.",
        finished(alt.layer(*layers, dots.add_params(zoom("x"))), height),
        Table("Test accuracy, percent", ("method", *order, "n"), rows, [x.name for x in found]),
    )


_SIZE_COLUMNS = (
    *(("name:N", "method", ""), ("x:Q", "gold labels", "")),
    *(("told:N", "accuracy", ""), ("n:Q", "n", "")),
)


def draw_by_size(found: Sequence[Line]) -> Chart | None:
    """Accuracy after the last epoch against the size of A, where there are several sizes."""
    short = short_names(line.name for line in found)
    points: list[dict[str, Any]] = [
        {"name": short[line.name], "x": line.labeled} | _spread(cell)
        for line in found
        if (cell := line.accuracy["last"]) is not None
    ]
    if len({p["x"] for p in points}) < 2:
        return None
    x = alt.X(
        "x:Q",
        title="gold labels in A",
        scale=alt.Scale(zero=False, padding=12, nice=False),
        axis=alt.Axis(values=sorted({p["x"] for p in points}), format=",d"),
    )
    several = any(p["n"] > 1 for p in points)
    return Chart(
        "Accuracy against the number of gold labels",
        "Test accuracy after the last epoch for each size of A"
        f"{_bars_in_words(several)}. Hover over the chart to compare all methods at one size.",
        finished(_sized_lines(points, x, "test accuracy, last epoch (%)", "gold labels"), 340),
        table_of("Test accuracy after the last epoch, percent", _SIZE_COLUMNS, points),
    )


def draw_gold_sizes(points: Sequence[SizePoint], teacher: TrialMean, table: Table) -> Chart:
    """A demo's students against the number of gold rows, beside the teacher."""
    sizes = sorted({point.size for point in points})
    named = [(SHOWN[point.method], point.size, point.accuracy) for point in points]
    named += [("the teacher", size, teacher) for size in sizes]
    drawn = [
        {"name": name, "x": size}
        | _around(found.mean, found.half_width or 0.0)
        | {"told": f"{found.mean:.1f}"}
        for name, size, found in named
    ]
    x = alt.X(
        "x:Q",
        title="gold rows",
        scale=alt.Scale(type="log", padding=12, nice=False),
        axis=alt.Axis(values=sizes, format="d"),
    )
    return Chart(
        "Accuracy against the number of gold rows",
        "Mean test accuracy over random splits; bars are 95% intervals of the mean. Hover over the "
        "chart to compare all students with one number of gold rows.",
        finished(_sized_lines(drawn, x, "test accuracy (%)", "gold rows"), 360),
        table,
    )


def _sized_lines(points: list[dict[str, Any]], x: Any, axis: str, told: str) -> Any:
    """Lines with points and bars, one legend, and a crosshair; points have x, mean, low, high."""
    names = list(dict.fromkeys(p["name"] for p in points))
    numbered = [p | {"series": names.index(p["name"])} for p in points]
    scale = percent_axis([p[end] for p in points for end in ("low", "high")])
    drawn = lines_with_bars(alt.Chart(data(numbered)).encode(x=x), "mean", names, axis, scale)
    return alt.layer(*drawn, crosshair(numbered, x, told, names))


def _bars_in_words(several: bool) -> str:
    return "; bars reach one standard deviation over trials to each side" if several else ""


def _spread(cell: TrialMean) -> dict[str, Any]:
    return _around(cell.mean, cell.std or 0.0) | {"told": str(cell), "n": cell.n}


def _around(mean: float, half: float) -> dict[str, Any]:
    return {"low": mean - half, "high": mean + half, "mean": mean}


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
    short = short_names(name for name, _ in curves)
    names = list(short.values())
    points = [
        {
            "name": short[name],
            "series": names.index(short[name]),
            "labeled": labeled,
            "x": epoch,
            "value": round(value, 4),
            "told": format(value, form),
        }
        for (name, labeled), curve in curves.items()
        for epoch, value in _thinned(curve, max(_FEWEST_POINTS, _MOST_POINTS // len(curves)))
    ]
    sizes = sorted({size for _, size in curves})
    base = _with_choice_of_size(alt.Chart(data(points)), sizes)
    x = alt.X("x:Q", title="epoch", axis=WHOLE)
    base = base.encode(x=x, y=alt.Y("value:Q", title=axis, scale=scale))
    picked = alt.selection_point(name="picked", fields=["name"], bind="legend")
    drawn = base.mark_line(strokeWidth=2).encode(
        **legend_of(names),
        opacity=alt.condition(picked, alt.value(1.0), alt.value(0.15)),
    )
    layers = [drawn.add_params(picked, zoom())]
    if len(sizes) == 1:
        layers.append(crosshair(points, x, "epoch", names))
    else:
        columns = (("name:N", "method", ""), ("x:Q", "epoch", ""), ("value:Q", axis, form))
        layers.append(hover_points(base, columns))
    table = [
        (short[name], str(labeled), str(epoch), format(value, form))
        for (name, labeled), curve in curves.items()
        for epoch, value in _thinned(curve, _TABLE_EPOCHS)
    ]
    return Chart(
        title,
        f"{axis[0].upper()}{axis[1:]} after each epoch, mean over trials. Click a method in the "
        "legend to highlight it.",
        finished(alt.layer(*layers)),
        Table(f"{title}, some epochs", ("method", "gold labels", "epoch", axis), table),
    )


def _with_choice_of_size(chart: Any, sizes: list[int]) -> Any:
    if len(sizes) == 1:
        return chart
    choice = alt.binding_select(options=sizes, name="Gold labels in A: ")
    size = alt.param(name="size", value=sizes[-1], bind=choice)
    return chart.add_params(size).transform_filter("datum.labeled == size")


def _mean_curves(rows: Sequence[Row], field: str) -> Curves:
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

_MISTAKES = (
    *(("true name:N", "true class", ""), ("said name:N", "predicted class", "")),
    *(("rows:Q", "rows", ""), ("share:Q", "share of the class", ".1%")),
)
_MOST_MISTAKES = 30
_CLASSES_WITH_COUNTS = 10
_WIDTH_IN_SIGNS = 24  # of level class names that fit below a chart on a phone


def draw_confusion(confusion: Confusion, classes: Sequence[str], shown: list[int]) -> Chart | None:
    """True against predicted classes; ``shown`` picks the classes of both axes."""
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
        f"Confusion matrix of the {who}",
        f"Accuracy: {right:.1%} of {total:,} rows ({confusion.rows_of}).{some}",
        finished(
            _draw_squares(cells, [classes[c] for c in shown]),
            max(160, min(26 * len(shown), 560)),
        ),
        table_of(f"Most frequent mistakes of the {who}", _MISTAKES, wrong[:_MOST_MISTAKES]),
    )


def _confusion_cells(confusion: Confusion, classes: Sequence[str]) -> list[dict[str, Any]]:
    of_class: Counter[int] = Counter()
    for truth, _, rows in confusion.counts:
        of_class[truth] += rows
    return [
        {
            "truth": truth,
            "said": said,
            "true name": classes[truth],
            "said name": classes[said],
            "rows": rows,
            "share": rows / of_class[truth],
            "is": "correct" if truth == said else "wrong",
        }
        for truth, said, rows in confusion.counts
    ]


def _draw_squares(cells: list[dict[str, Any]], names: list[str]) -> Any:
    level = max(map(len, names)) * len(names) <= _WIDTH_IN_SIGNS
    base = alt.Chart(data(cells)).encode(
        x=alt.X(
            "said name:N",
            title="predicted class",
            scale=alt.Scale(domain=names),
            axis=alt.Axis(labelAngle=0 if level else -90, labelLimit=90),
        ),
        y=alt.Y(
            "true name:N",
            title="true class",
            scale=alt.Scale(domain=names),
            axis=alt.Axis(labelLimit=90),
        ),
        tooltip=tooltip(_MISTAKES),
    )
    squares = base.mark_rect().encode(
        color=alt.Color("is:N", title=None, scale=alt.Scale(domain=["correct", "wrong"])),
        opacity=alt.Opacity(
            "share:Q", legend=None, scale=alt.Scale(domain=[0, 1], range=[0.05, 0.65])
        ),
    )
    if len(names) > _CLASSES_WITH_COUNTS:
        return squares
    return alt.layer(squares, base.mark_text(fontSize=11).encode(text="rows:Q"))
