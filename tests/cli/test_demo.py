"""The demo, run whole with one split."""

from __future__ import annotations

import re
from pathlib import Path

import orjson
import pytest
from typer.testing import CliRunner

from noisyteacher.bench.gold_sizes import SHOWN, SIZES
from noisyteacher.cli import app
from noisyteacher.runs import read_rows


@pytest.fixture(scope="module")
def first(tmp_path_factory) -> tuple[Path, str]:
    out = tmp_path_factory.mktemp("demo") / "run"
    result = CliRunner().invoke(app, ["demo", "--splits", "1", "--out", str(out)])
    assert result.exit_code == 0, result.output
    return out, result.output


def test_it_leaves_everything_it_promises(first) -> None:
    out, printed = first
    rows = read_rows(out / "sizes" / "results.jsonl")
    assert [(row.labeled, row.method) for row in rows] == [(n, m) for n in SIZES for m in SHOWN]
    assert 80 <= rows[0].teacher_accuracy <= 92
    for kind, begins in (("png", b"\x89PNG"), ("svg", b"<?xml")):
        assert (out / "pictures" / f"gold-rows.{kind}").read_bytes().startswith(begins)
    page = (out / "report.html").read_text()
    assert not re.search(r"""(src|href)\s*=\s*["']?https?:""", page), "the page fetches something"
    assert str(out / "report.html") in printed.replace("\n", "")


def test_console_page_and_card_say_the_same(first) -> None:
    out, printed = first
    about = orjson.loads((out / "student" / "config.json").read_bytes())["about"]
    page = (out / "report.html").read_text().replace("&#39;", "'")
    flat = " ".join(printed.split())
    assert about["verdict"] in flat
    assert about["headline"] in about["verdict"]
    assert about["headline"] in page
    for value, low, high in (about["figures"][key] for key in ("teacher", "gold_only", "student")):
        assert f"{value:.1f}<small>" in page
        assert f"{low:.1f} to {high:.1f}" in page
        assert f"{value:.1f}% ({low:.1f} to {high:.1f})" in flat
    for row in about["table"]["rows"]:
        assert f">{row[1]}<" in page
        assert row[1] in printed
    for row in read_rows(out / "sizes" / "results.jsonl"):
        assert f">{row.accuracy['last']:.1f}<" in page
        assert f"{row.accuracy['last']:.1f}" in printed


def test_a_scarce_gold_set_gains_from_the_teacher(first) -> None:
    out, _ = first
    rows = read_rows(out / "sizes" / "results.jsonl")
    found = {(row.labeled, row.method): row.accuracy["last"] for row in rows}
    for method in ("Vanilla()", "SLaM()", "blend"):
        assert found[20, method] > found[20, "GoldOnly()"] + 10


def test_started_again_it_computes_nothing_new_and_prints_the_same(first) -> None:
    out, _ = first
    before = (out / "sizes" / "results.jsonl").read_bytes()
    about = orjson.loads((out / "student" / "config.json").read_bytes())["about"]
    result = CliRunner().invoke(app, ["demo", "--splits", "1", "--out", str(out), "--json"])
    assert result.exit_code == 0, result.output
    assert (out / "sizes" / "results.jsonl").read_bytes() == before
    told = orjson.loads(result.stdout.splitlines()[-1])
    assert told["distill"]["table"] == about["table"]
    assert [line[0] for line in told["table"]["rows"]] == [str(size) for size in SIZES]


def test_another_seed_needs_another_folder(first) -> None:
    out, _ = first
    result = CliRunner().invoke(app, ["demo", "--seed", "1", "--out", str(out)])
    assert result.exit_code != 0
    assert "another seed" in str(result.exception)
