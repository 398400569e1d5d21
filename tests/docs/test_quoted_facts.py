"""What the pages say about files and figures is what the code and the results say."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

from noisyteacher.labels.manifest import Manifest
from noisyteacher.runs import Row

ROOT = Path(__file__).parents[2]
QUOTED = re.compile(r"<!-- rows of (\S+) -->\n(.*?)<!-- end -->", re.DOTALL)


def section(title: str) -> str:
    page = (ROOT / "docs" / "formats.md").read_text()
    return page.split(f"\n## {title}\n")[1].split("\n## ")[0]


def named_fields(text: str) -> list[str]:
    """The names in code type in the first column of a section's tables, in order."""
    cells = re.findall(r"^\| ([^|]*) \|", text, re.MULTILINE)
    return [name for cell in cells for name in re.findall(r"`([\w]+)`", cell)]


def test_every_field_of_a_results_row_is_described_in_order() -> None:
    assert named_fields(section("Results row")) == [field.name for field in fields(Row)]


def test_every_field_of_the_manifest_is_described_in_order() -> None:
    named = named_fields(section("Label store"))
    first, last = named.index("format"), named.index("manifest_sha256")
    assert named[first : last + 1] == [
        "format",
        "version",
        *(field.name for field in fields(Manifest)),
        "manifest_sha256",
    ]


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip("|").split("|")]


def column_names(line: str) -> list[str]:
    """The names in a table's first line; a column "paper" is named after the one on its left."""
    names = cells(line)
    return [
        f"{left}, {name}" if name == "paper" else name
        for left, name in zip(["", *names], names, strict=False)
    ]


def lines_with_columns(text: str, wanted: list[str]) -> set[tuple[str, ...]]:
    """The lines of the tables that have the wanted columns, without their other columns."""
    found: set[tuple[str, ...]] = set()
    for table in re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE):
        header, _rule, *lines = table.splitlines()
        names = column_names(header)
        if set(wanted) <= set(names):
            kept = [names.index(name) for name in wanted]
            found |= {tuple(cells(line)[i] for i in kept) for line in lines}
    return found


def test_figures_in_the_pages_stand_in_the_results() -> None:
    """A page may leave out lines and columns of a table, and change nothing in what it quotes."""
    quoted = 0
    for page in sorted((ROOT / "docs").glob("*.md")):
        for source, table in QUOTED.findall(page.read_text()):
            header, _rule, *lines = table.splitlines()
            known = lines_with_columns((ROOT / source).read_text(), column_names(header))
            for line in lines:
                assert tuple(cells(line)) in known, (
                    f"{page.name} quotes what {source} has not: {line}"
                )
                quoted += 1
    assert quoted


def test_every_mean_with_its_deviation_stands_in_a_table() -> None:
    figure = re.compile(r"\d+\.\d\d ± \d+\.\d\d")
    tables = (ROOT / "results" / "tables").glob("*.md")
    known = {found for table in tables for found in figure.findall(table.read_text())}
    for page in ("docs/results.md", "results/RESULTS.md", "docs/choosing.md"):
        quoted = set(figure.findall((ROOT / page).read_text()))
        assert quoted, page
        assert quoted <= known, f"{page} has figures that no table has: {sorted(quoted - known)}"
