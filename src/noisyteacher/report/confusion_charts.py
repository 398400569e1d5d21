"""Whom teacher and student take for what, as Vega-Lite."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import altair as alt
import numpy as np

from noisyteacher.report.chart_base import data, finished
from noisyteacher.report.comparison import Confusion
from noisyteacher.report.parts import Chart, Table

_MOST_CLASSES = 25
_MOST_MISTAKES = 30
_CLASSES_WITH_COUNTS = 10
_WIDTH_IN_SIGNS = 24  # of level class names that fit below a chart on a phone


def draw_confusion(confusion: Confusion, classes: Sequence[str], shown: list[int]) -> Chart | None:
    """True against said classes; ``shown`` picks the classes of both axes."""
    cells = [c for c in _cells(confusion, classes) if {c["truth"], c["said"]} <= set(shown)]
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
            _draw(cells, who, [classes[c] for c in shown]), max(160, min(26 * len(shown), 560))
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


def _cells(confusion: Confusion, classes: Sequence[str]) -> list[dict[str, Any]]:
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


def _draw(cells: list[dict[str, Any]], who: str, names: list[str]) -> Any:
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
