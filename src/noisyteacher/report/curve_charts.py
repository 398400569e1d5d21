"""Training curves, as Vega-Lite."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import altair as alt
import numpy as np

from noisyteacher.bench.result_lines import lines
from noisyteacher.bench.results import Row
from noisyteacher.report.chart_base import DASHES, WHOLE, data, finished, percent_axis, zoom
from noisyteacher.report.parts import Chart, Table

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
        charts.append(_draw(accuracy, "Accuracy by epoch", axis, scale, ".2f"))
    if loss:
        axis = "training loss"
        charts.append(_draw(loss, "Training loss by epoch", axis, alt.Scale(), ".3f"))
    return charts


def _draw(curves: Curves, title: str, axis: str, scale: alt.Scale, form: str) -> Chart:
    points = [
        {"method": name, "labelled": labeled, "epoch": epoch, "value": round(value, 4)}
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
    # Lines are too thin to point at: unseen dots around them carry the tooltip.
    value = alt.Tooltip("value:Q", title=axis, format=form)
    dots = base.mark_point(size=120, opacity=0, filled=True).encode(
        tooltip=["method:N", "epoch:Q", value]
    )
    table = [
        (name, str(labeled), str(epoch), format(value, form))
        for (name, labeled), curve in curves.items()
        for epoch, value in _thinned(curve, _TABLE_EPOCHS)
    ]
    return Chart(
        title,
        f"{axis[0].upper()}{axis[1:]} after each epoch, mean over trials. Choose a method in the "
        "legend to bring it out.",
        finished(alt.layer(drawn.add_params(picked, zoom()), dots)),
        Table(f"{title}, some epochs", ("method", "gold labels", "epoch", axis), table),
    )


def _with_choice_of_size(chart: Any, sizes: list[int]) -> Any:
    if len(sizes) == 1:
        return chart
    choice = alt.binding_select(options=sizes, name="Gold labels in A: ")
    size = alt.param(name="size", value=sizes[-1], bind=choice)
    return chart.add_params(size).transform_filter("datum.labelled == size")


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
