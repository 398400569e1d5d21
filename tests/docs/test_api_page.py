"""docs/api.md says what the docstrings say."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import noisyteacher

DOCS = Path(__file__).parents[2] / "docs"


def test_the_page_is_what_the_script_makes_of_the_code() -> None:
    made = runpy.run_path(str(DOCS / "api.py"))["render"]()
    assert (DOCS / "api.md").read_text() == made, "run: python docs/api.py"


def test_every_public_name_has_words() -> None:
    page = (DOCS / "api.md").read_text()
    entries = re.findall(
        r"^### (\w+)\n\n(?:```text\n(?:(?!```).*\n)*```\n\n)?(.*)$", page, re.MULTILINE
    )
    assert [name for name, words in entries if not words.strip()] == []
    described = {name for name, _ in entries}
    plain = {"__version__", "losses", "methods"}
    assert set(noisyteacher.__all__) - plain <= described


def test_every_name_of_the_package_has_an_example() -> None:
    """``test_docs`` runs them."""
    page = (DOCS / "api.md").read_text()
    section = page.split("\n## noisyteacher\n")[1].split("\n## ")[0]
    entries = re.split(r"^### ", section, flags=re.MULTILINE)[1:]
    assert len(entries) > 10
    assert [entry.split("\n")[0] for entry in entries if "**Example**" not in entry] == []
