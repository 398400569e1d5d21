"""Losses of baselines and rivals against their worked numbers."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from noisyteacher.losses import (
    cross_entropy,
    dkd,
    forward_correction_from_log,
    negative_cross_entropy_from_log,
    selected_binary_ce_from_log,
    symmetric_ce_from_log,
    vid_nll,
    vid_rho,
)

Q = np.array([[0.6, 0.3, 0.1]])
LOG_Q = torch.log(torch.tensor(Q))
FIRST = np.array([[1, 0, 0]])
SECOND = np.array([[0, 1, 0]])
TRANSITION = np.array([[0.8, 0.1, 0.1], [0.2, 0.7, 0.1], [0.0, 0.1, 0.9]])
STUDENT = torch.tensor([[2.0, 1.0, 0.0]], dtype=torch.float64)
TEACHER = torch.tensor([[3.0, 1.0, 0.2]], dtype=torch.float64)


def approx(value: float) -> object:
    return pytest.approx(value, abs=6e-7)


def tensor(value: np.ndarray) -> torch.Tensor:
    return torch.tensor(value).double()


def test_symmetric_cross_entropy() -> None:
    assert symmetric_ce_from_log(tensor(FIRST), LOG_Q, 0.1, 1).item() == approx(3.735219)
    assert symmetric_ce_from_log(tensor(FIRST), LOG_Q, 0, 1).item() == approx(3.684136)
    forward = symmetric_ce_from_log(tensor(FIRST), LOG_Q, 1, 0).item()
    assert forward == pytest.approx(cross_entropy(FIRST, Q)[0])


def test_forward_correction() -> None:
    out = forward_correction_from_log(tensor(SECOND), LOG_Q, torch.tensor(TRANSITION))
    assert out.item() == approx(1.272966)


def test_forward_correction_without_noise_is_cross_entropy() -> None:
    soft = np.array([[0.2, 0.5, 0.3]])
    out = forward_correction_from_log(tensor(soft), LOG_Q, tensor(np.eye(3)))
    np.testing.assert_allclose(out, cross_entropy(soft, Q))


def test_forward_correction_keeps_float32_under_autocast() -> None:
    target, log_q, noise = torch.tensor(SECOND).float(), LOG_Q.float(), torch.tensor(TRANSITION)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out = forward_correction_from_log(target, log_q, noise.float())
    assert out.item() == approx(1.272966)


def test_ups_losses() -> None:
    assert cross_entropy(FIRST, Q)[0] == approx(0.510826)
    negatives = tensor(np.array([[False, True, True]]))
    assert negative_cross_entropy_from_log(negatives, LOG_Q).item() == approx(0.231018)
    selected = tensor(np.array([[1, 0, 1]]))
    out = selected_binary_ce_from_log(tensor(FIRST), selected, LOG_Q)
    assert out.item() == approx(0.308093)


def test_ups_without_a_selected_class_is_zero_and_certainty_is_finite() -> None:
    nothing = torch.zeros(1, 3, dtype=torch.float64)
    assert negative_cross_entropy_from_log(nothing, LOG_Q).item() == 0
    assert selected_binary_ce_from_log(tensor(FIRST), nothing, LOG_Q).item() == 0
    certain = negative_cross_entropy_from_log(tensor(FIRST), tensor(FIRST).log()).item()
    assert certain == pytest.approx(-math.log(1e-7), rel=1e-6)


def test_vid() -> None:
    mean = torch.tensor([[0.5, -1, 2], [0, 1, 1]], requires_grad=True)
    embedding = torch.tensor([[1, -1, 1], [0.5, 0.5, 1]], requires_grad=True)
    rho = torch.tensor([0.0, 1, -1], requires_grad=True)
    losses = vid_nll(mean, embedding, rho)
    assert losses.shape == (2,)
    errors_and_variances = zip((0.5, 0, 1), (0.693157, 1.313272, 0.313272), strict=True)
    first = sum(e**2 / v + math.log(v) for e, v in errors_and_variances) / 6
    assert losses[0].item() == pytest.approx(first, abs=2e-6)
    assert losses.mean().item() == approx(0.132875)
    assert 3 * losses.mean().item() == pytest.approx(0.398624, abs=1e-6)
    losses.mean().backward()
    assert mean.grad is not None
    assert rho.grad is not None
    assert (rho.grad != 0).all()
    assert embedding.grad is None


def test_vid_starts_at_the_references_variance() -> None:
    assert vid_rho() == pytest.approx(4.993229, abs=6e-7)
    variance = torch.nn.functional.softplus(torch.tensor(vid_rho(2.0))) + 1e-5
    assert variance.item() == pytest.approx(2.0)
    huge = vid_nll(torch.zeros(1, 1), torch.ones(1, 1), torch.tensor([200.0]))
    assert huge.isfinite().all()


def test_dkd() -> None:
    target = torch.tensor([0])
    assert dkd(STUDENT, TEACHER, target, alpha=1, beta=0).item() == approx(0.102932)
    assert dkd(STUDENT, TEACHER, target, alpha=0, beta=1).item() == approx(0.004942)
    assert dkd(STUDENT, TEACHER, target).item() == approx(0.142465)
    log_probs = torch.log_softmax(TEACHER, -1)
    assert dkd(STUDENT, log_probs, target).item() == approx(0.142465)


def test_dkd_parts_make_up_the_kl() -> None:
    """KL = target-or-not KL + (1 - teacher's target probability) * KL among the others."""
    target = torch.tensor([1])
    t, s = TEACHER.softmax(-1), STUDENT.softmax(-1)
    kl = (t * (t / s).log()).sum(-1)
    parts = dkd(STUDENT, TEACHER, target, 1, 0, 1) + (1 - t[:, 1]) * dkd(
        STUDENT, TEACHER, target, 0, 1, 1
    )
    torch.testing.assert_close(parts, kl)


def plain_dkd(
    student: np.ndarray, teacher: np.ndarray, target: int, temperature: float
) -> tuple[float, float]:
    """Both divergences of one row, in float64, class by class; ``teacher`` are probabilities."""
    q = np.exp(student / temperature) / np.exp(student / temperature).sum()
    p = np.where(teacher > 0, teacher, 0) ** (1 / temperature)
    p = p / p.sum()
    rest = [j for j in range(len(p)) if j != target]
    left = sum(p[j] for j in rest)
    pairs = [(p[target], q[target]), (left, sum(q[j] for j in rest))]
    among = [(p[j] / left, q[j] / sum(q[i] for i in rest)) for j in rest] if left else []
    between, others = (
        sum(a * math.log(a / b) for a, b in terms if a > 0) for terms in (pairs, among)
    )
    return temperature**2 * between, temperature**2 * others


@pytest.mark.parametrize("temperature", [1.0, 4.0, 10.0])
@pytest.mark.parametrize("left", [0.0, 1e-30, 1e-6, 0.2], ids=lambda left: f"left={left}")
def test_dkd_takes_classes_of_no_probability_as_they_are(left: float, temperature: float) -> None:
    """With a floor of 1e-12 a one-hot label of 1 000 classes lost half its mass at T = 4."""
    rng = np.random.default_rng(0)
    student = rng.normal(size=1000)
    teacher = np.zeros(1000)
    teacher[[7, 500]] = 1 - left, left
    logits = torch.tensor(student)[None].requires_grad_()
    for weights, expected in zip(
        ((1.0, 0.0), (0.0, 1.0)), plain_dkd(student, teacher, 7, temperature), strict=True
    ):
        log_probs = torch.tensor(teacher)[None].log()
        out = dkd(logits, log_probs, torch.tensor([7]), *weights, temperature)
        assert out.item() == pytest.approx(expected, rel=1e-9, abs=1e-12)
        (grad,) = torch.autograd.grad(out, logits)
        assert grad.isfinite().all()


@pytest.mark.parametrize(
    "loss",
    [
        lambda z, t: dkd(z, t, t.argmax(-1)),
        lambda z, t: symmetric_ce_from_log(t.softmax(-1), z.log_softmax(-1), 6, 1),
        lambda z, t: forward_correction_from_log(
            t.softmax(-1), z.log_softmax(-1), torch.tensor(TRANSITION).to(z)
        ),
        lambda z, t: negative_cross_entropy_from_log((t < 0).to(z), z.log_softmax(-1)),
        lambda z, t: selected_binary_ce_from_log(
            (t > 0.5).to(z), (t < 0.9).to(z), z.log_softmax(-1)
        ),
        lambda z, t: vid_nll(z, t, torch.zeros(3).to(z)),
    ],
    ids=["dkd", "sce", "forward", "negative", "binary", "vid"],
)
class TestGradients:
    def test_are_the_numerical_ones_and_spare_the_teacher(self, loss: object) -> None:
        torch.manual_seed(0)
        z = torch.randn(4, 3, dtype=torch.float64, requires_grad=True)
        t = torch.randn(4, 3, dtype=torch.float64)
        assert torch.autograd.gradcheck(lambda z: loss(z, t), (z,))  # type: ignore[operator]
        t.requires_grad_()
        loss(z, t).sum().backward()  # type: ignore[operator]
        assert t.grad is None

    def test_stay_finite_at_extreme_and_uniform_logits(self, loss: object) -> None:
        z = torch.tensor([[1e4, -1e4, 0.0], [-1e4, 1e4, 1e4], [0.0, 0.0, 0.0]]).requires_grad_()
        losses = loss(z, torch.tensor([[-1e4, 1e4, 0.0]] * 3))  # type: ignore[operator]
        (grad,) = torch.autograd.grad(losses.sum(), z)
        assert losses.isfinite().all()
        assert grad.isfinite().all()
