"""What pages are made of: an opening, sections, tables and charts, as plain values."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from noisyteacher.core.errors import InputError
from noisyteacher.core.reprs import ShortRepr
from noisyteacher.methods import Method, parse
from noisyteacher.runs.comparison import Comparison


@dataclass(frozen=True, repr=False)
class Table(ShortRepr):
    """Texts in rows; the first column names its row.

    ``full`` has the full name of a row's short one, shown on hover; ``best`` marks the winners.
    """

    caption: str
    header: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]
    full: Sequence[str] = ()
    best: tuple[int, ...] = ()


@dataclass(frozen=True, repr=False)
class Chart(ShortRepr):
    """A Vega-Lite chart, what it shows in words, and its numbers for who cannot see it."""

    title: str
    text: str
    spec: dict[str, Any]
    table: Table


@dataclass(frozen=True)
class KeyFigure:
    """One of the figures at the top of a page, in percent; an interval where it is known."""

    name: str
    value: float
    low: float | None = None
    high: float | None = None

    @property
    def interval(self) -> str:
        return "" if self.low is None else f"{self.low:.1f} to {self.high:.1f}"


@dataclass(frozen=True, repr=False)
class Opening(ShortRepr):
    """The verdict in one sentence, the figures behind it, and what else is to be said."""

    headline: str
    figures: list[KeyFigure] = field(default_factory=list)
    measured: str = ""  # what the figures are, and on which rows
    texts: list[str] = field(default_factory=list)


@dataclass(frozen=True, repr=False)
class Section(ShortRepr):
    """A heading, and what stands below it."""

    title: str
    texts: list[str] = field(default_factory=list)
    commands: list[str] = field(default_factory=list)
    facts: list[tuple[str, str]] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    items: list[str] = field(default_factory=list)
    charts: list[Chart] = field(default_factory=list)
    tables: list[Table] = field(default_factory=list)
    pictures: list[tuple[str, str]] = field(default_factory=list)  # caption, data: address
    folded: bool = False
    comparison: Comparison | None = None

    @property
    def is_empty(self) -> bool:
        """Whether nothing stands below it."""
        return not any(vars(replace(self, title="", folded=False)).values())


@dataclass(frozen=True, repr=False)
class Page(ShortRepr):
    """A whole page; ``live`` pages look for a newer self."""

    title: str
    kind: str  # such as "Distillation"
    opening: Opening
    sections: list[Section]
    live: bool = False
    progress: str = ""


# -- short names of methods -----------------------------------------------------------------------

_NAMES = {
    "GoldOnly": "gold labels only",
    "SelfTraining": "self-training",
    "Vanilla": "vanilla distillation",
    "TaylorCE": "Taylor cross-entropy",
    "PolyLoss": "PolyLoss",
    "ForwardCorrection": "forward correction",
    "Calibrated": "calibrated",
    "Consistency": "consistency",
    "Weighted": "weighted",
    "Temperature": "temperature",
    "Fidelity": "fidelity",
}


def short_name(name: str) -> str:
    """A method's repr in words, without its less telling settings; other names as they are."""
    written, comma, more = name.partition("), ")
    try:
        method = parse(written + ")" * bool(comma))
    except InputError:
        return name
    told = _words(method)
    return f"{told}, {more}" if comma else told


def _words(method: Method) -> str:
    kind = type(method).__name__
    told = _NAMES.get(kind, kind)
    inner = getattr(method, "inner", None)
    if isinstance(inner, Method):
        told = f"{_words(inner)}, {told}"
    elif kind == "Consistency":
        told = "consistency without a teacher"
    return f"{told}, hard labels" if getattr(method, "hard", False) else told


def short_names(names: Iterable[str]) -> dict[str, str]:
    """Short names by full ones; those that two methods would share stay full."""
    found = {name: short_name(name) for name in names}
    shared = [short for short in found.values() if list(found.values()).count(short) > 1]
    return {name: name if short in shared else short for name, short in found.items()}
