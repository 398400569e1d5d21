"""What all charts share: their look, their data and their zoom."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import altair as alt

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
