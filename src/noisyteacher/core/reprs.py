"""One-line reprs of dataclasses that hold arrays or long lists."""

from __future__ import annotations

from dataclasses import fields
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
