"""The fused convolution against float64 PyTorch, on a GPU or, slowly, in Triton's interpreter.

Without a GPU: ``TRITON_INTERPRET=1 pytest tests/models/test_fused_conv.py`` where Triton is
installed (the interpreter of Triton 3.6 needs NumPy below 2.4, and cannot multiply bfloat16).
"""

from __future__ import annotations

import copy
import os
from dataclasses import dataclass

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from noisyteacher.core.errors import InputError
from noisyteacher.models import ResNetCifar, fused_conv, layers
from noisyteacher.models.fused_conv import ConvPlan, conv3x3_narrow, suits
from noisyteacher.models.layers import Conv3x3, conv3x3, side_by_side

INTERPRETED = fused_conv.AVAILABLE and os.environ.get("TRITON_INTERPRET") == "1"
ON_HOPPER = torch.cuda.is_available() and torch.cuda.get_device_capability()[0] == 9
needs_gpu = pytest.mark.skipif(
    not (ON_HOPPER and fused_conv.AVAILABLE), reason="needs a Hopper GPU and Triton"
)
on_each_device = pytest.mark.parametrize(
    ("device", "dtype"),
    [
        pytest.param("cuda", torch.bfloat16, marks=[pytest.mark.gpu, needs_gpu]),
        pytest.param("cuda", torch.float16, marks=[pytest.mark.gpu, needs_gpu]),
        pytest.param(
            "cpu",
            torch.float16,
            marks=pytest.mark.skipif(
                not INTERPRETED, reason="needs Triton and TRITON_INTERPRET=1 to run on a CPU"
            ),
        ),
    ],
)
FORMATS = [torch.channels_last, torch.contiguous_format]
# Relative to the norm: rounding to the dtype of what is written, and tensor cores' float32 sums.
TOLERANCE = {torch.float32: 2e-5, torch.float16: 3e-4, torch.bfloat16: 2.5e-3}


@pytest.fixture(autouse=True)
def few_programs(monkeypatch):
    """The interpreter runs programs one by one, each at the price of a GPU's whole launch."""
    if INTERPRETED:
        monkeypatch.setitem(fused_conv.JOIN_PARTS, "BLOCK", 256)


@dataclass
class Case:
    """Inputs of one call and the gradient that comes back."""

    x: Tensor
    weight: Tensor
    grad: Tensor

    @classmethod
    def draw(cls, shape, device, dtype, weight_format=torch.channels_last, seed=0) -> Case:
        generator = torch.Generator().manual_seed(seed)
        channels = shape[1]

        def activation() -> Tensor:
            values = torch.randn(shape, generator=generator).to(device, dtype)
            return values.contiguous(memory_format=torch.channels_last)

        weight = torch.randn(channels, channels, 3, 3, generator=generator) / 12
        # Rounded here, so that the reference sees the same weight as the tensor cores.
        weight = weight.to(dtype).float().to(device).contiguous(memory_format=weight_format)
        return cls(activation(), weight, activation())

    def double(self) -> Case:
        return Case(*(value.detach().double() for value in vars(self).values()))

    def run(self, function) -> dict[str, Tensor]:
        """Forward and backward."""
        leaves = [self.x.requires_grad_(), self.weight.requires_grad_()]
        y = function(*leaves)
        dx, dweight = torch.autograd.grad(y, leaves, self.grad)
        return {"y": y.detach(), "dx": dx, "dweight": dweight}


def reference(x: Tensor, weight: Tensor) -> Tensor:
    return F.conv2d(x, weight, padding=1)


def relative_error(actual: Tensor, expected: Tensor) -> float:
    return ((actual.double() - expected).norm() / expected.norm()).item()


def assert_matches_float64(case: Case) -> None:
    expected = case.double().run(reference)
    actual = case.run(conv3x3_narrow)
    for name, value in actual.items():
        assert relative_error(value, expected[name]) < TOLERANCE[value.dtype], name
    for name in ("y", "dx"):
        assert actual[name].is_contiguous(memory_format=torch.channels_last)
        assert actual[name].dtype == case.x.dtype
    assert actual["dweight"].dtype == torch.float32
    assert actual["dweight"].stride() == case.weight.stride()


@on_each_device
@pytest.mark.parametrize("weight_format", FORMATS)
def test_values_and_gradients(device, dtype, weight_format):
    # Three tiles, of which the last is not full and two meet inside an image.
    case = Case.draw((5, 16, 3, 52), device, dtype, weight_format)
    assert ConvPlan.of(5, 16, 3, 52).tiles == 3
    assert_matches_float64(case)


@on_each_device
@pytest.mark.parametrize("shape", [(2, 16, 8, 8), (3, 32, 1, 2), (1, 16, 9, 32), (2, 32, 5, 10)])
def test_any_height_and_even_width(device, dtype, shape):
    assert_matches_float64(Case.draw(shape, device, dtype))


@on_each_device
def test_rows_are_shared_among_programs_and_steps_among_parts(device, dtype, monkeypatch):
    monkeypatch.setattr(fused_conv, "MIN_ROWS", 1)
    monkeypatch.setattr(fused_conv, "PROGRAMS", 6)
    monkeypatch.setitem(fused_conv.PARTS, 16, 4)
    plan = ConvPlan.of(9, 16, 7, 16)
    # Both the last strip and the last part reach beyond the map.
    assert (plan.tiles, plan.strips, plan.rows, plan.parts, plan.steps) == (2, 3, 3, 4, 4)
    assert_matches_float64(Case.draw((9, 16, 7, 16), device, dtype))


@pytest.mark.gpu
@needs_gpu
@pytest.mark.parametrize(
    "shape", [(256, 16, 32, 32), (128, 16, 32, 32), (256, 32, 16, 16), (100, 32, 16, 16)]
)
@pytest.mark.parametrize("weight_format", FORMATS)
def test_shapes_of_real_networks(shape, weight_format):
    assert_matches_float64(Case.draw(shape, "cuda", torch.bfloat16, weight_format))


@on_each_device
def test_each_tap_reads_its_own_pixel(device, dtype):
    x = torch.zeros(1, 16, 5, 6, device=device, dtype=dtype)
    x[0, 3, 2, 3] = 1
    weight = torch.zeros(16, 16, 3, 3, device=device)
    weight[7, 3] = torch.arange(1.0, 10.0).view(3, 3)
    y = conv3x3_narrow(x, weight)
    wanted = torch.zeros(5, 6)
    wanted[1:4, 2:5] = torch.arange(9.0, 0.0, -1.0).view(3, 3)
    assert torch.equal(y[0, 7].float().cpu(), wanted)
    assert y.count_nonzero() == 9


@on_each_device
def test_nan_is_not_hidden_and_stays_in_its_image(device, dtype):
    case = Case.draw((3, 16, 4, 8), device, dtype)
    case.x[1, 5, 2, 2] = float("nan")
    actual = case.run(conv3x3_narrow)
    bad = actual["y"].isnan()
    assert (bad | ~case.double().run(reference)["y"].isnan()).all()
    assert bad.any(dim=(1, 2, 3)).tolist() == [False, True, False]
    assert actual["dweight"].isnan().all(dim=(0, 2, 3)).cpu().equal(torch.arange(16) == 5)
    assert not actual["dx"].isnan().any()


@on_each_device
def test_other_layouts_give_the_same(device, dtype):
    expected = Case.draw((3, 16, 4, 8), device, dtype).run(conv3x3_narrow)
    case = Case.draw((3, 16, 4, 8), device, dtype)
    case.x, case.grad = case.x.contiguous(), case.grad.contiguous()
    # A weight that is dense in neither way.
    case.weight = case.weight.transpose(2, 3).contiguous().transpose(2, 3)
    for name, value in case.run(conv3x3_narrow).items():
        assert torch.equal(value, expected[name]), name


@on_each_device
def test_only_wanted_gradients_are_computed(device, dtype, monkeypatch):
    case = Case.draw((2, 16, 4, 8), device, dtype)
    with torch.no_grad():
        assert conv3x3_narrow(case.x, case.weight).grad_fn is None
    y = conv3x3_narrow(case.x, case.weight.requires_grad_())
    monkeypatch.setattr(fused_conv, "_convolve", None)
    # The gradient of a sum is one number for all pixels, with strides of zero.
    case.grad = case.grad[:, :1, :1, :1].expand_as(y)
    y.backward(case.grad)
    expected = case.double().run(reference)
    assert relative_error(case.weight.grad, expected["dweight"]) < TOLERANCE[torch.float32]


@on_each_device
def test_two_runs_are_identical(device, dtype):
    shape = (2, 16, 4, 8) if device == "cpu" else (64, 16, 32, 32)
    first, second = (Case.draw(shape, device, dtype).run(conv3x3_narrow) for _ in range(2))
    for name, value in first.items():
        assert torch.equal(value, second[name]), name


HALF = torch.float16


@on_each_device
@pytest.mark.parametrize(
    ("x", "weight", "message"),
    [
        (torch.zeros(16, 4, 4, dtype=HALF), torch.zeros(16, 16, 3, 3), r"\(16, 4, 4\)"),
        (torch.zeros(1, 24, 4, 4, dtype=HALF), torch.zeros(24, 24, 3, 3), r"\(1, 24, 4, 4\)"),
        (torch.zeros(1, 16, 4, 5, dtype=HALF), torch.zeros(16, 16, 3, 3), "even W"),
        (torch.zeros(0, 16, 4, 4, dtype=HALF), torch.zeros(16, 16, 3, 3), "not 0"),
        (torch.zeros(1, 16, 4, 4), torch.zeros(16, 16, 3, 3), "float32"),
        (torch.zeros(1, 16, 4, 4, dtype=HALF), torch.zeros(16, 32, 3, 3), r"\(16, 32, 3, 3\)"),
        (torch.zeros(1, 16, 4, 4, dtype=HALF), torch.zeros(16, 16, 1, 1), r"\(16, 16, 1, 1\)"),
        (torch.zeros(1, 16, 4, 4, dtype=HALF), torch.zeros(16, 16, 3, 3, dtype=HALF), "float32"),
    ],
)
def test_bad_input(device, dtype, x, weight, message):
    with pytest.raises(InputError, match=message):
        conv3x3_narrow(x.to(device), weight.to(device))
    assert not suits(x.to(device), weight.to(device))


@pytest.mark.skipif(INTERPRETED, reason="the interpreter takes CPU tensors")
def test_without_a_gpu_or_triton_it_says_so():
    missing = "CUDA" if fused_conv.AVAILABLE else "Triton"
    x, weight = torch.ones(1, 16, 4, 4, dtype=HALF), torch.ones(16, 16, 3, 3)
    assert not suits(x, weight)
    with pytest.raises(InputError, match=missing):
        conv3x3_narrow(x, weight)


@given(
    images=st.integers(1, 5000),
    channels=st.sampled_from([16, 32]),
    height=st.integers(1, 70),
    half_width=st.integers(1, 70),
)
def test_plan_covers_the_maps(images, channels, height, half_width):
    plan = ConvPlan.of(images, channels, height, 2 * half_width)
    block = fused_conv.CONVOLVE[channels]["BLOCK"]
    assert (plan.tiles - 1) * block < images * half_width <= plan.tiles * block
    assert (plan.strips - 1) * plan.rows < height <= plan.strips * plan.rows
    steps = -(-images * half_width // fused_conv.WEIGHT_PARTS[channels]["BLOCK"]) * height
    assert plan.parts * plan.steps >= steps
    assert plan.parts & (plan.parts - 1) == 0
    assert plan.parts <= fused_conv.PARTS[channels]


def test_plan_for_cifar_fills_the_gpu():
    for images in (256, 128):
        plan = ConvPlan.of(images, 16, 32, 32)
        assert plan.tiles * plan.strips == fused_conv.PROGRAMS
        assert plan.parts == fused_conv.PARTS[16]
        assert plan.parts * plan.steps == plan.tiles * 32


def test_many_students_get_fewer_programs_each():
    alone = ConvPlan.of(256, 16, 32, 32)
    with side_by_side(8):
        shared = ConvPlan.of(256, 16, 32, 32)
    assert shared.tiles * shared.strips == fused_conv.MIN_PROGRAMS
    assert (shared.tiles, shared.parts) == (alone.tiles, alone.parts)
    assert ConvPlan.of(256, 16, 32, 32) == alone


@on_each_device
def test_students_side_by_side_compute_the_same(device, dtype):
    shape = (256, 16, 32, 8)
    alone = ConvPlan.of(*shape)
    with side_by_side(8):
        assert ConvPlan.of(*shape).strips < alone.strips
        assert_matches_float64(Case.draw(shape, device, dtype))


def test_conv3x3_is_the_fused_one_where_it_can_be():
    assert type(conv3x3(16, 16)) is Conv3x3
    for plain in (conv3x3(16, 16, 2), conv3x3(16, 16, bias=True), conv3x3(16, 16, groups=16)):
        assert type(plain) is nn.Conv2d


def test_the_module_is_a_convolution_like_any_other():
    torch.manual_seed(0)
    ours = conv3x3(5, 7)
    torch.manual_seed(0)
    plain = nn.Conv2d(5, 7, 3, padding=1, bias=False)
    assert list(ours.state_dict()) == ["weight"]
    assert torch.equal(ours.weight, plain.weight)
    x = torch.randn(2, 5, 4, 6)
    assert torch.equal(ours(x), plain(x))


def test_the_module_calls_the_kernel_only_if_there_is_one_and_it_may(monkeypatch):
    ours, x = conv3x3(16, 16), torch.randn(1, 16, 4, 4)
    plain = ours(x)
    monkeypatch.setattr(
        layers, "_conv_kernel", lambda x, weight: lambda x, weight: x + weight.sum()
    )
    assert torch.equal(ours(x), x + ours.weight.sum())
    monkeypatch.setattr(Conv3x3, "fused", False)
    assert torch.equal(ours(x), plain)


@pytest.mark.gpu
@needs_gpu
def test_the_kernel_is_for_autocast_in_the_dtype_of_x():
    x = torch.zeros(2, 16, 4, 4, device="cuda", dtype=torch.bfloat16)
    x = x.contiguous(memory_format=torch.channels_last)
    weight = torch.zeros(16, 16, 3, 3, device="cuda")
    assert suits(x, weight)
    assert not suits(x.contiguous(), weight)
    assert layers._conv_kernel(x, weight) is None
    with torch.autocast("cuda", torch.float16):
        assert layers._conv_kernel(x, weight) is None
    with torch.autocast("cuda", torch.bfloat16):
        assert layers._conv_kernel(x, weight) is conv3x3_narrow
        assert layers._conv_kernel(x.float(), weight) is None


def captured(case: Case, stream) -> tuple[torch.cuda.CUDAGraph, dict[str, Tensor]]:
    """A graph of one forward and backward, and the tensors that a replay fills."""
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        case.run(conv3x3_narrow)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        results = case.run(conv3x3_narrow)
    return graph, results


@pytest.mark.gpu
@needs_gpu
def test_captured_graphs_on_several_streams_give_the_eager_result():
    shapes = [(64, 16, 32, 32), (64, 32, 16, 16), (128, 16, 32, 32), (64, 16, 32, 32)]
    cases = [
        Case.draw(shape, "cuda", torch.bfloat16, seed=seed) for seed, shape in enumerate(shapes)
    ]
    streams = [torch.cuda.Stream() for _ in cases]
    graphs = [captured(case, stream) for case, stream in zip(cases, streams, strict=True)]
    fresh = [
        Case.draw(shape, "cuda", torch.bfloat16, seed=seed + 100)
        for seed, shape in enumerate(shapes)
    ]
    with torch.no_grad():
        for case, new in zip(cases, fresh, strict=True):
            for name, value in vars(new).items():
                getattr(case, name).copy_(value)
    torch.cuda.synchronize()
    for _ in range(5):
        for (graph, _), stream in zip(graphs, streams, strict=True):
            with torch.cuda.stream(stream):
                graph.replay()
    torch.cuda.synchronize()
    for (_, results), new in zip(graphs, fresh, strict=True):
        for name, value in new.run(conv3x3_narrow).items():
            assert torch.equal(results[name], value), name


def loss_and_gradient(model: nn.Module, x: Tensor, y: Tensor, autocast: bool):
    """Of a copy: the loss, and all gradients in one float64 vector."""
    model = copy.deepcopy(model)
    with torch.autocast("cuda", torch.bfloat16, enabled=autocast):
        logits = model(x)
    loss = F.cross_entropy(logits.float(), y)
    loss.backward()
    return loss.item(), torch.cat([p.grad.double().flatten() for p in model.parameters()])


@pytest.mark.gpu
@needs_gpu
def test_a_network_trains_as_with_the_library(monkeypatch):
    torch.manual_seed(0)
    model = ResNetCifar(20).build().cuda().to(memory_format=torch.channels_last)
    x = torch.randn(128, 3, 32, 32, device="cuda").to(memory_format=torch.channels_last)
    y = torch.randint(10, (128,), device="cuda")
    calls = []

    def counted(x: Tensor, weight: Tensor) -> Tensor:
        calls.append(tuple(x.shape))
        return conv3x3_narrow(x, weight)

    monkeypatch.setattr(fused_conv, "conv3x3_narrow", counted)
    loss, gradient = loss_and_gradient(model, x, y, autocast=True)
    assert calls == [(128, 16, 32, 32)] * 6 + [(128, 32, 16, 16)] * 5
    monkeypatch.setattr(Conv3x3, "fused", False)
    library_loss, library_gradient = loss_and_gradient(model, x, y, autocast=True)
    assert len(calls) == 11
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)
    exact_loss, exact_gradient = loss_and_gradient(model, x, y, autocast=False)
    assert abs(loss - exact_loss) < 2e-2 * exact_loss
    assert abs(loss - library_loss) < 1e-2 * library_loss
    # bfloat16 leaves some percent of error in the gradient either way; ours may not add to it.
    limit = 1.3 * relative_error(library_gradient, exact_gradient)
    assert relative_error(gradient, exact_gradient) < limit < 0.6
