"""Hugging Face classifiers, tiny ones made on the spot."""

import json
import sys
import warnings

import pytest
import torch
import torch.nn.functional as F

from noisyteacher.core.errors import InputError, NoisyTeacherWarning
from noisyteacher.models import TextEncoder, from_config, to_config

pytest.importorskip("transformers")

SIZES = {
    "vocab_size": 40,
    "embedding_size": 8,
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 20,
    "max_position_embeddings": 20,
}
DISTIL = {"vocab_size": 40, "dim": 16, "n_layers": 2, "n_heads": 2, "hidden_dim": 20}
KNOWN = ["albert", "bert", "camembert", "distilbert", "roberta", "xlm-roberta"]


def tiny(model_type, classes=3):
    sizes = DISTIL if model_type == "distilbert" else SIZES
    config = {"model_type": model_type, **sizes}
    return TextEncoder(f"tiny-{model_type}", classes, pretrained=False, config=config)


def tokens(batch=4, length=9):
    ids = torch.randint(5, 40, (batch, length))
    mask = torch.ones_like(ids)
    ids[0, 6:], mask[0, 6:] = 1, 0
    return ids, mask


@pytest.mark.parametrize("model_type", KNOWN)
def test_embedding_and_logits_are_those_of_the_hugging_face_model(model_type):
    torch.manual_seed(0)
    model = tiny(model_type).build().eval()
    ids, mask = tokens()
    embedding = model.embed((ids, mask))
    assert embedding.shape == (4, 16)
    assert (model.embedding_dim, model.classes) == (16, 3)
    logits = model((ids, mask))
    torch.testing.assert_close(model.classify(embedding), logits)
    wanted = model.hf_model(input_ids=ids, attention_mask=mask).logits
    torch.testing.assert_close(logits, wanted)
    changed = ids.clone()
    changed[0, 6:] = 7  # behind the mask
    torch.testing.assert_close(model((changed, mask)), logits)


def test_albert_trains_one_step():
    torch.manual_seed(0)
    model = tiny("albert", classes=2).build()
    assert model.training
    batch, y = tokens(), torch.tensor([0, 1, 1, 0])
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    loss = F.cross_entropy(model(batch), y)
    loss.backward()
    optimizer.step()
    moved = {name for name, p in model.named_parameters() if not torch.equal(p, before[name])}
    assert {"hf_model.classifier.weight", "hf_model.albert.pooler.weight"} <= moved
    assert F.cross_entropy(model.eval()(batch), y) < loss


def test_an_unknown_head_gives_logits_but_no_embedding():
    model = tiny("electra").build().eval()
    batch = tokens()
    assert model(batch).shape == (4, 3)
    with pytest.raises(InputError, match="ElectraForSequenceClassification"):
        model.embed(batch)
    with pytest.raises(InputError, match="ElectraForSequenceClassification"):
        model.classify(torch.zeros(4, 16))


def test_folder_gives_weights_or_architecture_only(tmp_path):
    torch.manual_seed(0)
    first = tiny("albert").build()
    first.hf_model.save_pretrained(tmp_path)
    loaded = TextEncoder(str(tmp_path), 3).build()
    assert loaded.training
    torch.testing.assert_close(dict(loaded.state_dict()), dict(first.state_dict()))
    fresh = TextEncoder(str(tmp_path), 5, pretrained=False).build()
    assert fresh.hf_model.config.hidden_size == 16
    assert fresh(tokens()).shape == (4, 5)
    weight = "hf_model.albert.pooler.weight"
    assert not torch.equal(fresh.state_dict()[weight], first.state_dict()[weight])


def test_a_new_head_is_no_news_and_a_new_body_is(tmp_path, capfd):
    tiny("bert").build().hf_model.bert.save_pretrained(tmp_path)
    capfd.readouterr()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = TextEncoder(str(tmp_path), 3).build()
    assert capfd.readouterr() == ("", "")
    layer = "bert.encoder.layer.1"
    kept = {k: v for k, v in model.hf_model.state_dict().items() if not k.startswith(layer)}
    model.hf_model.save_pretrained(tmp_path, state_dict=kept)
    with pytest.warns(NoisyTeacherWarning, match=r"16 weights .* start at random: 'bert\.encoder"):
        TextEncoder(str(tmp_path), 3).build()


def test_half_precision_weights_are_read_as_float32(tmp_path):
    tiny("albert").build().hf_model.bfloat16().save_pretrained(tmp_path)
    model = TextEncoder(str(tmp_path), 3).build()
    assert {p.dtype for p in model.parameters()} == {torch.float32}


def test_spec_of_a_built_network_rebuilds_it_without_its_folder(tmp_path):
    tiny("albert", classes=4).build().hf_model.save_pretrained(tmp_path / "gone")
    spec = TextEncoder(str(tmp_path / "gone"), 4)
    model = spec.build().eval()
    (tmp_path / "gone").rename(tmp_path / "moved")
    config = json.loads(json.dumps(to_config(model.spec)))
    again = from_config(config)
    assert again == model.spec
    twin = again.build().eval()
    twin.load_state_dict(model.state_dict())
    batch = tokens()
    torch.testing.assert_close(twin(batch), model(batch))
    assert twin.spec == model.spec
    assert twin.hf_model.config.num_labels == 4


def test_specs_are_hashable():
    assert hash(tiny("albert")) == hash(tiny("albert"))


def test_missing_folder_is_named(tmp_path):
    with pytest.raises(InputError, match="nothing-here"):
        TextEncoder(str(tmp_path / "nothing-here"), 2).build()


def test_unknown_architecture_is_named():
    spec = TextEncoder("mine", 2, pretrained=False, config={"model_type": "no-such-type"})
    with pytest.raises(InputError, match="no-such-type"):
        spec.build()


def test_other_number_of_classes_than_the_folder_has_is_refused(tmp_path):
    tiny("albert", classes=3).build().hf_model.save_pretrained(tmp_path)
    with pytest.raises(InputError, match="2 classes"):
        TextEncoder(str(tmp_path), 2).build()


def test_without_transformers_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(ImportError, match=r"noisyteacher\[hf\]"):
        tiny("albert").build()


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"path_or_name": ""}, "''"),
        ({"path_or_name": 3}, "3"),
        ({"classes": 1}, "1"),
        ({"pretrained": "yes"}, "'yes'"),
        ({"config": {"model_type": "albert"}}, "pretrained"),
        ({"config": {"hidden_size": 4}, "pretrained": False}, "model_type"),
        ({"config": "albert", "pretrained": False}, "'albert'"),
    ],
)
def test_bad_settings_are_refused_and_named(settings, named):
    with pytest.raises(InputError, match=named):
        TextEncoder(**{"path_or_name": "albert-base-v2", "classes": 2, **settings})
