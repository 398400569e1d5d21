"""Linear, MLP and their sparse twins."""

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from noisyteacher.core.errors import InputError
from noisyteacher.models import MLP, BagLinear, BagMLP, Linear

SPECS = [
    Linear(6, 3),
    MLP(6, 3),
    MLP(6, 3, hidden=(5, 4)),
    BagLinear(6, 3),
    BagMLP(6, 3, hidden=(5,)),
    BagMLP(6, 3, hidden=(5, 4)),
]


def bags(batch=4, length=7, features=6):
    indices = torch.randint(features, (batch, length))
    values = torch.randn(batch, length)
    indices[:, 5:], values[:, 5:] = 0, 0
    return indices, values


def dense(indices, values, features):
    """The table the bags stand for, written entry by entry."""
    table = torch.zeros(len(indices), features, dtype=values.dtype)
    for row in range(len(indices)):
        for index, value in zip(indices[row], values[row], strict=True):
            table[row, index] += value
    return table


def batch_for(spec):
    torch.manual_seed(0)
    return bags() if type(spec) in (BagLinear, BagMLP) else torch.randn(4, 6)


@pytest.mark.parametrize("spec", SPECS, ids=repr)
def test_embedding_logits_and_gradients(spec):
    model = spec.build()
    x = batch_for(spec)
    embedding = model.embed(x)
    assert embedding.shape == (4, model.embedding_dim)
    logits = model(x)
    assert logits.shape == (4, 3)
    torch.testing.assert_close(model.classify(embedding), logits)
    assert (model.classes, model.spec) == (3, spec)
    F.cross_entropy(logits, torch.tensor([0, 1, 2, 0])).backward()
    assert all(p.grad is not None for p in model.parameters())


@pytest.mark.parametrize("spec", [Linear(6, 3), BagLinear(6, 3)])
def test_logistic_regressions_start_at_zero(spec):
    assert not any(p.any() for p in spec.build().parameters())


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    batch=st.integers(1, 4),
    length=st.integers(1, 9),
    features=st.integers(1, 8),
    classes=st.integers(2, 4),
)
def test_bag_linear_is_a_dense_matmul(seed, batch, length, features, classes):
    torch.manual_seed(seed)
    model = BagLinear(features, classes).build().double()
    torch.nn.init.normal_(model.bag.weight)
    torch.nn.init.normal_(model.bias)
    indices = torch.randint(features, (batch, length))
    values = torch.randn(batch, length, dtype=torch.double)
    weight = model.bag.weight.detach().clone().requires_grad_()
    bias = model.bias.detach().clone().requires_grad_()
    wanted = dense(indices, values, features) @ weight + bias
    got = model((indices, values))
    torch.testing.assert_close(got, wanted)
    upstream = torch.randn_like(wanted)
    wanted_grads = torch.autograd.grad(wanted, [weight, bias], upstream)
    got_grads = torch.autograd.grad(got, [model.bag.weight, model.bias], upstream)
    torch.testing.assert_close(got_grads, wanted_grads)


def test_padding_leaves_no_trace():
    model = BagMLP(6, 3, hidden=(5,)).build()
    indices, values = bags()
    whole = model((indices, values))
    torch.testing.assert_close(model((indices[:, :5], values[:, :5])), whole)
    empty = model((torch.zeros(1, 7, dtype=torch.long), torch.zeros(1, 7)))
    torch.testing.assert_close(empty, model.classify(F.relu(model.first.bias)[None]))


def test_bag_mlp_is_an_mlp_on_the_dense_table():
    torch.manual_seed(0)
    sparse, plain = BagMLP(6, 3, hidden=(5, 4)).build(), MLP(6, 3, hidden=(5, 4)).build()
    state = {k: v for k, v in sparse.state_dict().items() if not k.startswith("first")}
    state["first.weight"] = sparse.first.bag.weight.detach().T
    state["first.bias"] = sparse.first.bias.detach()
    plain.load_state_dict(state)
    indices, values = bags()
    torch.testing.assert_close(sparse((indices, values)), plain(dense(indices, values, 6)))


def test_mlp_second_implementation():
    torch.manual_seed(0)
    model = MLP(6, 3, hidden=(5, 4), dropout=0.3).build().eval()
    s = model.state_dict()
    x = torch.randn(4, 6)
    hidden = (x @ s["first.weight"].T + s["first.bias"]).relu()
    hidden = (hidden @ s["layers.0.weight"].T + s["layers.0.bias"]).relu()
    torch.testing.assert_close(model.embed(x), hidden)
    torch.testing.assert_close(model(x), hidden @ s["fc.weight"].T + s["fc.bias"])


def test_mlp_dropout_works_in_training_only():
    model = MLP(6, 3, dropout=0.5).build()
    x = torch.randn(4, 6)
    assert not torch.equal(model(x), model(x))
    assert torch.equal(model.eval()(x), model(x))


@pytest.mark.parametrize(
    ("kind", "settings", "named"),
    [
        (Linear, {"features": 0}, "0"),
        (Linear, {"features": 2.5}, "2.5"),
        (Linear, {"classes": 1}, "1"),
        (BagLinear, {"features": -3}, "-3"),
        (MLP, {"hidden": ()}, r"\(\)"),
        (MLP, {"hidden": 256}, "256"),
        (MLP, {"hidden": (8, 0)}, r"\(8, 0\)"),
        (MLP, {"hidden": "88"}, "'88'"),
        (BagMLP, {"hidden": (True,)}, "True"),
        (BagMLP, {"dropout": 1}, "1"),
    ],
)
def test_bad_settings_are_refused_and_named(kind, settings, named):
    with pytest.raises(InputError, match=named):
        kind(**{"features": 4, "classes": 2, **settings})
