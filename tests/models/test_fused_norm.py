"""The fused batch norm against float64 PyTorch, on a GPU or, slowly, in Triton's interpreter.

Without a GPU: ``TRITON_INTERPRET=1 pytest tests/models/test_fused_norm.py`` where Triton is
installed (the interpreter of Triton 3.6 needs NumPy below 2.4).
"""

from __future__ import annotations

import os
from dataclasses import dataclass

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from noisyteacher.core.errors import InputError
from noisyteacher.models import fused_norm
from noisyteacher.models.fused_norm import NormPlan, batch_norm_act
from noisyteacher.models.layers import side_by_side

INTERPRETED = fused_norm.AVAILABLE and os.environ.get("TRITON_INTERPRET") == "1"
needs_gpu = pytest.mark.skipif(
    not (torch.cuda.is_available() and fused_norm.AVAILABLE),
    reason="needs a CUDA device and Triton",
)
on_each_device = pytest.mark.parametrize(
    "device",
    [
        pytest.param("cuda", marks=[pytest.mark.gpu, needs_gpu]),
        pytest.param(
            "cpu",
            marks=pytest.mark.skipif(
                not INTERPRETED, reason="needs Triton and TRITON_INTERPRET=1 to run on a CPU"
            ),
        ),
    ],
)
ACTIVATIONS = {"relu": F.relu, "relu6": F.relu6, "none": lambda z: z}
# Relative to the norm, of what is written in that dtype; the interpreter truncates to bfloat16.
TOLERANCE = {torch.float32: 3e-6, torch.float16: 1e-3, torch.bfloat16: 5e-3}
MOMENTUM, EPS = 0.3, 1e-5


@dataclass
class Case:
    """Inputs of one call and the gradient that comes back."""

    x: Tensor
    residual: Tensor | None
    weight: Tensor
    bias: Tensor
    running_mean: Tensor
    running_var: Tensor
    grad: Tensor

    @classmethod
    def draw(cls, shape, device, dtype=torch.float32, residual=False, mean=1.0, seed=0) -> Case:
        generator = torch.Generator().manual_seed(seed)
        channels = shape[1]

        def activation(centre=0.0, scale=1.0) -> Tensor:
            values = torch.randn(shape, generator=generator) * scale + centre
            values = values.to(device, dtype)
            return values.contiguous(memory_format=torch.channels_last)

        def vector() -> Tensor:
            return torch.randn(channels, generator=generator).to(device)

        return cls(
            x=activation(mean, 2.0),
            residual=activation() if residual else None,
            weight=vector(),
            bias=vector(),
            running_mean=vector(),
            running_var=vector().square(),
            grad=activation(),
        )

    def to(self, device: str, dtype: torch.dtype) -> Case:
        """A copy of everything, values unchanged where dtype is wider."""
        return Case(
            **{
                name: None if value is None else value.to(device, dtype, copy=True)
                for name, value in vars(self).items()
            }
        )

    def run(self, function, activation: str) -> dict[str, Tensor]:
        """Forward and backward; the running statistics of this case change."""
        leaves = {"dx": self.x, "dweight": self.weight, "dbias": self.bias}
        if self.residual is not None:
            leaves["dresidual"] = self.residual
        for leaf in leaves.values():
            leaf.requires_grad_()
        y = function(
            *(self.x, self.weight, self.bias, self.running_mean, self.running_var),
            *(MOMENTUM, EPS, self.residual, activation),
        )
        gradients = torch.autograd.grad(y, list(leaves.values()), self.grad)
        return {
            "y": y.detach(),
            "running_mean": self.running_mean,
            "running_var": self.running_var,
            **dict(zip(leaves, gradients, strict=True)),
        }


def reference(x, weight, bias, running_mean, running_var, momentum, eps, residual, activation):
    z = F.batch_norm(x, running_mean, running_var, weight, bias, True, momentum, eps)
    return ACTIVATIONS[activation](z if residual is None else z + residual)


def mute_kinks(case: Case, activation: str) -> None:
    """No gradient where the activation bends: rounding decides which side such a value is on."""
    if activation == "none":
        return
    wide = case.to(case.x.device, torch.float64).run(reference, "none")["y"]
    bent = (wide.abs() < 1e-4) | ((wide - 6.0).abs() < 0.05)
    case.grad = case.grad.masked_fill(bent, 0.0)


def relative_error(actual: Tensor, expected: Tensor) -> float:
    difference = actual.detach().double() - expected
    return (difference.norm() / expected.norm().clamp_min(1e-30)).item()


def assert_matches_float64(case: Case, activation: str, tolerance: float | None = None) -> None:
    mute_kinks(case, activation)
    expected = case.to(case.x.device, torch.float64).run(reference, activation)
    actual = case.run(batch_norm_act, activation)
    assert actual.keys() == expected.keys()
    for name, value in actual.items():
        wide = value.dtype == torch.float32
        assert wide or name in ("y", "dx", "dresidual")
        limit = tolerance or (1e-5 if wide else TOLERANCE[value.dtype])
        assert relative_error(value, expected[name]) < limit, name
    for name in ("y", "dx"):
        assert actual[name].is_contiguous(memory_format=torch.channels_last)
        assert actual[name].dtype == case.x.dtype


@on_each_device
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("activation", ["relu", "relu6", "none"])
@pytest.mark.parametrize("residual", [False, True])
def test_values_gradients_and_running_statistics(device, dtype, activation, residual):
    # Two tiles of the plan and a bit.
    assert_matches_float64(Case.draw((5, 16, 16, 16), device, dtype, residual), activation)


@on_each_device
@pytest.mark.parametrize(
    "shape",
    [(4, 3, 5, 7), (2, 1, 3, 1), (5, 100, 7, 7), (2, 512, 7, 7), (3, 1000, 1, 1), (9, 33, 13, 11)],
)
def test_any_shape(device, shape):
    assert_matches_float64(Case.draw(shape, device, residual=True), "relu", 1e-5)


@pytest.mark.gpu
@needs_gpu
@pytest.mark.parametrize(
    "shape",
    [(256, 16, 32, 32), (128, 32, 16, 16), (256, 64, 8, 8), (32, 64, 112, 112), (64, 2048, 7, 7)],
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("residual", [False, True])
def test_shapes_of_real_networks(shape, dtype, residual):
    assert_matches_float64(Case.draw(shape, "cuda", dtype, residual), "relu")


@on_each_device
def test_students_side_by_side_compute_the_same(device):
    with side_by_side(8):
        assert NormPlan.of(32 * 16 * 32, 16).programs == fused_norm.MIN_PROGRAMS
        assert_matches_float64(Case.draw((32, 16, 16, 32), device, residual=True), "relu")


@on_each_device
def test_many_parts_are_added_up_in_several_rounds(device, monkeypatch):
    monkeypatch.setattr(fused_norm, "TILE_ELEMENTS", 32)
    plan = NormPlan.of(3 * 5, 8)
    assert plan.parts > plan.apply_options()["PARTS_AT_ONCE"]
    assert_matches_float64(Case.draw((1, 8, 3, 5), device, residual=True), "relu")


@on_each_device
def test_a_mean_far_from_zero_does_not_cancel(device):
    case = Case.draw((4, 16, 16, 16), device, mean=4096.0)
    assert_matches_float64(case, "none", 2e-3)
    # E[x²] - mean² in float32 would be off by several percent.
    expected = case.x.detach().double().var(dim=(0, 2, 3))
    old_var = Case.draw((4, 16, 16, 16), device).running_var
    assert relative_error((case.running_var - 0.7 * old_var) / 0.3, expected) < 1e-5


@on_each_device
def test_an_outlier_in_the_first_row_is_survived(device):
    case = Case.draw((4, 16, 16, 16), device)
    case.x[0, :, 0, 0] = 1e6
    # The interpreter sums one by one, which costs more digits here than a GPU's tree of sums.
    assert_matches_float64(case, "none", 5e-3)


@on_each_device
def test_a_constant_channel_gives_its_bias(device):
    case = Case.draw((4, 16, 8, 8), device)
    case.x[:, 3] = 1234.5678
    y = case.run(batch_norm_act, "none")["y"]
    torch.testing.assert_close(y[:, 3], case.bias[3].expand(4, 8, 8), atol=1e-3, rtol=0)


@on_each_device
@pytest.mark.parametrize("activation", ["relu", "relu6", "none"])
def test_nan_is_not_hidden_by_the_activation(device, activation):
    case = Case.draw((4, 16, 8, 8), device)
    case.x[1, 5, 2, 2] = float("nan")
    result = case.run(batch_norm_act, activation)
    bad = torch.arange(16) == 5
    for name in ("y", "dx"):
        assert torch.equal(result[name].isnan().cpu().all(dim=(0, 2, 3)), bad)
        assert torch.equal(result[name].isnan().cpu().any(dim=(0, 2, 3)), bad)


@on_each_device
def test_two_runs_are_identical(device):
    first, second = (
        Case.draw((9, 16, 16, 16), device, torch.bfloat16, True).run(batch_norm_act, "relu")
        for _ in range(2)
    )
    for name, value in first.items():
        assert torch.equal(value, second[name]), name


@on_each_device
def test_other_layouts_give_the_same(device):
    expected = Case.draw((4, 16, 8, 8), device, residual=True).run(batch_norm_act, "relu")
    case = Case.draw((4, 16, 8, 8), device, residual=True)
    case.x, case.residual, case.grad = (
        tensor.contiguous() for tensor in (case.x, case.residual, case.grad)
    )
    for name, value in case.run(batch_norm_act, "relu").items():
        assert torch.equal(value, expected[name]), name


@on_each_device
def test_an_expanded_gradient_is_understood(device):
    case = Case.draw((4, 16, 8, 8), device)
    case.grad = case.grad[:, :1].expand_as(case.x)
    assert_matches_float64(case, "none", 1e-5)


@on_each_device
def test_batches_are_counted_and_nothing_is_kept_without_gradients(device):
    case = Case.draw((4, 130, 3, 3), device)
    counter = torch.tensor(41, device=device)
    with torch.no_grad():
        y = batch_norm_act(
            *(case.x, case.weight, case.bias, case.running_mean, case.running_var),
            *(MOMENTUM, EPS, None, "relu", counter),
        )
    assert counter.item() == 42
    assert y.grad_fn is None


@on_each_device
def test_changed_running_statistics_are_seen_by_autograd(device):
    case = Case.draw((4, 16, 8, 8), device)
    before = case.running_mean._version
    case.run(batch_norm_act, "relu")
    assert case.running_mean._version > before


@on_each_device
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"activation": "gelu"}, "gelu"),
        ({"x": torch.zeros(4, 16)}, r"\(4, 16\)"),
        ({"x": torch.zeros(1, 16, 1, 1)}, "two values"),
        ({"x": torch.zeros(4, 16, 2, 2, dtype=torch.float64)}, "float64"),
        ({"weight": torch.ones(15)}, r"\(15,\)"),
        ({"bias": torch.ones(16, dtype=torch.bfloat16)}, "bfloat16"),
        ({"running_var": torch.ones(32)[::2]}, "contiguous"),
        ({"residual": torch.zeros(4, 16, 2, 1)}, r"\(4, 16, 2, 1\)"),
    ],
)
def test_bad_input(device, change, message):
    arguments = {
        "x": torch.zeros(4, 16, 2, 2),
        **{name: torch.ones(16) for name in ("weight", "bias", "running_mean", "running_var")},
        "momentum": MOMENTUM,
        "eps": EPS,
        **change,
    }
    arguments = {
        name: value.to(device) if isinstance(value, Tensor) else value
        for name, value in arguments.items()
    }
    if message == "contiguous":
        arguments["running_var"] = torch.ones(32, device=device)[::2]
    with pytest.raises(InputError, match=message):
        batch_norm_act(**arguments)


@pytest.mark.skipif(INTERPRETED, reason="the interpreter takes CPU tensors")
def test_without_a_gpu_or_triton_it_says_so():
    missing = "CUDA" if fused_norm.AVAILABLE else "Triton"
    ones = torch.ones(4)
    with pytest.raises(InputError, match=missing):
        batch_norm_act(torch.ones(2, 4, 3, 3), ones, ones, ones, ones, MOMENTUM, EPS)


@pytest.mark.parametrize(
    "rows", [2, 3, 49, 511, 512, 513, 12544, 65536, 262144, 3211264, 10**8 + 7]
)
@pytest.mark.parametrize("channels", [1, 2, 3, 16, 24, 63, 64, 65, 100, 512, 1280, 2047, 2048])
def test_plan_covers_the_matrix_in_legal_blocks(rows, channels):
    plan = NormPlan.of(rows, channels)
    for size in (plan.block_rows, plan.block_channels, plan.parts, plan.warps):
        assert size & (size - 1) == 0
        assert size > 0
    assert plan.block_channels * plan.channel_tiles >= channels
    assert plan.block_channels * (plan.channel_tiles - 1) < channels
    assert plan.block_rows * plan.block_channels <= fused_norm.TILE_ELEMENTS
    # Every program of either kernel has a tile to start with.
    assert plan.parts <= plan.programs <= -(-rows // plan.block_rows)
    assert plan.parts % plan.apply_options()["PARTS_AT_ONCE"] == 0


def test_many_students_get_fewer_programs_each():
    with side_by_side(4):
        assert NormPlan.of(256 * 32 * 32, 16).programs == fused_norm.PROGRAMS // 4
    with side_by_side(100):
        plan = NormPlan.of(256 * 32 * 32, 16)
        assert (plan.programs, plan.parts) == (fused_norm.MIN_PROGRAMS, fused_norm.MIN_PROGRAMS)
    assert NormPlan.of(256 * 32 * 32, 16).programs == fused_norm.PROGRAMS


def test_plan_for_cifar_reads_few_partial_sums():
    for channels, side in ((16, 32), (32, 16), (64, 8)):
        plan = NormPlan.of(256 * side * side, channels)
        assert plan.parts * plan.block_channels == fused_norm.PARTIAL_ELEMENTS
        assert plan.programs == fused_norm.PROGRAMS


def captured(case: Case, stream) -> tuple[torch.cuda.CUDAGraph, dict[str, Tensor]]:
    """A graph of one forward and backward, and the tensors that a replay fills."""
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        case.run(batch_norm_act, "relu")
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        results = case.run(batch_norm_act, "relu")
    return graph, results


@pytest.mark.gpu
@needs_gpu
def test_captured_graphs_on_several_streams_give_the_eager_result():
    shapes = [(64, 16, 32, 32), (64, 32, 16, 16), (64, 64, 8, 8), (64, 16, 32, 32)]
    cases = [
        Case.draw(shape, "cuda", torch.bfloat16, residual=True, seed=seed)
        for seed, shape in enumerate(shapes)
    ]
    streams = [torch.cuda.Stream() for _ in cases]
    graphs = [captured(case, stream) for case, stream in zip(cases, streams, strict=True)]
    for seed, case in enumerate(cases):
        fresh = Case.draw(tuple(case.x.shape), "cuda", torch.bfloat16, True, seed=seed + 100)
        with torch.no_grad():
            for name, value in vars(fresh).items():
                getattr(case, name).copy_(value)
    torch.cuda.synchronize()
    rounds = 5
    for _ in range(rounds):
        for (graph, _), stream in zip(graphs, streams, strict=True):
            with torch.cuda.stream(stream):
                graph.replay()
    torch.cuda.synchronize()
    for seed, (shape, (_, results)) in enumerate(zip(shapes, graphs, strict=True)):
        fresh = Case.draw(shape, "cuda", torch.bfloat16, True, seed=seed + 100)
        for _ in range(rounds):
            expected = fresh.run(batch_norm_act, "relu")
        for name, value in expected.items():
            assert torch.equal(results[name], value), name


@pytest.mark.gpu
@needs_gpu
def test_autocast_gives_what_batch_norm_modules_give():
    torch.manual_seed(0)
    conv = nn.Conv2d(3, 16, 3, padding=1, bias=False).cuda()
    conv = conv.to(memory_format=torch.channels_last)
    norms = [nn.BatchNorm2d(16).cuda() for _ in range(2)]
    images = torch.randn(32, 3, 32, 32, device="cuda")
    images = images.contiguous(memory_format=torch.channels_last)
    gradients = []
    for norm, fused in zip(norms, (True, False), strict=True):
        conv.weight.grad = None
        with torch.autocast("cuda", torch.bfloat16):
            x = conv(images)
            parameters = (norm.weight, norm.bias, norm.running_mean, norm.running_var)
            y = batch_norm_act(x, *parameters, 0.1, norm.eps) if fused else F.relu(norm(x))
        assert y.dtype == torch.bfloat16
        (y.float() * images[:, :1]).sum().backward()
        gradients.append((conv.weight.grad, norm.weight.grad, norm.bias.grad))
    for actual, expected in zip(*gradients, strict=True):
        assert actual.dtype == torch.float32
        assert relative_error(actual, expected.double()) < 2e-2
    for name in ("running_mean", "running_var"):
        torch.testing.assert_close(getattr(norms[0], name), getattr(norms[1], name))
