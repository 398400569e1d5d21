"""Curves go to JSONL always, elsewhere on request; the terminal gets plain lines off a TTY."""

from __future__ import annotations

import io
import re
import sys
from pathlib import Path

import orjson
import pytest
from toy import PlainCE, make_toy, small

from noisyteacher.core.errors import InputError
from noisyteacher.train import train
from noisyteacher.train.track import open_trackers


def test_jsonl_holds_every_epoch(tmp_path: Path) -> None:
    toy = make_toy()
    (student,) = train(toy.job("s", PlainCE()), toy.data, small(3), out=tmp_path, quiet=True)
    rows = [orjson.loads(line) for line in (tmp_path / "curves.jsonl").read_bytes().splitlines()]
    assert [row["epoch"] for row in rows] == [1, 2, 3]
    assert rows[-1]["test"] == student.accuracy.last
    assert {row["student"] for row in rows} == {"s"}


def test_tensorboard_files_appear(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    toy = make_toy()
    job = toy.job("s", PlainCE())
    train(job, toy.data, small(1), out=tmp_path, trackers=["tensorboard"], quiet=True)
    assert list((tmp_path / "tensorboard" / "s").glob("events.out.tfevents.*"))


class Recorder:
    """Stands in for wandb and mlflow, whose calls it writes down."""

    def __init__(self) -> None:
        self.logged: list[object] = []
        self.closed = False

    def init(self, **settings: object) -> Recorder:
        return self

    def log(self, numbers: dict[str, float]) -> None:
        self.logged.append(numbers)

    def finish(self) -> None:
        self.closed = True

    def set_tracking_uri(self, uri: str) -> None:
        assert uri.startswith("file:")

    def start_run(self) -> None:
        pass

    def log_metrics(self, numbers: dict[str, float], step: int) -> None:
        self.logged.append((step, numbers))

    def end_run(self) -> None:
        self.closed = True


@pytest.mark.parametrize("name", ["wandb", "mlflow"])
def test_hosted_trackers_get_the_numbers(tmp_path: Path, monkeypatch, name: str) -> None:
    recorder = Recorder()
    monkeypatch.setitem(sys.modules, name, recorder)
    toy = make_toy()
    train(toy.job("s", PlainCE()), toy.data, small(2), out=tmp_path, trackers=[name], quiet=True)
    assert len(recorder.logged) == 2
    assert "test" in str(recorder.logged[-1])
    assert recorder.closed


@pytest.mark.parametrize(("name", "call"), [("wandb", "init"), ("mlflow", "start_run")])
def test_trackers_never_ask_on_a_terminal(tmp_path: Path, monkeypatch, name: str, call) -> None:
    terminal = io.StringIO("yes\n")
    terminal.isatty = lambda: True  # type: ignore[method-assign]
    recorder, asked = Recorder(), []

    def ask(**settings: object) -> None:
        asked.append(sys.stdin.isatty())
        input("Your key: ")

    monkeypatch.setattr(recorder, call, ask)
    monkeypatch.setitem(sys.modules, name, recorder)
    monkeypatch.setattr(sys, "stdin", terminal)
    with pytest.raises(InputError, match=rf"^{name} does not start \(.*\); (run|check)"):
        open_trackers(tmp_path, [name])
    assert asked == [False]
    assert sys.stdin is terminal
    assert terminal.read() == "yes\n"


def test_a_missing_tracker_names_the_extra(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "wandb", None)
    toy = make_toy()
    with pytest.raises(InputError, match=r"noisyteacher\[track\]"):
        train(toy.job("s", PlainCE()), toy.data, small(1), out=tmp_path, trackers=["wandb"])
    with pytest.raises(InputError, match="Unknown tracker 'comet'"):
        train(toy.job("s", PlainCE()), toy.data, small(1), out=tmp_path, trackers=["comet"])


def test_plain_lines_off_a_terminal(capsys) -> None:
    toy = make_toy()
    train(toy.job("student", PlainCE()), toy.data, small(2))
    printed = capsys.readouterr().err
    assert re.search(r"student: epoch 2 of 2, loss \d\.\d+, test accuracy \d+\.\d+%", printed)
    assert "s left" in printed
    assert "\x1b" not in printed
