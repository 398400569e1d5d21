"""What a page is made of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from noisyteacher.report.comparison import Comparison


@dataclass(frozen=True)
class Table:
    """Texts in rows; the first column names its row."""

    caption: str
    header: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]


@dataclass(frozen=True)
class Chart:
    """A Vega-Lite chart, what it shows in words, and its numbers for who cannot see it."""

    title: str
    text: str
    spec: dict[str, Any]
    table: Table


@dataclass(frozen=True)
class Section:
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


@dataclass(frozen=True)
class Page:
    """A whole page; ``live`` pages look for a newer self."""

    title: str
    sections: list[Section]
    live: bool = False
    progress: str = ""
