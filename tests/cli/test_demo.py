"""The demo, run whole with two trials."""

from __future__ import annotations

import re
from pathlib import Path

import orjson
import pytest
from typer.testing import CliRunner

from noisyteacher.bench import read_rows
from noisyteacher.cli import app
from noisyteacher.labels import TeacherLabels

METHODS = ["GoldOnly()", "Vanilla()", "Vanilla(hard=True)", "SLaM()", "SLaM(hard=True)"]


@pytest.fixture(scope="module")
def first(tmp_path_factory) -> tuple[Path, str]:
    out = tmp_path_factory.mktemp("demo") / "run"
    result = CliRunner().invoke(app, ["demo", "--trials", "2", "--out", str(out)])
    assert result.exit_code == 0, result.output
    return out, result.output


def test_it_leaves_everything_it_promises(first) -> None:
    out, printed = first
    rows = read_rows(out / "results.jsonl")
    assert [row.method for row in rows] == [m for m in METHODS for _ in range(2)]
    assert 60 <= rows[0].teacher_accuracy <= 80
    assert len(TeacherLabels.open(out / "labels" / "30")) == 1300
    assert (out / "pictures" / "alpha-30.png").read_bytes().startswith(b"\x89PNG")
    page = (out / "report.html").read_text()
    assert "SLaM(hard=True)" in page
    assert "α(x)" in page
    assert not re.search(r"""(src|href)\s*=\s*["']?https?:""", page), "the page fetches something"
    assert "±" in printed
    assert "report.html" in printed


def test_the_same_seed_gives_the_same_numbers(first, tmp_path: Path) -> None:
    result = CliRunner().invoke(
        app, ["demo", "--trials", "2", "--out", str(tmp_path / "again"), "--json"]
    )
    assert result.exit_code == 0
    again = [orjson.loads(line) for line in result.stdout.splitlines()]
    rows = read_rows(first[0] / "results.jsonl")
    assert [row["accuracy"] for row in again] == [row.accuracy for row in rows]
    assert [row["curve"] for row in again] == [row.curve for row in rows]


def test_started_again_it_trains_nothing_new(first) -> None:
    out, _ = first
    before = (out / "results.jsonl").read_bytes()
    result = CliRunner().invoke(app, ["demo", "--trials", "2", "--out", str(out), "--json"])
    assert result.exit_code == 0
    assert (out / "results.jsonl").read_bytes() == before


def test_another_seed_needs_another_folder(first) -> None:
    out, _ = first
    result = CliRunner().invoke(app, ["demo", "--seed", "1", "--out", str(out)])
    assert result.exit_code != 0
    assert "another seed" in str(result.exception)
