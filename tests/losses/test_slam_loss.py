"""SLaMLoss: values, gradients, numerics at the edges, and what it refuses."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import Tensor

from noisyteacher.core.errors import InputError
from noisyteacher.losses import (
    CrossEntropy,
    Poly1,
    SLaMLoss,
    TaylorCE,
    cross_entropy,
    log_mix,
    mix,
    slam_loss,
    top_mask,
    vanilla_loss,
)

MODES = ["sum", "none", "k-1"]
BASES = [CrossEntropy(), TaylorCE(2), Poly1(2.0)]
LOGITS = torch.log(torch.tensor([[0.5, 0.3, 0.15, 0.05]], dtype=torch.float64))
YS = torch.tensor([[0.1, 0.6, 0.25, 0.05]], dtype=torch.float64)


def gradient(loss: SLaMLoss, logits: Tensor, *args: object) -> Tensor:
    z = logits.clone().requires_grad_()
    (grad,) = torch.autograd.grad(loss(z, *args).sum(), z)
    return grad


@pytest.mark.parametrize(
    ("normalize", "hard", "soft"),
    [
        ("k-1", 1.155183, 1.311013),
        ("none", 0.867501, 1.012848),
        ("sum", 1.141337, 1.286685),
    ],
)
def test_values_of_the_worked_example(normalize: str, hard: float, soft: float) -> None:
    for is_hard, expected in ((True, hard), (False, soft)):
        loss = SLaMLoss(normalize=normalize, hard=is_hard)
        assert loss(LOGITS, YS, 0.7, 3).item() == pytest.approx(expected, abs=6e-7)


@pytest.mark.parametrize(
    ("base", "normalize", "hard", "soft"),
    [
        ("taylor_ce", "none", 0.748200, 0.794151),
        ("taylor_ce", "k-1", 0.919613, 0.962836),
        ("poly1", "none", 2.027501, 2.225348),
        ("poly1", "k-1", 2.525183, 2.728263),
    ],
)
def test_values_with_other_bases(base: str, normalize: str, hard: float, soft: float) -> None:
    for is_hard, expected in ((True, hard), (False, soft)):
        loss = SLaMLoss(base=base, normalize=normalize, hard=is_hard)
        assert loss(LOGITS, YS, 0.7, 3).item() == pytest.approx(expected, abs=6e-7)


@pytest.mark.parametrize(
    ("normalize", "hard", "expected"),
    [
        ("k-1", True, [0.261905, -0.366667, 0.078571, 0.026190]),
        ("none", True, [0.142857, -0.2, 0.042857, 0.014286]),
        ("sum", True, [0.137154, -0.203422, 0.041146, 0.025122]),
        ("none", False, [0.111548, -0.080500, 0.003798, -0.034845]),
    ],
)
def test_gradients_of_the_worked_example(normalize: str, hard: bool, expected: list[float]) -> None:
    grad = gradient(SLaMLoss(normalize=normalize, hard=hard), LOGITS, YS, 0.7, 3)
    np.testing.assert_allclose(grad[0], expected, atol=6e-7)


def random_case(
    rows: int = 6, classes: int = 5, dtype: torch.dtype = torch.float64
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(1)
    logits = 2 * torch.randn(rows, classes, generator=generator, dtype=dtype)
    teacher = torch.randn(rows, classes, generator=generator, dtype=dtype).mul(2).softmax(-1)
    alpha = torch.linspace(0.3, 1.0, rows, dtype=dtype)
    k = torch.arange(rows) % (classes - 1) + 2
    return logits, teacher, alpha, k


def test_gradient_with_hard_labels_is_a_scaled_vanilla_gradient() -> None:
    """With "none" it is -rho (e_y - f): 0 at alpha = ½, away from the label below it."""
    logits, teacher, _, k = random_case()
    y = torch.eye(5, dtype=torch.float64)[teacher.argmax(-1)]
    f = logits.softmax(-1)
    f_y = (f * y).sum(-1)
    for a in (0.2, 0.5, 0.6, 0.9, 1.0):
        rho = (2 * a - 1) * f_y / ((1 - a) + (2 * a - 1) * f_y)
        loss = SLaMLoss(normalize="none", hard=True, reduction="sum")
        grad = gradient(loss, logits, teacher, a, k)
        torch.testing.assert_close(grad, -rho[:, None] * (y - f))


def test_half_trusted_hard_labels_are_ignored_exactly() -> None:
    logits, teacher, _, k = random_case(dtype=torch.float32)
    loss = SLaMLoss(normalize="none", hard=True)
    assert (gradient(loss, logits, teacher, 0.5, k) == 0).all()
    assert (gradient(loss, logits, teacher, 0.51, k) != 0).all()


def test_in_the_papers_equation_the_dead_point_is_one_over_k() -> None:
    logits, teacher, _, _ = random_case()
    loss = SLaMLoss(normalize="k-1", hard=True)
    for k in (2, 3, 5):
        assert gradient(loss, logits, teacher, 1 / k, k).abs().max() < 1e-15
        assert gradient(loss, logits, teacher, 1 / k + 0.1, k).abs().max() > 1e-3


@pytest.mark.parametrize("normalize", MODES)
@pytest.mark.parametrize("base", BASES, ids=repr)
@pytest.mark.parametrize("hard", [False, True])
def test_gradcheck(normalize: str, base: TaylorCE, hard: bool) -> None:
    logits, teacher, alpha, k = random_case()
    loss = SLaMLoss(base, normalize, hard, reduction="none")
    z = logits.requires_grad_()
    assert torch.autograd.gradcheck(lambda z: loss(z, teacher, alpha, k), (z,))


@pytest.mark.parametrize("normalize", MODES)
@pytest.mark.parametrize("base", BASES, ids=repr)
@pytest.mark.parametrize("hard", [False, True])
def test_full_trust_is_the_plain_loss(normalize: str, base: TaylorCE, hard: bool) -> None:
    logits, teacher, _, k = random_case(dtype=torch.float32)
    target = torch.eye(5)[teacher.argmax(-1)] if hard else teacher
    z = logits.clone().requires_grad_()
    plain = vanilla_loss(z, target, base)
    (expected,) = torch.autograd.grad(plain.sum(), z)
    loss = SLaMLoss(base, normalize, hard, reduction="none")
    torch.testing.assert_close(loss(logits, teacher, 1.0, k), plain, atol=1e-6, rtol=1e-6)
    grad = gradient(loss, logits, teacher, 1.0, k)
    torch.testing.assert_close(grad, expected, atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("normalize", MODES)
@pytest.mark.parametrize("base", BASES, ids=repr)
def test_the_loss_is_the_base_of_the_mix(normalize: str, base: TaylorCE) -> None:
    """The log path used in training agrees with the plain functions of probabilities."""
    logits, teacher, alpha, k = random_case()
    m = mix(logits.softmax(-1), alpha, top_mask(teacher, k), k, normalize)
    loss = SLaMLoss(base, normalize, reduction="none")
    torch.testing.assert_close(loss(logits, teacher, alpha, k), base(teacher, m))


@pytest.mark.parametrize("normalize", MODES)
@pytest.mark.parametrize("base", BASES, ids=repr)
@pytest.mark.parametrize("hard", [False, True])
def test_extreme_logits_stay_finite(normalize: str, base: TaylorCE, hard: bool) -> None:
    classes = 6
    rows = [[s * 1e4 for s in signs] for signs in ([1, -1, 0, 1, -1, 1], [-1] * 5 + [1], [1] * 6)]
    logits = torch.tensor(rows)
    teacher = torch.tensor([[0.5, 0.3, 0.2, 0.0, 0.0, 0.0]]).repeat(3, 1)
    loss = SLaMLoss(base, normalize, hard, reduction="none")
    for alpha in (1e-3, 0.5, 0.75, 1 - 2**-24, 1.0):
        for k in range(2, classes + 1):
            assert loss(logits, teacher, alpha, k).isfinite().all(), (alpha, k)
            assert gradient(loss, logits, teacher, alpha, k).isfinite().all(), (alpha, k)


def test_an_excluded_label_still_pulls_where_the_probability_underflows() -> None:
    """Outside the shortlist the log is exact, so the gradient survives f = 0."""
    logits = torch.tensor([[200.0, 150.0, 0.0]])
    teacher = torch.tensor([[0.5, 0.3, 0.2]])
    grad = gradient(SLaMLoss(normalize="none"), logits, teacher, 0.7, 2)
    assert grad[0, 2].item() == pytest.approx(-0.2)


@pytest.mark.parametrize("classes", [1_000, 5_000])
def test_many_classes_keep_their_gradient(classes: int) -> None:
    """A floor of 1e-7 under the mix, as Keras has, loses a good part of the gradient here."""
    generator = torch.Generator().manual_seed(0)
    logits = 4 * torch.randn(8, classes, generator=generator)
    teacher = (2 * torch.randn(8, classes, generator=generator)).softmax(-1)
    k = torch.full((8,), 5)
    mask = top_mask(teacher, k)

    def clamped(z: Tensor) -> Tensor:
        m = mix(z.softmax(-1), 0.7, mask, k, "none")
        return -(teacher * m.clamp(1e-7, 1).log()).sum()

    def grad_of(loss: object, z: Tensor) -> Tensor:
        z = z.clone().requires_grad_()
        return torch.autograd.grad(loss(z), z)[0]  # type: ignore[operator]

    ours = SLaMLoss(normalize="none", reduction="sum")
    exact = grad_of(lambda z: ours(z, teacher.double(), 0.7, k), logits.double())
    error = (gradient(ours, logits, teacher, 0.7, k) - exact).norm() / exact.norm()
    trap = (grad_of(clamped, logits) - exact).norm() / exact.norm()
    assert error < 1e-5
    assert trap > 0.05


def test_the_shortlist_comes_from_the_soft_labels_also_when_hard() -> None:
    logits, teacher, alpha, k = random_case()
    y = torch.eye(5, dtype=torch.float64)[teacher.argmax(-1)]
    m = mix(logits.softmax(-1), alpha, top_mask(teacher, k), k)
    loss = SLaMLoss(hard=True, reduction="none")
    torch.testing.assert_close(loss(logits, teacher, alpha, k), cross_entropy(y, m))
    wrong = mix(logits.softmax(-1), alpha, top_mask(y, k), k)
    assert not torch.allclose(cross_entropy(y, m), cross_entropy(y, wrong))


def test_hard_ties_go_to_the_lower_index() -> None:
    teacher = torch.full((1, 200), 1 / 200)
    logits = torch.arange(200.0)[None] / 100
    target = torch.eye(200)[:1]
    expected = -torch.log_softmax(logits, -1)[0, 0]
    loss = SLaMLoss(hard=True)
    torch.testing.assert_close(loss(logits, teacher, 1.0, 2), expected)
    torch.testing.assert_close(loss(logits, target, 1.0, 2), expected)


def test_the_shortlist_is_ranked_in_the_teachers_own_precision() -> None:
    close = torch.tensor([[0.25, 0.25 + 1e-12, 0.5 - 1e-12]], dtype=torch.float64)
    logits = torch.tensor([[1.0, 0.0, -1.0]])
    m = mix(logits.softmax(-1), 0.6, top_mask(close, 2), 2)
    torch.testing.assert_close(
        SLaMLoss()(logits, close, 0.6, 2), cross_entropy(close.float(), m)[0]
    )


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_computed_in_float32(dtype: torch.dtype) -> None:
    logits, teacher, alpha, k = random_case(dtype=torch.float32)
    low = logits.to(dtype)
    loss = SLaMLoss(reduction="none")
    out = loss(low, teacher, alpha, k)
    assert out.dtype == torch.float32
    torch.testing.assert_close(out, loss(low.float(), teacher, alpha, k), atol=0, rtol=0)
    assert loss(low, teacher.to(dtype), alpha.to(dtype), k).dtype == torch.float32


def test_autocast_does_not_lower_the_precision() -> None:
    logits, teacher, alpha, k = random_case(dtype=torch.float32)
    expected = SLaMLoss()(logits, teacher, alpha, k)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        torch.testing.assert_close(SLaMLoss()(logits, teacher, alpha, k), expected)


def test_no_gradient_reaches_the_teacher() -> None:
    logits, teacher, alpha, k = random_case()
    constants = [teacher.requires_grad_(), alpha.requires_grad_()]
    z = logits.requires_grad_()
    SLaMLoss()(z, teacher, alpha, k).backward()
    assert z.grad is not None
    assert all(c.grad is None for c in constants)
    log_mix(z, alpha, top_mask(teacher, k), k, "sum").sum().backward()
    slam_loss(z, teacher, alpha, top_mask(teacher, k), k, Poly1(), "k-1").sum().backward()
    assert all(c.grad is None for c in constants)


def test_a_base_of_the_users_own() -> None:
    def squared(target: Tensor, probs: Tensor) -> Tensor:
        return (target - probs).square().sum(-1)

    logits, teacher, alpha, k = random_case()
    m = mix(logits.softmax(-1), alpha, top_mask(teacher, k), k)
    loss = SLaMLoss(base=squared, reduction="none")
    torch.testing.assert_close(loss(logits, teacher, alpha, k), squared(teacher, m))
    torch.testing.assert_close(
        SLaMLoss(base=cross_entropy, reduction="none")(logits, teacher, alpha, k),
        SLaMLoss(reduction="none")(logits, teacher, alpha, k),
    )
    with pytest.raises(InputError, match=r"must return shape \(6,\), not \(\)"):
        SLaMLoss(base=lambda t, p: (t - p).sum())(logits, teacher, alpha, k)


def test_reductions_and_broadcast_trust() -> None:
    logits, teacher, _, _ = random_case()
    each = SLaMLoss(reduction="none")(logits, teacher, 0.8, 3)
    assert each.shape == (6,)
    torch.testing.assert_close(SLaMLoss()(logits, teacher, 0.8, 3), each.mean())
    per_row = (np.full(6, 0.8), np.full(6, 3))
    torch.testing.assert_close(
        SLaMLoss(reduction="sum")(logits, teacher.numpy(), *per_row), each.sum()
    )


def test_repr_says_everything() -> None:
    text = repr(SLaMLoss(TaylorCE(3), "none", hard=True, reduction="sum"))
    assert text == "SLaMLoss(base=TaylorCE(3), normalize='none', hard=True, reduction='sum')"


@pytest.mark.parametrize("normalize", MODES)
@pytest.mark.parametrize("base", BASES, ids=repr)
def test_the_unchecked_form_never_looks_at_values(normalize: str, base: TaylorCE) -> None:
    """Tensors without values: any host read, or any branch on data, would raise."""
    logits = torch.empty(4, 7, device="meta", requires_grad=True)
    out = slam_loss(
        logits,
        torch.empty(4, 7, device="meta"),
        torch.empty(4, device="meta"),
        torch.empty(4, 7, device="meta", dtype=torch.bool),
        torch.empty(4, device="meta", dtype=torch.int64),
        base,
        normalize,
    )
    assert out.shape == (4,)
    out.sum().backward()


def test_values_off_the_cpu_are_not_looked_at() -> None:
    logits, probs = torch.empty(4, 7, device="meta"), torch.empty(4, 7, device="meta")
    alpha = torch.empty(4, device="meta")
    k = torch.empty(4, device="meta", dtype=torch.int64)
    assert SLaMLoss()(logits, probs, alpha, k).shape == ()
    with pytest.raises(InputError, match=r"alpha .* found 2"):
        SLaMLoss()(logits, probs, 2.0, k)
    with pytest.raises(InputError, match=r"k must lie in \[2, 7\]"):
        SLaMLoss()(logits, probs, alpha, 8)
    with pytest.raises(InputError, match="teacher_probs must have shape"):
        SLaMLoss()(logits, probs[:, :6], alpha, k)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"teacher_probs": YS[:, :3]}, r"teacher_probs must have shape \(1, 4\), not \(1, 3\)"),
        ({"teacher_probs": YS.repeat(2, 1)}, r"not \(2, 4\)"),
        ({"teacher_probs": YS[0]}, r"not \(4,\)"),
        ({"teacher_probs": YS * math.nan}, "teacher_probs row 0 holds NaN"),
        ({"teacher_probs": YS.numpy() - 0.1}, r"row 0 holds a negative probability, -0\.05"),
        ({"teacher_probs": YS / 2}, r"teacher_probs row 0 sums to 0\.5 instead of 1"),
        ({"logits": LOGITS[0]}, r"logits must have shape \(n, L\) with L ≥ 2, not \(4,\)"),
        ({"logits": LOGITS[:, :1]}, "L ≥ 2"),
        ({"logits": LOGITS.long()}, "floating-point"),
        ({"alpha": 0.0}, r"alpha must lie in \(0, 1\]; found 0"),
        ({"alpha": torch.tensor([1.5])}, "found 1.5"),
        ({"alpha": torch.tensor([[0.5]])}, r"alpha .* not \(1, 1\)"),
        ({"k": 1}, r"k must lie in \[2, 4\]; found 1"),
        ({"k": torch.tensor([5])}, "found 5"),
        ({"k": torch.tensor([2.0])}, "k must be an integer"),
        ({"k": torch.tensor([2, 2])}, r"k must be a number or have shape \(1,\)"),
    ],
)
def test_refusals(changed: dict[str, object], message: str) -> None:
    arguments = {"logits": LOGITS, "teacher_probs": YS, "alpha": 0.7, "k": 3} | changed
    with pytest.raises(InputError, match=message):
        SLaMLoss()(**arguments)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"base": "mse"}, "base must be one of"),
        ({"normalize": "k"}, "normalize must be one of"),
        ({"reduction": "batchmean"}, "reduction must be one of 'mean', 'sum', 'none'"),
    ],
)
def test_settings_refused(settings: dict[str, str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        SLaMLoss(**settings)
