"""Every method trains in the real engine: columns, modules, refresh, views and all."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from toy import CLASSES, TRAIN, Net, make_toy, small

from noisyteacher.labels import TeacherLabels
from noisyteacher.methods import ALL_METHODS, Fidelity, Method, SelfTraining, SLaM, Temperature
from noisyteacher.train import train
from noisyteacher.train.tune import expand

ARGUMENTS = {
    Fidelity: {"beta": 1.0, "inner": SLaM(k=2)},
    Temperature: {"t_a": 1.0, "t_b": 2.0, "inner": SLaM(k=2)},
}
# Self-training is solved, for linear students alone (tests/choose/test_self_training.py).
METHODS = [kind(**ARGUMENTS.get(kind, {})) for kind in ALL_METHODS if kind is not SelfTraining]


@pytest.fixture(scope="module")
def toy():
    """The toy problem with every extra that a method may ask of a store."""
    plain = make_toy()
    rng = np.random.default_rng(1)
    mean = rng.dirichlet(np.ones(CLASSES), (TRAIN, 2)).astype(np.float32)
    extras = plain.labels.extras | {"view_mean": mean, "view_std": 0.02 * mean}
    labels = TeacherLabels.from_probs(plain.labels.ids, plain.labels.probs, extras=extras)
    return type(plain)(plain.data, plain.y, labels)


@pytest.mark.parametrize("method", METHODS, ids=repr)
def test_it_trains(toy, method: Method) -> None:
    torch.manual_seed(0)
    init = Net().build().state_dict()
    (student,) = train(toy.job("s", method, init=init), toy.data, small(2), quiet=True)
    assert student.finished, student.history.failed
    assert all(math.isfinite(record.loss) for record in student.history.curve)
    moved = [not torch.equal(student.state[name], value) for name, value in init.items()]
    assert any(moved)


@pytest.mark.parametrize("method", METHODS, ids=repr)
def test_its_grids_expand(method: Method) -> None:
    for grid in (method.grid, *method.other_grids.values()):
        if grid:
            assert len(expand(method, grid)) == math.prod(len(values) for values in grid.values())
