"""Settings as JSON and back."""

import json

import numpy as np
import pytest

from noisyteacher import models
from noisyteacher.core.errors import InputError
from noisyteacher.models import (
    MLP,
    BagLinear,
    BagMLP,
    CustomModel,
    Linear,
    MobileNet,
    ModelSpec,
    ResNetCifar,
    ResNetImageNet,
    TextEncoder,
    from_config,
    to_config,
)

SPECS = [
    ResNetCifar(),
    ResNetCifar(11, classes=2, version=2, layout="keras"),
    MobileNet(classes=2, width=0.5, depth_multiplier=2, image_size=224, dropout=0.0),
    ResNetImageNet(50, classes=17),
    Linear(20, 3),
    MLP(20, 3, hidden=(8, 4), dropout=0.25),
    BagLinear(20_000, 2),
    BagMLP(20_000, 2, hidden=(16,)),
    TextEncoder("albert-base-v2", 2),
    TextEncoder("mine", 2, pretrained=False, config={"model_type": "albert"}),
]


@pytest.mark.parametrize("spec", SPECS, ids=repr)
def test_round_trip_through_json(spec):
    again = from_config(json.loads(json.dumps(to_config(spec))))
    assert again == spec
    assert type(again) is type(spec)


def test_every_public_spec_has_a_round_trip_here():
    public = {getattr(models, name) for name in models.__all__}
    specs = {kind for kind in public if isinstance(kind, type) and issubclass(kind, ModelSpec)}
    assert specs - {ModelSpec, CustomModel} == {type(spec) for spec in SPECS}


def test_config_is_flat_and_names_the_model():
    assert to_config(ResNetCifar(20, 100)) == {
        "model": "ResNetCifar",
        "depth": 20,
        "classes": 100,
        "version": 1,
        "layout": None,
    }


def test_defaults_may_be_left_out():
    assert from_config({"model": "MobileNet", "classes": 2}) == MobileNet(classes=2)


def test_numpy_numbers_become_plain_ones():
    spec = ResNetCifar(np.int64(20), classes=np.int32(10), version=np.int64(2))
    assert json.loads(json.dumps(to_config(spec)))["depth"] == 20
    mlp = MLP(np.int64(4), 2, hidden=[np.int64(8)], dropout=np.float32(0.5))
    assert json.loads(json.dumps(to_config(mlp)))["hidden"] == [8]


@pytest.mark.parametrize(
    ("config", "named"),
    [
        ("ResNetCifar", "'ResNetCifar'"),
        (None, "None"),
        ({}, "None"),
        ({"model": "ResNext"}, "'ResNext'"),
        ({"model": ["MLP"]}, "MLP"),
        ({"model": "ResNetCifar", "deepness": 56}, "'deepness'"),
        ({"model": "Linear", "features": 4}, "'classes'"),
        ({"model": "ResNetCifar", "depth": 57}, "57"),
        ({"model": "ResNetCifar", "depth": None}, "None"),
        ({"model": "MLP", "features": 4, "classes": 2, "hidden": [0]}, r"\[0\]"),
    ],
)
def test_bad_configs_are_refused_and_named(config, named):
    with pytest.raises(InputError, match=named):
        from_config(config)


def test_settings_of_something_else_are_refused():
    class Stranger(ModelSpec):
        classes = 2

        def build(self):
            raise AssertionError

    with pytest.raises(InputError, match="Stranger"):
        to_config(Stranger())
