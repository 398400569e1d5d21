"""The table of methods, made from the code, for the README and the documents."""

from __future__ import annotations

from dataclasses import MISSING, fields

from noisyteacher.methods.base import Method
from noisyteacher.methods.parse import ALL_METHODS
from noisyteacher.methods.wrapper import Wrapper

HEADER = ("method", "formula", "needs", "passes per step", "reference", "unverified")


def methods_table() -> str:
    """Markdown: one line for each method."""
    lines = [HEADER, ("---",) * len(HEADER), *map(_cells, ALL_METHODS)]
    return "".join("| " + " | ".join(line) + " |\n" for line in lines)


def signature(method: type[Method]) -> str:
    """The method with all its fields and their defaults: ``Vanilla(hard=False)``."""
    parts = [f.name if f.default is MISSING else f"{f.name}={f.default!r}" for f in fields(method)]
    return f"{method.__name__}({', '.join(parts)})"


def _cells(method: type[Method]) -> tuple[str, ...]:
    wraps = issubclass(method, Wrapper)
    needs = [*sorted(method.own_needs), *(["what inner needs"] if wraps else [])]
    passes = f"{len(method.own_views)}" if not wraps or len(method.own_views) == 2 else "inner's"
    return (
        f"`{signature(method)}`",
        method.formula.replace("|", "\\|"),
        ", ".join(needs) or "–",
        passes,
        method.reference,
        method.unverified or "–",
    )
