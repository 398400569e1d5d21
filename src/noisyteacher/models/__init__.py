"""Students and teachers: small frozen settings whose ``build()`` makes the network."""

from noisyteacher.models.base import ModelSpec, Network
from noisyteacher.models.config import from_config, to_config
from noisyteacher.models.linear import MLP, BagLinear, BagMLP, Linear
from noisyteacher.models.mobilenet import MobileNet
from noisyteacher.models.norm import NormAct, synchronise
from noisyteacher.models.resnet_cifar import ResNetCifar
from noisyteacher.models.resnet_imagenet import ResNetImageNet
from noisyteacher.models.text import TextEncoder

__all__ = [
    "MLP",
    "BagLinear",
    "BagMLP",
    "Linear",
    "MobileNet",
    "ModelSpec",
    "Network",
    "NormAct",
    "ResNetCifar",
    "ResNetImageNet",
    "TextEncoder",
    "from_config",
    "synchronise",
    "to_config",
]
