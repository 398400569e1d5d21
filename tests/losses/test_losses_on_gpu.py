"""What only a CUDA device can show: no host sync, capture in a graph, stable ties."""

from __future__ import annotations

import pytest
import torch

from noisyteacher.losses import (
    CrossEntropy,
    SLaMLoss,
    TaylorCE,
    slam_loss,
    sparse_slam_loss,
    top_mask,
)

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]


def test_ties_go_to_the_lower_index() -> None:
    probs = torch.full((3, 5_000), 1 / 5_000, device="cuda")
    expected = torch.arange(5_000, device="cuda") < 7
    assert (top_mask(probs, 7) == expected).all()


@pytest.mark.parametrize("hard", [False, True])
def test_the_module_never_waits_for_the_device(hard: bool) -> None:
    logits = torch.randn(64, 100, device="cuda", dtype=torch.bfloat16, requires_grad=True)
    probs = torch.randn(64, 100, device="cuda").softmax(-1)
    alpha, k = torch.full((64,), 0.7, device="cuda"), torch.full((64,), 5, device="cuda")
    loss = SLaMLoss(hard=hard)
    topk_prob, topk_index = probs.topk(5)
    tail = 1 - topk_prob.sum(-1)
    loss(logits, probs, alpha, k).backward()
    torch.cuda.set_sync_debug_mode("error")
    try:
        loss(logits, probs, alpha, k).backward()
        loss.sparse(logits, topk_index, topk_prob, tail, alpha, k).backward()
    finally:
        torch.cuda.set_sync_debug_mode("default")


@pytest.mark.parametrize("normalize", ["sum", "none", "k-1"])
@pytest.mark.parametrize("base", [CrossEntropy(), TaylorCE(2)], ids=repr)
def test_the_unchecked_forms_can_be_captured(normalize: str, base: TaylorCE) -> None:
    logits = torch.randn(32, 50, device="cuda", requires_grad=True)
    probs = torch.randn(32, 50, device="cuda").softmax(-1)
    alpha = torch.linspace(0.5, 1, 32, device="cuda")
    k = torch.tensor([2, 3, 5, 50] * 8, device="cuda")
    mask = top_mask(probs, k)
    topk_prob, topk_index = probs.topk(5)
    tail = 1 - topk_prob.sum(-1)

    def step() -> tuple[torch.Tensor, torch.Tensor]:
        losses = slam_loss(logits, probs, alpha, mask, k, base, normalize)
        sparse = sparse_slam_loss(logits, topk_index, topk_prob, tail, alpha, k, base, normalize)
        total = losses.sum() + sparse.sum()
        return total, torch.autograd.grad(total, logits)[0]

    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = step()
    with torch.no_grad():
        logits.mul_(2)
    graph.replay()
    for replayed, expected in zip(captured, step(), strict=True):
        torch.testing.assert_close(replayed, expected)
