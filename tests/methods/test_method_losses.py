"""The hand-computed numbers of the losses, through the methods."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from method_problems import DONE, tiny, whole_batch
from torch import Tensor

from noisyteacher.labels import TeacherLabels
from noisyteacher.losses import top_mask
from noisyteacher.methods import (
    DKD,
    GCE,
    TTM,
    UPS,
    Batch,
    Columns,
    Consistency,
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
    fit_and_prepare,
)
from noisyteacher.methods.batch import temper

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


@pytest.mark.parametrize("left", [0.0, 0.3])
def test_dkd_keeps_the_mass_of_a_sure_teacher(left: float) -> None:
    """1 000 classes at T = 4, through the store and the method, against plain float64 code."""
    probs = np.zeros((3, 1000))
    probs[:, [3, 800]] = 1 - left, left
    labels = TeacherLabels.from_probs(np.arange(3), probs)
    rows = Rows(np.arange(3), np.array([5, -1, -1]), np.arange(0), np.arange(0), 1000)
    logits = torch.randn(3, 1000, generator=torch.Generator().manual_seed(0))
    logits[:, 3] += 6.0
    method = DKD(beta=2.0)
    batch = whole_batch(fit_and_prepare(method, rows, labels).columns)
    z = logits.clone().requires_grad_()
    loss = method.loss(Output(z), batch, None, DONE)
    loss.backward()

    f = (logits.double() / 4).softmax(1).numpy()
    p = labels.probs.astype(np.float64) ** (1 / 4)
    p /= p.sum(1, keepdims=True)
    expected = [-float(logits[0].double().log_softmax(0)[5])]
    for row in (1, 2):
        top, rest = p[row, 3], p[row, 800]
        between = top * np.log(top / f[row, 3])
        among = 0.0
        if rest > 0:
            between += rest * np.log(rest / (1 - f[row, 3]))
            among = np.log((1 - f[row, 3]) / f[row, 800])
        expected.append(16 * (between + 2.0 * among))
    assert loss.item() == pytest.approx(np.mean(expected), rel=1e-5)
    assert z.grad.isfinite().all()


TEACHER = torch.tensor([[3.0, 1.0, 0.2]])


def test_ttm() -> None:
    tempered = (TEACHER / 2).softmax(1)
    batch = pool_batch(target=tempered)
    loss = TTM(2.0).loss(Output(torch.tensor([[2.0, 1.0, 0.0]])), batch, None, DONE).item()
    assert loss == pytest.approx(0.940951, abs=6e-7)
    labels = TeacherLabels.from_logits(np.arange(2), TEACHER.repeat(2, 1).numpy())
    rows = Rows(np.arange(2), np.array([2, -1]), np.arange(0), np.arange(0), 3)
    target = fit_and_prepare(TTM(2.0), rows, labels).columns.values["target"]
    assert target[0].tolist() == [0.0, 0.0, 1.0]
    # Stored log-probabilities are rounded to float16.
    torch.testing.assert_close(target[1:], tempered, rtol=1e-3, atol=0)


def test_ttm_gradients_are_the_numerical_ones_and_spare_the_teacher() -> None:
    torch.manual_seed(0)
    z = torch.randn(4, 3, dtype=torch.float64, requires_grad=True)
    target = temper(torch.randn(4, 3, dtype=torch.float64).softmax(1), 2.0).requires_grad_()
    batch = Batch(torch.full((4,), -1), torch.ones(4), {"target": target}, {})
    assert torch.autograd.gradcheck(lambda z: TTM(2.0).example_losses(z, batch), (z,))
    TTM(2.0).example_losses(z, batch).sum().backward()
    assert target.grad is None


def test_ttm_gradients_stay_finite_at_extreme_and_uniform_logits() -> None:
    z = torch.tensor([[1e4, -1e4, 0.0], [-1e4, 1e4, 1e4], [0.0, 0.0, 0.0]]).requires_grad_()
    teacher = torch.tensor([[-1e4, 1e4, 0.0]] * 3).softmax(1)
    batch = Batch(torch.full((3,), -1), torch.ones(3), {"target": temper(teacher, 2.0)}, {})
    loss = TTM(2.0).loss(Output(z), batch, None, DONE)
    (grad,) = torch.autograd.grad(loss, z)
    assert loss.isfinite()
    assert grad.isfinite().all()


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


def test_weights_multiply_and_are_not_renormalized() -> None:
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
