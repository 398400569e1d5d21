"""Charts of an audit: how far the teacher can be trusted, as Vega-Lite."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import altair as alt

from noisyteacher.choose.decision import Interval
from noisyteacher.report.chart_look import (
    BAND_MARK,
    DASHED_MARK,
    SHARE_ENDS,
    WHOLE,
    data,
    finished,
    hover_points,
    legend_of,
    legend_symbols,
    lines_with_bars,
    table_of,
    tooltip,
    zoom,
)
from noisyteacher.report.parts import Chart, Table

_GROUP_COLUMNS = (
    *(("rows:Q", "gold rows", ""), ("margin:Q", "mean margin", ".3f")),
    ("accuracy:Q", "accuracy", ".1%"),
)
_BIN_COLUMNS = (
    *(("name:N", "probabilities", ""), ("said:Q", "stated confidence", ".1%")),
    *(("value:Q", "accuracy", ".1%"), *SHARE_ENDS, ("rows:Q", "gold rows", "")),
)
# A little room, so that points at 0 and 1 are seen whole.
_CHANCE = alt.Scale(domain=[-0.03, 1.03], nice=False)


def _padded(values: Sequence[float]) -> alt.Scale:
    room = 0.03 * (max(values) - min(values))
    return alt.Scale(domain=[min(values) - room, max(values) + room], nice=False)


def draw_audit(numbers: dict[str, Any]) -> list[Chart]:
    """All charts that an audit has numbers for."""
    drawn = [
        draw_alpha(numbers),
        draw_reliability(numbers),
        draw_shortlists(numbers),
        draw_top_k(numbers),
        draw_drift(numbers, "margin"),
        draw_drift(numbers, "entropy"),
    ]
    return [chart for chart in drawn if chart is not None]


def draw_alpha(numbers: dict[str, Any]) -> Chart:
    """α against the margin with its band, over V in groups of neighbouring margins."""
    curve, bound = numbers["curve"], numbers["lower_bound"]
    fields = ("margin", "alpha", "low", "high")
    rows = zip(*(curve[field] for field in fields), strict=True)
    steps = [dict(zip(fields, row, strict=True)) for row in rows]
    titles = ("margin", "α", "95% from", "to")
    columns = [(f"{field}:Q", title, ".3f") for field, title in zip(fields, titles, strict=True)]
    x = alt.X("margin:Q", title="the teacher's margin", scale=_padded(curve["margin"]))
    y_title = "probability that the teacher is right"
    base = alt.Chart(data(steps)).encode(x=x)
    drawn = alt.layer(
        base.mark_area(opacity=0.2, interpolate="step-before").encode(
            y=alt.Y("low:Q", title=y_title, scale=_CHANCE),
            y2="high:Q",
            color=alt.value("var(--c1)"),
        ),
        base.mark_line(strokeWidth=2.5, interpolate="step-before").encode(
            y=alt.Y("alpha:Q", title=y_title, scale=_CHANCE),
            color=alt.value("var(--c1)"),
        ),
        hover_points(base.encode(y="alpha:Q"), columns),
        alt.Chart(data(curve["val_groups"]))
        .mark_point(filled=True, size=60, opacity=0.9)
        .encode(
            x=x,
            y=alt.Y("accuracy:Q", title=y_title, scale=_CHANCE),
            color=alt.value("var(--c2)"),
            tooltip=tooltip(_GROUP_COLUMNS),
        )
        .add_params(zoom()),
        alt.Chart(data([{"bound": bound}]))
        .mark_rule(strokeDash=[4, 4], strokeWidth=1.5)
        .encode(y=alt.Y("bound:Q", scale=_CHANCE), color=alt.value("var(--c3)")),
        legend_symbols(
            {
                "α(x), with its 95% band": ("var(--c1)", BAND_MARK),
                "gold rows, grouped by margin": ("var(--c2)", "circle"),
                "lower bound of α": ("var(--c3)", DASHED_MARK),
            }
        ),
    )
    return Chart(
        "Probability that a teacher label is right: α(x)",
        f"Estimated from {numbers['val_rows']:,} gold rows, as a function of the margin between "
        f"the teacher's two highest probabilities. In training, α is at least {bound:g}.",
        finished(drawn),
        table_of(
            "α by margin (a selection of points)", columns, steps[:: max(1, len(steps) // 10)]
        ),
    )


def draw_reliability(numbers: dict[str, Any]) -> Chart:
    """What the teacher says of its top class against how often it is right."""
    quality = numbers["quality"]
    series = {
        "before": "as stated",
        "after": f"at temperature {quality['temperature']['value']:.2f}",
    }
    points = [
        {"name": name, "said": said, "rows": rows, **vars(Interval.wilson(right, rows))}
        for key, name in series.items()
        for said, right, rows in zip(
            *(quality[key]["reliability"][c] for c in ("confidence", "accuracy", "rows")),
            strict=True,
        )
    ]
    base = alt.Chart(data(points)).encode(
        x=alt.X("said:Q", title="stated confidence", scale=_CHANCE)
    )
    equal = alt.Chart(data([{"said": 0, "value": 0}, {"said": 1, "value": 1}]))
    names = list(series.values())
    bars, lines, dots = lines_with_bars(base, "value", names, "accuracy", _CHANCE)
    drawn = alt.layer(
        equal.mark_line(strokeDash=[4, 4], strokeWidth=1, color="var(--dim)").encode(
            x="said:Q", y="value:Q"
        ),
        bars,
        lines,
        dots.encode(tooltip=tooltip(_BIN_COLUMNS)).add_params(zoom()),
    )
    errors = " and ".join(f"{quality[key]['ece']['value']:.3f} {series[key]}" for key in series)
    return Chart(
        "Reliability of the teacher's confidence",
        f"On the dashed line confidence equals accuracy; below it the teacher is overconfident. "
        f"Bars are 95% intervals. Expected calibration error: {errors}.",
        finished(drawn),
        table_of("Confidence and accuracy by bin", _BIN_COLUMNS, points),
    )


def draw_shortlists(numbers: dict[str, Any]) -> Chart:
    """The distribution of k(x) over the pool, or over the gold rows where no pool was given."""
    trust, whose = numbers["trust"], "the pool" if numbers["pool_rows"] else "the gold rows"
    rows = sorted((int(k), count) for k, count in trust["k_rows"].items())
    points = [{"k": k, "rows": n, "share": n / trust["rows"]} for k, n in rows]
    # Few sizes are drawn as bars of their own; hundreds as a histogram's thin ones.
    few = len(points) <= 30
    x = alt.X("k:O" if few else "k:Q", title="k(x), size of the shortlist")
    if few:
        x = x.axis(labelAngle=0)
    columns = (("k:Q", "k", ""), ("rows:Q", "rows", ""), ("share:Q", "share", ".1%"))
    base = alt.Chart(data(points))
    drawn = (base.mark_bar() if few else base.mark_bar(width=3)).encode(
        x=x,
        y=alt.Y("share:Q", title=f"share of {whose}", axis=alt.Axis(format="%")),
        color=alt.value("var(--c1)"),
        tooltip=tooltip(columns),
    )
    if not few:
        drawn = drawn.add_params(zoom())
    return Chart(
        "Size of the shortlist: k(x)",
        f"How many of the teacher's most likely classes are needed to include the true one with a "
        f"probability of {numbers['threshold']:.0%}. The median over {whose} is "
        f"{trust['k_median']:g}.",
        finished(drawn, 240),
        table_of(f"k(x) over {whose}", columns, points[:60]),
    )


def draw_top_k(numbers: dict[str, Any]) -> Chart | None:
    """How often the truth is among the teacher's k first answers."""
    top_k = {int(k): value for k, value in numbers["quality"]["top_k"].items()}
    if len(top_k) < 3:
        return None
    points = [{"k": k} | top_k[k] for k in sorted(top_k)]
    # Between few sizes, an axis would repeat whole numbers.
    axis = alt.Axis(values=sorted(top_k)) if len(top_k) <= 8 else WHOLE
    base = alt.Chart(data(points)).encode(
        x=alt.X("k:Q", title="number of classes, k", axis=axis, scale=_padded(sorted(top_k)))
    )
    columns = (("k:Q", "k", ""), ("value:Q", "true class among them", ".1%"), *SHARE_ENDS)
    y = alt.Y("value:Q", title="true class among them", axis=alt.Axis(format="%"))
    scale = alt.Scale(zero=False)
    drawn = alt.layer(
        base.mark_area(opacity=0.2, color="var(--c1)").encode(
            y=alt.Y("low:Q", title="true class among them", scale=scale), y2="high:Q"
        ),
        base.mark_line(strokeWidth=2, color="var(--c1)").encode(y=y),
        base.mark_point(filled=True, size=60, opacity=1, color="var(--c1)")
        .encode(y=y, tooltip=tooltip(columns))
        .add_params(zoom()),
    )
    return Chart(
        "Top-k accuracy",
        "How often the true class of a gold row is among the teacher's k most likely ones, with a "
        "95% band.",
        finished(drawn, 240),
        table_of("Top-k accuracy on the gold rows", columns, points),
    )


def draw_drift(numbers: dict[str, Any], name: str) -> Chart | None:
    """How one number is distributed over V and over the pool: ``margin`` or ``entropy``."""
    if numbers["drift"] is None:
        return None
    pair = numbers["drift"][name]
    columns = {"the gold rows": pair["val_quantiles"], "the pool": pair["pool_quantiles"]}
    points = [
        {"name": part, "value": value, "share": i / (len(values) - 1)}
        for part, values in columns.items()
        for i, value in enumerate(values)
    ]
    told = (("name:N", "rows", ""), ("value:Q", name, ".3f"), ("share:Q", "share below", ".0%"))
    base = alt.Chart(data(points)).encode(
        x=alt.X("value:Q", title=name), y=alt.Y("share:Q", title="share of rows below")
    )
    drawn = alt.layer(
        base.mark_line(strokeWidth=2).encode(**legend_of(list(columns))),
        hover_points(base, told).add_params(zoom()),
    )
    table = [
        (f"{i / (len(columns['the gold rows']) - 1):.0%}", f"{a:.3f}", f"{b:.3f}")
        for i, (a, b) in enumerate(zip(*columns.values(), strict=True))
        if i % 4 == 0
    ]
    return Chart(
        f"Gold rows and pool compared: the teacher's {name}",
        f"The largest distance between the two curves is {pair['distance']:.3f} "
        f"(Kolmogorov-Smirnov test, p = {pair['p_value']:.2g}).",
        finished(drawn, 240),
        Table(f"Quantiles of the {name}", ("quantile", *columns), table),
    )
