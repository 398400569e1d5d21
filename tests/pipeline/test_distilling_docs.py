"""Every command and snippet of docs/distilling.md runs, in order, on small files."""

from __future__ import annotations

import re
import runpy
import shlex
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from noisyteacher.cli import app
from noisyteacher.cli.distill import distill
from noisyteacher.labels import TeacherLabels
from noisyteacher.pipeline import load_student
from noisyteacher.pipeline.defaults import HELP
from user_files import write_digit_folders, write_digit_tables, write_reviews

PAGE = Path(__file__).parents[2] / "docs" / "distilling.md"
BLOCK = re.compile(r"^```(python|console)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def has_onnx() -> bool:
    try:
        import onnx  # noqa: F401
        import onnxscript  # noqa: F401
    except ImportError:
        return False
    return True


@pytest.mark.filterwarnings("ignore::noisyteacher.core.errors.NoisyTeacherWarning")
def test_the_page_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NOISYTEACHER_CACHE", str(tmp_path / "cache"))
    write_reviews(tmp_path / "reviews", 80, 100)
    TeacherLabels.open("reviews/labels").save("reviews/planted")
    for file in [*Path("reviews/labels").iterdir()]:
        file.unlink()
    Path("reviews/labels").rmdir()  # the page makes it itself
    write_digit_folders(tmp_path / "digits", 45, 40)
    write_digit_tables(tmp_path / "rows", 60, 80)
    blocks = BLOCK.findall(PAGE.read_text())
    Path("my_teacher.py").write_text(blocks[0][1])
    for language, code in blocks:
        if language == "python":
            Path("snippet.py").write_text(code)
            runpy.run_path("snippet.py")
            continue
        for line in code.splitlines():
            prompt, program, *arguments = shlex.split(line)
            assert (prompt, program) == ("$", "noisyteacher")
            if arguments[0] == "export" and not has_onnx():
                continue
            if arguments[0] == "distill" and "--epochs" not in arguments:
                arguments += ["--epochs", "1"]  # to be quick
            result = CliRunner().invoke(app, arguments)
            assert result.exit_code == 0, (line, result.exception, result.output)
    assert load_student("runs/digits/student").inputs.flip is False
    assert len(TeacherLabels.open("reviews/second-opinion")) == 100
    assert "['good']" in capsys.readouterr().out


def test_the_command_names_the_students_that_there_are() -> None:
    alone = typer.Typer()
    alone.command()(distill)
    student = next(p for p in typer.main.get_command(alone).params if p.name == "student")
    assert getattr(student, "help", None) == f"The model to train. {HELP}"
