"""Networks of the user's own: copied, seeded, named, checked; saved by their weights alone."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from noisyteacher.core.errors import InputError
from noisyteacher.models import (
    MLP,
    CustomModel,
    ModelSpec,
    Network,
    as_spec,
    embed_and_classify,
    from_config,
    to_config,
)

X = torch.randn(2, 6)


class Net(nn.Module):
    """Six features to three classes, and an embedding of five."""

    def __init__(self, width: int = 5) -> None:
        super().__init__()
        self.body, self.head = nn.Linear(6, width), nn.Linear(width, 3)

    def embed(self, x: Tensor) -> Tensor:
        return self.body(x).relu()

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.embed(x))


class Classifies(Net):
    def classify(self, embedding: Tensor) -> Tensor:
        return self.head(embedding)


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(6, 6), nn.Linear(6, 6)
        self.second.weight = self.first.weight
        self.register_buffer("scale", torch.tensor(2.0))

    def forward(self, x: Tensor) -> Tensor:
        return self.second(self.first(x))[:, :3] * self.scale


def plain() -> nn.Module:
    return nn.Linear(6, 3)


def custom(source: Any, **changes: Any) -> CustomModel:
    return CustomModel(source, **{"classes": 3} | changes)


def seeded(spec: CustomModel, seed: int) -> dict[str, Tensor]:
    torch.manual_seed(seed)
    return spec.build().state_dict()


def test_a_module_is_copied_with_its_weights() -> None:
    module = Net()
    spec = as_spec(module)
    wanted = module.body.weight.detach().clone()
    nn.init.zeros_(module.body.weight)
    first, second = spec.build(), spec.build()
    assert torch.equal(first.state_dict()["body.weight"], wanted)
    nn.init.zeros_(first.module.body.weight)
    assert torch.equal(second.state_dict()["body.weight"], wanted)


def test_a_function_starts_from_the_seed() -> None:
    spec = custom(plain)
    assert torch.equal(seeded(spec, 1)["weight"], seeded(spec, 1)["weight"])
    assert not torch.equal(seeded(spec, 1)["weight"], seeded(spec, 2)["weight"])


def test_a_function_that_returns_one_module_again_shares_nothing() -> None:
    module = plain()
    spec = custom(lambda: module)
    assert spec.build().module.weight.data_ptr() != spec.build().module.weight.data_ptr()
    assert torch.equal(spec.build().state_dict()["weight"], module.weight)


@pytest.mark.parametrize(
    ("source", "name"),
    [
        (plain, "test_custom_model:plain"),
        (Net, "test_custom_model:Net"),
        (Net(), "test_custom_model:Net"),
        (partial(Net, 7), "test_custom_model:Net"),
        (nn.Sequential(nn.Linear(6, 3)), "torch.nn.modules.container:Sequential"),
    ],
)
def test_its_name_says_where_it_comes_from(source: Any, name: str) -> None:
    assert custom(source).name.endswith(name)


def test_its_repr_tells_other_names_shapes_and_values_apart() -> None:
    module = Net()
    told = [
        repr(custom(source))
        for source in (plain, Net, partial(Net, 7), module, Net(), lambda: nn.Linear(6, 3))
    ]
    assert len(set(told)) == len(told)
    assert repr(custom(plain)) == told[0]
    assert repr(as_spec(module)) == repr(replace(custom(module), classes=2))
    torch.manual_seed(5)
    assert repr(custom(plain)) == told[0]  # whatever was drawn before
    nn.init.zeros_(module.head.bias)
    assert repr(custom(module)) != told[3]
    assert "words" in repr(custom(plain, words=50))


def test_naming_a_model_draws_nothing() -> None:
    torch.manual_seed(0)
    wanted = torch.rand(1)
    torch.manual_seed(0)
    repr(custom(Net))
    assert torch.equal(torch.rand(1), wanted)


@pytest.mark.parametrize(
    "wrap",
    [
        lambda logits: logits,
        lambda logits: SimpleNamespace(logits=logits, loss=None),
    ],
)
def test_logits_come_as_a_tensor_or_inside_an_object(wrap: Any) -> None:
    class Wraps(Net):
        def forward(self, x: Tensor) -> Any:
            return wrap(super().forward(x))

    network = custom(Wraps).build()
    network.check(X)
    assert network(X).shape == (2, 3)


@pytest.mark.parametrize("kind", [Net, Classifies])
def test_embeddings_come_from_embed(kind: type[Net]) -> None:
    network = custom(kind).build()
    network.check(X, embedding_for="VID()")
    assert network.embedding_dim == 5
    embedding, logits = embed_and_classify(network, X)
    torch.testing.assert_close(embedding, network.module.embed(X))
    torch.testing.assert_close(logits, network.module(X))


def test_tied_weights_and_buffers_keep_the_modules_names() -> None:
    network = custom(Tied).build()
    state = {name: value.clone() + 1 for name, value in network.state_dict().items()}
    state["second.weight"] = state["first.weight"]
    assert set(state) == {"first.weight", "first.bias", "second.weight", "second.bias", "scale"}
    other = Tied()
    other.load_state_dict(state)
    network.load_state_dict(state)
    torch.testing.assert_close(network(X), other(X))
    assert len(list(network.parameters())) == 3


def test_texts_come_as_dense_rows() -> None:
    indices = torch.tensor([[1, 4, 0], [2, 0, 0]])
    values = torch.tensor([[0.5, 0.25, 0.0], [1.0, 0.0, 0.0]])
    network = custom(nn.Identity, classes=6, words=6).build()
    wanted = torch.tensor([[0, 0.5, 0, 0, 0.25, 0], [0, 0, 1, 0, 0, 0]])
    torch.testing.assert_close(network((indices, values)), wanted)


def test_tokens_come_as_two_arguments() -> None:
    class Encoder(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = nn.Embedding(9, 3)

        def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
            return (self.table(input_ids) * attention_mask[..., None]).sum(1)

    tokens, mask = torch.randint(0, 9, (2, 4)), torch.ones(2, 4, dtype=torch.int64)
    network = custom(Encoder, words=None).build()
    network.check((tokens, mask))
    torch.testing.assert_close(network((tokens, mask)), network.module(tokens, mask))


class Odd(nn.Module):
    """Everything that can be wrong with a network."""

    def __init__(self, wrong: str) -> None:
        super().__init__()
        self.wrong, self.fc = wrong, nn.Linear(6, 3)
        self.fc.requires_grad_(wrong != "frozen")

    def forward(self, x: Tensor) -> Any:
        if self.wrong == "raises":
            raise ValueError("a reason\nand more")
        if self.wrong == "training" and self.training:
            raise RuntimeError("not in training")
        if self.wrong == "dict":
            return {"scores": self.fc(x)}
        return self.fc(x)[0] if self.wrong == "row" else self.fc(x)

    def get_extra_state(self) -> Any:
        return {"a": 1}

    def state_dict(self, *args: Any, **kwargs: Any) -> Any:
        state = super().state_dict(*args, **kwargs)
        if self.wrong != "state":
            state.pop("_extra_state")
        return state


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ("raises", r"Odd fails on a batch of shape \(2, 6\): a reason$"),
        ("training", r"fails on a batch of shape \(2, 6\): not in training$"),
        ("dict", r"fails on a batch of shape \(2, 6\): 'dict' object has no attribute 'logits'"),
        ("row", r"output of shape \(3,\) .*; with 3 classes it must be \(2, 3\)\.$"),
        ("frozen", r"Odd has no parameters to train\.$"),
        ("state", r"keeps '_extra_state' in its state, which is not a tensor\.$"),
    ],
)
def test_what_cannot_be_trained_is_refused_in_one_sentence(wrong: str, told: str) -> None:
    network = custom(partial(Odd, wrong)).build()
    with pytest.raises(InputError, match=told):
        network.check(X, training=True)


def test_a_wrong_number_of_classes_is_refused() -> None:
    network = custom(plain, classes=4).build().eval()
    with pytest.raises(InputError, match=r"shape \(2, 3\) .*4 classes it must be \(2, 4\)"):
        network.check(X)
    with pytest.raises(InputError, match=r"VID\(\) needs the student's embedding, and .*plain has"):
        custom(plain).build().check(X, embedding_for="VID()")
    network = custom(plain).build().eval()
    network.check(X)
    assert not network.training


def raises() -> nn.Module:
    raise OSError("no weights here")


class Uncopied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(6, 3)
        self.kept = self.fc.weight * 2  # torch refuses to copy it

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(x)


def test_bad_sources_are_refused_in_one_sentence() -> None:
    with pytest.raises(InputError, match=r"raises failed to make .*: no weights here"):
        custom(raises).build()
    with pytest.raises(InputError, match=r"called without arguments: .*missing 1 required"):
        custom(lambda width: nn.Linear(6, width)).build()
    with pytest.raises(InputError, match="must return a torch module, not int"):
        custom(lambda: 3).build()
    with pytest.raises(InputError, match=r"cannot be copied .*give a function"):
        custom(Uncopied()).build()
    custom(Uncopied).build().check(X)


@dataclass(frozen=True)
class OwnSettings(ModelSpec):
    width: int = 4
    classes: int = 3

    def build(self) -> Network:
        return MLP(6, self.classes, hidden=(self.width,)).build()


def test_settings_of_the_users_own_are_a_network_of_the_users_own() -> None:
    spec = as_spec(OwnSettings())
    assert isinstance(spec, CustomModel)
    assert spec.classes == 3
    network = spec.build()
    network.check(X, embedding_for="VID()")
    assert network.embedding_dim == 4
    assert as_spec(MLP(6, 3)) == MLP(6, 3)
    assert as_spec(spec) is spec
    assert custom(lambda: MLP(6, 3)).build()(X).shape == (2, 3)


def test_a_config_names_the_network_and_needs_it_to_load() -> None:
    spec = custom(Net, words=30)
    config = to_config(spec)
    assert config == {"model": "CustomModel", "factory": spec.name, "classes": 3, "words": 30}
    assert from_config(config, Net) == spec
    with pytest.raises(InputError, match=r"network of your own, '.*:Net'.* pass .*student="):
        from_config(config)
    with pytest.raises(InputError, match=r"The student is '.*Net', not MLP\("):
        from_config(config, MLP(6, 3))
    with pytest.raises(InputError, match="The student is a MLP, which is loaded without student="):
        from_config(to_config(MLP(6, 3)), Net)
