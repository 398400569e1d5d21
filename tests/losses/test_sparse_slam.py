"""Top-K teacher labels: the loss agrees with the dense one and makes nothing dense."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from noisyteacher.core.errors import InputError
from noisyteacher.losses import (
    CrossEntropy,
    Poly1,
    SLaMLoss,
    TaylorCE,
    sparse_slam_loss,
)

MODES = ["sum", "none", "k-1"]
BASES = [CrossEntropy(), TaylorCE(3), Poly1(-0.5)]


def dense(index: Tensor, prob: Tensor, tail: Tensor, classes: int) -> Tensor:
    rest = tail / max(classes - index.shape[1], 1)
    return rest[:, None].repeat(1, classes).scatter(1, index, prob)


def stored_case(
    seed: int, classes: int, stored: int, rows: int = 5, dtype: torch.dtype = torch.float64
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    """(logits, index, prob, tail, alpha, k); k is anything the store can serve, L included."""
    rng = np.random.default_rng(seed)
    logits = torch.tensor(3 * rng.normal(size=(rows, classes)), dtype=dtype)
    probs = torch.tensor(2 * rng.normal(size=(rows, classes)), dtype=dtype).softmax(-1)
    prob, index = probs.topk(stored)
    sizes = [*range(2, stored + 1), classes]
    alpha = torch.tensor(rng.choice([0.3, 0.5, 0.8, 1.0], size=rows), dtype=dtype)
    k = torch.tensor(rng.choice(sizes, size=rows))
    tail = (1 - prob.sum(-1)).clamp(min=0)
    return logits, index, prob, tail, alpha, k


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    classes=st.integers(2, 9),
    stored=st.integers(1, 9),
    normalize=st.sampled_from(MODES),
    base=st.sampled_from(BASES),
    hard=st.booleans(),
)
def test_values_and_gradients_agree_with_the_dense_loss(
    seed: int, classes: int, stored: int, normalize: str, base: TaylorCE, hard: bool
) -> None:
    logits, index, prob, tail, alpha, k = stored_case(seed, classes, min(stored, classes))
    loss = SLaMLoss(base, normalize, hard, reduction="none")
    z = logits.requires_grad_()
    expected = loss(z, dense(index, prob, tail, classes), alpha, k)
    actual = loss.sparse(z, index, prob, tail, alpha, k)
    torch.testing.assert_close(actual, expected, atol=1e-10, rtol=1e-10)
    (wanted,) = torch.autograd.grad(expected.sum(), z)
    (grad,) = torch.autograd.grad(actual.sum(), z)
    torch.testing.assert_close(grad, wanted, atol=1e-10, rtol=1e-10)


@pytest.mark.parametrize("normalize", MODES)
@pytest.mark.parametrize("hard", [False, True])
def test_they_agree_in_float32_with_many_classes(normalize: str, hard: bool) -> None:
    logits, index, prob, tail, alpha, k = stored_case(0, 1_000, 20, rows=16, dtype=torch.float32)
    loss = SLaMLoss("ce", normalize, hard, reduction="none")
    z = logits.requires_grad_()
    expected = loss(z, dense(index, prob, tail, 1_000), alpha, k)
    actual = loss.sparse(z, index.to(torch.int32), prob, tail, alpha, k)
    torch.testing.assert_close(actual, expected, atol=1e-5, rtol=1e-5)
    (wanted,) = torch.autograd.grad(expected.sum(), z)
    (grad,) = torch.autograd.grad(actual.sum(), z)
    torch.testing.assert_close(grad, wanted, atol=1e-6, rtol=1e-4)


@pytest.mark.parametrize("normalize", MODES)
@pytest.mark.parametrize("base", BASES, ids=repr)
@pytest.mark.parametrize("hard", [False, True])
def test_extreme_logits_stay_finite(normalize: str, base: TaylorCE, hard: bool) -> None:
    logits = torch.tensor([[1e4, -1e4, 0.0, 1e4, -1e4]]).repeat(3, 1).requires_grad_()
    index = torch.tensor([[1, 0, 2]]).repeat(3, 1)
    prob = torch.tensor([[0.5, 0.2, 0.1]]).repeat(3, 1)
    for alpha in (0.5, 1.0):
        losses = sparse_slam_loss(
            logits,
            index,
            prob,
            torch.full((3,), 0.2),
            torch.full((3,), alpha),
            torch.tensor([2, 3, 5]),
            base,
            normalize,
            hard,
        )
        (grad,) = torch.autograd.grad(losses.sum(), logits)
        assert losses.isfinite().all()
        assert grad.isfinite().all()


def test_only_the_student_receives_gradient() -> None:
    logits, index, prob, tail, alpha, k = stored_case(0, 6, 3)
    constants = [x.requires_grad_() for x in (prob, tail, alpha)]
    z = logits.requires_grad_()
    sparse_slam_loss(z, index, prob, tail, alpha, k, CrossEntropy(), "sum").sum().backward()
    SLaMLoss().sparse(z, index, prob, tail, alpha, k).backward()
    assert z.grad is not None
    assert all(c.grad is None for c in constants)


def test_the_unchecked_form_never_looks_at_values() -> None:
    out = sparse_slam_loss(
        torch.empty(4, 9, device="meta", requires_grad=True),
        torch.empty(4, 3, device="meta", dtype=torch.int64),
        torch.empty(4, 3, device="meta"),
        torch.empty(4, device="meta"),
        torch.empty(4, device="meta"),
        torch.empty(4, device="meta", dtype=torch.int64),
        CrossEntropy(),
        "sum",
    )
    assert out.shape == (4,)
    out.sum().backward()


def test_values_off_the_cpu_are_not_looked_at() -> None:
    logits, index, prob, tail, alpha, k = (x.to("meta") for x in stored_case(0, 9, 3))
    assert SLaMLoss().sparse(logits, index, prob, tail, alpha, k).shape == ()
    with pytest.raises(InputError, match="topk_prob must have shape"):
        SLaMLoss().sparse(logits, index, prob[:, :2], tail, alpha, k)


def test_numpy_labels_as_a_store_gives_them() -> None:
    logits, index, prob, tail, alpha, k = stored_case(3, 8, 4, dtype=torch.float32)
    loss = SLaMLoss()
    torch.testing.assert_close(
        loss.sparse(
            logits,
            index.numpy().astype(np.uint16),
            prob.numpy(),
            tail.numpy(),
            alpha.numpy(),
            k.numpy(),
        ),
        loss.sparse(logits, index, prob, tail, alpha, k),
    )


INDEX = torch.tensor([[1, 3]])
PROB = torch.tensor([[0.6, 0.3]])


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"k": 3}, "k must be at most the 2 stored classes, or all 5; found 3"),
        ({"k": 6}, r"k must lie in \[2, 5\]; found 6"),
        ({"topk_index": INDEX[0]}, r"topk_index must have shape \(1, K\) with K ≤ 5, not \(2,\)"),
        ({"topk_index": INDEX.repeat(2, 1)}, r"not \(2, 2\)"),
        ({"topk_index": INDEX + 2}, r"topk_index must lie in \[0, 4\]; found 5"),
        ({"topk_index": INDEX - 2}, "found -1"),
        ({"topk_index": INDEX.float()}, "topk_index must hold integers"),
        ({"topk_prob": PROB[:, :1]}, r"topk_prob must have shape \(1, 2\), not \(1, 1\)"),
        ({"topk_prob": PROB * math.nan}, "topk_prob and tail of row 0 holds NaN"),
        ({"topk_prob": PROB.flip(1)}, "topk_prob must be sorted"),
        ({"tail": 0.5}, r"topk_prob and tail of row 0 sums to 1\.4 instead of 1"),
        ({"tail": -0.1}, "tail .* found -0.1"),
        ({"tail": torch.tensor([0.1, 0.1])}, r"tail must be a number or have shape \(1,\)"),
        ({"alpha": 0}, "alpha .* found 0"),
    ],
)
def test_refusals(changed: dict[str, object], message: str) -> None:
    arguments = {
        "logits": torch.zeros(1, 5),
        "topk_index": INDEX,
        "topk_prob": PROB,
        "tail": 0.1,
        "alpha": 0.7,
        "k": 2,
    } | changed
    with pytest.raises(InputError, match=message):
        SLaMLoss().sparse(**arguments)  # type: ignore[arg-type]


def test_a_base_of_the_users_own_needs_dense_labels() -> None:
    loss = SLaMLoss(base=lambda target, probs: (target - probs).square().sum(-1))
    with pytest.raises(InputError, match="need one of our base losses"):
        loss.sparse(torch.zeros(1, 5), INDEX, PROB, 0.1, 0.7, 2)
