"""Cross-entropy, Taylor-CE and Poly-1 on soft labels, alone and on the mix."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from noisyteacher.core.errors import InputError
from noisyteacher.losses import (
    GCE,
    CrossEntropy,
    Poly1,
    TaylorCE,
    cross_entropy,
    gce,
    mix,
    poly1,
    resolve_base,
    taylor_ce,
    top_mask,
    vanilla_loss,
)

Y = np.array([[0.7, 0.2, 0.1]])
Q = np.array([[0.6, 0.3, 0.1]])
HARD = np.array([[1.0, 0.0, 0.0]])
F0 = np.array([[0.5, 0.3, 0.15, 0.05]])
YS0 = np.array([[0.1, 0.6, 0.25, 0.05]])
HARD0 = np.array([[0, 1, 0, 0]])

BASES = [CrossEntropy(), TaylorCE(1), TaylorCE(2), TaylorCE(6), Poly1(-1), Poly1(2), GCE(0.7)]


def approx(value: float) -> object:
    return pytest.approx(value, abs=6e-7)


@pytest.mark.parametrize(("order", "expected"), [(1, 0.5), (2, 0.625), (6, 0.691146)])
def test_taylor_ce_by_order(order: int, expected: float) -> None:
    half = np.array([[0.5, 0.5]])
    assert taylor_ce(np.array([[1, 0]]), half, order)[0] == approx(expected)


def test_taylor_ce_is_linear_in_the_label() -> None:
    assert taylor_ce(Y, Q)[0] == approx(0.6555)
    assert taylor_ce(HARD, Q)[0] == approx(0.48)
    inner_product = (Y * Q).sum()
    assert (1 - inner_product) + (1 - inner_product) ** 2 / 2 == approx(0.64005)


def test_taylor_ce_goes_to_cross_entropy_and_high_orders_stay_finite() -> None:
    assert taylor_ce(Y, Q, 400)[0] == pytest.approx(cross_entropy(Y, Q)[0], abs=1e-9)
    q = torch.tensor([[0.0, 1.0]], requires_grad=True)
    taylor_ce(torch.tensor([[1.0, 0.0]]), q, 100).sum().backward()
    assert q.grad is not None
    assert q.grad.tolist() == [[pytest.approx(-100.0), 0.0]]


@pytest.mark.parametrize(("epsilon", "expected"), [(-1, 0.318631), (1, 1.338631), (2, 1.848631)])
def test_poly1_by_epsilon(epsilon: float, expected: float) -> None:
    assert cross_entropy(Y, Q)[0] == approx(0.828631)
    assert poly1(Y, Q, epsilon)[0] == approx(expected)


def test_poly1_on_a_hard_label() -> None:
    assert poly1(HARD, Q)[0] == approx(1.310826)


@pytest.mark.parametrize(
    ("loss", "normalize", "hard", "soft"),
    [
        (cross_entropy, "k-1", 1.155183, 1.311013),
        (cross_entropy, "none", 0.867501, 1.012848),
        (cross_entropy, "sum", 1.141337, 1.286685),
        (taylor_ce, "none", 0.748200, 0.794151),
        (taylor_ce, "k-1", 0.919613, 0.962836),
        (poly1, "none", 2.027501, 2.225348),
        (poly1, "k-1", 2.525183, 2.728263),
    ],
)
def test_losses_of_the_mix_in_the_worked_example(
    loss: object, normalize: str, hard: float, soft: float
) -> None:
    m = mix(F0, 0.7, top_mask(YS0, 3), 3, normalize)
    assert loss(HARD0, m)[0] == approx(hard)  # type: ignore[operator]
    assert loss(YS0, m)[0] == approx(soft)  # type: ignore[operator]


def test_vanilla_of_the_worked_example() -> None:
    assert cross_entropy(HARD0, F0)[0] == approx(1.203973)
    assert cross_entropy(YS0, F0)[0] == approx(1.415765)
    logits = torch.log(torch.tensor(F0))
    assert vanilla_loss(logits, torch.tensor(YS0), CrossEntropy()).item() == approx(1.415765)


@pytest.mark.parametrize(
    ("temperature", "ce", "kl"),
    [(1, 0.622426, 0.074688), (2, 0.946942, 0.026231), (4, 1.059497, 0.105524 / 16)],
)
def test_cross_entropy_of_tempered_logits(temperature: int, ce: float, kl: float) -> None:
    student = torch.tensor([[2.0, 1.0, 0.0]]).div(temperature).softmax(-1)
    teacher = torch.tensor([[3.0, 1.0, 0.2]]).div(temperature).softmax(-1)
    assert cross_entropy(teacher, student).item() == approx(ce)
    entropy = cross_entropy(teacher, teacher)
    assert (cross_entropy(teacher, student) - entropy).item() == approx(kl)


def test_gce_between_cross_entropy_and_absolute_error() -> None:
    half = np.array([[0.5, 0.5]])
    assert gce(np.array([[1, 0]]), half)[0] == approx(0.549183)
    assert gce(Y, Q)[0] == approx(0.577696)
    assert gce(Y, Q, 1)[0] == pytest.approx(taylor_ce(Y, Q, 1)[0])
    assert gce(Y, Q, 1e-8)[0] == pytest.approx(cross_entropy(Y, Q)[0], abs=1e-6)


@pytest.mark.parametrize("base", BASES, ids=repr)
def test_log_path_and_probability_path_agree(base: TaylorCE) -> None:
    torch.manual_seed(0)
    logits = torch.randn(5, 4, dtype=torch.float64)
    target = torch.rand(5, 4, dtype=torch.float64)
    torch.testing.assert_close(vanilla_loss(logits, target, base), base(target, logits.softmax(-1)))


@pytest.mark.parametrize("base", BASES, ids=repr)
def test_gradients_are_the_numerical_ones(base: TaylorCE) -> None:
    torch.manual_seed(0)
    logits = torch.randn(3, 4, dtype=torch.float64, requires_grad=True)
    target = torch.rand(3, 4, dtype=torch.float64)
    assert torch.autograd.gradcheck(lambda z: vanilla_loss(z, target, base), (logits,))
    assert torch.autograd.gradcheck(lambda z: base(target, z.softmax(-1)), (logits,))


@pytest.mark.parametrize("base", BASES, ids=repr)
def test_extreme_logits_and_zero_probabilities_stay_finite(base: TaylorCE) -> None:
    logits = torch.tensor([[1e4, -1e4, 0.0]], requires_grad=True)
    target = torch.tensor([[0.2, 0.8, 0.0]])
    for losses in (vanilla_loss(logits, target, base), base(target, logits.softmax(-1))):
        (grad,) = torch.autograd.grad(losses.sum(), logits)
        assert losses.isfinite().all()
        assert grad.isfinite().all()


def test_a_class_the_student_excludes_costs_a_finite_amount_only_if_it_is_the_label() -> None:
    certain = np.array([[1.0, 0.0]], dtype=np.float32)
    assert cross_entropy(certain, certain)[0] == 0
    assert cross_entropy(certain[:, ::-1], certain)[0] == pytest.approx(87.3, abs=0.1)


def test_kinds_and_dtypes_follow_the_prediction() -> None:
    assert isinstance(cross_entropy(Y, Q), np.ndarray)
    assert cross_entropy(Y, Q.astype(np.float16)).dtype == np.float32
    out = poly1(Y, torch.tensor(Q).bfloat16())
    assert isinstance(out, torch.Tensor)
    assert out.dtype == torch.float32
    assert taylor_ce(torch.tensor(Y), Q).dtype == np.float64


def test_the_target_receives_no_gradient() -> None:
    target = torch.tensor(Y, requires_grad=True)
    probs = torch.tensor(Q, requires_grad=True)
    for loss in (cross_entropy, taylor_ce, poly1, gce):
        loss(target, probs).sum().backward()
    assert probs.grad is not None
    assert target.grad is None


def test_names_read_as_they_are_written() -> None:
    assert repr(TaylorCE(2)) == "TaylorCE(2)"
    assert repr(TaylorCE(order=5)) == "TaylorCE(5)"
    assert repr(Poly1(-1)) == repr(Poly1(-1.0)) == "Poly1(-1.0)"
    assert repr(CrossEntropy()) == "CrossEntropy()"
    assert TaylorCE() == TaylorCE(2) != TaylorCE(3)
    assert hash(Poly1(2)) == hash(Poly1())


def test_short_names() -> None:
    assert resolve_base("ce") == CrossEntropy()
    assert resolve_base("taylor_ce") == TaylorCE(2)
    assert resolve_base("poly1") == Poly1(2.0)
    assert resolve_base(max) is max  # type: ignore[arg-type]
    with pytest.raises(InputError, match="'ce', 'taylor_ce', 'poly1' or a function, not 'mse'"):
        resolve_base("mse")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: TaylorCE(0), "order of Taylor-CE .* not 0"),
        (lambda: taylor_ce(Y, Q, 0), "order of Taylor-CE .* not 0"),
        (lambda: Poly1(-1.5), "at least -1, not -1.5"),
        (lambda: Poly1(math.nan), "at least -1, not nan"),
        (lambda: poly1(Y, Q, -2), "at least -1, not -2"),
        (lambda: GCE(0), r"\(0, 1\], not 0"),
        (lambda: gce(Y, Q, 1.5), r"\(0, 1\], not 1.5"),
        (lambda: cross_entropy(Y, Q[:, :2]), r"target must have shape \(1, 2\), not \(1, 3\)"),
        (lambda: cross_entropy(torch.tensor(Y[:, :1]), torch.tensor(Q)), r"not \(1, 1\)"),
        (lambda: cross_entropy(torch.tensor(Y), torch.tensor(Q).repeat(2, 1)), r"\(2, 3\)"),
        (lambda: cross_entropy(np.array([0]), Q), r"target must have shape \(n, L\)"),
        (lambda: cross_entropy(Y, Q[0]), r"probs must have shape \(n, L\)"),
        (lambda: cross_entropy(Y[:, :0], Q[:, :0]), r"must have shape \(n, L\), not \(1, 0\)"),
        (lambda: cross_entropy(Y, Q * math.nan), "probs .* found nan"),
        (lambda: cross_entropy(torch.tensor(Y * math.nan), torch.tensor(Q)), "target .* nan"),
        (lambda: cross_entropy(Y, Q - 0.2), "probs .* found -0.1"),
    ],
)
def test_bad_input_gets_one_sentence(make: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        make()  # type: ignore[operator]


def test_no_rows_have_no_losses() -> None:
    assert cross_entropy(Y[:0], Q[:0]).shape == (0,)
