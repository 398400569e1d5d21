"""NormAct against BatchNorm2d and against the formula written out."""

import copy
import itertools

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from noisyteacher.core.errors import InputError
from noisyteacher.models import MobileNet, NormAct, ResNetCifar, fused_norm, layers, synchronize

ACTIVATIONS = {"relu": F.relu, "relu6": F.relu6, "none": lambda y: y}
CASES = list(itertools.product(ACTIVATIONS, (False, True), (False, True)))


def randomise(module):
    """Give every normalization inside statistics and an affine map that are not the identity."""
    for part in module.modules():
        if isinstance(part, nn.BatchNorm2d):
            nn.init.uniform_(part.weight, 0.5, 1.5)
            nn.init.normal_(part.bias)
            nn.init.normal_(part.running_mean)
            nn.init.uniform_(part.running_var, 0.5, 2.0)
    return module


def pair(activation):
    ours = randomise(NormAct(5, activation, eps=1e-3, momentum=0.2)).double()
    plain = nn.BatchNorm2d(5, eps=1e-3, momentum=0.2).double()
    plain.load_state_dict(ours.state_dict())
    return ours, plain


def inputs(residual):
    x = (4 * torch.randn(6, 5, 3, 4, dtype=torch.double)).requires_grad_()
    return x, torch.randn_like(x).requires_grad_() if residual else None


@pytest.mark.parametrize(("activation", "residual", "train"), CASES)
def test_agrees_with_batch_norm_then_add_then_activation(activation, residual, train):
    torch.manual_seed(0)
    ours, plain = (module.train(train) for module in pair(activation))
    x, added = inputs(residual)
    wanted = plain(x)
    wanted = ACTIVATIONS[activation](wanted if added is None else wanted + added)
    got = ours(x, added)
    torch.testing.assert_close(got, wanted)

    upstream = torch.randn_like(got)
    leaves = [x, *([] if added is None else [added])]
    wanted_grads = torch.autograd.grad(wanted, [*leaves, *plain.parameters()], upstream)
    got_grads = torch.autograd.grad(got, [*leaves, *ours.parameters()], upstream)
    torch.testing.assert_close(got_grads, wanted_grads)
    torch.testing.assert_close(dict(ours.state_dict()), dict(plain.state_dict()))
    assert ours.num_batches_tracked.item() == int(train)


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    batch=st.integers(2, 5),
    channels=st.integers(1, 4),
    activation=st.sampled_from(list(ACTIVATIONS)),
)
def test_training_formula_written_out(seed, batch, channels, activation):
    torch.manual_seed(seed)
    ours = randomise(NormAct(channels, activation, eps=1e-5, momentum=0.1)).double()
    x = torch.randn(batch, channels, 2, 3, dtype=torch.double)
    mean_before, var_before = ours.running_mean.clone(), ours.running_var.clone()
    got = ours(x)
    for c in range(channels):
        values = x[:, c].flatten()
        n = len(values)
        mean = values.sum() / n
        var = ((values - mean) ** 2).sum() / n
        y = (x[:, c] - mean) / (var + 1e-5).sqrt() * ours.weight[c] + ours.bias[c]
        if activation != "none":
            y = y.clamp(min=0, max=6 if activation == "relu6" else None)
        torch.testing.assert_close(got[:, c], y)
        torch.testing.assert_close(ours.running_mean[c], 0.9 * mean_before[c] + 0.1 * mean)
        unbiased = var * n / (n - 1)
        torch.testing.assert_close(ours.running_var[c], 0.9 * var_before[c] + 0.1 * unbiased)


def test_state_dict_names_are_those_of_batch_norm():
    assert list(NormAct(3).state_dict()) == list(nn.BatchNorm2d(3).state_dict())


def test_unknown_activation_is_refused():
    with pytest.raises(InputError, match="'gelu'"):
        NormAct(3, "gelu")


class FakeKernel:
    def __init__(self):
        self.calls = []

    def __call__(self, *args):
        self.calls.append(args)
        return args[0] + 100


@pytest.fixture
def kernel(monkeypatch):
    fake = FakeKernel()
    monkeypatch.setattr(layers, "_norm_kernel", lambda x, residual, weight: fake)
    return fake


def test_training_on_a_gpu_calls_the_kernel_with_all_it_needs(kernel):
    ours = NormAct(3, "relu6", eps=1e-3, momentum=0.3)
    x, residual = torch.randn(2, 3, 4, 4), torch.randn(2, 3, 4, 4)
    assert torch.equal(ours(x, residual), x + 100)
    (args,) = kernel.calls
    tensors = (x, ours.weight, ours.bias, ours.running_mean, ours.running_var)
    assert all(given is wanted for given, wanted in zip(args[:5], tensors, strict=True))
    assert args[5:7] == (0.3, 1e-3)
    assert args[7] is residual
    assert args[8] == "relu6"
    assert args[9] is ours.num_batches_tracked


def test_kernel_is_for_training_and_can_be_switched_off(kernel, monkeypatch):
    x = torch.randn(2, 3, 4, 4)
    ours = NormAct(3).eval()
    ours(x)
    monkeypatch.setattr(NormAct, "fused", False)
    ours.train()(x)
    assert not kernel.calls
    assert ours.num_batches_tracked.item() == 1


def test_there_is_no_kernel_for_cpu_tensors():
    x = torch.randn(2, 3, 4, 4).to(memory_format=torch.channels_last)
    assert layers._norm_kernel(x, None, torch.ones(3)) is None


def test_kernels_suit_channels_last_of_the_usual_types_only(monkeypatch):
    monkeypatch.setattr(fused_norm, "AVAILABLE", True)
    x = torch.randn(2, 3, 4, 4).to(memory_format=torch.channels_last)
    weight = torch.ones(3)

    def suits(x=x, residual=None, weight=weight, max_channels=3):
        monkeypatch.setattr(fused_norm, "MAX_CHANNELS", max_channels)
        return fused_norm.suits(x, residual, weight)

    assert suits()
    assert suits(x.bfloat16(), x.bfloat16())
    assert suits(x.half())
    assert not suits(x.double())
    assert not suits(weight=weight.half())
    assert not suits(max_channels=2)
    assert not suits(x.contiguous())
    assert not suits(residual=x.contiguous())
    assert not suits(residual=x.bfloat16())
    assert not suits(residual=x[:1])
    monkeypatch.setattr(fused_norm, "AVAILABLE", False)
    assert not suits()


@pytest.mark.parametrize("train", [False, True])
@pytest.mark.parametrize("spec", [ResNetCifar(8), MobileNet(width=0.25, dropout=0.0)])
def test_synchronize_keeps_activations_residuals_and_tensors(spec, train):
    torch.manual_seed(0)
    plain = randomise(spec.build()).train(train)
    synced = copy.deepcopy(plain)
    before = {name: tensor.data_ptr() for name, tensor in synced.named_parameters()}
    synchronize(synced)
    assert not any(isinstance(module, NormAct) for module in synced.modules())
    assert {name: p.data_ptr() for name, p in synced.named_parameters()} == before
    x = torch.randn(4, 3, 32, 32)
    torch.testing.assert_close(synced(x), plain(x))
    torch.testing.assert_close(dict(synced.state_dict()), dict(plain.state_dict()))
