"""Losses of baselines and rivals against their worked numbers."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from noisyteacher.core.errors import InputError
from noisyteacher.losses import (
    backward_correction,
    backward_correction_from_log,
    cross_entropy,
    dist,
    dkd,
    forward_correction,
    forward_correction_from_log,
    negative_cross_entropy,
    negative_cross_entropy_from_log,
    selected_binary_ce,
    selected_binary_ce_from_log,
    symmetric_ce,
    symmetric_ce_from_log,
    ttm,
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


def test_symmetric_cross_entropy() -> None:
    assert symmetric_ce(FIRST, Q)[0] == approx(3.735219)
    assert symmetric_ce(FIRST, Q, 0, 1)[0] == approx(3.684136)
    assert symmetric_ce(FIRST, Q, 1, 0)[0] == pytest.approx(cross_entropy(FIRST, Q)[0])
    one_hot = torch.tensor(FIRST).double()
    assert symmetric_ce_from_log(one_hot, LOG_Q, 0.1, 1).item() == approx(3.735219)


def test_forward_correction() -> None:
    assert forward_correction(SECOND, Q, TRANSITION)[0] == approx(1.272966)
    out = forward_correction_from_log(
        torch.tensor(SECOND).double(), LOG_Q, torch.tensor(TRANSITION)
    )
    assert out.item() == approx(1.272966)


def test_backward_correction() -> None:
    assert backward_correction(SECOND, Q, TRANSITION)[0] == approx(1.326576)
    inverse = torch.linalg.inv(torch.tensor(TRANSITION))
    out = backward_correction_from_log(torch.tensor(SECOND).double(), LOG_Q, inverse)
    assert out.item() == approx(1.326576)


def test_corrections_without_noise_are_cross_entropy() -> None:
    soft = np.array([[0.2, 0.5, 0.3]])
    for correction in (forward_correction, backward_correction):
        np.testing.assert_allclose(correction(soft, Q, np.eye(3)), cross_entropy(soft, Q))


def test_backward_correction_is_unbiased() -> None:
    """Averaged over the noisy label of each true class, it is the loss of the true label."""
    each_label = np.eye(3)
    losses = backward_correction(each_label, np.repeat(Q, 3, axis=0), TRANSITION)
    np.testing.assert_allclose(TRANSITION @ losses, -np.log(Q[0]))


def test_forward_correction_keeps_float32_under_autocast() -> None:
    target, log_q, noise = torch.tensor(SECOND).float(), LOG_Q.float(), torch.tensor(TRANSITION)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out = forward_correction_from_log(target, log_q, noise.float())
    assert out.item() == approx(1.272966)


def test_ups_losses() -> None:
    assert cross_entropy(FIRST, Q)[0] == approx(0.510826)
    negatives = np.array([[False, True, True]])
    assert negative_cross_entropy(negatives, Q)[0] == approx(0.231018)
    out = negative_cross_entropy_from_log(torch.tensor(negatives).double(), LOG_Q)
    assert out.item() == approx(0.231018)
    selected = np.array([[1, 0, 1]])
    assert selected_binary_ce(FIRST, selected, Q)[0] == approx(0.308093)
    out = selected_binary_ce_from_log(
        torch.tensor(FIRST).double(), torch.tensor(selected).double(), LOG_Q
    )
    assert out.item() == approx(0.308093)


def test_ups_without_a_selected_class_is_zero_and_certainty_is_finite() -> None:
    nothing = np.zeros((1, 3))
    assert negative_cross_entropy(nothing, Q)[0] == 0
    assert selected_binary_ce(FIRST, nothing, Q)[0] == 0
    certain = FIRST.astype(np.float64)
    assert negative_cross_entropy(certain, certain)[0] == pytest.approx(-math.log(1e-7), rel=1e-6)


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


def test_ttm_and_dist() -> None:
    assert ttm(STUDENT, TEACHER, 2).item() == approx(0.940951)
    zs = torch.tensor([[2, 1, 0], [0, 1.5, 0.5], [1, 0, 2]])
    zt = torch.tensor([[3, 1, 0.2], [0.1, 2, 0.3], [0.5, 0.2, 1]])
    assert dist(zs, zt, 1, 0).item() == approx(0.009484)
    assert dist(zs, zt, 0, 1).item() == approx(0.032345)
    assert dist(zs, zt).item() == pytest.approx(0.009484 + 0.032345, abs=1e-6)


@pytest.mark.parametrize(
    "loss",
    [
        lambda z, t: dkd(z, t, t.argmax(-1)),
        lambda z, t: ttm(z, t, 2.0),
        lambda z, t: dist(z, t),
        lambda z, t: symmetric_ce_from_log(t.softmax(-1), z.log_softmax(-1), 6, 1),
        lambda z, t: forward_correction_from_log(
            t.softmax(-1), z.log_softmax(-1), torch.tensor(TRANSITION).to(z)
        ),
        lambda z, t: backward_correction_from_log(
            t.softmax(-1), z.log_softmax(-1), torch.linalg.inv(torch.tensor(TRANSITION)).to(z)
        ),
        lambda z, t: negative_cross_entropy_from_log((t < 0).to(z), z.log_softmax(-1)),
        lambda z, t: selected_binary_ce_from_log(
            (t > 0.5).to(z), (t < 0.9).to(z), z.log_softmax(-1)
        ),
        lambda z, t: vid_nll(z, t, torch.zeros(3).to(z)),
    ],
    ids=["dkd", "ttm", "dist", "sce", "forward", "backward", "negative", "binary", "vid"],
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


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: forward_correction(FIRST, Q, TRANSITION[:2]),
            r"transition must have shape \(3, 3\), not \(2, 3\)",
        ),
        (lambda: forward_correction(FIRST, Q, TRANSITION / 2), "transition row 0 sums to"),
        (lambda: forward_correction(FIRST, Q, TRANSITION * math.nan), "transition row 0 holds NaN"),
        (lambda: backward_correction(FIRST, Q, np.full((3, 3), 1 / 3)), "invertible"),
        (lambda: backward_correction(FIRST[:, :2], Q, TRANSITION), "target must have shape"),
        (lambda: negative_cross_entropy(FIRST[:, :2], Q), r"negatives must have shape \(1, 3\)"),
        (lambda: selected_binary_ce(FIRST, FIRST[:, :2], Q), r"selected must have shape \(1, 3\)"),
        (lambda: symmetric_ce(FIRST, Q * math.nan), "probs .* nan"),
    ],
)
def test_bad_input_gets_one_sentence(make: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        make()  # type: ignore[operator]
