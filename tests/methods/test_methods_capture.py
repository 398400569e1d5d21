"""A method's loss can be captured in a CUDA graph: it asks for no value and mixes no devices."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from method_lists import COMPOSED
from method_problems import LinearStudent, tiny, whole_batch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode

from noisyteacher.methods import Batch, Method, Output, fit_and_prepare

PROBLEM = tiny()


class Step:
    """All that a method's loss looks at, taken to some device by ``move``."""

    def __init__(self, method: Method) -> None:
        columns = fit_and_prepare(method, PROBLEM.rows, PROBLEM.labels).columns
        torch.manual_seed(0)
        self.method, self.batch = method, whole_batch(columns)
        self.modules: nn.Module | None = method.modules(LinearStudent(6, 4), columns)
        self.output = Output(*(torch.randn(len(columns), width) for width in (4, 6, 4)))
        self.progress = torch.tensor(0.5)

    def move(self, move: Callable[[Tensor], Tensor]) -> Step:
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
            self.modules._apply(move)
        self.progress = move(self.progress)
        return self

    def loss(self) -> Tensor:
        return self.method.loss(self.output, self.batch, self.modules, self.progress)


@pytest.mark.parametrize("method", COMPOSED, ids=repr)
def test_the_loss_and_its_gradient_look_at_no_value(method: Method) -> None:
    """On tensors without values, a look at one raises."""
    step = Step(method)
    with FakeTensorMode(allow_non_fake_inputs=True) as mode:
        step.move(mode.from_tensor)
        step.output.logits.requires_grad_()
        step.loss().backward()
        assert step.output.logits.grad is not None


@pytest.mark.parametrize("method", COMPOSED, ids=repr)
def test_the_loss_stays_on_its_device(method: Method) -> None:
    """On a GPU that need not be there: a mix of devices raises all the same."""
    step = Step(method)
    with torch.no_grad(), FakeTensorMode(allow_non_fake_inputs=True):
        step.move(lambda t: torch.empty(t.shape, dtype=t.dtype, device="cuda"))
        assert step.loss().device.type == "cuda"


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("method", COMPOSED, ids=repr)
def test_the_loss_is_captured_and_replayed(method: Method) -> None:
    step = Step(method)
    expected = step.loss().item()
    step.move(lambda t: t.detach().cuda())
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
