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
NEWS = ["--classes", "World,Sports,Business,Sci/Tech"]
ANY = "--allow-rejected"


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
    summary = printed(BATCH, *TWO, "--out", out, ANY)
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
        "understood": {"logprobs": 2},
        "hard_labels": 1,
        "several_answers": 0,
        "missing_mean": pytest.approx(0.37, abs=1e-5),
        "missing_above_half": 1,
        "rejected": {"refused": 1, "error": 2, "off-list": 1},
        "bad_lines": 0,
        "off_list_but_kept": 1,
        "unmatched": {"Mixed": 1},
        "rejected_naming": 0,
        "named_in_rejected": {},
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
    with pytest.warns(NoisyTeacherWarning, match="Hard labels say nothing about uncertainty"):
        printed(tmp_path / "p.jsonl", "--out", tmp_path / "b")
    labels = TeacherLabels.open(tmp_path / "b")
    assert (labels.ids.tolist(), labels.probs.tolist()) == ([7, 8], [[0, 1], [1, 0]])
    np.save(tmp_path / "x.npy", np.full((1, 2), 0.5))
    out = ("--out", tmp_path / "c")
    assert "--confidence-column can only be used with tables" in refused(
        tmp_path / "x.npy", *named, *out
    )
    told = refused(tmp_path / "p.jsonl", "--classes", "cat,bird", "--label-column", "label", *out)
    assert "has the labels 'dog', which are not among the teacher's classes 'cat', 'bird'" in told


def test_the_summary_in_words(tmp_path: Path) -> None:
    damaged = tmp_path / "damaged.jsonl"
    damaged.write_text(Path(BATCH).read_text() + "{\n")
    arguments = (damaged, "--classes", "positive,negative,neutral", "--out", tmp_path / "labels")
    with pytest.warns(NoisyTeacherWarning, match=r"No answer names 'neutral'; .* --classes\."):
        result = run(*arguments, "--skip-bad", ANY)
    assert result.exit_code == 0
    assert result.stdout.splitlines() == [
        f"Wrote 3 rows with 3 classes to {tmp_path / 'labels'}.",
        "Most likely class: positive 66.7%, negative 33.3%, neutral 0.0%.",
        "Answers understood: 2 by logprobs.",
        "Missing mass: 0.370 on average, above 0.5 in 33.3% of the rows.",
        "Lines without a label: 5 of 8 (1 refused, 2 error, 1 off-list, 1 bad line).",
        "Most frequent answers without a class: 'Mixed' (1).",
        "Answers without a class, labeled by their log-probabilities: 1.",
        f"These examples are listed in {tmp_path / 'labels.rejected.jsonl'}.",
        f"Next: noisyteacher audit {tmp_path / 'labels'} --gold GOLD",
    ]


def test_a_bad_line_leaves_nothing_behind(tmp_path: Path) -> None:
    damaged = tmp_path / "damaged.jsonl"
    damaged.write_text(Path(BATCH).read_text() + "{\n")
    assert "line 8 is not JSON" in refused(damaged, *TWO, "--out", tmp_path / "labels")
    assert [path.name for path in tmp_path.iterdir()] == ["damaged.jsonl"]


def test_an_existing_store_is_replaced_only_on_demand(tmp_path: Path) -> None:
    out, listed = tmp_path / "labels", tmp_path / "labels.rejected.jsonl"
    printed(BATCH, *TWO, "--out", out, ANY)
    assert "--overwrite" in refused(BATCH, *TWO, "--out", out)
    summary = printed(FIXTURES / "chat.jsonl", *TWO, "--out", out, "--overwrite")
    assert (summary["rows"], summary["rejected_file"]) == (2, None)
    assert len(TeacherLabels.open(out)) == 2
    assert not listed.exists()
    printed(BATCH, *TWO, "--out", out, "--overwrite", ANY)
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
    assert "either all .jsonl files or all tables" in refused(BATCH, tmp_path / "x.npy", *out)
    array = tmp_path / "x.npy"
    assert "either all .jsonl files or all tables" in refused(array, array, *out)
    assert "--skip-bad can only be used with answers" in refused(array, "--skip-bad", *out)
    assert "--list-column can only be used with tables" in refused(
        BATCH, *TWO, "--list-column", "x", *out
    )
    assert "cannot be used with answers of an LLM" in refused(BATCH, *TWO, "--logits", *out)
    assert "1 ids were given, but" in refused(BATCH, *TWO, "--ids", tmp_path / "x.txt", *out)
    assert run("nowhere.jsonl", *TWO, *out).exit_code == 2
    assert not (tmp_path / "labels").exists()


def test_progress_without_a_terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("noisyteacher.core.progress.SECONDS_BETWEEN_LINES", -1.0)
    result = run(BATCH, *TWO, "--out", tmp_path / "a")
    assert re.search(r"7 lines, \d+ a second$", result.stderr, re.MULTILINE)
    assert run(BATCH, *TWO, "--out", tmp_path / "b", "--json", ANY).stderr == ""


def test_progress_on_a_terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    result = run(BATCH, *TWO, "--out", tmp_path / "labels", ANY)
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
    for name in (*["openai_chat", "plain", "choices", "probs_object", "ollama_generate"], "chat"):
        shutil.copy(FIXTURES / f"{name}.jsonl", tmp_path)
    lines = (FIXTURES / "openai_batch_text.jsonl").read_text()
    (tmp_path / "damaged.jsonl").write_text(lines + lines[:40])
    (tmp_path / "ids-3.txt").write_text("a\nb\nc\n")
    (tmp_path / "responses").mkdir()
    for row in (FIXTURES / "openai_chat.jsonl").read_text().splitlines():
        (tmp_path / "responses" / f"{json.loads(row)['id']}.json").write_text(row)
    (tmp_path / "classes.json").write_text('["World", "Sports", "Business", "Sci/Tech"]')
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_home_is_meant_by_its_sign(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    assert run(BATCH, *TWO, ANY, "--out=~/labels").exit_code == 0
    assert len(TeacherLabels.open("~/labels")) == len(TeacherLabels.open(tmp_path / "labels"))
    assert not Path("~").exists()


def test_a_folder_with_the_name_of_a_file_is_none(tmp_path: Path) -> None:
    shutil.copy(BATCH, tmp_path / "answers.jsonl")
    (tmp_path / "store.jsonl").mkdir()
    assert run(tmp_path, *TWO, ANY, "--out", tmp_path / "labels").exit_code == 0


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", page, re.DOTALL)


@pytest.mark.filterwarnings("ignore:.* holds the labels", "ignore:No answer names")
def test_everything_in_the_docs_runs(files_of_the_docs: Path) -> None:
    page = (ROOT / "docs" / "importing.md").read_text()
    synonyms, entry = blocks(page, "json")
    Path("synonyms.json").write_text(synonyms)
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
    assert "5 rows" in output.getvalue()
    named = set(re.findall(r"`(\w+\.jsonl)`", page))
    assert {path.name for path in FIXTURES.glob("*.jsonl")} - {"mixed.jsonl"} <= named


@pytest.mark.filterwarnings("ignore:.* holds the labels", "ignore:No answer names")
def test_the_epilog_runs(files_of_the_docs: Path) -> None:
    shutil.copy("chat.jsonl", "answers.jsonl")
    for command in re.findall(r"`noisyteacher import (.*?)`", EPILOG):
        assert run(*shlex.split(command)).exit_code == 0
        shutil.rmtree("labels")


def test_a_folder_of_responses_is_one_source(tmp_path: Path) -> None:
    folder = tmp_path / "responses"
    (folder / "deeper").mkdir(parents=True)
    shutil.copy(FIXTURES / "plain.jsonl", folder)
    shutil.copy(FIXTURES / "anthropic_messages.jsonl", folder / "deeper")
    (folder / "notes.txt").write_text("not read")
    summary = printed(folder, *NEWS, "--out", tmp_path / "labels")
    assert (summary["rows"], summary["several_answers"]) == (12, 1)
    assert summary["rejected"] == {"refused": 1, "error": 1}
    (tmp_path / "empty").mkdir()
    told = refused(tmp_path / "empty", *NEWS, "--out", tmp_path / "x")
    assert "contains no .jsonl, .ndjson, .json files" in told


def test_a_column_of_sentences_is_read_as_answers(tmp_path: Path) -> None:
    file, out = tmp_path / "answers.csv", tmp_path / "out"
    rows = [
        "a,Clearly cat.,0.9",
        '"b","```json\n{""label"": ""dog""}\n```",',
        "c,DOG,0.8",
        "d,a bird,",
    ]
    file.write_text("\n".join(["name,llm_label,confidence", *rows, ""]))
    options = [file, "--classes", "cat,dog", "--id-column", "name", "--out", out]
    assert "1 of 4 answers name no class, more than a tenth" in refused(*options)
    with pytest.warns(NoisyTeacherWarning, match="The column 'llm_label' holds the answers"):
        summary = printed(*options, ANY)
    assert summary["rejected"] == {"off-list": 1}
    labels = TeacherLabels.open(out)
    assert labels.ids.tolist() == ["a", "b", "c"]
    np.testing.assert_allclose(labels.probs, [[0.9, 0.1], [0, 1], [0.2, 0.8]], atol=1e-3)
    named = [*options, "--label-column", "llm_label", "--overwrite", ANY]
    assert printed(*named)["understood"] == summary["understood"]
    ids = tmp_path / "ids.txt"
    ids.write_text("1\n2\n3\n4\n")
    assert run(*named, "--ids", ids).exit_code == 0
    assert len(TeacherLabels.open(out)) == 3


def test_too_many_unmatched_answers_make_no_store(tmp_path: Path) -> None:
    path, out, words = tmp_path / "a.jsonl", tmp_path / "labels", tmp_path / "words.json"
    said = ["World"] * 16 + ["Sport", "Sport", "Economy", "I cannot say."]
    rows = [{"id": number, "response": text} for number, text in enumerate(said)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    told = refused(path, *NEWS, "--out", out, "--write-synonyms", words)
    assert told.startswith("3 of 19 answers name no class, more than a tenth")
    assert "'Sport' (2), 'Economy' (1)" in told
    assert "--allow-rejected" in told
    assert not out.exists()
    listed = out.with_name("labels.rejected.jsonl")
    assert [json.loads(line)["reason"] for line in listed.read_text().splitlines()] == [
        *["off-list"] * 3,
        "refused",
    ]
    file = json.loads(words.read_text())
    assert file == {
        "World": [],
        "Sports": ["Sport"],
        "Business": [],
        "Sci/Tech": [],
        "(unmatched)": ["Economy"],
    }
    with pytest.warns(NoisyTeacherWarning, match="No answer names 'Business', 'Sci/Tech'"):
        summary = printed(path, "--classes", words, "--out", out)
    assert summary["rows_per_class"] == {"World": 16, "Sports": 2, "Business": 0, "Sci/Tech": 0}
    assert summary["unmatched"] == {"Economy": 1}
    with pytest.warns(NoisyTeacherWarning, match="No answer names"):
        assert printed(path, *NEWS, ANY, "--out", tmp_path / "most")["rows"] == 16


def test_options_for_answers_are_refused_elsewhere(tmp_path: Path) -> None:
    (tmp_path / "p.csv").write_text("id,cat,dog\na,0.75,0.25\n")
    for option in (["--choices", "A"], ["--answer-key", "x"], [ANY], ["--write-synonyms", "x"]):
        told = refused(tmp_path / "p.csv", *option, "--out", tmp_path / "x")
        assert told.startswith(f"{option[0]} can only be used with answers of an LLM")


def test_the_summary_of_answers_without_logprobs(tmp_path: Path) -> None:
    result = run(FIXTURES / "plain.jsonl", *NEWS, "--out", tmp_path / "labels")
    assert result.stdout.splitlines()[2:-1] == [
        "Answers understood: 6 by class, 2 by JSON, 1 by prose.",
        "Hard labels (no log-probabilities, no stated confidence): 5 of 8.",
        "Ids with several answers, whose mean is stored: 1.",
        "Missing mass: 0.000 on average, above 0.5 in 0.0% of the rows.",
        "Lines without a label: 1 of 10 (1 error).",
        f"These examples are listed in {tmp_path / 'labels.rejected.jsonl'}.",
    ]


def test_rejected_answers_that_contain_the_name_of_a_class_are_counted(tmp_path: Path) -> None:
    said = ["World"] * 20 + ["Sports", "Not World, sci_tech maybe", "Is it SPORTS?", "Business"]
    path = tmp_path / "a.jsonl"
    rows = [{"id": number, "response": text} for number, text in enumerate(said)]
    rows += [{"id": 90 + n, "response": "Neither Sports nor a sportsman"} for n in range(2)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    with pytest.warns(NoisyTeacherWarning, match="No answer names 'Sci/Tech'"):
        result = run(path, *NEWS, "--out", tmp_path / "labels", ANY)
    told = "4 rejected answers contain the name of a class, most often 'Sports'."
    assert told in result.stdout.splitlines()
    with pytest.warns(NoisyTeacherWarning, match="No answer names 'Sci/Tech'"):
        summary = printed(path, *NEWS, "--out", tmp_path / "again", ANY)
    assert summary["rejected_naming"] == 4
    assert summary["named_in_rejected"] == {"Sports": 3, "World": 1, "Sci/Tech": 1}


def test_off_list_labels_of_a_table_are_left_out_on_demand(tmp_path: Path) -> None:
    path, out = tmp_path / "off.csv", tmp_path / "labels"
    path.write_text("id,label,confidence\n7,joy,0.9\n8,fear,0.8\n9,JOY,0.5\n10,I am sorry,1\n")
    options = ("--classes", "joy,anger", "--label-column", "label", "--out", out)
    options += ("--confidence-column", "confidence")
    told = refused(path, *options)
    assert "'fear', 'I am sorry', which are not among the teacher's classes 'joy', 'anger'" in told
    assert told.endswith(" Use --allow-rejected to leave the rows with such labels out.")
    result = run(path, *options, ANY)
    listed = out.with_name("labels.rejected.jsonl")
    assert result.stdout.splitlines()[2:4] == [
        "Rows left out because their label is not a class: 2.",
        f"These examples are listed in {listed}.",
    ]
    labels = TeacherLabels.open(out)
    assert labels.ids.tolist() == [7, 9]
    np.testing.assert_allclose(labels.probs, [[0.9, 0.1], [0.5, 0.5]], atol=1e-3)
    assert [json.loads(line) for line in listed.read_text().splitlines()] == [
        {"id": 8, "line": 2, "answer": "fear"} | (same := _off_list(path)),
        {"id": 10, "line": 4, "answer": "I am sorry"} | same,
    ]
    summary = printed(path, *options, ANY, "--overwrite")
    assert (summary["rejected"], summary["rejected_file"]) == ({"off-list": 2}, str(listed))
    path.write_text("id,label,confidence\n7,joy,0.9\n8,anger,0.8\n")
    assert "rejected" not in printed(path, *options, ANY, "--overwrite")
    assert not listed.exists()


def _off_list(path: Path) -> dict[str, object]:
    return {"file": str(path), "reason": "off-list", "kept": False}


def test_labels_without_any_class_stay_an_error(tmp_path: Path) -> None:
    path, out = tmp_path / "off.csv", ("--out", tmp_path / "labels", ANY)
    path.write_text("id,label\n7,fear\n8,hope\n")
    told = refused(path, "--classes", "joy,anger", *out)
    assert "has the labels 'fear', 'hope', which are not among" in told
    assert "--allow-rejected needs --classes" in refused(path, *out)
    path.write_text("id,label\n7,0\n8,1\n")
    with pytest.warns(NoisyTeacherWarning, match=r"are numbers: 0 is taken for 'joy'|Hard labels"):
        assert printed(path, "--classes", "joy,anger", *out)["rows"] == 2


def test_columns_taken_for_classes_are_named(tmp_path: Path) -> None:
    path = tmp_path / "p.csv"
    path.write_text("id,cat,dog,cost\n1,0.9,0.1,0.0013\n2,0.3,0.7,0.0013\n")
    never = "No row has its highest probability in 'cost'; if that is not a class, name the classes"
    with pytest.warns(NoisyTeacherWarning, match=never):
        result = run(path, "--out", tmp_path / "a")
    found = "The classes are those found in the table: 'cat', 'dog', 'cost'; use --classes"
    assert found in result.stdout
    result = run(path, "--classes", "dog,cat", "--out", tmp_path / "b")
    assert result.exit_code == 0
    assert "The classes are those found" not in result.stdout
