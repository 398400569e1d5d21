"""What all charts of a page share: their look, legends, tooltips and axes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Literal

import altair as alt

from noisyteacher.report.parts import Table

INK = "var(--ink)"  # colours are names of the page's style sheet, see also page.js
# As many as colours, so that lines differ in print too; fine dots would look like a paler colour.
DASHES = [[1, 0], [7, 3], [3, 2], [9, 3, 2, 3], [14, 4], [1, 0], [7, 3], [3, 2]]
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


# What a tooltip and the table below the chart both tell of a point: its field with the type that
# Vega-Lite gives it, a title, and a format.
Column = tuple[str, str, str]
SHARE_ENDS: tuple[Column, ...] = (("low:Q", "95% from", ".1%"), ("high:Q", "to", ".1%"))


def tooltip(columns: Iterable[Column]) -> list[alt.Tooltip]:
    """The columns as Vega-Lite shows them where a point is pointed at."""
    return [
        alt.Tooltip(field, title=title, format=form or alt.Undefined)
        for field, title, form in columns
    ]


def table_of(caption: str, columns: Sequence[Column], points: Iterable[dict[str, Any]]) -> Table:
    """The same columns as texts, a row for each point."""
    fields = [(field.partition(":")[0], form) for field, _, form in columns]
    rows = [tuple(format(point[field], form) for field, form in fields) for point in points]
    return Table(caption, tuple(title for _, title, _ in columns), rows)


def hover_points(chart: Any, columns: Iterable[Column]) -> Any:
    """Unseen points that carry the tooltips: lines are too thin to point at."""
    return chart.mark_point(size=120, opacity=0, filled=True).encode(tooltip=tooltip(columns))


def crosshair(points: list[dict[str, Any]], x: Any, told: str, names: Sequence[str]) -> Any:
    """A rule at the nearest value of x, whose tooltip has all series there.

    Each point has ``x``, its ``series`` (a number into ``names``) and the text ``told``.
    """
    rows: dict[Any, dict[str, Any]] = {}
    for point in points:
        rows.setdefault(point["x"], {"x": point["x"]})[f"s{point['series']}"] = point["told"]
    nearest = alt.selection_point(
        name="nearest",
        nearest=True,
        on="pointermove",
        clear="pointerout",
        fields=["x"],
        empty=False,
    )
    return (
        alt.Chart(data(list(rows.values())))
        .mark_rule(color=INK, strokeWidth=1)
        .encode(
            x=x,
            opacity=alt.condition(nearest, alt.value(0.6), alt.value(0)),
            tooltip=[
                alt.Tooltip("x:Q", title=told),
                *(alt.Tooltip(f"s{i}:N", title=name) for i, name in enumerate(names)),
            ],
        )
        .add_params(nearest)
    )


def legend_of(names: Sequence[str], *, shapes: bool = False) -> dict[str, Any]:
    """Encodings that give each series its colour and dashes, or shape, with one legend for both."""
    if shapes:
        return {"color": by_name(alt.Color, names), "shape": by_name(alt.Shape, names)}
    dashes = by_name(alt.StrokeDash, names, DASHES[: len(names)])
    return {"color": by_name(alt.Color, names), "strokeDash": dashes}


def by_name(channel: Any, names: Iterable[str], values: Any = alt.Undefined) -> Any:
    """A channel that tells the series apart, in their order; ``values`` are what it shows."""
    scale = alt.Scale(domain=list(names), range=values)
    return channel("name:N", title=None, sort=None, scale=scale)


def lines_with_bars(
    base: Any, y: str, names: Sequence[str], axis: str, scale: alt.Scale
) -> tuple[Any, Any, Any]:
    """The layers of bars from ``low`` to ``high``, of lines and of points, for each series."""
    at, colour = alt.Y(f"{y}:Q", title=axis, scale=scale), by_name(alt.Color, names)
    ends = {"y": alt.Y("low:Q", title=axis, scale=scale), "y2": "high:Q"}
    points = base.mark_point(filled=True, size=70, opacity=1)
    return (
        base.mark_rule(opacity=0.5).encode(**ends, color=colour),
        base.mark_line(strokeWidth=2).encode(y=at, color=colour),
        points.encode(y=at, **legend_of(names, shapes=True)),
    )


def legend_symbols(symbols: dict[str, tuple[str, str]]) -> Any:
    """An unseen layer for a legend of marks of different kinds: name to colour and shape."""
    colours, shapes = (list(part) for part in zip(*symbols.values(), strict=True))
    unseen = alt.Chart(data([{"name": name} for name in symbols])).mark_point(
        filled=True, opacity=0, size=0
    )
    return unseen.encode(
        color=by_name(alt.Color, symbols, colours), shape=by_name(alt.Shape, symbols, shapes)
    )


# Shapes of legend entries for marks that are no points.
DASHED_MARK = "M-1.4,-0.15H-0.4V0.15H-1.4ZM0.4,-0.15H1.4V0.15H0.4Z"
BAND_MARK = "M-1.4,-0.2H1.4V0.2H-1.4ZM-1.4,-0.8H1.4V-0.7H-1.4ZM-1.4,0.7H1.4V0.8H-1.4Z"


def finished(chart: Any, height: int = _HEIGHT) -> dict[str, Any]:
    """The chart as JSON, as wide as its place on the page."""
    spec: dict[str, Any] = chart.properties(width="container", height=height).to_dict()
    for name in ("$schema", "config"):  # the page has the look of all charts
        spec.pop(name, None)
    return spec | {"autosize": {"type": "fit-x", "contains": "padding"}}


def percent_axis(values: Sequence[float]) -> alt.Scale:
    """As much of 0 to 100 as the values need."""
    low, high = min(values), max(values)
    room = max(1.0, 0.06 * (high - low))
    return alt.Scale(domain=[max(0.0, low - room), min(100.0, high + room)], nice=True, zero=False)
