"""The hand-computed numbers of the methods that weigh or choose rows, and of VID."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from method_problems import DONE, tiny, whole_batch
from torch import nn

from noisyteacher.labels import TeacherLabels
from noisyteacher.methods import (
    UPS,
    VID,
    Batch,
    ConfidenceFilter,
    FixMatch,
    Output,
    Rows,
    Temperature,
    Weighted,
    fit_and_prepare,
)
from noisyteacher.methods.distillation import Projection
from noisyteacher.methods.filters import tuned_threshold
from noisyteacher.methods.robust import default_neighbours, loss_ratios, neighbour_weights


@pytest.mark.parametrize(
    ("p", "distortion", "w"),
    [(0.2, 3, 0.714286), (0.2, 0.5, 1.111111), (0, 9, 1), (1, 4, 0.25)],
)
def test_weight_formula_is_one_over_the_mean_ratio(p: float, distortion: float, w: float) -> None:
    ratios = np.array([distortion] * round(5 * p) + [1.0] * round(5 * (1 - p)))
    got = neighbour_weights(np.zeros((1, 2)), np.zeros((5, 2)), ratios, 5, 10.0)
    assert got[0] == pytest.approx(w, abs=2e-6)


def test_weights_from_neighbours() -> None:
    val = np.array([(0.10, 0.20), (0.15, 0.10), (0.50, 0.60), (0.90, 0.80), (0.85, 0.95)])
    ratios = np.array([math.log(0.3) / math.log(0.5), math.log(0.2) / math.log(0.45), 1, 1, 1])
    np.testing.assert_allclose(ratios[:2], (1.736966, 2.015557), atol=2e-6)
    three = neighbour_weights(np.array([(0.30, 0.35)]), val, ratios, 3, 10.0)
    assert three[0] == pytest.approx(0.631244, abs=2e-6)
    # Averaged over the right neighbours too, the distortion would count the error rate twice.
    twice = 1 / (1 + 2 / 3 * (ratios[:3].mean() - 1))
    assert twice == pytest.approx(0.719709, abs=2e-6)
    two = neighbour_weights(np.array([(0.12, 0.22)]), val, ratios, 2, 10.0)
    assert two[0] == pytest.approx(0.532975, abs=2e-6)
    down_only = neighbour_weights(np.array([(0.0, 0.0)]), val, ratios / 4, 3, 1.0)
    assert down_only[0] == 1.0
    assert default_neighbours(500) == 11
    assert default_neighbours(10_000) == 50


def test_loss_ratios() -> None:
    probs = torch.tensor([[0.5, 0.3, 0.2], [0.5, 0.3, 0.2], [0.0, 1.0, 0.0]])
    hard = torch.tensor([[0.0, 1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
    ratios = loss_ratios(probs, hard, torch.tensor([0, 0, 1]))
    assert ratios[0].item() == pytest.approx(1.736966, abs=2e-6)
    assert ratios[1:].tolist() == [1.0, 1.0]  # a teacher that is right, also where nothing is lost


def test_weighted_refresh_follows_plain_code() -> None:
    problem = tiny()
    rng = np.random.default_rng(3)
    student = torch.from_numpy(rng.dirichlet(np.ones(4), 120).astype(np.float32))
    columns = fit_and_prepare(Weighted(hard=True), problem.rows, problem.labels).columns
    Weighted(hard=True).refresh(student, student[8:108], columns)

    def gap(probs: np.ndarray) -> np.ndarray:
        top = np.sort(probs, axis=1)
        return top[:, -1] - top[:, -2]

    place = np.stack([gap(problem.labels.probs), gap(student.numpy())], 1)
    log_f = np.log(student.numpy())
    for row in range(108, 120):
        distance = ((place[8:108] - place[row]) ** 2).sum(1)
        near = 8 + np.argsort(distance)[:5]  # half the root of 100
        wrong = [i for i in near if problem.labels.hard[i] != problem.truth[i]]
        share = len(wrong) / 5
        distortion = [log_f[i, problem.labels.hard[i]] / log_f[i, problem.truth[i]] for i in wrong]
        d = np.mean(distortion) if wrong else 1.0
        assert columns.weight[row].item() == pytest.approx(
            min(10, 1 / (1 + share * (d - 1))), rel=1e-4
        )
    assert (columns.weight[:108] == 1).all()


def test_weighted_is_renewed_when_asked() -> None:
    assert Weighted(every=7).refresh_every() == 7
    assert Weighted(every=0).refresh_every() > 10**6
    assert Temperature(t_a=1, t_b=1, inner=Weighted(every=3)).refresh_every() == 3


PASSES = np.array([[(0.80, 0.15, 0.05), (0.84, 0.12, 0.04), (0.76, 0.19, 0.05)]])


def ups_statistics() -> tuple[np.ndarray, np.ndarray]:
    tempered = np.sqrt(PASSES) / np.sqrt(PASSES).sum(2, keepdims=True)
    both = np.stack([PASSES, tempered], 1)  # (1, temperature, pass, class)
    return both.mean(2), both.std(2, ddof=1)


def test_ups_selection() -> None:
    mean, std = ups_statistics()
    np.testing.assert_allclose(mean[0, 1], (0.596661, 0.259578, 0.143761), atol=2e-6)
    np.testing.assert_allclose(std[0, 0], (0.040000, 0.035119, 0.005774), atol=2e-6)
    np.testing.assert_allclose(std[0, 1], (0.028671, 0.024015, 0.006232), atol=2e-6)
    chosen = UPS().select(mean, std)
    assert chosen.positive.tolist() == [0]
    assert not chosen.negative.any()
    loose = UPS(positive_threshold=0.9, negative_std=0.05, negative_threshold=0.2)
    chosen = loose.select(mean, std)
    assert chosen.positive.tolist() == [-1]
    assert chosen.negative.tolist() == [[False, False, True]]
    # A positive is no negative, but in the binary form it is both.
    both = replace(loose, positive_threshold=0.7)
    assert not both.select(mean, std).negative.any()
    assert replace(both, binary=True).select(mean, std).negative.tolist() == [[False, False, True]]


def test_ups_strict_and_loose_bounds() -> None:
    mean = np.array([[[0.7, 0.3], [0.6, 0.05]]])
    std = np.array([[[0.05, 0.0], [0.0, 0.0]]])
    assert UPS().select(mean, std).positive.tolist() == [-1]  # the deviation must be below
    assert UPS(positive_std=0.0501).select(mean, std).positive.tolist() == [0]
    assert not UPS(positive_std=0.0501).select(mean, std).negative.any()  # so must the mean


def ups_batch(label: list[int], negative: list[list[int]], y: list[int]) -> Batch:
    return Batch(
        torch.tensor(y),
        torch.ones(len(y)),
        {"label": torch.tensor(label), "negative": torch.tensor(negative, dtype=torch.bool)},
        {},
    )


def test_ups_losses() -> None:
    one = Output(torch.tensor([(0.6, 0.3, 0.1)]).log())
    positive = ups_batch([0], [[0, 0, 0]], [-1])
    assert UPS().loss(one, positive, None, DONE).item() == pytest.approx(0.510826, abs=2e-6)
    negative = ups_batch([-1], [[0, 1, 1]], [-1])
    assert UPS().loss(one, negative, None, DONE).item() == pytest.approx(0.231018, abs=2e-6)
    both = ups_batch([0], [[0, 0, 1]], [-1])
    binary = UPS(binary=True).loss(one, both, None, DONE).item()
    assert binary == pytest.approx(0.308093, abs=2e-6)
    # The two means are added, whatever the sizes of the groups.
    three = Output(torch.tensor([(0.6, 0.3, 0.1)] * 3).log())
    batch = ups_batch([0, 0, -1], [[0, 0, 0], [0, 0, 0], [0, 1, 1]], [0, -1, -1])
    expected = 0.510826 + 0.231018
    assert UPS().loss(three, batch, None, DONE).item() == pytest.approx(expected, abs=2e-6)


def test_ups_drops_what_it_does_not_select() -> None:
    problem = tiny()
    method = UPS(positive_threshold=0.6, negative_threshold=0.1, negative_std=0.05)
    columns = fit_and_prepare(method, problem.rows, problem.labels).columns
    extras = problem.labels.take(np.arange(108, 120)).extras
    chosen = method.select(extras["view_mean"], extras["view_std"])
    kept = 108 + np.flatnonzero((chosen.positive >= 0) | chosen.negative.any(1))
    assert 0 < len(kept) < 12
    assert columns.index.tolist() == [*range(108), *kept.tolist()]
    assert columns.values["label"][:108].tolist() == problem.truth[:108].tolist()


def test_ups_balance_keeps_the_surest_of_each_class() -> None:
    n = 80
    mean = np.tile(np.array([[0.9, 0.1]]), (n, 1))
    mean[:30] = (0.1, 0.9)
    std = np.repeat(np.linspace(0, 0.04, n)[:, None], 2, axis=1)
    both = np.stack([mean, mean], 1), np.stack([std, std], 1)
    assert (UPS().select(*both).positive >= 0).sum() == n
    kept = np.flatnonzero(UPS(balance=True).select(*both).positive >= 0)
    assert kept.tolist() == list(range(60))  # 30 of class 1, and the 30 surest of class 0
    few = tuple(part[np.r_[0:10, 30:80]] for part in both)
    kept = np.flatnonzero(UPS(balance=True).select(*few).positive >= 0)
    assert kept.tolist() == list(range(35))  # 10 of class 1; 25 is the least that is left


def vid_example() -> tuple[Projection, Output, Batch]:
    projection = Projection(3, 3, 1)
    assert isinstance(projection.mean, nn.Linear)
    assert torch.allclose(projection.rho, torch.tensor(4.993229))
    with torch.no_grad():
        projection.mean.weight.copy_(torch.eye(3))
        projection.mean.bias.zero_()
        projection.rho.copy_(torch.tensor([0.0, 1.0, -1.0]))
    student = torch.tensor([[0.5, -1.0, 2.0], [0.0, 1.0, 1.0]], requires_grad=True)
    output = Output(torch.tensor([[50.0, 0.0], [0.0, 50.0]]), student)
    batch = Batch(
        torch.tensor([0, -1]),
        torch.ones(2),
        {
            "target": torch.tensor([[1.0, 0.0], [0.0, 1.0]]),
            "embedding": torch.tensor([[1.0, -1.0, 1.0], [0.5, 0.5, 1.0]]),
        },
        {},
    )
    return projection, output, batch


def test_vid() -> None:
    projection, output, batch = vid_example()
    loss = VID().loss(output, batch, projection, DONE)  # cross-entropy is 0 here
    assert loss.item() == pytest.approx(0.132875, abs=2e-6)
    assert VID(weight=3.0).loss(output, batch, projection, DONE).item() == pytest.approx(
        3 * 0.132875, abs=5e-6
    )
    loss.backward()
    for tensor in (output.embedding, *projection.parameters()):
        assert tensor.grad is not None
        assert tensor.grad.abs().sum() > 0


def test_vid_on_the_pool_only() -> None:
    projection, output, batch = vid_example()
    pool_only = VID(on="pool").loss(output, batch, projection, DONE)
    gold_out = VID().loss(output, replace(batch, weight=torch.tensor([0.0, 1.0])), projection, DONE)
    torch.testing.assert_close(pool_only, gold_out)


def test_vid_modules_fit_student_and_teacher() -> None:
    problem = tiny()
    columns = fit_and_prepare(VID(), problem.rows, problem.labels).columns
    np.testing.assert_array_equal(columns.values["embedding"], problem.labels.extras["embedding"])
    student = type("Student", (), {"embedding_dim": 6, "classes": 4})()
    one = VID().modules(student, columns)
    assert {name: tuple(p.shape) for name, p in one.named_parameters()} == {
        "rho": (5,), "mean.weight": (5, 6), "mean.bias": (5,)
    }  # fmt: skip
    three = VID(layers=3).modules(student, columns)
    assert sum(p.numel() for p in three.parameters()) == 5 + 5 * 6 + 5 * 5 + 5 * 5


def test_fixmatch() -> None:
    weak = torch.tensor([[0.0, 2.0, 0.0], [9.0, 0.0, 0.0], [9.0, 0.0, 0.0]])
    strong = torch.tensor([[9.0, 0.0, 0.0], [1.0, 0.0, 0.0], [1.0, 0.0, 0.0]])
    probs = np.array([(0.2, 0.5, 0.3), (0.96, 0.04, 0), (0.94, 0.06, 0), (0, 0, 1), (1, 0, 0)])
    labels = TeacherLabels.from_probs(np.arange(5), probs)
    rows = Rows(np.arange(3), np.array([1, -1, -1]), np.array([3, 4]), np.array([2, 0]), 3)
    columns = fit_and_prepare(FixMatch(), rows, labels).columns
    loss = FixMatch().loss(Output(weak, strong=strong), whole_batch(columns), None, DONE)
    assert loss.item() == pytest.approx((0.239545 + 0.551445) / 3, abs=2e-6)
    heavy = FixMatch(weight=2.0).loss(Output(weak, strong=strong), whole_batch(columns), None, DONE)
    assert heavy.item() == pytest.approx((0.239545 + 2 * 0.551445) / 3, abs=2e-6)


def test_confidence_threshold_by_hand() -> None:
    sure = np.array([0.9, 0.8, 0.8, 0.7, 0.6, 0.5])
    right = np.array([1, 1, 0, 1, 0, 0], bool)
    # Right above 0.9: 1 of 1; 0.8: 2 of 3; 0.7: 3 of 4; 0.6: 3 of 5; 0.5: 3 of 6.
    assert tuned_threshold(sure, right, 0.9) == 0.9
    assert tuned_threshold(sure, right, 0.75) == 0.7
    assert tuned_threshold(sure, right, 0.6) == 0.6
    assert tuned_threshold(sure, right, 0.1) == 0.5
    assert tuned_threshold(sure, np.zeros(6, bool), 0.1) == math.inf


@given(st.integers(0, 2**32 - 1), st.floats(0.05, 1.0))
@settings(max_examples=40, deadline=None)
def test_confidence_threshold_is_the_lowest_that_is_right_often_enough(
    seed: int, precision: float
) -> None:
    rng = np.random.default_rng(seed)
    sure, right = rng.integers(0, 6, 30) / 5, rng.random(30) < 0.6
    fine = [t for t in np.unique(sure) if right[sure >= t].mean() >= precision]
    assert tuned_threshold(sure, right, precision) == (min(fine) if fine else math.inf)


def test_confidence_filter_keeps_the_sure_rows_of_the_pool() -> None:
    problem = tiny()
    method = ConfidenceFilter(threshold=0.6)
    columns = fit_and_prepare(method, problem.rows, problem.labels).columns
    sure = problem.labels.probs[108:].max(1) >= 0.6
    assert columns.index.tolist() == [*range(108), *(108 + np.flatnonzero(sure)).tolist()]
    torch.testing.assert_close(
        columns.values["target"][108:], torch.from_numpy(problem.labels.probs[108:][sure])
    )
    assert columns.rows_per_epoch == len(problem.rows)
