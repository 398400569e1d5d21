"""Every bad file gets its sentence: status 2, no traceback, nothing left behind."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))

from bad_files import BAD_FILES, PROBS, BadFile, make_good_files

from noisyteacher.cli import main
from noisyteacher.core.errors import InputError
from noisyteacher.labels import TeacherLabels


@pytest.mark.parametrize("case", BAD_FILES, ids=lambda case: case.name)
def test_a_bad_file_gets_its_sentence(
    case: BadFile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    make_good_files(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NOISYTEACHER_CACHE", str(tmp_path / "cache"))
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "bad_teacher", raising=False)
    monkeypatch.setattr(sys, "argv", ["noisyteacher", *case.make(tmp_path)])
    with pytest.raises(SystemExit) as ended:
        main()
    told = " ".join(capsys.readouterr().err.split())
    assert ended.value.code == 2, told
    assert re.search(case.says, told), told
    assert told.count("Error: ") == 1
    assert "Traceback" not in told
    assert not (tmp_path / "labels").exists()


def test_masked_values_are_refused() -> None:
    masked = np.ma.array(PROBS, mask=[[False, True], [False, False]])
    with pytest.raises(InputError, match="probs has 1 masked values"):
        TeacherLabels.from_probs(["a", "b"], masked)
    whole = np.ma.array(PROBS, mask=False)
    assert TeacherLabels.from_probs(["a", "b"], whole).ids.tolist() == ["a", "b"]
