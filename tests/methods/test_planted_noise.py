"""A known noise is planted; each method must beat, match or lose to vanilla as theory says."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from method_problems import (
    DONE,
    LinearStudent,
    Problem,
    make_rows,
    tiny,
    train_linear,
    view_statistics,
    whole_batch,
)
from torch.nn import functional as F

from noisyteacher.labels import TeacherLabels
from noisyteacher.methods import (
    DKD,
    GCE,
    UPS,
    VID,
    Batch,
    Calibrated,
    ConfidenceFilter,
    Consistency,
    Fidelity,
    FixMatch,
    ForwardCorrection,
    GoldOnly,
    Method,
    Output,
    PolyLoss,
    SLaM,
    SymmetricCE,
    TaylorCE,
    Temperature,
    Vanilla,
    Weighted,
    fit_and_prepare,
)
from noisyteacher.noise.calibration import fit_calibration


def two_classes(rng: np.random.Generator, n: int) -> tuple[torch.Tensor, np.ndarray]:
    """Points of a square with a gap: the class is the sign of the first coordinate."""
    x = rng.uniform(-1, 1, size=(n, 2))
    x[:, 0] += 0.2 * np.sign(x[:, 0])
    return torch.from_numpy(x.astype(np.float32)), (x[:, 0] > 0).astype(np.int64)


def said(right: np.ndarray, truth: np.ndarray, sure: np.ndarray) -> np.ndarray:
    """(n, 2): probability ``sure`` on the class that the teacher names."""
    named = np.where(right, truth, 1 - truth)
    return np.where(np.arange(2) == named[:, None], sure[:, None], 1 - sure[:, None])


def tilted() -> tuple[Problem, np.ndarray]:
    """The chance of a right label depends on the place, so that vanilla learns a tilted line.

    The teacher's margin grows with that chance, as the noise model assumes.
    """
    rng = np.random.default_rng(0)
    n, gold, val = 6_000, 4, 1_500
    x, truth = two_classes(rng, n)
    alpha = np.where((truth == 1) == (x[:, 1].numpy() > 0), 0.98, 0.52)
    probs = said(rng.random(n) < alpha, truth, np.where(alpha > 0.9, 0.95, 0.6))
    rows = make_rows(truth, gold, val, 2)
    # V fits the noise model and stays out of training, so that only the pool can teach.
    keep = np.r_[0:gold, gold + val : n]
    rows = type(rows)(rows.ids[keep], rows.y[keep], rows.val_ids, rows.val_y, 2)
    return Problem(x, truth, rows, TeacherLabels.from_probs(np.arange(n), probs)), alpha


TILTED, TRUE_ALPHA = tilted()


def accuracy(method: Method, problem: Problem) -> float:
    return train_linear(method, problem).accuracy(problem.x, problem.truth)


@pytest.mark.parametrize("normalize", ["k-1", "none", "sum"])
def test_slam_with_the_true_alpha_finds_the_truth_where_vanilla_does_not(normalize: str) -> None:
    method = SLaM(normalize=normalize, hard=True, k=2)
    columns = fit_and_prepare(method, TILTED.rows, TILTED.labels).columns
    pool = columns.y < 0
    columns.values["alpha"][pool] = torch.from_numpy(
        TRUE_ALPHA[TILTED.rows.ids[pool.numpy()]].astype(np.float32)
    )
    slam = train_linear(method, TILTED, columns=columns).accuracy(TILTED.x, TILTED.truth)
    assert slam > 0.99
    assert accuracy(Vanilla(hard=True), TILTED) < 0.93


def test_slam_with_the_fitted_alpha_finds_the_truth() -> None:
    assert accuracy(SLaM(hard=True, k=2), TILTED) > 0.99
    assert accuracy(Temperature(t_a=1, t_b=1, inner=SLaM(hard=True, k=2)), TILTED) > 0.99
    assert accuracy(SLaM("ce", "k-1", hard=True, lower_bound="1/k"), TILTED) > 0.99


def unsteady() -> Problem:
    """The teacher is right, sure and steady, but in one corner wrong, unsure and unsteady."""
    rng = np.random.default_rng(1)
    n, gold, val = 3_000, 4, 500
    x, truth = two_classes(rng, n)
    corner = (truth == 1) & (x[:, 1].numpy() > 0.1)
    probs = said(~corner, truth, np.where(corner, 0.62, 0.96))
    extras = view_statistics(rng, probs, np.where(corner, 1.5, 0.05))
    rows = make_rows(truth, gold, val, 2)
    keep = np.r_[0:gold, gold + val : n]
    rows = type(rows)(rows.ids[keep], rows.y[keep], rows.val_ids, rows.val_y, 2)
    return Problem(x, truth, rows, TeacherLabels.from_probs(np.arange(n), probs, extras=extras))


UNSTEADY = unsteady()


@pytest.mark.parametrize(
    "method",
    [
        SLaM(hard=True),
        UPS(),
        UPS(binary=True),
        Fidelity(beta=10.0, inner=Vanilla(hard=True)),
        ConfidenceFilter(hard=True),
        FixMatch(threshold=0.9),
    ],
    ids=repr,
)
def test_methods_that_see_which_labels_are_bad_find_the_truth(method: Method) -> None:
    assert accuracy(method, UNSTEADY) > 0.99


def test_vanilla_and_the_blind_rivals_do_not() -> None:
    assert accuracy(Vanilla(hard=True), UNSTEADY) < 0.9
    assert accuracy(Fidelity(beta=10.0, normalizer="sum", inner=Vanilla(hard=True)), UNSTEADY) < 0.9


# -- symmetric losses ---------------------------------------------------------------------------


def gradient_under_uniform_noise(method: Method, flipped: float) -> torch.Tensor:
    """The expected gradient: every row once for each label, weighted by that label's chance."""
    generator = torch.Generator().manual_seed(0)
    classes, n = 4, 50
    truth = torch.arange(n) % classes
    logits = (2 * torch.randn(n, classes, generator=generator)).requires_grad_()
    chance = torch.full((n, classes), flipped / (classes - 1))
    chance[torch.arange(n), truth] = 1 - flipped
    batch = Batch(
        y=torch.full((n * classes,), -1),
        weight=chance.reshape(-1) * classes,
        values={"target": torch.eye(classes).repeat(n, 1)},
        constants={},
    )
    method.loss(Output(logits.repeat_interleave(classes, 0)), batch, None, DONE).backward()
    return logits.grad.reshape(-1)


def alignment(method: Method) -> float:
    clean = gradient_under_uniform_noise(method, 0.0)
    return F.cosine_similarity(clean, gradient_under_uniform_noise(method, 0.4), dim=0).item()


@pytest.mark.parametrize("method", [TaylorCE(1), GCE(1.0), SymmetricCE(alpha=0.0)], ids=repr)
def test_symmetric_losses_have_the_clean_gradient_under_uniform_noise(method: Method) -> None:
    assert alignment(method) == pytest.approx(1, abs=1e-5)
    # And they scale it by 1 - flipped * L / (L - 1).
    clean = gradient_under_uniform_noise(method, 0.0)
    noisy = gradient_under_uniform_noise(method, 0.4)
    torch.testing.assert_close(noisy, clean * (1 - 0.4 * 4 / 3), atol=1e-6, rtol=1e-4)


def test_the_nearer_a_loss_is_to_a_symmetric_one_the_less_the_noise_turns_it() -> None:
    by_loss = [Vanilla(), TaylorCE(6), TaylorCE(2), TaylorCE(1)]
    assert (np.diff([alignment(m) for m in by_loss]) > 0).all()
    assert (np.diff([alignment(m) for m in (Vanilla(), GCE(0.3), GCE(0.7), GCE(1.0))]) > 0).all()
    poly = [Vanilla(), PolyLoss(0.5), PolyLoss(2.0), PolyLoss(100.0)]
    assert (np.diff([alignment(m) for m in poly]) > 0).all()


# -- the rest -----------------------------------------------------------------------------------


def confused() -> Problem:
    """The teacher calls most of class 0 class 1, whatever the example."""
    rng = np.random.default_rng(2)
    n, gold, val = 6_000, 4, 1_000
    x, truth = two_classes(rng, n)
    right = np.where(truth == 0, rng.random(n) < 0.4, rng.random(n) < 0.9)
    rows = make_rows(truth, gold, val, 2)
    keep = np.r_[0:gold, gold + val : n]
    rows = type(rows)(rows.ids[keep], rows.y[keep], rows.val_ids, rows.val_y, 2)
    probs = said(right, truth, np.full(n, 0.9))
    return Problem(x, truth, rows, TeacherLabels.from_probs(np.arange(n), probs))


def test_forward_correction_undoes_class_confusions() -> None:
    problem = confused()
    assert accuracy(ForwardCorrection(hard=True), problem) > 0.98
    assert accuracy(ForwardCorrection(), problem) > 0.98
    assert accuracy(Vanilla(hard=True), problem) < 0.8
    assert accuracy(TaylorCE(2, hard=True), problem) < 0.8


def test_weighted_makes_the_pools_loss_unbiased() -> None:
    rng = np.random.default_rng(3)
    n, gold, val, classes = 8_000, 0, 4_000, 3
    truth = rng.integers(0, classes, n)
    student = rng.dirichlet(np.ones(classes), n) + np.eye(classes)[truth] * 0.7
    student = torch.from_numpy((student / student.sum(1, keepdims=True)).astype(np.float32))
    wrong = rng.random(n) < 0.3
    named = np.where(wrong, (truth + 1) % classes, truth)
    probs = np.where(np.arange(classes) == named[:, None], 0.8, 0.1)
    labels = TeacherLabels.from_probs(np.arange(n), probs)
    method = Weighted(hard=True, neighbours=100)
    rows = make_rows(truth, gold, val, classes)
    columns = fit_and_prepare(method, rows, labels).columns
    method.refresh(student, student[:val], columns)
    pool = slice(val, n)
    log_f = student[pool].log()
    true_loss = F.nll_loss(log_f, torch.from_numpy(truth[pool]), reduction="none")
    teacher_loss = F.nll_loss(log_f, torch.from_numpy(named[pool]), reduction="none")
    plain = teacher_loss.mean() / true_loss.mean()
    weighted = (columns.weight[pool] * teacher_loss).mean() / true_loss.mean()
    assert plain > 1.5
    assert abs(weighted - 1) < 0.1


def overconfident(classes: int, n: int = 6_000) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """True chances, labels drawn from them, and a teacher three times too sure with a bias."""
    rng = np.random.default_rng(4)
    logits = rng.normal(size=(n, classes))
    chance = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    y = (rng.random(n)[:, None] > chance.cumsum(1)).sum(1)
    bias = np.linspace(-1, 1, classes)
    shown = np.exp(3 * (logits - bias))
    return chance, y, shown / shown.sum(1, keepdims=True)


def test_calibration_recovers_temperature_and_bias() -> None:
    _, y, shown = overconfident(3)
    fitted = fit_calibration(shown, y)
    assert fitted.temperature == pytest.approx(3, rel=0.1)
    np.testing.assert_allclose(fitted.bias - fitted.bias.mean(), (-1, 0, 1), atol=0.12)


def test_calibration_without_enough_rows_of_a_class_has_no_bias() -> None:
    _, y, shown = overconfident(3)
    few = np.r_[np.flatnonzero(y == 0)[:49], np.flatnonzero(y > 0)]
    assert not fit_calibration(shown[few], y[few]).bias.any()
    enough = np.r_[np.flatnonzero(y == 0)[:50], np.flatnonzero(y > 0)]
    assert fit_calibration(shown[enough], y[enough]).bias.any()


@pytest.mark.parametrize("stored", [None, 2])
@pytest.mark.parametrize("val", [60, 3_000])
def test_calibrated_labels_are_nearer_to_the_truth(stored: int | None, val: int) -> None:
    chance, y, shown = overconfident(4)
    extras = {"embedding": np.arange(len(y), dtype=np.float32)[:, None]}
    labels = TeacherLabels.from_probs(
        np.arange(len(y)),
        shown,
        k=stored,
        extras=extras,
        missing=np.full(len(y), 0.25),
        temperature=1.5,
    )
    method = Calibrated(inner=SLaM(k=2))
    prepared = fit_and_prepare(method, make_rows(y, 0, val, 4), labels)
    better = prepared.labels
    assert better.k == labels.k
    assert np.array_equal(better.extras["embedding"], extras["embedding"])
    assert (better.missing == 0.25).all()
    assert better.temperature == 1.5
    assert np.abs(better.probs - chance).mean() < 0.75 * np.abs(labels.probs - chance).mean()
    # The noise model saw the calibrated labels.
    trust = prepared.noise.predict(better.take(np.arange(val, len(y))))
    np.testing.assert_array_equal(prepared.columns.values["alpha"][val:], trust.alpha)


def test_vid_learns_the_planted_map_and_variances() -> None:
    rng = np.random.default_rng(5)
    problem = tiny()
    plan = rng.normal(size=(6, 5))
    spread = np.array([0.1, 0.3, 0.5, 1.0, 2.0])
    embedding = problem.x.numpy() @ plan + rng.normal(size=(120, 5)) * spread
    labels = TeacherLabels.from_probs(
        problem.labels.ids, problem.labels.probs, extras={"embedding": embedding}
    )
    method = VID(weight=10.0)
    columns = fit_and_prepare(method, problem.rows, labels).columns
    student = LinearStudent(6, 4)
    projection = method.modules(student, columns)
    optimizer = torch.optim.LBFGS(
        projection.parameters(), max_iter=200, line_search_fn="strong_wolfe"
    )

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        loss = method.loss(student(problem.x), whole_batch(columns), projection, DONE)
        loss.backward()
        return loss

    optimizer.step(closure)
    variance = F.softplus(projection.rho.detach()).numpy()
    np.testing.assert_allclose(np.sqrt(variance), spread, rtol=0.25)
    np.testing.assert_allclose(projection.mean.weight.detach()[0], plan[:, 0], atol=0.1)


@pytest.mark.parametrize(
    "method",
    [Vanilla(), DKD(), Temperature(t_a=1, t_b=0.5), Temperature(t_a=1, t_b=8),
     Temperature(t_a=1, t_b=4, inner=DKD())],
    ids=repr,
)  # fmt: skip
def test_soft_losses_are_least_at_the_teacher_itself(method: Method) -> None:
    logits = torch.tensor([[3.0, 1.0, 0.2, -1.0], [0.0, 2.0, 1.0, 0.5]])
    labels = TeacherLabels.from_logits([0, 1, 2, 3], torch.cat([logits, logits.flip(1)]))
    rows = make_rows(np.array([0, 1, 0, 0]), 0, 0, 4)
    columns = fit_and_prepare(method, type(rows)(
        np.array([0, 1]), np.array([-1, -1]), np.array([2, 3]), np.array([3, 2]), 4
    ), labels).columns  # fmt: skip
    # The stored labels are rounded: take the student at those.
    there = torch.from_numpy(labels.probs[:2]).log().requires_grad_()
    method.loss(Output(there), whole_batch(columns), None, DONE).backward()
    torch.testing.assert_close(there.grad, torch.zeros(2, 4), atol=2e-5, rtol=0)
    away = logits.flip(1).clone().requires_grad_()
    method.loss(Output(away), whole_batch(columns), None, DONE).backward()
    assert away.grad.abs().max() > 1e-3


def test_consistency_without_a_teacher_moves_the_border_into_the_gap() -> None:
    """Two clusters and one misleading gold row each: gold alone cuts through the clusters."""
    rng = np.random.default_rng(6)
    n = 400
    truth = rng.integers(0, 2, n)
    x = rng.normal(size=(n, 2)) * (0.4, 1.5)
    x[:, 0] += np.where(truth == 1, 2.0, -2.0)
    x[:2], truth[:2] = ((-1.6, -2.0), (1.6, 2.0)), (0, 1)
    problem = Problem(
        torch.from_numpy(x.astype(np.float32)), truth, make_rows(truth, 2, 0, 2), tiny().labels
    )

    def trained(method: Method) -> float:
        columns = method.prepare(problem.rows, None, None)
        view = problem.features(columns)
        student = LinearStudent(2, 2)
        optimizer = torch.optim.Adam(student.parameters(), lr=0.1)
        generator = torch.Generator().manual_seed(0)
        for _ in range(150):
            strong = view + 0.8 * torch.randn(view.shape, generator=generator)
            optimizer.zero_grad()
            method.loss(student(view, strong), whole_batch(columns), None, DONE).backward()
            optimizer.step()
        return student.accuracy(problem.x, problem.truth)

    assert trained(GoldOnly()) < 0.96
    assert trained(Consistency(inner=None)) > 0.99
