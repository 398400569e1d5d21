"""The hand-computed numbers of Temperature, Fidelity and Consistency."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from method_problems import DONE, tiny, whole_batch

from noisyteacher.labels import TeacherLabels
from noisyteacher.methods import (
    Batch,
    Consistency,
    Fidelity,
    Output,
    Rows,
    SLaM,
    Temperature,
    Vanilla,
    Weighted,
    fit_and_prepare,
)
from noisyteacher.methods.batch import temper, temper_top


@pytest.mark.parametrize(("t", "ce"), [(1, 0.622426), (2, 0.946942), (4, 1.059497)])
@pytest.mark.parametrize("stored", [None, 2])
def test_temperature(t: int, ce: float, stored: int | None) -> None:
    teacher = np.array([[3.0, 1.0, 0.2], [0.0, 0.0, 1.0], [1.0, 0.0, 0.0]])
    labels = TeacherLabels.from_logits([7, 8, 9], teacher, k=stored)
    rows = Rows(np.array([7]), np.array([-1]), np.array([8, 9]), np.array([2, 0]), 3)
    output = Output(torch.tensor([[2.0, 1.0, 0.0]]))
    # Stored log-probabilities are rounded to float16.
    for method, expected in (
        (Temperature(t_a=1, t_b=t), ce),
        (Temperature(t_a=1, t_b=t, squared=True), t * t * ce),
    ):
        columns = fit_and_prepare(method, rows, labels).columns
        loss = method.loss(output, whole_batch(columns), None, DONE)
        assert loss.item() == pytest.approx(expected, rel=1e-3)


def test_tempered_probabilities() -> None:
    zt = torch.tensor([[3.0, 1.0, 0.2]])
    expected = torch.tensor([[0.619396, 0.227863, 0.152741]])
    torch.testing.assert_close(temper(zt.softmax(1), 2.0), expected, atol=2e-6, rtol=0)
    gap = (expected * (expected.log() - (torch.tensor([[2.0, 1.0, 0.0]]) / 2).log_softmax(1))).sum()
    assert gap.item() == pytest.approx(0.026231, abs=2e-6)
    assert 4 * gap.item() == pytest.approx(0.104924, abs=5e-6)


def test_what_is_impossible_stays_impossible() -> None:
    one_hot = torch.eye(1000)[:3]
    torch.testing.assert_close(temper(one_hot, 4.0), one_hot)
    top, tail = temper_top(one_hot[:, :3], torch.zeros(3), 997, 4.0)
    torch.testing.assert_close(top, torch.eye(3))
    assert tail.tolist() == [0, 0, 0]


@given(st.integers(0, 2**32 - 1), st.sampled_from([0.01, 0.1, 0.5, 1.0, 2.0, 10.0, 100.0]))
@settings(max_examples=30, deadline=None)
def test_tempering_is_dividing_logits(seed: int, t: float) -> None:
    logits = torch.from_numpy(np.random.default_rng(seed).normal(size=(5, 7))).double()
    expected = (logits / t).softmax(1)
    torch.testing.assert_close(temper(logits.softmax(1), t), expected)
    # Two stored classes, the other five share the rest.
    logits[:, 2:] = logits[:, 2:].min(1, keepdim=True).values - 1
    probs = logits.softmax(1)
    top, tail = temper_top(probs[:, :2], probs[:, 2:].sum(1), 5, t)
    dense = (logits / t).softmax(1)
    torch.testing.assert_close(top, dense[:, :2])
    torch.testing.assert_close(tail, dense[:, 2:].sum(1))


def test_temperature_leaves_trust_and_shortlists_alone() -> None:
    problem = tiny()
    plain = fit_and_prepare(SLaM(), problem.rows, problem.labels).columns
    method = Temperature(t_a=3, t_b=0.2, inner=SLaM())
    tempered = fit_and_prepare(method, problem.rows, problem.labels).columns
    for name in ("alpha", "k", "mask"):
        torch.testing.assert_close(plain.values[name], tempered.values[name])
    gold = plain.y >= 0
    assert torch.equal(plain.values["target"][gold], tempered.values["target"][gold])
    assert not torch.allclose(plain.values["target"][~gold], tempered.values["target"][~gold])


def test_temperature_leaves_hard_labels_hard() -> None:
    problem = tiny()
    method = Temperature(t_a=100, t_b=100, inner=Vanilla(hard=True))
    columns = fit_and_prepare(method, problem.rows, problem.labels).columns
    assert set(columns.values["target"].unique().tolist()) == {0.0, 1.0}


def test_temperature_can_aim_gold_rows_at_the_teacher() -> None:
    problem = tiny()
    method = Temperature(t_a=2, t_b=1, a_target="teacher")
    columns = fit_and_prepare(method, problem.rows, problem.labels).columns
    gold = columns.y >= 0
    said = torch.from_numpy(problem.labels.probs)[gold]
    torch.testing.assert_close(columns.values["target"][gold], temper(said, 2.0))


def test_gold_and_pool_logits_have_their_own_temperature() -> None:
    batch = Batch(
        torch.tensor([1, -1]),
        torch.ones(2),
        {"target": torch.tensor([[0.0, 1.0], [0.3, 0.7]])},
        {},
    )
    logits = torch.tensor([[1.0, 2.0], [3.0, 1.0]])
    loss = Temperature(t_a=2, t_b=5).loss(Output(logits), batch, None, DONE)
    gold = -(logits[0] / 2).log_softmax(0)[1]
    pool = -(torch.tensor([0.3, 0.7]) * (logits[1] / 5).log_softmax(0)).sum()
    torch.testing.assert_close(loss, (gold + pool) / 2)


VIEWS = np.array(
    [
        [(0.7, 0.2, 0.1), (0.6, 0.3, 0.1), (0.8, 0.1, 0.1)],
        [(0.4, 0.3, 0.3), (0.2, 0.6, 0.2), (0.3, 0.1, 0.6)],
    ]
)


@pytest.mark.parametrize(
    ("method", "expected"),
    [
        (Fidelity(beta=1.0, normalizer="sum"), (0.863863, 0.425854)),
        (Fidelity(beta=5.0, normalizer="sum"), (0.481087, 0.014006)),
        (Fidelity(beta=1.0), (0.746259, 0.181352)),
        (Fidelity(beta=1.0, normalizer="max"), (math.exp(-6 / 35), math.exp(-1))),
    ],
    ids=repr,
)
@pytest.mark.parametrize("ddof", [0, 1])
def test_fidelity_weights(method: Fidelity, expected: tuple[float, ...], ddof: int) -> None:
    std = np.repeat(VIEWS.std(1, ddof=ddof)[:, None], 2, axis=1)
    np.testing.assert_allclose(method.pool_weights(std), expected, atol=5e-6)


def test_fidelity_with_views_that_agree() -> None:
    assert Fidelity(beta=5.0).pool_weights(np.zeros((3, 2, 4))).tolist() == [1, 1, 1]


def test_fidelity_by_the_total_does_nothing_to_a_large_pool() -> None:
    std = np.ones((44_500, 2, 1))
    std[0] = math.sqrt(10)
    weight = Fidelity(beta=20.0, normalizer="sum").pool_weights(std)[0]
    assert weight == pytest.approx(0.995516, abs=2e-6)


def test_fidelity_weights_pool_rows_only_and_survives_a_refresh() -> None:
    problem = tiny()
    labels = problem.labels
    expected = Fidelity(beta=2.0).pool_weights(labels.extras["view_std"][108:])
    for inner in (Vanilla(), SLaM(hard=True)):
        method = Fidelity(beta=2.0, inner=inner)
        columns = fit_and_prepare(method, problem.rows, labels).columns
        assert (columns.weight[:108] == 1).all()
        np.testing.assert_allclose(columns.weight[108:], expected)
    method = Fidelity(beta=2.0, inner=Weighted())
    columns = fit_and_prepare(method, problem.rows, labels).columns
    probs = torch.from_numpy(labels.probs)
    alone = fit_and_prepare(Weighted(), problem.rows, labels).columns
    for _ in range(2):
        method.refresh(probs, probs[8:108], columns)
        Weighted().refresh(probs, probs[8:108], alone)
        np.testing.assert_allclose(columns.weight[108:], expected * alone.weight[108:].numpy())


def consistency_example() -> tuple[Output, Batch]:
    weak = torch.tensor([[0.0, 2.0, 0.0], [3.0, 0.0, 0.0], [1.0, 0.0, 0.0]])
    strong = torch.tensor([[0.0, 1.0, 0.0], [1.0, 0.0, 0.0], [5.0, 0.0, 0.0]], requires_grad=True)
    return Output(weak, strong=strong), Batch(torch.tensor([1, -1, -1]), torch.ones(3), {}, {})


def test_consistency_without_a_teacher() -> None:
    output, batch = consistency_example()
    loss = Consistency(inner=None).loss(output, batch, None, DONE)
    assert loss.item() == pytest.approx(0.447478, abs=2e-6)


def test_consistency_grows_in_over_a_tenth_of_training() -> None:
    output, batch = consistency_example()
    gold = (0.551445 + 0.239545) / 3
    for progress, ramp in ((0.0, 0.1), (0.05, 0.6), (0.09, 1.0), (0.5, 1.0)):
        loss = Consistency(inner=None).loss(output, batch, None, torch.tensor(progress))
        assert loss.item() == pytest.approx(gold + ramp * 0.551445 / 3, abs=2e-6)


def test_consistency_threshold_weight_and_gradient() -> None:
    output, batch = consistency_example()
    weak = output.logits.clone().requires_grad_()
    output = replace(output, logits=weak)
    loss = Consistency(inner=None, threshold=0.95, weight=2.0).loss(output, batch, None, DONE)
    assert loss.item() == pytest.approx((2 * 0.551445 + 0.239545) / 3, abs=2e-6)
    loss.backward()
    assert (weak.grad[1:] == 0).all()  # what the student says of the weak view is a constant
    assert (output.strong.grad[1:] == 0).all()


def test_consistency_adds_one_term_to_its_inner_method() -> None:
    problem = tiny()
    inner = Fidelity(beta=1.0, inner=SLaM())
    columns = fit_and_prepare(Consistency(inner=inner), problem.rows, problem.labels).columns
    alone = fit_and_prepare(inner, problem.rows, problem.labels).columns
    torch.testing.assert_close(columns.weight, alone.weight)
    logits = torch.randn(120, 4, generator=torch.Generator().manual_seed(0))
    output, batch = Output(logits, strong=logits.flip(1)), whole_batch(columns)
    total = Consistency(inner=inner).loss(output, batch, None, DONE)
    term = total - inner.loss(output, batch, None, DONE)
    sure, answer = logits.softmax(1).max(1)
    used = (batch.y >= 0) | (sure >= 0.8)
    label = torch.where(batch.y >= 0, batch.y, answer)
    losses = -logits.flip(1).log_softmax(1).gather(1, label[:, None])[:, 0]
    torch.testing.assert_close(term, (losses * used).mean())
