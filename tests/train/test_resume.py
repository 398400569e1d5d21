"""Killed at any moment and started again, a run ends bit-identical to one never killed."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from toy import Net, NoisyViews, PlainCE, make_toy, small

from noisyteacher.core.errors import InputError
from noisyteacher.labels import TeacherLabels
from noisyteacher.train import engine, train
from noisyteacher.train.checkpoint import checkpoint_path, read_history

SCRIPT = Path(__file__).with_name("run_toy.py")


def start(folder: Path) -> subprocess.Popen[bytes]:
    folder.mkdir(exist_ok=True)
    return subprocess.Popen([sys.executable, str(SCRIPT), str(folder), "resume"])


def run_to_the_end(folder: Path) -> dict[str, dict[str, torch.Tensor]]:
    assert start(folder).wait(timeout=120) == 0
    return {n: load_file(folder / f"{n}.final.safetensors") for n in ("first", "second")}


def test_kill_and_resume_is_bit_identical(tmp_path: Path) -> None:
    expected = run_to_the_end(tmp_path / "whole")
    folder = tmp_path / "killed"
    draw = random.Random(0)
    for _ in range(2):
        process = start(folder)
        checkpoint = folder / "checkpoints" / "first.safetensors"
        before = checkpoint.stat().st_mtime_ns if checkpoint.exists() else 0
        deadline = time.monotonic() + 60
        # Wait until it made progress of its own, then strike at a random moment.
        while time.monotonic() < deadline and process.poll() is None:
            if checkpoint.exists() and checkpoint.stat().st_mtime_ns > before:
                break
            time.sleep(0.005)
        time.sleep(draw.uniform(0, 0.1))
        os.kill(process.pid, signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL, "it finished before it could be killed"
    resumed = run_to_the_end(folder)
    for name, state in expected.items():
        for key, value in state.items():
            assert torch.equal(value, resumed[name][key]), f"{name} {key}"
    assert not list(folder.rglob(".*safetensors*")), "a half-written checkpoint was left behind"


def test_finished_students_are_not_trained_again(tmp_path: Path) -> None:
    toy = make_toy()
    job = toy.job("s", PlainCE())
    (first,) = train(job, toy.data, small(2), out=tmp_path, quiet=True)

    class Untouchable(PlainCE):
        def loss(self, *args):
            raise AssertionError("trained twice")

    Untouchable.__name__ = "PlainCE"
    (again,) = train(toy.job("s", Untouchable()), toy.data, small(2), out=tmp_path, quiet=True)
    assert again.finished
    assert again.history == first.history
    assert read_history(checkpoint_path(tmp_path, "s")) == first.history
    assert read_history(checkpoint_path(tmp_path, "other")) is None
    for key, value in first.state.items():
        assert torch.equal(value, again.state[key])


def test_checkpoints_are_written_every_so_many_epochs_and_at_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    saved: list[int] = []
    monkeypatch.setattr(engine, "save_checkpoint", lambda p, s, told: saved.append(len(told.curve)))
    toy = make_toy()
    config = replace(small(5), checkpoint_every=2)
    train(toy.job("s", PlainCE()), toy.data, config, out=tmp_path, quiet=True)
    assert list(dict.fromkeys(saved)) == [2, 4, 5]


def test_a_checkpoint_of_another_run_is_refused(tmp_path: Path) -> None:
    toy = make_toy()
    train(toy.job("s", PlainCE()), toy.data, small(2), out=tmp_path, quiet=True)
    with pytest.raises(InputError, match="belongs to another run"):
        train(toy.job("s", PlainCE(), seed=9), toy.data, small(2), out=tmp_path, quiet=True)


def test_other_teacher_labels_of_the_same_rows_are_another_run(tmp_path: Path) -> None:
    toy = make_toy()
    train(toy.job("s", PlainCE()), toy.data, small(2), out=tmp_path, quiet=True)
    flipped = TeacherLabels.from_probs(
        toy.labels.ids, toy.labels.probs[:, ::-1], extras=toy.labels.extras
    )
    job = replace(toy, labels=flipped).job("s", PlainCE())
    with pytest.raises(InputError, match="belongs to another run"):
        train(job, toy.data, small(2), out=tmp_path, quiet=True)


def test_other_inputs_of_the_same_rows_are_another_run(tmp_path: Path) -> None:
    """Another preprocessing, say: students of the old one would pass for finished."""
    toy = make_toy()
    job = toy.job("s", PlainCE())
    train(job, toy.data, small(2), out=tmp_path, quiet=True)
    train(job, toy.data, small(2), out=tmp_path, quiet=True)
    others = {
        "inputs": toy.data.inputs * 2,
        "test_inputs": toy.data.test_inputs + 1,
        "views": NoisyViews(has_strong=False),
        "test_y": toy.data.test_y[::-1],
    }
    for name, value in others.items():
        changed = replace(toy.data, **{name: value})
        with pytest.raises(InputError, match="belongs to another run"):
            train(job, changed, small(2), out=tmp_path, quiet=True)


def test_a_model_without_a_name_of_its_own_is_known_again(tmp_path: Path) -> None:
    class Plain:
        def build(self) -> torch.nn.Module:
            return Net().build()

    toy = make_toy()
    for _ in range(2):
        job = replace(toy.job("s", PlainCE()), model=Plain())
        (done,) = train(job, toy.data, small(2), out=tmp_path, quiet=True)
    assert done.finished


def test_a_truncated_checkpoint_is_named(tmp_path: Path) -> None:
    toy = make_toy()
    train(toy.job("s", PlainCE()), toy.data, small(2), out=tmp_path, quiet=True)
    path = tmp_path / "checkpoints" / "s.safetensors"
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(
        InputError, match=r"s\.safetensors is damaged: .* delete it to train this student anew"
    ):
        train(toy.job("s", PlainCE()), toy.data, small(2), out=tmp_path, quiet=True)


def test_a_full_disk_keeps_the_last_checkpoint(tmp_path: Path, monkeypatch) -> None:
    toy = make_toy()
    train(toy.job("s", PlainCE()), toy.data, small(2), out=tmp_path, quiet=True, minutes=None)
    path = tmp_path / "checkpoints" / "s.safetensors"
    before = path.read_bytes()

    def no_space(fd: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", no_space)
    from noisyteacher.train.checkpoint import History, save_checkpoint

    with pytest.raises(OSError, match="No space left"):
        save_checkpoint(path, {"x": torch.zeros(3)}, History("f"))
    assert path.read_bytes() == before
    assert [p.name for p in path.parent.iterdir()] == ["s.safetensors"]
