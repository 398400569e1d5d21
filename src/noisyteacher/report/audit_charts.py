"""Charts of an audit: how far the teacher can be trusted, as Vega-Lite."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import altair as alt

from noisyteacher.choose.decision import Estimate
from noisyteacher.report.chart_look import (
    BAND_MARK,
    DASHED_MARK,
    WHOLE,
    data,
    finished,
    hover_points,
    legend_of,
    legend_symbols,
    zoom,
)
from noisyteacher.report.parts import Chart, Table

# A little room, so that points at 0 and 1 are seen whole.
_CHANCE = alt.Scale(domain=[-0.03, 1.03], nice=False)


def _padded(values: Sequence[float]) -> alt.Scale:
    room = 0.03 * (max(values) - min(values))
    return alt.Scale(domain=[min(values) - room, max(values) + room], nice=False)


def draw_audit(numbers: dict[str, Any]) -> list[Chart | None]:
    """All charts of an audit; None where it has no numbers for one."""
    return [
        draw_alpha(numbers),
        draw_reliability(numbers),
        draw_shortlists(numbers),
        draw_top_k(numbers),
        draw_drift(numbers, "margin"),
        draw_drift(numbers, "entropy"),
    ]


def draw_alpha(numbers: dict[str, Any]) -> Chart:
    """α against the margin with its band, over V in groups of neighbouring margins."""
    curve, bound = numbers["curve"], numbers["lower_bound"]
    columns = zip(curve["margin"], curve["alpha"], curve["low"], curve["high"], strict=True)
    steps = [
        {"margin": margin, "alpha": alpha, "low": low, "high": high}
        for margin, alpha, low, high in columns
    ]
    groups = curve["val_groups"]
    x = alt.X("margin:Q", title="the teacher's margin", scale=_padded(curve["margin"]))
    y_title = "chance that the teacher is right"
    base = alt.Chart(data(steps)).encode(x=x)
    tooltip = [
        alt.Tooltip("margin:Q", format=".3f"),
        alt.Tooltip("alpha:Q", title="α", format=".3f"),
        alt.Tooltip("low:Q", title="95% from", format=".3f"),
        alt.Tooltip("high:Q", title="to", format=".3f"),
    ]
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
        hover_points(base.encode(y="alpha:Q"), tooltip),
        alt.Chart(data(groups))
        .mark_point(filled=True, size=60, opacity=0.9)
        .encode(
            x=x,
            y=alt.Y("accuracy:Q", title=y_title, scale=_CHANCE),
            color=alt.value("var(--c2)"),
            tooltip=[
                alt.Tooltip("rows:Q", title="gold rows"),
                alt.Tooltip("margin:Q", title="mean margin", format=".3f"),
                alt.Tooltip("accuracy:Q", title="accuracy", format=".1%"),
            ],
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
    shown = steps[:: max(1, len(steps) // 10)]
    return Chart(
        "Chance that a teacher label is right: α(x)",
        f"Estimated from {numbers['val_rows']:,} gold rows, as a function of the teacher's margin "
        f"between its first and second class. Training uses at least {bound:g}.",
        finished(drawn),
        Table(
            "α by margin (a selection of points)",
            ("margin", "α", "95% from", "to"),
            [tuple(f"{s[k]:.3f}" for k in ("margin", "alpha", "low", "high")) for s in shown],
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
        {"name": name, "said": said, "right": right, "rows": rows, **_wilson(right, rows)}
        for key, name in series.items()
        for said, right, rows in zip(
            *(quality[key]["reliability"][c] for c in ("confidence", "accuracy", "rows")),
            strict=True,
        )
    ]
    base = alt.Chart(data(points)).encode(
        x=alt.X("said:Q", title="stated confidence", scale=_CHANCE),
        y=alt.Y("right:Q", title="accuracy", scale=_CHANCE),
    )
    drawn = alt.layer(
        alt.Chart(data([{"said": 0, "right": 0}, {"said": 1, "right": 1}]))
        .mark_line(strokeDash=[4, 4], strokeWidth=1, color="var(--dim)")
        .encode(x="said:Q", y="right:Q"),
        base.mark_rule(opacity=0.5).encode(
            y=alt.Y("low:Q", scale=_CHANCE, title="accuracy"),
            y2="high:Q",
            color=alt.Color("name:N", title=None, sort=None),
        ),
        base.mark_line(strokeWidth=2).encode(color=alt.Color("name:N", title=None, sort=None)),
        base.mark_point(filled=True, size=80, opacity=1)
        .encode(
            **legend_of(list(series.values()), shapes=True),
            tooltip=[
                alt.Tooltip("name:N", title="probabilities"),
                alt.Tooltip("said:Q", title="stated confidence", format=".1%"),
                alt.Tooltip("right:Q", title="accuracy", format=".1%"),
                alt.Tooltip("low:Q", title="95% from", format=".1%"),
                alt.Tooltip("high:Q", title="to", format=".1%"),
                alt.Tooltip("rows:Q", title="gold rows"),
            ],
        )
        .add_params(zoom()),
    )
    errors = " and ".join(f"{quality[key]['ece']['value']:.3f} {series[key]}" for key in series)
    return Chart(
        "Reliability of the teacher's confidence",
        f"On the dashed line confidence equals accuracy; below it the teacher is overconfident. "
        f"Bars are 95% intervals. Expected calibration error: {errors}.",
        finished(drawn),
        Table(
            "Confidence and accuracy by bin",
            ("probabilities", "stated confidence", "accuracy", "95% from", "to", "gold rows"),
            [
                (
                    p["name"],
                    *(f"{p[c]:.1%}" for c in ("said", "right", "low", "high")),
                    f"{p['rows']}",
                )
                for p in points
            ],
        ),
    )


def _wilson(share: float, rows: int) -> dict[str, float]:
    found = Estimate.wilson(share, rows)
    return {"low": found.low, "high": found.high}


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
    base = alt.Chart(data(points))
    drawn = (base.mark_bar() if few else base.mark_bar(width=3)).encode(
        x=x,
        y=alt.Y("share:Q", title=f"share of {whose}", axis=alt.Axis(format="%")),
        color=alt.value("var(--c1)"),
        tooltip=[alt.Tooltip("k:Q"), alt.Tooltip("rows:Q"), alt.Tooltip("share:Q", format=".1%")],
    )
    if not few:
        drawn = drawn.add_params(zoom())
    return Chart(
        "Size of the shortlist: k(x)",
        f"How many of the teacher's first classes are needed to contain the true one with a "
        f"chance of {numbers['threshold']:.0%}. The median over {whose} is {trust['k_median']:g}.",
        finished(drawn, 240),
        Table(
            f"k(x) over {whose}",
            ("k", "rows", "share"),
            [(str(p["k"]), str(p["rows"]), f"{p['share']:.1%}") for p in points[:60]],
        ),
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
        x=alt.X("k:Q", title="number of first classes, k", axis=axis, scale=_padded(sorted(top_k)))
    )
    y = alt.Y("value:Q", title="true class among them", axis=alt.Axis(format="%"))
    scale = alt.Scale(zero=False)
    drawn = alt.layer(
        base.mark_area(opacity=0.2, color="var(--c1)").encode(
            y=alt.Y("low:Q", title="true class among them", scale=scale), y2="high:Q"
        ),
        base.mark_line(strokeWidth=2, color="var(--c1)").encode(y=y),
        base.mark_point(filled=True, size=60, opacity=1, color="var(--c1)")
        .encode(
            y=y,
            tooltip=[
                alt.Tooltip("k:Q"),
                alt.Tooltip("value:Q", title="true class among them", format=".1%"),
                alt.Tooltip("low:Q", title="95% from", format=".1%"),
                alt.Tooltip("high:Q", title="to", format=".1%"),
            ],
        )
        .add_params(zoom()),
    )
    return Chart(
        "Top-k accuracy",
        "How often the true class is among the teacher's k most probable ones on the gold rows, "
        "with a 95% band.",
        finished(drawn, 240),
        Table(
            "Top-k accuracy on the gold rows",
            ("k", "true class among them", "95% from", "to"),
            [(str(p["k"]), *(f"{p[end]:.1%}" for end in ("value", "low", "high"))) for p in points],
        ),
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
    base = alt.Chart(data(points)).encode(
        x=alt.X("value:Q", title=name), y=alt.Y("share:Q", title="share of rows below")
    )
    drawn = alt.layer(
        base.mark_line(strokeWidth=2).encode(**legend_of(list(columns))),
        hover_points(
            base,
            [
                alt.Tooltip("name:N", title="rows"),
                alt.Tooltip("value:Q", title=name, format=".3f"),
                alt.Tooltip("share:Q", title="rows below", format=".0%"),
            ],
        ).add_params(zoom()),
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
        Table(f"Quantiles of the {name}", ("rows below", *columns), table),
    )
