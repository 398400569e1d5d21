"""Students and teachers: small frozen settings whose ``build()`` makes the network."""

from noisyteacher.models.build import ModelLike, as_spec, from_config, to_config
from noisyteacher.models.custom import CustomModel, CustomNetwork
from noisyteacher.models.layers import NormAct, synchronize
from noisyteacher.models.linear import MLP, BagLinear, BagMLP, Linear
from noisyteacher.models.mobilenet import MobileNet
from noisyteacher.models.resnet import ResNetCifar, ResNetImageNet
from noisyteacher.models.spec import ModelSpec, Network, embed_and_classify
from noisyteacher.models.text_encoder import TextEncoder

__all__ = [
    "MLP",
    "BagLinear",
    "BagMLP",
    "CustomModel",
    "CustomNetwork",
    "Linear",
    "MobileNet",
    "ModelLike",
    "ModelSpec",
    "Network",
    "NormAct",
    "ResNetCifar",
    "ResNetImageNet",
    "TextEncoder",
    "as_spec",
    "embed_and_classify",
    "from_config",
    "synchronize",
    "to_config",
]
