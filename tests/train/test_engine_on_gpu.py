"""The captured path: it must do what the plain path does, many students at a time."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from toy import CLASSES, FEATURES, Everything, Net, PlainCE, TurnsNaN, make_toy, small

from noisyteacher.models import CustomModel
from noisyteacher.train import SGD, engine, train
from noisyteacher.train.distributed import Processes
from noisyteacher.train.job import DeviceData
from noisyteacher.train.student_run import StudentRun

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]
MODEL = Net(dropout=0.0)  # dropout draws from one generator for all students of a cohort


@pytest.mark.parametrize("optimizer", [None, SGD(lr=0.05)])
@pytest.mark.parametrize("method", [PlainCE(), Everything()])
def test_captured_steps_equal_eager_steps(method, optimizer) -> None:
    toy = make_toy()
    changes = {} if optimizer is None else {"optimizer": optimizer}
    config = small(3, precision="float32", **changes)
    states, predictions = [], []
    for captured in (False, True):
        data = DeviceData.build(toy.data, torch.device("cuda"))
        run = StudentRun(toy.job("s", method, model=MODEL), data, config, Processes())
        if captured:
            run.capture()
        for epoch in range(config.epochs):
            run.start_epoch(epoch)
            for step in range(run.steps):
                run.advance(step)
            run.launch_evaluation()
            run.join_stream()
        states.append(run.state())
        predictions.append(run.predictions())
    for name, value in states[0].items():
        torch.testing.assert_close(states[1][name], value, rtol=1e-4, atol=1e-5, msg=name)
    for eager, replayed in zip(*predictions, strict=True):
        assert len(eager)
        assert (eager == replayed).mean() > 0.95


def test_cohort_equals_students_alone() -> None:
    toy = make_toy()
    config = small(3, precision="float32")
    methods = [PlainCE(), Everything(), PlainCE(), Everything(every=1)]
    jobs = [toy.job(str(i), m, seed=i, model=MODEL) for i, m in enumerate(methods)]
    together = train(jobs, toy.data, config, device="cuda", quiet=True)
    for job, student in zip(jobs, together, strict=True):
        (alone,) = train(job, toy.data, config, device="cuda", quiet=True)
        for name, value in alone.state.items():
            torch.testing.assert_close(student.state[name], value, rtol=1e-4, atol=1e-5)


def test_resume_and_nan_in_a_cohort(tmp_path: Path) -> None:
    toy = make_toy()
    jobs = [
        toy.job("bad", TurnsNaN(after=0.5), model=MODEL),
        toy.job("good", Everything(), model=MODEL),
    ]
    config = small(4, precision="float32")
    whole = train(jobs, toy.data, config, device="cuda", quiet=True)
    train(jobs, toy.data, config, out=tmp_path, device="cuda", minutes=0, quiet=True)
    bad, good = train(jobs, toy.data, config, out=tmp_path, device="cuda", quiet=True)
    assert bad.history.failed
    assert not bad.finished
    assert good.finished
    for name, value in whole[1].state.items():
        torch.testing.assert_close(good.state[name], value, rtol=1e-4, atol=1e-5)


class Own(nn.Module):
    """A user's network; with ``asks`` it waits for the device, which no graph can hold."""

    def __init__(self, asks: bool = False) -> None:
        super().__init__()
        self.asks = asks
        self.body = nn.Sequential(nn.Linear(FEATURES, 16), nn.BatchNorm1d(16), nn.ReLU())
        self.drop, self.head = nn.Dropout(0.1), nn.Linear(16, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        if self.asks and float(x.sum()) > 1e9:
            x = x * 0
        return self.head(self.drop(self.body(x)))


def own(asks: bool) -> CustomModel:
    return CustomModel(partial(Own, asks), classes=CLASSES)


def test_a_network_of_the_users_own_is_captured(capsys) -> None:
    toy = make_toy()
    config = small(6, precision="float32")
    (captured,) = train(
        toy.job("s", PlainCE(), model=own(asks=False)), toy.data, config, device="cuda"
    )
    assert captured.accuracy.last > 70
    assert "cannot be captured" not in capsys.readouterr().err


@pytest.mark.parametrize("asks", [False, True])
def test_dropout_does_not_depend_on_the_rest_of_the_cohort(asks: bool) -> None:
    toy = make_toy()
    config = small(3, precision="float32")
    jobs = [toy.job(str(i), PlainCE(), seed=i, model=own(asks)) for i in range(3)]
    together = train(jobs, toy.data, config, device="cuda", quiet=True)
    (alone,) = train(jobs[1], toy.data, config, device="cuda", quiet=True)
    for name, value in alone.state.items():
        torch.testing.assert_close(together[1].state[name], value, rtol=1e-4, atol=1e-5)


def test_a_network_that_no_graph_can_hold_is_trained_without_one(capsys) -> None:
    toy = make_toy()
    config = small(6, precision="float32")
    jobs = [toy.job(str(i), PlainCE(), seed=i, model=own(asks=True)) for i in range(3)]
    students = train(jobs, toy.data, config, device="cuda")
    assert all(student.finished and student.accuracy.last > 70 for student in students)
    assert capsys.readouterr().err.count("cannot be captured in a CUDA graph") == 1
    # What the failed capture left behind must not harm the students after it.
    (again,) = train(jobs[0], toy.data, config, device="cuda", quiet=True)
    for name, value in students[0].state.items():
        torch.testing.assert_close(again.state[name], value, rtol=1e-4, atol=1e-5)
    (ours,) = train(
        toy.job("ours", PlainCE(), model=Net(dropout=0.1)),
        toy.data,
        config,
        device="cuda",
        quiet=True,
    )
    assert ours.finished


@pytest.mark.parametrize("method", [PlainCE(), Everything(every=1)])
def test_windows_hold_what_the_device_would_hold(method, monkeypatch) -> None:
    """One window of everything, against no window; four that are read ahead, against no graph."""
    toy, config = make_toy(), small(3, precision="float32")

    def trained(rows: int | None, captured: bool = True) -> dict[str, Tensor]:
        with monkeypatch.context() as patch:
            patch.setattr(engine, "_window", lambda *_: rows)
            if not captured:
                patch.setattr(engine._Runner, "_capture", lambda *_: None)
            job = toy.job("s", method, model=MODEL)
            return train(job, toy.data, config, device="cuda", quiet=True)[0].state

    for one, other in (
        (trained(240), trained(None)),
        (trained(60), trained(60, captured=False)),
    ):
        for name, value in other.items():
            torch.testing.assert_close(one[name], value, rtol=1e-4, atol=1e-5, msg=name)
