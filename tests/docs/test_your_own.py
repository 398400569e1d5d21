"""The programs of ``docs/your-own.md`` are short enough to be read in one go."""

from __future__ import annotations

import re
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "your-own.md"


def test_each_program_is_complete_in_25_lines() -> None:
    """``test_docs`` runs them; each stands on its own, imports included."""
    programs = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    assert len(programs) == 3
    for program in programs:
        assert sum(line.strip() != "" for line in program.splitlines()) <= 25
        assert "import noisyteacher as nt" in program
