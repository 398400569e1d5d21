"""Renew the tables of methods in ``docs/methods.md``: ``python docs/method_tables.py``.

A table stands between ``<!-- made from the code: methods -->`` and ``<!-- end -->``; a test holds
the page to the code.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import MISSING, fields
from pathlib import Path

from noisyteacher.methods.method import Grid, Method, Wrapper
from noisyteacher.methods.registry import ALL_METHODS

PAGE = Path(__file__).with_name("methods.md")


def methods_table() -> str:
    """One line for each method: formula, needs, passes per step, reference, what is unverified."""
    head = ("method", "formula", "needs", "passes per step", "reference", "unverified")
    return _table(head, map(_about, ALL_METHODS))


def settings_table() -> str:
    """One line for each method: its settings with their defaults, and the paper's grids."""
    lines = ((f"`{signature(method)}`", _grids(method)) for method in ALL_METHODS)
    return _table(("settings", "grid"), lines)


def signature(method: type[Method]) -> str:
    """The method with all its fields and their defaults: ``Vanilla(hard=False)``."""
    parts = [f.name if f.default is MISSING else f"{f.name}={f.default!r}" for f in fields(method)]
    return f"{method.__name__}({', '.join(parts)})"


def update_text(text: str) -> str:
    """A Markdown text with its tables made anew."""
    for name, table in (("methods", methods_table), ("settings", settings_table)):
        begin, end = f"<!-- made from the code: {name} -->\n", "<!-- end -->"
        pattern = re.escape(begin) + ".*?" + re.escape(end)
        made = (begin + table() + end).replace("\\", r"\\")
        text = re.sub(pattern, made, text, flags=re.DOTALL)
    return text


def _about(method: type[Method]) -> Sequence[str]:
    wraps = issubclass(method, Wrapper)
    needs = [*sorted(method.needs), *(["what inner needs"] if wraps else [])]
    views = len(method.views)
    return (
        f"`{method.__name__}`",
        method.formula,
        ", ".join(needs) or "nothing",
        "as inner" if wraps and views == 1 else str(views),
        method.reference,
        method.unverified or "–",
    )


def _grids(method: type[Method]) -> str:
    named = {"": method.grid, **method.other_grids}
    return "; ".join(_grid(name, grid) for name, grid in named.items() if grid) or "–"


def _grid(name: str, grid: Grid) -> str:
    values = (f"{key}: {', '.join(map(str, tried))}" for key, tried in grid.items())
    return (f"{name}: " if name else "") + "; ".join(values)


def _table(head: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    rows = [head, ["---"] * len(head), *lines]
    return "".join(
        "| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |\n" for row in rows
    )


if __name__ == "__main__":
    PAGE.write_text(update_text(PAGE.read_text("utf-8")), "utf-8")
