"""The hand-computed numbers that each method must give through prepare, refresh and loss."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from method_problems import DONE, tiny, whole_batch
from torch import Tensor, nn

from noisyteacher.labels import TeacherLabels
from noisyteacher.losses import top_mask
from noisyteacher.methods import (
    DKD,
    GCE,
    UPS,
    VID,
    Batch,
    Columns,
    ConfidenceFilter,
    Consistency,
    Fidelity,
    FixMatch,
    ForwardCorrection,
    Method,
    Output,
    PolyLoss,
    Rows,
    SLaM,
    SymmetricCE,
    TaylorCE,
    Temperature,
    Vanilla,
    Weighted,
    fit_and_prepare,
)
from noisyteacher.methods.confidence_filter import tuned_threshold
from noisyteacher.methods.temperature import temper, temper_top
from noisyteacher.methods.vid import Projection
from noisyteacher.methods.weighted import default_neighbours, loss_ratios, neighbour_weights

F0 = (0.5, 0.3, 0.15, 0.05)
YS = (0.1, 0.6, 0.25, 0.05)
Q = (0.6, 0.3, 0.1)
SOFT = (0.7, 0.2, 0.1)


def pool_batch(constants: dict[str, Tensor] | None = None, **values: Tensor) -> Batch:
    """One pool row with the given columns."""
    return Batch(torch.tensor([-1]), torch.ones(1), values, constants or {})


def target_loss(method: Method, probs: tuple[float, ...], target: tuple[float, ...]) -> float:
    """The method's loss on one pool row whose target column is given."""
    batch = pool_batch(target=torch.tensor([target]))
    return method.loss(Output(torch.tensor([probs]).log()), batch, None, DONE).item()


def slam_row(method: SLaM) -> Batch:
    """The worked example: alpha = 0.7, k = 3."""
    target = (0.0, 1.0, 0.0, 0.0) if method.hard else YS
    return pool_batch(
        target=torch.tensor([target]),
        alpha=torch.tensor([0.7]),
        mask=torch.tensor([[True, True, True, False]]),
        k=torch.tensor([3]),
    )


@pytest.mark.parametrize(
    ("method", "expected"),
    [
        (SLaM(normalize="k-1", hard=True), 1.155183),
        (SLaM(normalize="k-1"), 1.311013),
        (SLaM(normalize="none", hard=True), 0.867501),
        (SLaM(normalize="none"), 1.012848),
        (SLaM(hard=True), 1.141337),
        (SLaM(), 1.286685),
        (SLaM(base=TaylorCE(2), normalize="none", hard=True), 0.748200),
        (SLaM(base=TaylorCE(2), normalize="none"), 0.794151),
        (SLaM(base=TaylorCE(2), normalize="k-1", hard=True), 0.919613),
        (SLaM(base=TaylorCE(2), normalize="k-1"), 0.962836),
        (SLaM(base=PolyLoss(2.0), normalize="none", hard=True), 2.027501),
        (SLaM(base="poly1", normalize="none"), 2.225348),
        (SLaM(base="poly1", normalize="k-1", hard=True), 2.525183),
        (SLaM(base="poly1", normalize="k-1"), 2.728263),
    ],
    ids=repr,
)
def test_slam(method: SLaM, expected: float) -> None:
    output = Output(torch.tensor([F0]).log())
    assert method.loss(output, slam_row(method), None, DONE).item() == pytest.approx(
        expected, abs=2e-6
    )


@pytest.mark.parametrize(
    ("method", "expected"),
    [
        (SLaM(normalize="k-1", hard=True), (0.261905, -0.366667, 0.078571, 0.026190)),
        (SLaM(normalize="none", hard=True), (0.142857, -0.2, 0.042857, 0.014286)),
        (SLaM(hard=True), (0.137154, -0.203422, 0.041146, 0.025122)),
        (SLaM(normalize="none"), (0.111548, -0.080500, 0.003798, -0.034845)),
    ],
    ids=repr,
)
def test_slam_gradient(method: SLaM, expected: tuple[float, ...]) -> None:
    logits = torch.tensor([F0]).log().requires_grad_()
    method.loss(Output(logits), slam_row(method), None, DONE).backward()
    torch.testing.assert_close(logits.grad, torch.tensor([expected]), atol=2e-6, rtol=0)


@pytest.mark.parametrize(
    ("method", "probs", "target", "expected"),
    [
        (Vanilla(), F0, YS, 1.415765),
        (Vanilla(), F0, (0, 1, 0, 0), 1.203973),
        (TaylorCE(1), (0.5, 0.5), (1, 0), 0.5),
        (TaylorCE(2), (0.5, 0.5), (1, 0), 0.625),
        (TaylorCE(6), (0.5, 0.5), (1, 0), 0.691146),
        (TaylorCE(2), Q, SOFT, 0.655500),
        (TaylorCE(2), Q, (1, 0, 0), 0.48),
        (Vanilla(), Q, SOFT, 0.828631),
        (PolyLoss(-1), Q, SOFT, 0.318631),
        (PolyLoss(1.0), Q, SOFT, 1.338631),
        (PolyLoss(), Q, SOFT, 1.848631),
        (PolyLoss(), Q, (1, 0, 0), 1.310826),
        (GCE(), (0.5, 0.5), (1, 0), 0.549183),
        (GCE(), Q, SOFT, 0.577696),
        (SymmetricCE(), Q, (1, 0, 0), 3.735219),
        (SymmetricCE(alpha=0.0), Q, (1, 0, 0), 3.684136),
    ],
)
def test_plain_losses(
    method: Method, probs: tuple[float, ...], target: tuple[float, ...], expected: float
) -> None:
    target = tuple(map(float, target))
    assert target_loss(method, probs, target) == pytest.approx(expected, abs=2e-6)


def test_forward_correction() -> None:
    transition = torch.tensor([[0.8, 0.1, 0.1], [0.2, 0.7, 0.1], [0.0, 0.1, 0.9]])
    batch = pool_batch({"transition": transition}, target=torch.tensor([[0.0, 1.0, 0.0]]))
    loss = ForwardCorrection().loss(Output(torch.tensor([Q]).log()), batch, None, DONE)
    assert loss.item() == pytest.approx(1.272966, abs=2e-6)


def test_forward_correction_learns_the_confusions_of_v() -> None:
    target = torch.tensor([[1.0, 0.0], [0.5, 0.5], [0.0, 1.0]])
    transition = ForwardCorrection(smoothing=2.0).transition(target, torch.tensor([0, 0, 1]))
    expected = torch.tensor([[(1.5 + 1) / 4, (0.5 + 1) / 4], [1 / 3, 2 / 3]])
    torch.testing.assert_close(transition, expected)
    with pytest.raises(ValueError, match="V has no row of class 1"):
        ForwardCorrection(smoothing=0.0).transition(target, torch.tensor([0, 0, 0]))


def test_dkd() -> None:
    student, teacher = torch.tensor([[2.0, 1.0, 0.0]]), torch.tensor([[3.0, 1.0, 0.2]])
    batch = pool_batch(target=teacher.softmax(1))
    for method, expected in (
        (DKD(beta=0.0), 0.102932),
        (DKD(alpha=0.0, beta=1.0), 0.004942),
        (DKD(), 0.142465),
    ):
        loss = method.loss(Output(student), batch, None, DONE).item()
        # Small divergences times T² = 16: float32 is good to 1e-5 here.
        assert loss == pytest.approx(expected, abs=1e-5)
        half_way = method.loss(Output(student), batch, None, torch.tensor(0.05)).item()
        assert half_way == pytest.approx(expected / 2, abs=1e-5)
    start = DKD(warmup=0.0).loss(Output(student), batch, None, torch.tensor(0.0)).item()
    assert start == pytest.approx(0.142465, abs=1e-5)


# -- temperature --------------------------------------------------------------------------------


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


# -- fidelity -----------------------------------------------------------------------------------

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


# -- weighted -----------------------------------------------------------------------------------


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


# -- UPS ----------------------------------------------------------------------------------------

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


# -- VID ----------------------------------------------------------------------------------------


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


# -- consistency --------------------------------------------------------------------------------


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


# -- filters ------------------------------------------------------------------------------------


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
    assert columns.rows_per_epoch == 0


# -- SLaM's columns -----------------------------------------------------------------------------


def slam_columns(method: SLaM) -> tuple[Columns, Columns]:
    problem = tiny(classes=6)
    prepared = fit_and_prepare(method, problem.rows, problem.labels)
    pool = problem.labels.take(np.arange(108, 120))
    trust = prepared.noise.predict(pool)
    mask = top_mask(pool.probs, trust.k)
    return prepared.columns, (trust, mask)


@pytest.mark.parametrize("method", [SLaM(), SLaM(hard=True, lower_bound=0.3, threshold=0.8)])
def test_slam_columns_are_what_the_noise_model_says(method: SLaM) -> None:
    columns, (trust, mask) = slam_columns(method)
    values = columns.values
    np.testing.assert_array_equal(values["alpha"][108:], trust.alpha)
    np.testing.assert_array_equal(values["k"][108:], trust.k)
    np.testing.assert_array_equal(values["mask"][108:], mask)
    assert (values["alpha"][:108] == 1).all()
    assert (values["target"].sum(1) - 1).abs().max() < 1e-5
    if method.hard:
        assert (values["target"].max(1).values == 1).all()


@pytest.mark.parametrize("base", ["ce", "taylor_ce", "poly1"])
@pytest.mark.parametrize("normalize", ["sum", "none", "k-1"])
@pytest.mark.parametrize("hard", [False, True])
@pytest.mark.parametrize("stored", [None, 3])
def test_slam_with_full_trust_is_vanilla(
    base: str, normalize: str, hard: bool, stored: int | None
) -> None:
    problem = tiny(classes=6, stored=stored)
    method = SLaM(base=base, normalize=normalize, hard=hard, k=2)
    plain = {"ce": Vanilla(hard), "taylor_ce": TaylorCE(2, hard), "poly1": PolyLoss(2.0, hard)}
    columns = fit_and_prepare(method, problem.rows, problem.labels).columns
    columns.values["alpha"].fill_(1.0)
    vanilla = fit_and_prepare(plain[base], problem.rows, problem.labels).columns
    logits = 3 * torch.randn(120, 6, generator=torch.Generator().manual_seed(0))
    gradients = []
    for m, c in ((method, columns), (plain[base], vanilla)):
        z = logits.clone().requires_grad_()
        loss = m.loss(Output(z), whole_batch(c), None, DONE)
        loss.backward()
        gradients.append((loss.item(), z.grad))
    assert gradients[0][0] == pytest.approx(gradients[1][0], abs=1e-6)
    torch.testing.assert_close(gradients[0][1], gradients[1][1], atol=1e-6, rtol=0)


def test_hard_slam_at_alpha_one_half_ignores_the_row() -> None:
    batch = slam_row(SLaM(normalize="none", hard=True))
    batch = replace(batch, values={**batch.values, "alpha": torch.tensor([0.5])})
    logits = torch.tensor([F0]).log().requires_grad_()
    SLaM(normalize="none", hard=True).loss(Output(logits), batch, None, DONE).backward()
    torch.testing.assert_close(logits.grad, torch.zeros(1, 4), atol=1e-7, rtol=0)


def test_weights_multiply_and_are_not_renormalised() -> None:
    logits = torch.randn(5, 3, generator=torch.Generator().manual_seed(0))
    target = torch.full((5, 3), 1 / 3)
    weight = torch.tensor([0.0, 0.5, 1.0, 2.0, 0.1])
    batch = Batch(torch.full((5,), -1), weight, {"target": target}, {})
    expected = (weight * -logits.log_softmax(1).mean(1)).sum() / 5
    torch.testing.assert_close(Vanilla().loss(Output(logits), batch, None, DONE), expected)


def test_losses_are_computed_in_float32() -> None:
    problem = tiny()
    logits = torch.randn(120, 4, generator=torch.Generator().manual_seed(0)).bfloat16()
    for method in (Vanilla(), SLaM(), TaylorCE(2), GCE(), SymmetricCE(), DKD(), ForwardCorrection(),
                   Temperature(t_a=1, t_b=2), Consistency(), UPS(), FixMatch()):  # fmt: skip
        columns = fit_and_prepare(method, problem.rows, problem.labels).columns
        kept = logits[columns.index]
        output, batch = Output(kept, strong=kept), whole_batch(columns)
        loss = method.loss(output, batch, None, DONE)
        same = method.loss(Output(kept.float(), strong=kept.float()), batch, None, DONE)
        assert loss.dtype == torch.float32
        torch.testing.assert_close(loss, same)
