"""``noisyteacher bench``, through the command line; killed, resumed, and by two processes."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import orjson
import pytest
import typer
from typer.testing import CliRunner, Result

from noisyteacher.bench import read_rows
from noisyteacher.cli.bench import EPILOG
from noisyteacher.cli.bench import bench as verb
from noisyteacher.core.errors import InputError, NoisyTeacherWarning
from noisyteacher.runs import RunFolder

DIGITS = ["digits", "--quick", "--device", "cpu", "--method", "GoldOnly();SLaM()"]


app = typer.Typer()
app.command(epilog=EPILOG)(verb)


def bench(*arguments: object) -> Result:
    return CliRunner().invoke(app, [*map(str, arguments)])


def refused(*arguments: object) -> str:
    """The one sentence; ``main`` turns it into exit code 2."""
    result = bench(*arguments)
    assert isinstance(result.exception, InputError), result.output
    return str(result.exception)


def command(*arguments: object) -> list[str]:
    start = "import typer; from noisyteacher.cli.bench import bench; typer.run(bench)"
    return [sys.executable, "-c", start, *map(str, arguments)]


def test_rows_a_table_and_a_page(tmp_path: Path) -> None:
    result = bench(*DIGITS, "--out", tmp_path / "run", "--trials", 2)
    assert result.exit_code == 0, result.output
    assert "SLaM()" in result.output
    rows = read_rows(tmp_path / "run" / "results.jsonl")
    assert [(r.recipe, r.method, r.trial) for r in rows] == [
        ("digits smoke", "GoldOnly()", 0),
        ("digits smoke", "GoldOnly()", 1),
        ("digits smoke", "SLaM()", 0),
        ("digits smoke", "SLaM()", 1),
    ]
    assert (tmp_path / "run" / "report.html").exists()
    assert (tmp_path / "run" / "pictures" / "alpha-24.svg").exists()
    result = bench("tables", tmp_path / "run" / "results.jsonl", "--out", tmp_path)
    assert result.exit_code == 0, result.output
    assert "| SLaM() | 1 | 2 |" in (tmp_path / "tables" / "digits-smoke.md").read_text()
    result = bench("tables", tmp_path / "run" / "results.jsonl", "--out", tmp_path, "--json")
    assert all(Path(orjson.loads(line)["file"]).exists() for line in result.stdout.splitlines())


def test_any_command_can_be_tried_with_quick_added(tmp_path: Path) -> None:
    with pytest.warns(NoisyTeacherWarning, match="24 labeled examples are used instead of 5000"):
        result = bench(*DIGITS, "--labeled", "20,5000,10000", "--trials", 1, "--out", tmp_path)
    assert result.exit_code == 0, result.output
    assert {row.labeled for row in read_rows(tmp_path / "results.jsonl")} == {20, 24}


def test_settings_that_rows_do_not_tell_join_the_name(tmp_path: Path) -> None:
    result = bench(
        *DIGITS[:4], "--method", "Vanilla", "--student", "MLP(64, hidden=[8])", "--batch-size", 16,
        "--lr", 0.01, "--seed", 3, "--teacher-epochs", 2, "--gold-repeat", 2, "--epochs", 3,
        "--labeled", "20,30", "--json", "--out", tmp_path,
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    rows = [orjson.loads(line) for line in result.stdout.splitlines()]
    told = "digits student=MLP(64, hidden=[8]) smoke teacher_epochs=2 batch=16 lr=0.01 seed=3"
    assert [(r["recipe"], r["labeled"], r["gold_repeat"], r["epochs"]) for r in rows] == [
        (told, 20, 2, 3),
        (told, 30, 2, 3),
    ]


def test_second_generation(tmp_path: Path) -> None:
    second = ["--second-generation", "Vanilla()", "--first", "SLaM()", "--first-students", 1]
    result = bench(*DIGITS, *second, "--json", "--out", tmp_path)
    assert result.exit_code == 0, result.output
    rows = [orjson.loads(line) for line in result.stdout.splitlines()]
    assert [(r["method"], r["generation"]) for r in rows][-1] == ("Vanilla()", 2)
    assert rows[-1]["recipe"] == "digits smoke first=1xSLaM()"


def test_settings_are_tuned_at_one_size_and_used_at_another(tmp_path: Path) -> None:
    arguments = [*DIGITS[:4], "--method", "GoldOnly();TruncatedGCE()", "--labeled", "20"]
    arguments += ["--tune", 24, "--out", tmp_path / "run"]
    planned = orjson.loads(bench(*arguments, "--plan", "--json").stdout)
    assert [stage["students"] for stage in planned["stages"]] == [1, 3]
    result = bench(*arguments, "--minutes", 1e-6)
    assert "Not all settings have been tried yet. Run the same command" in result.output
    result = bench(*arguments)
    assert result.exit_code == 0, result.output
    assert "was chosen on S with 24 labeled examples" in result.output
    rows = read_rows(tmp_path / "run" / "results.jsonl")
    tried = [row for row in rows if row.labeled == 24]
    assert len(tried) == 3
    best = max(tried, key=lambda row: row.best_on_selection or 0)
    assert {row.method for row in rows if row.labeled == 20} == {"GoldOnly()", best.method}
    assert "was chosen on S with 24" in (tmp_path / "run" / "report.html").read_text()
    planned = orjson.loads(bench(*arguments, "--plan", "--json").stdout)
    assert (planned["stages"], planned["done"]) == ([], 2)


def test_plan(tmp_path: Path) -> None:
    result = bench(*DIGITS, "--plan", "--out", tmp_path / "run")
    assert result.exit_code == 0, result.output
    assert "Estimated from" in result.output
    result = bench(*DIGITS, "--plan", "--json", "--out", tmp_path / "run")
    assert [stage["students"] for stage in orjson.loads(result.stdout)["stages"]] == [1, 2]
    assert not (tmp_path / "run").exists()


def test_bad_input_is_one_sentence(tmp_path: Path) -> None:
    assert "no recipe 'cifar11'; the recipes are digits, cifar10" in refused("cifar11")
    assert "no method 'SLiM'" in refused(*DIGITS[:4], "--method", "SLiM()")
    assert "no model 'Net'" in refused(*DIGITS, "--student", "Net()")
    assert "--labeled takes numbers of examples" in refused(*DIGITS, "--labeled", "many")
    assert "Unexpected argument 'rows.jsonl'" in refused("digits", "rows.jsonl")
    assert "no pre-training" in refused("imdb-words", "--quick", "--pretrain-epochs", 3)
    assert "no file" in refused("tables", tmp_path / "gone.jsonl")
    assert "cpu, cuda or cuda:N, not 'tpu'" in refused("digits", "--quick", "--device", "tpu")
    assert "cannot read digits" in refused(*DIGITS, "--student", "BagLinear(9)", "--out", tmp_path)
    assert "--lr must be a finite number above 0, not nan" in refused(*DIGITS, "--lr", "nan")
    assert "Unknown tracker" in refused(*DIGITS, "--track", "paper", "--out", tmp_path / "t")


def test_methods_are_chosen_before_the_pretraining_they_need(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NOISYTEACHER_DATA", raising=False)
    arguments = ["cifar100", "--pretrain-epochs", 0, "--data", tmp_path, "--allow-dirty"]
    assert "Weighted() needs a student pre-trained" in refused(*arguments)
    assert "No dataset 'cifar100'" in refused(*arguments, "--method", "Vanilla()")


def test_a_folder_of_another_run(tmp_path: Path) -> None:
    assert bench(*DIGITS, "--out", tmp_path).exit_code == 0
    assert "another name" in refused(*DIGITS, "--batch-size", 16, "--out", tmp_path)


def test_a_folder_in_which_another_process_is_at_work(tmp_path: Path) -> None:
    with RunFolder(tmp_path).lock():
        assert "is in use by another process" in refused(*DIGITS, "--out", tmp_path)
    assert not (tmp_path / "results.jsonl").exists()


def test_rows_come_from_a_commit_unless_asked_otherwise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("noisyteacher.core.machine.source_is_committed", lambda: False)
    arguments = ["digits", "--device", "cpu", "--method", "GoldOnly()", "--trials", 1]
    arguments += ["--epochs", 1, "--teacher-epochs", 1, "--out", tmp_path / "run"]
    sentence = refused(*arguments)
    assert sentence.startswith("The source of noisyteacher has uncommitted changes")
    assert "--allow-dirty" in sentence
    assert not (tmp_path / "run").exists()
    assert bench(*arguments, "--allow-dirty").exit_code == 0
    assert bench(*DIGITS, "--out", tmp_path / "smoke").exit_code == 0  # its rows are no results


def test_killed_and_started_again(tmp_path: Path) -> None:
    arguments = [
        "digits", "--device", "cpu", "--method", "Vanilla();SLaM()", "--trials", 2,
        "--epochs", 12, "--json", "--allow-dirty", "--out",
    ]  # fmt: skip
    results = tmp_path / "killed" / "results.jsonl"
    process = subprocess.Popen(
        command(*arguments, tmp_path / "killed"), stdout=subprocess.PIPE, env=_one_thread()
    )
    while process.poll() is None and not (results.exists() and results.stat().st_size):
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    survived = read_rows(results)
    assert 1 <= len(survived) < 4
    result = bench(*arguments, tmp_path / "killed")
    assert result.exit_code == 0, result.output
    again = read_rows(results)
    assert again[: len(survived)] == survived
    result = bench(*arguments, tmp_path / "whole")
    whole = read_rows(tmp_path / "whole" / "results.jsonl")
    assert [(r.key, r.accuracy, r.curve) for r in again] == [
        (r.key, r.accuracy, r.curve) for r in whole
    ]


def test_two_processes_write_each_row_once(tmp_path: Path) -> None:
    second = ["--second-generation", "Vanilla()", "--first", "SLaM()"]
    arguments = [*DIGITS, *second, "--json", "--out", tmp_path / "run"]
    assert [len(lines) for lines in _printed_by_two(*arguments)] == [3, 0]
    lines = (tmp_path / "run" / "results.jsonl").read_bytes().splitlines()
    assert len(lines) == 3
    assert bench(*arguments, "--json").exit_code == 0
    assert (tmp_path / "run" / "results.jsonl").read_bytes().splitlines() == lines


def test_two_processes_stop_together(tmp_path: Path) -> None:
    """Each has a clock of its own; one that went on alone would wait for the other for ever."""
    arguments = [*DIGITS, "--json", "--out", tmp_path / "run"]
    assert _printed_by_two(*arguments, "--minutes", 1e-4) == [[], []]
    assert bench(*arguments).exit_code == 0
    assert len(read_rows(tmp_path / "run" / "results.jsonl")) == 2


def test_a_student_that_cannot_go_on_is_named(tmp_path: Path) -> None:
    result = bench(*DIGITS, "--lr", 1e30, "--out", tmp_path)
    assert result.exit_code == 0
    assert result.stdout.count("has no result, because the loss became nan in epoch 1") == 2
    assert "goes on with them" not in result.stdout


def _printed_by_two(*arguments: object) -> list[list[bytes]]:
    """The lines of two processes that run the same command together."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    together = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "WORLD_SIZE": "2"}
    started = [
        subprocess.Popen(
            command(*arguments),
            env=_one_thread() | together | {"RANK": str(rank)},
            stdout=subprocess.PIPE,
        )
        for rank in range(2)
    ]
    printed = [process.communicate(timeout=180)[0].splitlines() for process in started]
    assert [process.returncode for process in started] == [0, 0]
    return printed


def _one_thread() -> dict[str, str]:
    return os.environ | {"OMP_NUM_THREADS": "1"}
