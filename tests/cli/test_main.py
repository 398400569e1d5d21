"""How the command tells of errors."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from noisyteacher.cli import main


def test_errors_of_the_system_are_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    table, file = tmp_path / "labels.csv", tmp_path / "file"
    table.write_text("id,label\n1,a\n2,b\n")
    file.touch()
    monkeypatch.setattr(sys, "stdin", sys.stdin)
    monkeypatch.setattr(sys, "argv", ["noisyteacher", "import", str(table), "--out", f"{file}/x"])
    with pytest.raises(SystemExit) as end:
        main()
    told = capsys.readouterr().err.splitlines()[-1]
    assert end.value.code == 2
    assert told.startswith(f"Error: The label store {file}/x could not be written (")
    assert told.endswith("unchanged.")
    assert "Errno" not in told
