"""How values show themselves: one-line reprs, and small HTML for notebooks, every text escaped."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from html import escape
from typing import Any

_LONGEST = 60


class ShortRepr:
    """A dataclass's repr, with arrays as type and shape and long values as their length.

    Inherit it in a ``@dataclass(repr=False)``, which would write a repr of its own.
    """

    def __repr__(self) -> str:
        shown = [f for f in fields(self) if f.repr]  # type: ignore[arg-type]  # of a dataclass
        values = ", ".join(f"{f.name}={_short(getattr(self, f.name))}" for f in shown)
        return f"{type(self).__name__}({values})"


def _short(value: Any) -> str:
    if hasattr(value, "dtype") and hasattr(value, "shape"):
        return f"{str(value.dtype).removeprefix('torch.')} {tuple(value.shape)}"
    text = repr(value)
    if len(text) <= _LONGEST and "\n" not in text:
        return text
    if isinstance(value, str | bytes) or not hasattr(value, "__len__"):
        return f"{' '.join(text.split())[:_LONGEST]}…"
    return f"{type(value).__name__} of {len(value)}"


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
