"""The verb ``import``, as a user types it, and the commands of its page in the docs."""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import re
import runpy
import shlex
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import typer
from typer.testing import CliRunner, Result

from noisyteacher.cli.import_labels import EPILOG, import_labels
from noisyteacher.core.errors import InputError, NoisyTeacherWarning
from noisyteacher.labels import TeacherLabels

ROOT = Path(__file__).parents[2]
FIXTURES = ROOT / "tests" / "labels" / "importers" / "fixtures"
BATCH = str(FIXTURES / "openai_batch.jsonl")
TWO = ["--classes", "positive,negative"]


def run(*arguments: object) -> Result:
    app = typer.Typer()
    app.command("import", epilog=EPILOG)(import_labels)
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def printed(*arguments: object) -> dict[str, Any]:
    result = run(*arguments, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)  # type: ignore[no-any-return]


def refused(*arguments: object) -> str:
    result = run(*arguments)
    assert isinstance(result.exception, InputError), result.output
    return str(result.exception)


def test_answers_of_an_llm(tmp_path: Path) -> None:
    out = tmp_path / "deep" / "labels"
    summary = printed(BATCH, *TWO, "--out", out)
    labels = TeacherLabels.open(out)
    assert labels.ids.tolist() == ["review-1", "review-2", "review-5"]
    listed = out.with_name("labels.rejected.jsonl")
    assert len(listed.read_text().splitlines()) == 5
    assert summary == {
        "store": str(out),
        "rows": 3,
        "classes": ["positive", "negative"],
        "rows_per_class": {"positive": 2, "negative": 1},
        "teacher": "some-llm",
        "lines": 7,
        "missing_mean": pytest.approx(0.37, abs=1e-5),
        "missing_above_half": 1,
        "rejected": {"refused": 1, "error": 2, "off-list": 1},
        "bad_lines": 0,
        "off_list_but_kept": 1,
        "never_named": [],
        "rejected_file": str(listed),
    }


def test_packed_files_are_read(tmp_path: Path) -> None:
    table = b"id,cat,dog\na,0.75,0.25\nb,0.25,0.75\n"
    (tmp_path / "p.csv.gz").write_bytes(gzip.compress(table))
    assert printed(tmp_path / "p.csv.gz", "--out", tmp_path / "store")["rows"] == 2
    assert TeacherLabels.open(tmp_path / "store").hard.tolist() == [0, 1]


def test_tables_of_one_label_per_row(tmp_path: Path) -> None:
    (tmp_path / "p.csv").write_text("id,text,said,sure\na,x,cat,0.75\nb,y,dog,0.5\nc,z,cat,1\n")
    named = ("--label-column", "said", "--confidence-column", "sure")
    with pytest.warns(NoisyTeacherWarning, match="the labels found: 'cat', 'dog'"):
        summary = printed(tmp_path / "p.csv", *named, "--out", tmp_path / "a")
    assert summary["rows_per_class"] == {"cat": 2, "dog": 1}
    probs = TeacherLabels.open(tmp_path / "a").probs
    np.testing.assert_allclose(probs, [[0.75, 0.25], [0.5, 0.5], [1, 0]], atol=1e-3)
    (tmp_path / "p.jsonl").write_text('{"id": 7, "label": "dog"}\n{"id": 8, "label": "cat"}\n')
    with pytest.warns(NoisyTeacherWarning, match="Hard labels carry no doubts"):
        printed(tmp_path / "p.jsonl", "--out", tmp_path / "b")
    labels = TeacherLabels.open(tmp_path / "b")
    assert (labels.ids.tolist(), labels.probs.tolist()) == ([7, 8], [[0, 1], [1, 0]])
    np.save(tmp_path / "x.npy", np.full((1, 2), 0.5))
    out = ("--out", tmp_path / "c")
    assert "--confidence-column are for tables" in refused(tmp_path / "x.npy", *named, *out)
    told = refused(tmp_path / "p.jsonl", "--classes", "cat,bird", *out)
    assert "has the labels 'dog', which are not among the teacher's classes 'cat', 'bird'" in told


def test_the_summary_in_words(tmp_path: Path) -> None:
    damaged = tmp_path / "damaged.jsonl"
    damaged.write_text(Path(BATCH).read_text() + "{\n")
    arguments = (damaged, "--classes", "positive,negative,neutral", "--out", tmp_path / "labels")
    result = run(*arguments, "--skip-bad")
    assert result.exit_code == 0
    assert result.stdout.splitlines() == [
        f"3 rows, 3 classes: {tmp_path / 'labels'}",
        "positive 66.7%, negative 33.3%, neutral 0.0%",
        "missing mass: 0.370 on average, above 0.5 in 1 rows (33.3%)",
        "5 of 8 lines have no label: 1 refused, 2 error, 1 off-list, 1 bad line",
        "1 rows answered off-list, kept by their mass",
        f"listed in {tmp_path / 'labels.rejected.jsonl'}",
        "no answer names 'neutral': is it spelled so?",
    ]


def test_a_bad_line_leaves_nothing_behind(tmp_path: Path) -> None:
    damaged = tmp_path / "damaged.jsonl"
    damaged.write_text(Path(BATCH).read_text() + "{\n")
    assert "line 8 is not JSON" in refused(damaged, *TWO, "--out", tmp_path / "labels")
    assert [path.name for path in tmp_path.iterdir()] == ["damaged.jsonl"]


def test_an_existing_store_is_replaced_only_on_demand(tmp_path: Path) -> None:
    out, listed = tmp_path / "labels", tmp_path / "labels.rejected.jsonl"
    printed(BATCH, *TWO, "--out", out)
    assert "--overwrite" in refused(BATCH, *TWO, "--out", out)
    summary = printed(FIXTURES / "chat.jsonl", *TWO, "--out", out, "--overwrite")
    assert (summary["rows"], summary["rejected_file"]) == (2, None)
    assert len(TeacherLabels.open(out)) == 2
    assert not listed.exists()
    printed(BATCH, *TWO, "--out", out, "--overwrite")
    assert listed.exists()
    np.savez(tmp_path / "x.npz", probs=np.full((1, 2), 0.5), ids=np.array([1]))
    printed(tmp_path / "x.npz", "--out", out, "--overwrite")
    assert not listed.exists()


def test_what_the_command_line_refuses(tmp_path: Path) -> None:
    out = ("--out", tmp_path / "labels")
    np.save(tmp_path / "x.npy", np.full((1, 2), 0.5))
    (tmp_path / "x.txt").write_text("a\n")
    assert "need --classes" in refused(BATCH, *out)
    assert "must end in one of .npy, .npz" in refused(tmp_path / "x.txt", *out)
    assert "all be .jsonl, or all tables" in refused(BATCH, tmp_path / "x.npy", *out)
    assert "all be .jsonl, or all tables" in refused(tmp_path / "x.npy", tmp_path / "x.npy", *out)
    assert "--skip-bad is for" in refused(tmp_path / "x.npy", "--skip-bad", *out)
    assert "--list-column is for tables" in refused(BATCH, *TWO, "--list-column", "x", *out)
    assert "not with logits" in refused(BATCH, *TWO, "--logits", *out)
    assert "1 ids were given, but" in refused(BATCH, *TWO, "--ids", tmp_path / "x.txt", *out)
    assert run("nowhere.jsonl", *TWO, *out).exit_code == 2
    assert not (tmp_path / "labels").exists()


def test_progress_without_a_terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("noisyteacher.core.progress.SECONDS_BETWEEN_LINES", -1.0)
    result = run(BATCH, *TWO, "--out", tmp_path / "a")
    assert re.search(r"7 lines, \d+ a second$", result.stderr, re.MULTILINE)
    assert run(BATCH, *TWO, "--out", tmp_path / "b", "--json").stderr == ""


def test_progress_on_a_terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    result = run(BATCH, *TWO, "--out", tmp_path / "labels")
    assert result.exit_code == 0
    assert "4.4/4.4 kB" in result.stderr
    assert "3 rows" in result.stdout


def test_help_has_an_example() -> None:
    result = run("--help")
    assert result.exit_code == 0
    assert "noisyteacher import answers.jsonl" in result.output


@pytest.fixture
def files_of_the_docs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    probs = np.array([[0.9, 0.1], [0.3, 0.7]])
    np.save(tmp_path / "probs.npy", probs)
    np.save(tmp_path / "logits.npy", np.log(probs))
    np.savez(tmp_path / "teacher.npz", probs=probs, ids=np.array(["a", "b"]))
    (tmp_path / "ids.txt").write_text("photo-1\nphoto-2\n")
    (tmp_path / "probs.csv").write_text("id,cat,dog\nphoto-1,0.9,0.1\nphoto-2,0.3,0.7\n")
    predicted = "id,prediction,confidence\nphoto-1,cat,0.9\nphoto-2,dog,0.7\nphoto-3,bird,0.6\n"
    (tmp_path / "predictions.csv").write_text(predicted)
    (tmp_path / "answers.tsv").write_text("id\tsaid\tsure\na\tyes\t0.9\nb\tno\t0.8\n")
    (tmp_path / "hard.jsonl").write_text('{"id": 1, "label": "cat"}\n{"id": 2, "label": "dog"}\n')
    table = pa.table({"id": ["a", "b"], "probs": probs.tolist()})
    pq.write_table(table, tmp_path / "probs.parquet")
    shutil.copy(BATCH, tmp_path / "answers.jsonl")
    lines = Path(BATCH).read_text().splitlines(keepends=True)
    (tmp_path / "part-1.jsonl").write_text("".join(lines[:2]))
    (tmp_path / "part-2.jsonl").write_text("".join(lines[2:]))
    (tmp_path / "damaged.jsonl").write_text("".join(lines)[:-40])
    shutil.copy(FIXTURES / "chat.jsonl", tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", page, re.DOTALL)


@pytest.mark.filterwarnings("ignore:.* holds the labels")
def test_everything_in_the_docs_runs(files_of_the_docs: Path) -> None:
    page = (ROOT / "docs" / "importing.md").read_text()
    synonyms, entry = blocks(page, "json")
    Path("answers.json").write_text(synonyms)
    commands = [line for block in blocks(page, "console") for line in block.splitlines()]
    assert len(commands) > 5
    for command in commands:
        prompt, program, verb, *arguments = shlex.split(command)
        assert (prompt, program, verb) == ("$", "noisyteacher", "import")
        result = run(*arguments)
        assert result.exit_code == 0, (command, result.exception)
        assert len(TeacherLabels.open(arguments[arguments.index("--out") + 1])) >= 2
    listed = Path("labels-llm.rejected.jsonl").read_text().splitlines()
    assert json.loads(entry) in map(json.loads, listed)
    (snippet,) = blocks(page, "python")
    Path("snippet.py").write_text(snippet)
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        runpy.run_path("snippet.py")
    assert "3 rows" in output.getvalue()


@pytest.mark.filterwarnings("ignore:.* holds the labels")
def test_the_epilog_runs(files_of_the_docs: Path) -> None:
    shutil.copy(BATCH, "answers.jsonl")
    for command in re.findall(r"`noisyteacher import (.*?)`", EPILOG):
        assert run(*shlex.split(command)).exit_code == 0
        shutil.rmtree("labels")
