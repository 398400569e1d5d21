"""One run folder: claimed, locked, and rows with one rule for bad lines."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import orjson
import pytest

from noisyteacher.core import locks
from noisyteacher.core.errors import InputError
from noisyteacher.core.files import temporary_sibling
from noisyteacher.core.integrity import read_json
from noisyteacher.core.locks import hold_lock
from noisyteacher.runs import Row, RunFolder, read_rows

RESULTS = Path(__file__).parents[2] / "results"


def row(**changes: Any) -> Row:
    values: dict[str, Any] = {
        "recipe": "r",
        "dataset": "d",
        "distillation": None,
        "labeled": 10,
        "method": "GoldOnly()",
        "gold_repeat": 1,
        "generation": 1,
        "trial": 0,
        "epochs": 2,
        "accuracy": {"last": 1.0, "selected": None, "best_test": 2},
        "macro_f1": None,
        "teacher_accuracy": 50,
        "curve": [],
        "seconds": 0,
        "images_per_second": 1.0,
        "seeds": {"recipe": 0},
        "hardware": "none",
    }
    return Row(**values | changes)


# -- the claim ------------------------------------------------------------------------------------


def test_a_folder_is_claimed_once_and_its_settings_stay(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "run")
    folder.claim({"name": "a", "sizes": (1, 2)})
    stored = (tmp_path / "run" / "recipe.json").read_bytes()
    folder.claim({"name": "a", "sizes": (1, 2)})
    assert (tmp_path / "run" / "recipe.json").read_bytes() == stored
    with pytest.raises(InputError, match=r"run holds a run with another name; choose another .*"):
        folder.claim({"name": "b", "sizes": (1, 2)})
    with pytest.raises(InputError, match=r"holds a run with other sizes; .* out= \(--out\)"):
        folder.claim({"name": "a", "sizes": (1,)}, in_words={"sizes": "other sizes"})


def test_the_last_call_may_change_and_optional_settings_may_come_later(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)

    def claim(trials: int, **settings: str) -> dict[str, Any]:
        folder.claim(settings, last_call={"trials": trials}, optional=("first",))
        return read_json(tmp_path / "recipe.json", "choose another folder")

    assert claim(1, name="a") == {"trials": 1, "lasting": {"name": "a"}}
    assert claim(2, name="a", first="x")["lasting"] == {"name": "a", "first": "x"}
    assert claim(3, name="a") == {"trials": 3, "lasting": {"name": "a", "first": "x"}}
    with pytest.raises(InputError, match="another first"):
        claim(3, name="a", first="y")


def test_without_write_the_folder_is_only_checked(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    folder.claim({"name": "a"}, write=False)
    assert not (tmp_path / "recipe.json").exists()
    folder.claim({"name": "a"})
    with pytest.raises(InputError, match="another name"):
        folder.claim({"name": "b"}, write=False)


@pytest.mark.parametrize("content", ["[]", "{", '{"lasting": 3}', "null"])
def test_a_recipe_that_is_none_is_refused_with_a_remedy(tmp_path: Path, content: str) -> None:
    (tmp_path / "recipe.json").write_text(content)
    with pytest.raises(InputError, match=r"recipe.json .*; choose another folder"):
        RunFolder(tmp_path).claim({"name": "a"})


# -- the lock -------------------------------------------------------------------------------------

HOLDER = """
import sys, time
from pathlib import Path
from noisyteacher.runs import RunFolder
with RunFolder(Path(sys.argv[1])).lock():
    print("locked", flush=True)
    time.sleep(60)
"""


def hold(folder: Path) -> subprocess.Popen[bytes]:
    """Another process that has locked the folder."""
    process = subprocess.Popen([sys.executable, "-c", HOLDER, folder], stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b"locked\n"
    return process


def test_a_second_process_is_told_who_is_at_work(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "run")
    process = hold(folder.path)
    try:
        sentence = rf"run is in use by another process \({process.pid}\); wait .*, or choose"
        with pytest.raises(InputError, match=sentence), folder.lock():
            pass
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    # The system has released it, although its file is still there.
    assert (folder.path / ".lock").exists()
    with folder.lock():
        pass
    assert not (folder.path / ".lock").exists()


def test_within_one_process_too_a_folder_has_one_run_at_a_time(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    in_use = pytest.raises(InputError, match=rf"another process \({os.getpid()}\)")
    with folder.lock(), in_use, folder.lock():
        pass
    with folder.lock():
        pass


def test_processes_of_one_torchrun_share_the_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = RunFolder(tmp_path)
    with folder.lock():
        monkeypatch.setenv("RANK", "1")
        with folder.lock():
            pass


def test_a_lock_whose_file_was_removed_is_taken_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its holder removes the file: whoever has opened it before would hold a lock of nothing."""
    path, calls = tmp_path / "lock", []

    def flock(file: int, how: int) -> None:
        calls.append(file)
        if len(calls) == 1:
            path.unlink()

    monkeypatch.setattr(locks.fcntl, "flock", flock)
    with hold_lock(path, "it", "wait"):
        assert len(calls) == 2
        assert path.read_text() == str(os.getpid())


def test_where_nothing_can_be_locked_the_run_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unsupported(file: int, how: int) -> None:
        raise OSError(errno.ENOLCK, "no locks here")

    with monkeypatch.context() as patched:
        patched.setattr(locks.fcntl, "flock", unsupported)
        with hold_lock(tmp_path / "lock", "it", "wait"):
            pass
    monkeypatch.setattr(locks, "fcntl", None)
    with hold_lock(tmp_path / "lock", "it", "wait"):
        pass


def test_a_folder_to_which_nothing_was_written_goes_again(tmp_path: Path) -> None:
    (tmp_path / "old").mkdir()
    for name, written, stays in (("a", False, False), ("b", True, True), ("old", False, True)):
        folder = RunFolder(tmp_path / name)
        with folder.lock():
            if written:
                folder.append(row())
        assert folder.path.exists() == stays


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "run").touch()
    with pytest.raises(InputError, match="is a file"), RunFolder(tmp_path / "run").lock():
        pass


# -- rows -----------------------------------------------------------------------------------------


def test_a_row_is_appended_once(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    for trial in (0, 1, 0):
        folder.append(row(trial=trial, seconds=float(trial)))
    assert [one.trial for one in folder.rows()] == [0, 1]
    assert len(folder.results.read_bytes().splitlines()) == 2


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b'{"recipe": "r"}', "it has no dataset"),
        (b"[]", "it is not a JSON object"),
        (b"3", "it is not a JSON object"),
        (b'{"recipe": ', "JSON|unexpected|EOF"),
        (orjson.dumps(vars(row()) | {"labeled": "10"}), "its labeled is '10'"),
        (orjson.dumps(vars(row()) | {"accuracy": [1]}), r"its accuracy is \[1\]"),
        (orjson.dumps(vars(row()) | {"more": 1}), "'more' is not one of its fields"),
    ],
)
def test_a_bad_line_is_refused_by_its_number(tmp_path: Path, line: bytes, reason: str) -> None:
    good = orjson.dumps(vars(row()))
    path = tmp_path / "results.jsonl"
    path.write_bytes(good + b"\n\n" + line + b"\n")
    with pytest.raises(
        InputError, match=rf"results.jsonl, line 3, is not a results row \(.*({reason}).*; remove"
    ):
        read_rows(path)


def test_whoever_locks_a_run_removes_what_killed_writers_left_in_it(tmp_path: Path) -> None:
    folder = tmp_path / "checkpoints"
    folder.mkdir()
    for place in (tmp_path, folder):
        (place / ".s.safetensors.tmp-0123abcd").write_bytes(b"half")
        (place / ".mine.tmp").write_bytes(b"kept")
    with temporary_sibling(folder / "at-work") as held, RunFolder(tmp_path).lock():
        assert sorted(path.name for path in folder.iterdir()) == [held.name, ".mine.tmp"]
        assert not (tmp_path / ".s.safetensors.tmp-0123abcd").exists()
    assert (tmp_path / ".mine.tmp").exists()


def test_only_a_last_line_that_was_cut_off_is_ignored(tmp_path: Path) -> None:
    good, path = orjson.dumps(vars(row())), tmp_path / "results.jsonl"
    for cut in (1, len(good) // 2, good.index(b"},") + 2, len(good) - 1):
        path.write_bytes(good + b"\n" + good[:cut])
        assert read_rows(path) == [row(finished_at=read_rows(path)[0].finished_at)]
    path.write_bytes(good + b"\n" + good)  # only its end is missing
    assert len(read_rows(path)) == 1
    path.write_bytes(good + b'\n{"a": 1}')  # whole, and not a row
    with pytest.raises(InputError, match="line 2"):
        read_rows(path)
    for bit in range(8):  # its line break is damaged, and it was finished
        path.write_bytes(good + b"\n" + good + bytes([ord("\n") ^ 1 << bit]))
        with pytest.raises(InputError, match="line 2, is not a results row"):
            read_rows(path)


@pytest.mark.parametrize("path", sorted(RESULTS.glob("*.jsonl")), ids=lambda path: path.name)
def test_published_rows_read(path: Path) -> None:
    assert len(read_rows(path)) > 0
