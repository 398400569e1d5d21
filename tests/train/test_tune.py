"""Hyper-parameters are chosen on S, and on the test part only by name."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from toy import PlainCE, make_toy, small

from noisyteacher.core.errors import InputError
from noisyteacher.methods import Calibrated, SLaM, TaylorCE
from noisyteacher.train import TrainData
from noisyteacher.train.tune import expand, tune


@dataclass(frozen=True, repr=False)
class Scaled(PlainCE):
    """At scale 0 nothing is learned; at 1 it is plain cross-entropy."""

    scale: float = 1.0

    def loss(self, *args):
        return self.scale * super().loss(*args)


@pytest.fixture(scope="module")
def toy():
    return make_toy()


def make(toy):
    return lambda method: toy.job(repr(method), method)


def test_the_best_on_s_wins(toy) -> None:
    grid = {"scale": (0.0, 1.0)}
    tuned = tune(Scaled(), grid, make(toy), toy.data, small(6), quiet=True)
    assert tuned.best == Scaled(scale=1.0)
    assert tuned.judged_on == "S"
    assert dict(tuned.scores)[Scaled(scale=0.0)] < dict(tuned.scores)[Scaled(scale=1.0)]


def test_the_test_part_is_not_looked_at(toy) -> None:
    """With the test labels shuffled the choice stays the same; paper_protocol follows them."""
    chance = np.random.default_rng(0).integers(0, 3, len(toy.data.test_y))
    shuffled = TrainData(toy.data.inputs, toy.data.views, 3, toy.data.test_inputs, chance)
    grid = {"scale": (0.0, 1.0)}
    tuned = tune(Scaled(), grid, make(toy), shuffled, small(6), quiet=True)
    assert tuned.best == Scaled(scale=1.0)
    by_test = tune(Scaled(), grid, make(toy), shuffled, small(6), quiet=True, paper_protocol=True)
    assert by_test.judged_on == "the best test epoch"
    seen = {
        m: max(r.test for r in s.history.curve)
        for (m, _), s in zip(by_test.scores, by_test.students, strict=True)
    }
    assert dict(by_test.scores) == seen


def test_expand_reaches_into_wrappers() -> None:
    found = expand(Calibrated(inner=SLaM()), {"inner.lower_bound": (0.5, 0.6), "inner.k": (2, 3)})
    assert [repr(m) for m in found] == [
        "Calibrated(inner=SLaM(k=2))",
        "Calibrated(inner=SLaM(k=3))",
        "Calibrated(inner=SLaM(lower_bound=0.6, k=2))",
        "Calibrated(inner=SLaM(lower_bound=0.6, k=3))",
    ]


def test_the_papers_grids_expand() -> None:
    assert len(expand(TaylorCE(), TaylorCE.other_grids["imagenet"])) == 11


def test_bad_grids_are_refused(toy) -> None:
    with pytest.raises(InputError, match="empty"):
        expand(SLaM(), {})
    with pytest.raises(InputError, match="no value for 'k'"):
        expand(SLaM(), {"k": ()})
    with pytest.raises(InputError, match="no hyper-parameter 'colour'"):
        expand(SLaM(), {"colour": (1,)})
    none = np.empty(0, np.int64)
    with pytest.raises(InputError, match="selection set S"):
        tune(
            Scaled(),
            {"scale": (1.0,)},
            lambda m: toy.job("s", m, selection=none),
            toy.data,
            small(1),
            quiet=True,
        )
