"""Rows on disk: appended, read back, merged; duplicates and torn lines."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from noisyteacher.bench import append_row, merge, read_rows
from noisyteacher.bench.publish import read_files
from noisyteacher.core import machine
from noisyteacher.core.errors import InputError
from noisyteacher.core.machine import commit, source_is_committed
from results_rows import row


def test_rows_come_back_as_they_were(tmp_path: Path) -> None:
    rows = [row(trial=trial) for trial in range(3)]
    for one in rows:
        append_row(tmp_path / "r.jsonl", one)
    assert read_rows(tmp_path / "r.jsonl") == rows
    assert read_rows(tmp_path / "none.jsonl") == []


def test_files_of_several_machines_merge_and_the_first_stands(tmp_path: Path) -> None:
    for name, trials in (("a", (0, 1)), ("b", (1, 2))):
        for trial in trials:
            append_row(tmp_path / name, row(trial=trial, hardware=name))
    (tmp_path / "both").write_bytes((tmp_path / "a").read_bytes() + (tmp_path / "b").read_bytes())
    merged = read_rows(tmp_path / "both")
    assert [(r.trial, r.hardware) for r in merged] == [(0, "a"), (1, "a"), (2, "b")]
    assert read_files([tmp_path / "a", tmp_path / "b"]) == merged


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Temperature(t_a=1, t_b=2, inner=Vanilla())", "Temperature(t_a=1.0, t_b=2.0)"),
        ("SLaM(base=Poly1(2.0))", "SLaM(base=PolyLoss())"),
        ("SLaM()", "SLaM(lower_bound=0.5)"),
    ],
)
def test_one_method_written_in_two_ways_is_one(one: str, other: str) -> None:
    assert len(merge([row(one), row(other)])) == 1


@pytest.mark.parametrize(
    "change",
    [
        {"recipe": "other"},
        {"labeled": 7500},
        {"gold_repeat": 5},
        {"generation": 2},
        {"trial": 1},
        {"epochs": 61},
    ],
)
def test_rows_that_differ_before_their_accuracy_are_two(change: dict[str, object]) -> None:
    assert len(merge([row(), row(**change)])) == 2


def test_a_method_of_another_version_is_kept_by_its_name() -> None:
    unknown = row(distillation=None)
    unknown = type(unknown)(**{**vars(unknown), "method": "Unheard(of=1)"})
    assert len(merge([unknown, unknown, row()])) == 2


def test_a_torn_last_line_is_dropped_and_written_over(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    append_row(path, row(trial=0))
    whole = path.read_bytes()
    path.write_bytes(whole + whole[: len(whole) // 2])
    assert [r.trial for r in read_rows(path)] == [0]
    append_row(path, row(trial=1))
    assert [r.trial for r in read_rows(path)] == [0, 1]
    path.write_bytes(path.read_bytes().rstrip(b"\n"))
    append_row(path, row(trial=2))
    assert [r.trial for r in read_rows(path)] == [0, 1, 2]


def test_other_lines_are_named(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    path.write_bytes(b'{"a": 1}\n')
    with pytest.raises(InputError, match="line 1, is not a results row"):
        read_rows(path)
    with pytest.raises(InputError, match=r"no file .*gone"):
        read_files([tmp_path / "gone.jsonl"])
    with pytest.raises(InputError, match="at least one file"):
        read_files([])


def test_a_copy_can_be_told_its_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOISYTEACHER_COMMIT", "0123abcd")
    assert commit.__wrapped__() == "0123abcd"


def test_a_package_inside_somebodys_project_has_not_its_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = tmp_path / "site-packages"
    site.mkdir()
    (site / "machine.py").touch()
    (tmp_path / "theirs.txt").touch()
    who = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
    for arguments in (["init", "-q"], ["add", "theirs.txt"], [*who, "commit", "-qm", "theirs"]):
        subprocess.run(["git", *arguments], cwd=tmp_path, check=True)
    monkeypatch.delenv("NOISYTEACHER_COMMIT", raising=False)
    monkeypatch.setattr(machine, "__file__", str(site / "machine.py"))
    assert commit.__wrapped__() is None
    assert source_is_committed()


def test_source_with_changes_is_not_committed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    core = tmp_path / "src" / "package" / "core"
    core.mkdir(parents=True)
    for path in (core / "machine.py", core.parent / "other.py", tmp_path / "results.jsonl"):
        path.touch()
    who = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
    for arguments in (["init", "-q"], ["add", "."], [*who, "commit", "-qm", "all"]):
        subprocess.run(["git", *arguments], cwd=tmp_path, check=True)
    monkeypatch.delenv("NOISYTEACHER_COMMIT", raising=False)
    monkeypatch.setattr(machine, "__file__", str(core / "machine.py"))
    assert source_is_committed()
    (tmp_path / "results.jsonl").write_text("a row")
    assert source_is_committed()  # rows are not source
    (core.parent / "other.py").write_text("changed")
    assert not source_is_committed()
    monkeypatch.setenv("NOISYTEACHER_COMMIT", "0123abcd")
    assert source_is_committed()  # a copy was told its commit
