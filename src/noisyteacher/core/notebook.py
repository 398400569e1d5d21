"""Small HTML for notebooks: a heading, a sentence, facts and a table, every text escaped."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape


def notebook_html(
    heading: str,
    text: str = "",
    facts: Sequence[tuple[str, str]] = (),
    header: Sequence[str] = (),
    rows: Sequence[Sequence[str]] = (),
) -> str:
    """What ``_repr_html_`` returns; colours are left to the notebook."""
    parts = [f"<b>{escape(heading)}</b>"]
    if text:
        parts.append(f'<p style="max-width: 46rem">{escape(text)}</p>')
    if facts:
        parts.append(_table((), facts))
    if rows:
        parts.append(_table(header, rows))
    return f"<div>{''.join(parts)}</div>"


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in header)
    body = "".join(
        "<tr>" + "".join(_cell(i, str(value)) for i, value in enumerate(row)) + "</tr>"
        for row in rows
    )
    shown = f"<thead><tr>{head}</tr></thead>" if head else ""
    return f"<table>{shown}<tbody>{body}</tbody></table>"


def _cell(column: int, text: str) -> str:
    if column == 0:
        return f'<th scope="row" style="text-align: left">{escape(text)}</th>'
    return f"<td>{escape(text)}</td>"
