"""A method's loss can be captured in a CUDA graph: it asks for no value and mixes no devices."""

from __future__ import annotations

import pytest
import torch
from method_lists import REPRESENTATIVE
from method_problems import LinearStudent, tiny, whole_batch
from torch import Tensor, nn

from noisyteacher.methods import (
    Batch,
    ForwardCorrection,
    Method,
    Output,
    fit_and_prepare,
    inner_methods,
)

PROBLEM = tiny()


class Step:
    """All that a method's loss looks at."""

    def __init__(self, method: Method) -> None:
        columns = fit_and_prepare(method, PROBLEM.rows, PROBLEM.labels).columns
        torch.manual_seed(0)
        self.method, self.batch = method, whole_batch(columns)
        self.modules: nn.Module | None = method.modules(LinearStudent(6, 4), columns)
        self.output = Output(*(torch.randn(len(columns), width) for width in (4, 6, 4)))
        self.progress = torch.tensor(0.5)

    def move(self, device: str) -> Step:
        def move(tensor: Tensor) -> Tensor:
            return tensor.to(device)

        batch, output = self.batch, self.output
        self.batch = Batch(
            move(batch.y),
            move(batch.weight),
            {name: move(value) for name, value in batch.values.items()},
            {name: move(value) for name, value in batch.constants.items()},
        )
        assert output.embedding is not None
        assert output.strong is not None
        self.output = Output(move(output.logits), move(output.embedding), move(output.strong))
        if self.modules is not None:
            self.modules.to(device)
        self.progress = move(self.progress)
        return self

    def loss(self) -> Tensor:
        return self.method.loss(self.output, self.batch, self.modules, self.progress)


def holds(method: Method, kind: type[Method]) -> bool:
    return any(isinstance(inner, kind) for inner in inner_methods(method))


# Forward correction switches autocast off, which that device does not know.
@pytest.mark.parametrize(
    "method", [m for m in REPRESENTATIVE if not holds(m, ForwardCorrection)], ids=repr
)
def test_the_loss_and_its_gradient_look_at_no_value_and_mix_no_devices(method: Method) -> None:
    """On the device without values a look at one raises, and so does a tensor from elsewhere."""
    step = Step(method).move("meta")
    logits = step.output.logits.requires_grad_()
    loss = step.loss()
    loss.backward()
    assert loss.device.type == "meta"
    assert logits.grad is not None


def test_such_a_look_would_be_seen() -> None:
    there = torch.zeros(3, device="meta")
    with pytest.raises(RuntimeError):
        bool(there.any())
    with pytest.raises(RuntimeError):
        there + torch.zeros(3)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("method", REPRESENTATIVE, ids=repr)
def test_the_loss_is_captured_and_replayed(method: Method) -> None:
    step = Step(method)
    expected = step.loss().item()
    step.move("cuda")
    logits = step.output.logits.requires_grad_()
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        step.loss().backward()
    torch.cuda.current_stream().wait_stream(side)
    logits.grad = None
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = step.loss()
        captured.backward()
    graph.replay()
    assert captured.item() == pytest.approx(expected, rel=1e-4, abs=1e-5)
    assert torch.isfinite(logits.grad).all()
