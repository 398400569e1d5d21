"""Small students train with one thread: the same student, and the caller's threads come back."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest
import torch
from threadpoolctl import ThreadpoolController
from torch import Tensor, nn
from toy import CLASSES, FEATURES, Net, PlainCE, make_toy, small

from noisyteacher.core.machine import one_thread
from noisyteacher.methods import Batch, GoldOnly, Output, Rows
from noisyteacher.models import MLP, Linear
from noisyteacher.train import train
from noisyteacher.train.solver import solve_linear


@dataclass(frozen=True)
class Counts(PlainCE):
    """Notes how many threads each of its losses had."""

    seen: ClassVar[set[int]] = set()

    def loss(
        self, output: Output, batch: Batch, modules: nn.Module | None, progress: Tensor
    ) -> Tensor:
        self.seen.add(torch.get_num_threads())
        return super().loss(output, batch, modules, progress)


@pytest.fixture(params=[1, 2])
def threads(request: pytest.FixtureRequest) -> Iterator[int]:
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield request.param
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def toy():
    return make_toy()


@pytest.fixture(scope="module")
def alone(toy) -> dict[str, Tensor]:
    """Weights of a student that was trained while the whole process had one thread."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    job = toy.job("s", PlainCE(), model=MLP(FEATURES, CLASSES))
    (student,) = train(job, toy.data, small(2), quiet=True)
    torch.set_num_threads(before)
    return student.state


def test_small_students_are_bit_identical_with_any_number(toy, alone, threads: int) -> None:
    Counts.seen.clear()
    job = toy.job("s", Counts(), model=MLP(FEATURES, CLASSES))
    (student,) = train(job, toy.data, small(2), quiet=True)
    assert Counts.seen == {1}
    assert torch.get_num_threads() == threads
    assert student.state.keys() == alone.keys()
    for name, value in student.state.items():
        assert torch.equal(value, alone[name]), name


def test_other_networks_keep_their_threads(toy, threads: int) -> None:
    Counts.seen.clear()
    both = [
        toy.job("linear", Counts(), model=Linear(FEATURES, CLASSES)),
        toy.job("net", Counts(), model=Net()),
    ]
    train(both, toy.data, small(1), quiet=True)
    assert Counts.seen == {threads}
    assert torch.get_num_threads() == threads


def test_solving_is_bit_identical_and_restores_them(threads: int) -> None:
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(80, 5)), rng.integers(0, 3, 80)
    columns = GoldOnly().prepare(Rows(np.arange(80), y, np.arange(0), y[:0], 3), None, None)

    def solved() -> np.ndarray:
        return solve_linear(x, GoldOnly(), columns, 3, strength=1.0).weight

    found = solved()
    assert torch.get_num_threads() == threads
    torch.set_num_threads(1)
    np.testing.assert_array_equal(found, solved())


@dataclass(frozen=True)
class Fails(PlainCE):
    """Says how many threads it had."""

    def loss(self, *_: object) -> Tensor:
        raise ZeroDivisionError(torch.get_num_threads())


def test_an_error_restores_them(toy, threads: int) -> None:
    job = toy.job("s", Fails(), model=MLP(FEATURES, CLASSES))
    with pytest.raises(ZeroDivisionError, match="1"):
        train(job, toy.data, small(1), quiet=True)
    assert torch.get_num_threads() == threads
    columns = job.prepared.columns
    with pytest.raises(ZeroDivisionError, match="1"):
        solve_linear(np.zeros((240, 2)), Fails(), columns, CLASSES, strength=1.0)
    assert torch.get_num_threads() == threads


def test_blas_has_one_thread_too_and_gets_its_own_back() -> None:
    def threads() -> set[int]:
        return {pool["num_threads"] for pool in blas.info()}

    blas = ThreadpoolController().select(user_api="blas")
    with blas.limit(limits=2):
        with one_thread():
            assert threads() == {1}
        assert threads() == {2}
