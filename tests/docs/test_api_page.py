"""docs/api.md says what the docstrings say."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import noisyteacher

DOCS = Path(__file__).parents[2] / "docs"
RENDER = "import runpy; print(runpy.run_path('api.py')['render'](), end='')"


def test_the_page_is_what_the_script_makes_of_the_code() -> None:
    # In a process of its own, because tests check types by wrapping the functions of two packages.
    made = subprocess.run(
        [sys.executable, "-c", RENDER], cwd=DOCS, capture_output=True, text=True, check=True
    ).stdout
    assert (DOCS / "api.md").read_text() == made, "run: python docs/api.py"


def test_every_public_name_has_words() -> None:
    page = (DOCS / "api.md").read_text()
    entries = re.findall(r"^### `(\w+).*`\n\n(.*)$", page, re.MULTILINE)
    assert [name for name, words in entries if not words.strip()] == []
    described = {name for name, _ in entries}
    plain = {"__version__", "losses", "methods"}
    assert set(noisyteacher.__all__) - plain <= described
