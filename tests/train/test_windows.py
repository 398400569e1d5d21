"""Training in windows: the same students as with everything on the device, and resumed anywhere."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from toy import CLASSES, TEST, TRAIN, Everything, NoisyViews, PlainCE, TurnsNaN, make_toy, small

from noisyteacher.core.errors import InputError
from noisyteacher.data.image_views import ImageViews
from noisyteacher.data.tensors import image_tensor
from noisyteacher.methods import UPS, Columns, Consistency, Temperature, Vanilla
from noisyteacher.models import ResNetCifar
from noisyteacher.train import TrainData, Trained, engine, train
from noisyteacher.train.distributed import Processes
from noisyteacher.train.windows import WindowPlan, WindowReader


@pytest.fixture(scope="module")
def toy():
    return make_toy()


@pytest.fixture
def windows(monkeypatch: pytest.MonkeyPatch):
    def of(rows: int | None) -> None:
        monkeypatch.setattr(engine, "_window", lambda *_: rows)
        monkeypatch.setattr(engine, "SAVE_SECONDS", 0.0)

    return of


def same(one: Trained, other: Trained) -> None:
    assert one.state.keys() == other.state.keys()
    for name, value in one.state.items():
        assert torch.equal(value, other.state[name]), name
    assert one.history.curve == other.history.curve
    assert one.history.macro_f1 == other.history.macro_f1


# -- which rows ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("rows", "size", "repeat"), [(1000, 100, 1), (1003, 320, 3), (64, 10, 2)])
def test_every_row_is_in_one_window_of_an_epoch(rows: int, size: int, repeat: int) -> None:
    y = np.where(np.arange(rows) % 9 == 4, 1, -1)
    steps = -(-rows // 8)
    plan = WindowPlan(y, repeat, steps, size)
    assert plan.count == -(-rows // size)
    epochs = []
    for epoch in range(3):
        found = [plan.window(7, epoch, number) for number in range(plan.count)]
        entries = np.concatenate([window.rows[window.places] for window in found])
        wanted = np.repeat(np.arange(rows), np.where(y >= 0, repeat, 1))
        np.testing.assert_array_equal(np.sort(entries), wanted)
        first = 0
        for window in found:
            assert (np.diff(window.rows) > 0).all()
            assert len(window.rows) <= plan.most_rows <= 1.2 * size + plan.count * repeat
            assert window.first == first
            assert 0 <= window.steps <= plan.most_steps
            assert abs(window.steps - steps * len(window.places) / len(entries)) <= 1
            first += window.steps
            gold = (y[window.rows[window.places]] >= 0).sum()
            assert abs(gold - (y >= 0).sum() * repeat / plan.count) < 1
        assert first == steps
        epochs.append(entries.tolist())
        again = plan.window(7, epoch, 1)
        np.testing.assert_array_equal(again.rows, found[1].rows)
    assert epochs[0] != epochs[1] != epochs[2]
    assert plan.window(8, 0, 0).rows.tolist() != plan.window(7, 0, 0).rows.tolist()


def test_a_window_holds_blocks_from_everywhere() -> None:
    """A pool that is sorted by class must not be read class after class."""
    rows = WindowPlan(np.full(10_000, -1), 1, 100, 1000).window(0, 0, 0).rows
    assert (np.diff(rows) == 1).mean() > 0.9  # neighbors, read in one go
    assert len(np.unique(rows // 1000)) >= 8


def test_rows_arrive_as_they_were(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    images = rng.integers(0, 255, (50, 3, 3, 3)).astype(np.uint8)
    np.save(tmp_path / "images.npy", images)
    stored = image_tensor(np.load(tmp_path / "images.npy", mmap_mode="r"))
    positions = rng.permutation(50)[:40]
    columns = Columns(torch.arange(40), torch.arange(40), torch.rand(40), {"a": torch.rand(40, 2)})
    reader = WindowReader(stored, columns, positions, 20, torch.device("cpu"))
    assert reader.inputs.stride()[1:] == stored.stride()[1:]
    for ahead, rows in ((None, [3, 5, 9]), ([1, 2], [1, 2]), ([4], [7, 8, 30])):
        if ahead is not None:
            reader.prefetch(tuple(ahead), np.array(ahead))
        reader.load(tuple(rows), np.array(rows))
        n = len(rows)
        assert torch.equal(reader.inputs[:n], stored[torch.from_numpy(positions[rows])])
        assert torch.equal(reader.columns.y[:n], columns.y[rows])
        assert torch.equal(reader.columns.weight[:n], columns.weight[rows])
        assert torch.equal(reader.columns.values["a"][:n], columns.values["a"][rows])


# -- training --------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", [PlainCE(), Everything(every=1)])
@pytest.mark.parametrize("repeat", [1, 3])
def test_a_window_of_the_whole_pool_changes_nothing(toy, windows, method, repeat: int) -> None:
    config = small(3, gold_repeat=repeat)
    students = []
    for rows in (None, TRAIN):
        windows(rows)
        students += train(toy.job("s", method, seed=1), toy.data, config, quiet=True)
    same(*students)


def test_so_do_images(toy, windows) -> None:
    images = np.random.default_rng(0).integers(0, 255, (TRAIN + TEST, 8, 8, 3)).astype(np.uint8)
    data = TrainData(
        image_tensor(images[:TRAIN]),
        ImageViews((0.5,) * 3, (0.5,) * 3),
        CLASSES,
        image_tensor(images[TRAIN:]),
        toy.data.test_y,
    )
    job = toy.job("s", Consistency(inner=Vanilla()), model=ResNetCifar(depth=8, classes=CLASSES))
    students = []
    for rows in (None, TRAIN):
        windows(rows)
        students += train(job, data, small(1, steps_per_epoch=3), quiet=True)
    same(*students)


@pytest.mark.parametrize("method", [PlainCE(), Everything(every=1)])
def test_students_learn_in_windows(toy, windows, method) -> None:
    windows(24)
    (student,) = train(toy.job("s", method), toy.data, small(12), quiet=True)
    assert student.finished
    assert student.accuracy.last > 80
    assert student.history.examples == 12 * 32 * (5 if isinstance(method, Everything) else 7)


class Killed(BaseException):
    """As sudden as a signal: nothing is cleaned up or saved."""


def test_killed_at_any_step_and_resumed(toy, windows, tmp_path: Path) -> None:
    windows(60)
    config, method = small(2), Everything(every=1)
    (whole,) = train(toy.job("s", method), toy.data, config, quiet=True)
    places = set()
    for last in range(1, 10):
        steps = itertools.count(1)

        class Dies(Everything, register=False):
            def loss(self, *arguments, steps=steps, last=last):
                if next(steps) > last:
                    raise Killed
                return super().loss(*arguments)

        Dies.__name__ = "Everything"
        out = tmp_path / str(last)
        with pytest.raises(Killed):
            train(toy.job("s", Dies(every=1)), toy.data, config, out=out, quiet=True)
        (rest,) = train(toy.job("s", method), toy.data, config, out=out, minutes=0, quiet=True)
        places.add((rest.history.epochs_done, rest.history.windows_done))
        (again,) = train(toy.job("s", method), toy.data, config, out=out, quiet=True)
        same(whole, again)
    assert places == {(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2)}


def test_minutes_stop_between_windows(toy, windows, tmp_path: Path, monkeypatch) -> None:
    windows(60)
    job, now, one_window = toy.job("s", PlainCE()), 0.0, engine._one_window

    def forty_seconds(*arguments: object) -> None:
        nonlocal now
        one_window(*arguments)
        now += 40

    monkeypatch.setattr(engine, "time", SimpleNamespace(monotonic=lambda: now))
    monkeypatch.setattr(engine, "_one_window", forty_seconds)
    (part,) = train(job, toy.data, small(2), out=tmp_path, minutes=1.5, quiet=True)
    assert (part.history.epochs_done, part.history.windows_done) == (0, 2)
    (done,) = train(job, toy.data, small(2), out=tmp_path, quiet=True)
    (whole,) = train(job, toy.data, small(2), quiet=True)
    same(whole, done)


def test_another_window_is_another_run(toy, windows, tmp_path: Path) -> None:
    for rows in (60, 70):
        windows(rows)
        if rows == 70:
            with pytest.raises(InputError, match="belongs to another run"):
                train(toy.job("s", PlainCE()), toy.data, small(2), out=tmp_path, quiet=True)
        else:
            train(toy.job("s", PlainCE()), toy.data, small(2), out=tmp_path, quiet=True)


def test_a_nan_keeps_the_weights_of_the_window_before(toy, windows, capsys) -> None:
    windows(60)
    (student,) = train(toy.job("s", TurnsNaN(after=0.7)), toy.data, small(2))
    assert "the weights of window 1 of epoch 2 are kept" in capsys.readouterr().err
    assert all(value.isfinite().all() for value in student.state.values())


def test_the_engine_chooses_and_says_so(toy, capsys) -> None:
    job, data = toy.job("s", PlainCE()), toy.data
    assert data.row_bytes == 24
    assert job.prepared.columns.row_bytes == 8 + 4 + 4 * CLASSES
    train(job, data, small(1), max_memory=24 * TRAIN / 1e9)
    assert "windows" not in capsys.readouterr().err
    train(job, data, small(1), max_memory=(24 * TRAIN - 1) / 1e9)
    said = capsys.readouterr().err
    assert (
        "The inputs take 5.76e-06 GB, and 5.76e-06 GB may be used on the device, so they are read "
        "in windows of 29 rows." in said
    )


def test_inputs_in_a_file_stay_there(toy, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", toy.data.inputs.numpy())
    mapped = torch.from_numpy(np.load(tmp_path / "x.npy", mmap_mode="c"))
    data = replace(toy.data, inputs=mapped)
    students = []
    for given in (toy.data, data):
        students += train(toy.job("s", PlainCE()), given, small(2), max_memory=5e-6, quiet=True)
    same(*students)


def test_strong_views_are_still_asked_for(toy, windows) -> None:
    windows(60)
    data = replace(toy.data, views=NoisyViews(has_strong=False))
    with pytest.raises(InputError, match="needs a strong view"):
        train(toy.job("s", Everything()), data, small(1), quiet=True)


def test_several_processes_refuse_means_over_groups_of_a_batch() -> None:
    two = Processes(0, 2)
    for method in (UPS(), Temperature(2.0, 1.0, inner=UPS())):
        Processes().check_method(method)
        with pytest.raises(InputError, match=r"UPS\(\) normalizes its loss by the whole batch"):
            two.check_method(method)
    two.check_method(UPS(binary=True))
    two.check_method(Vanilla())
