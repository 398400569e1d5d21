"""Networks of the user's own in the engine: trained, resumed and refused like ours."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from toy import CLASSES, FEATURES, Everything, Net, PlainCE, _Net, make_toy, small

from noisyteacher.core.errors import InputError
from noisyteacher.models import CustomModel, MobileNet, synchronize
from noisyteacher.train import check_model, engine, train
from noisyteacher.train.predict import label
from noisyteacher.train.student_run import StudentRun


@pytest.fixture(scope="module")
def toy():
    return make_toy()


class Own(nn.Module):
    """Without an embedding of its own, with batch norm and dropout."""

    def __init__(self, outputs: int = CLASSES) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(FEATURES, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.1)
        )
        self.head = nn.Linear(16, outputs)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.layers(x))


class Embeds(Own):
    def embed(self, x: Tensor) -> Tensor:
        return self.layers(x)


def custom(source: Any) -> CustomModel:
    return CustomModel(source, classes=CLASSES)


def test_the_same_network_trains_bit_for_bit_as_ours(toy) -> None:
    for method in (PlainCE(), Everything()):
        ours, theirs = (
            train(toy.job("s", method, seed=3, model=model), toy.data, small(3), quiet=True)[0]
            for model in (Net(), custom(partial(_Net, Net())))
        )
        assert ours.history.curve == theirs.history.curve
        assert set(ours.state) == set(theirs.state)
        for name, value in ours.state.items():
            assert torch.equal(theirs.state[name], value), name


def test_training_starts_from_the_weights_that_a_module_carries(toy) -> None:
    module = Own()
    nn.init.constant_(module.head.bias, 7.0)
    (student,) = train(
        toy.job("s", PlainCE(), model=custom(module)), toy.data, small(1), minutes=0, quiet=True
    )
    assert not student.finished
    for name, value in module.state_dict().items():
        assert torch.equal(student.state[name], value), name


def test_methods_that_need_embeddings_take_those_of_embed(toy) -> None:
    (student,) = train(
        toy.job("s", Everything(), model=custom(Embeds)), toy.data, small(8), quiet=True
    )
    assert student.accuracy.last is not None
    assert student.accuracy.last > 80


def test_networks_that_do_not_fit_are_refused_before_training(toy, monkeypatch) -> None:
    monkeypatch.setattr(engine, "_one_window", lambda *_: pytest.fail("trained"))

    def refused(source: Any, method: Any, told: str) -> None:
        job = toy.job("s", method, model=custom(source))
        with pytest.raises(InputError, match=told):
            train(job, toy.data, small(1), quiet=True)
        with pytest.raises(InputError, match=told):
            check_model(custom(source), toy.data, [method])

    refused(Own, Everything(), r"Everything\(.* needs the student's embedding, and .*:Own has no")
    refused(partial(Own, 2), PlainCE(), r"shape \(2, 2\) .*it must be \(2, 3\)")
    refused(partial(nn.Linear, 4, 3), PlainCE(), r"Linear fails on a batch of shape \(2, 6\)")
    check_model(custom(Own), toy.data, [PlainCE()])
    check_model(Net(classes=9), toy.data)  # ours are checked elsewhere


def test_a_resumed_network_goes_on_bit_for_bit(toy, tmp_path: Path) -> None:
    job = toy.job("s", PlainCE(), model=custom(Own))
    (whole,) = train(job, toy.data, small(4), quiet=True)
    train(job, toy.data, small(4), out=tmp_path, minutes=0, quiet=True)
    (resumed,) = train(job, toy.data, small(4), out=tmp_path, quiet=True)
    assert resumed.history.curve == whole.history.curve
    for name, value in whole.state.items():
        assert torch.equal(resumed.state[name], value)
    for other in (Embeds, partial(Own, CLASSES), Own()):
        again = toy.job("s", PlainCE(), model=custom(other))
        if other is Embeds or isinstance(other, nn.Module):
            with pytest.raises(InputError, match="belongs to another run"):
                train(again, toy.data, small(4), out=tmp_path, quiet=True)
        else:
            train(again, toy.data, small(4), out=tmp_path, quiet=True)


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = (nn.Linear(FEATURES, FEATURES) for _ in range(2))
        self.second.weight = self.first.weight
        self.head = nn.Linear(FEATURES, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.second(self.first(x).relu()))


def test_tied_weights_stay_tied_through_a_checkpoint(toy, tmp_path: Path) -> None:
    job = toy.job("s", PlainCE(), model=custom(Tied))
    (whole,) = train(job, toy.data, small(2), quiet=True)
    train(job, toy.data, small(2), out=tmp_path, minutes=0, quiet=True)
    (resumed,) = train(job, toy.data, small(2), out=tmp_path, quiet=True)
    assert torch.equal(resumed.state["second.weight"], resumed.state["first.weight"])
    assert torch.equal(resumed.state["first.weight"], whole.state["first.weight"])


@pytest.mark.parametrize("source", [Own, Embeds])
def test_it_labels_as_ours_do(toy, source: Any) -> None:
    spec = custom(source)
    torch.manual_seed(0)
    network = spec.build().eval()
    labels = label(
        network,
        toy.data.inputs,
        toy.data.views,
        ids=np.arange(len(toy.data.inputs)),
        embeddings=source is Embeds,
    )
    with torch.no_grad():
        wanted = network(toy.data.inputs).softmax(1).numpy()
    np.testing.assert_allclose(labels.probs, wanted, atol=2e-3)
    assert ("embedding" in labels.extras) == (source is Embeds)


def test_what_cannot_be_captured_is_trained_eagerly_with_one_message(
    toy, monkeypatch, capsys
) -> None:
    """Simulated: a GPU on which no graph can hold the user's network."""
    tried = []

    class OnGpu(engine.StudentRun):
        def __init__(self, *args: Any) -> None:
            super().__init__(*args)
            self.on_gpu = True

        def capture(self) -> None:
            tried.append(self.job.name)

        def try_capture(self) -> str | None:
            self.capture()
            return "operation not permitted when stream is capturing"

    monkeypatch.setattr(engine, "StudentRun", OnGpu)
    models = {"a": custom(Own), "b": custom(Own), "ours": Net()}
    jobs = [toy.job(name, PlainCE(), model=model) for name, model in models.items()]
    students = train(jobs, toy.data, small(1))
    assert tried == ["a", "ours"]
    assert all(student.finished for student in students)
    printed = capsys.readouterr().err
    assert printed.count("Own cannot be captured in a CUDA graph (operation not permitted") == 1


def test_batch_norms_of_the_users_own_are_synchronized_too() -> None:
    network = custom(Own).build()
    synchronize(network)
    norms = [m for m in network.modules() if isinstance(m, nn.modules.batchnorm._BatchNorm)]
    assert [type(norm) for norm in norms] == [nn.SyncBatchNorm]
    ours = MobileNet(width=0.25).build()
    synchronize(ours)
    assert not any(type(module) is nn.SyncBatchNorm for module in ours.modules())


def test_only_a_capture_that_is_impossible_is_done_without(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("current_stream", "set_stream", "synchronize"):
        monkeypatch.setattr(torch.cuda, name, lambda *arguments: None)
    run = object.__new__(StudentRun)
    run.device = torch.device("cpu")

    def capture() -> None:
        raise RuntimeError(f"operation {told}\nmore lines")

    monkeypatch.setattr(run, "capture", capture, raising=False)
    told = "not permitted when stream is capturing"
    assert run.try_capture() == f"operation {told}"
    told = "failed for another reason"
    with pytest.raises(RuntimeError, match="another reason"):
        run.try_capture()
