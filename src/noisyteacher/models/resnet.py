"""ResNets: those of CIFAR (v1 with basic blocks, v2 with bottlenecks) and of ImageNet (18, 50)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch.nn.functional as F
from torch import Tensor, nn

from noisyteacher.core.errors import InputError
from noisyteacher.models.layers import NormAct, conv1x1, conv3x3, he_normal_
from noisyteacher.models.spec import (
    ModelSpec,
    Network,
    require_choice,
    require_classes,
    require_whole,
)

CIFAR_STEM_WIDTH = 16
IMAGENET_STEM_WIDTH = 64


@dataclass(frozen=True)
class ResNetCifar(ModelSpec):
    """Settings of a CIFAR ResNet; images are (b, 3, 32, 32), or any size that 4 divides.

    ``version`` 1 has depths 6n+2 (8, 20, 56, 110), version 2 (pre-activation bottlenecks) 9n+2
    (11, 20, 56, 110). ``layout`` "repdistiller" has convolutions without bias and BatchNorm on
    the projection shortcuts; "keras" is the layout of Keras's CIFAR example: biases, no
    BatchNorm on shortcuts, padding at the bottom and right where the stride is 2. None takes the
    usual layout: "repdistiller" for version 1, and "keras", the only one available, for version 2.

    Weights are initialized with he_normal. BatchNorm's eps is torch's 1e-5, or Keras's 1e-3 in the
    Keras layout. Its momentum is torch's 0.1 in both: Keras's 0.99 (0.01 in torch's terms)
    would leave the running statistics of short runs far behind. L2 is a setting of training.
    """

    depth: int = 56
    classes: int = 10
    version: int = 1
    layout: str | None = None

    def __post_init__(self) -> None:
        require_classes(self)
        require_whole(self, "depth", "version")
        require_choice(self, "version", (1, 2))
        per_block, family = (6, "6n+2") if self.version == 1 else (9, "9n+2")
        if self.depth <= 2 or (self.depth - 2) % per_block:
            raise InputError(
                f"ResNetCifar: version {self.version} has depths {family}, which {self.depth} "
                "is not."
            )
        allowed = (None, "keras", "repdistiller") if self.version == 1 else (None, "keras")
        require_choice(self, "layout", allowed)

    @property
    def keras(self) -> bool:
        """Whether the layers are arranged as in Keras's example."""
        return self.version == 2 or self.layout == "keras"

    @property
    def eps(self) -> float:
        """BatchNorm's eps."""
        return 1e-3 if self.keras else 1e-5

    def build(self) -> Network:
        return CifarNetwork(self)


class CifarBasicBlock(nn.Module):
    """Version 1: two 3×3 convolutions, added to the input and then activated."""

    layers = 2

    def __init__(self, spec: ResNetCifar, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        keras, eps = spec.keras, spec.eps
        self.conv1 = conv3x3(inputs, outputs, stride, bias=keras, keras=keras)
        self.norm1 = NormAct(outputs, eps=eps)
        self.conv2 = conv3x3(outputs, outputs, bias=keras)
        self.norm2 = NormAct(outputs, eps=eps)
        self.shortcut = nn.Sequential()
        if inputs != outputs:
            self.shortcut.append(conv1x1(inputs, outputs, stride, bias=keras))
            if not keras:
                self.shortcut.append(NormAct(outputs, "none", eps=eps))

    def forward(self, x: Tensor) -> Tensor:
        residual = self.shortcut(x)
        out: Tensor = self.norm2(self.conv2(self.norm1(self.conv1(x))), residual)
        return out


class CifarBottleneck(nn.Module):
    """Version 2: normalize and activate first, then 1×1, 3×3, 1×1, added to the input."""

    layers = 3

    def __init__(
        self, spec: ResNetCifar, inputs: int, width: int, outputs: int, stride: int
    ) -> None:
        super().__init__()
        eps = spec.eps
        # The stem has just normalized and activated what the very first block reads.
        after_stem = inputs == CIFAR_STEM_WIDTH
        self.norm1 = nn.Identity() if after_stem else NormAct(inputs, eps=eps)
        self.conv1 = conv1x1(inputs, width, stride, bias=True)
        self.norm2 = NormAct(width, eps=eps)
        self.conv2 = conv3x3(width, width, bias=True)
        self.norm3 = NormAct(width, eps=eps)
        self.conv3 = conv1x1(width, outputs, bias=True)
        projects = inputs != outputs
        self.shortcut = conv1x1(inputs, outputs, stride, bias=True) if projects else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.conv1(self.norm1(x))
        out = self.conv3(self.norm3(self.conv2(self.norm2(out))))
        residual: Tensor = self.shortcut(x)
        return out + residual


# Version -> the kind of block, and the widths inside it and at its end in each of three stages.
_CIFAR_STAGES: dict[int, tuple[Any, tuple[tuple[int, ...], ...]]] = {
    1: (CifarBasicBlock, ((16,), (32,), (64,))),
    2: (CifarBottleneck, ((16, 64), (64, 128), (128, 256))),
}


class CifarNetwork(Network):
    """Stem, three stages of blocks, mean over the map, linear layer."""

    def __init__(self, spec: ResNetCifar) -> None:
        block, widths = _CIFAR_STAGES[spec.version]
        blocks, inputs = nn.Sequential(), CIFAR_STEM_WIDTH
        for stage, width in enumerate(widths):
            for position in range((spec.depth - 2) // (3 * block.layers)):
                stride = 2 if stage > 0 and position == 0 else 1
                blocks.append(block(spec, inputs, *width, stride))
                inputs = width[-1]
        super().__init__(spec, embedding_dim=inputs)
        self.conv = conv3x3(3, CIFAR_STEM_WIDTH, bias=spec.keras)
        self.norm = NormAct(CIFAR_STEM_WIDTH, eps=spec.eps)
        self.blocks = blocks
        self.last_norm = nn.Identity() if spec.version == 1 else NormAct(inputs, eps=spec.eps)
        self.fc = nn.Linear(inputs, spec.classes)
        he_normal_(self)

    def embed(self, x: Tensor) -> Tensor:
        maps: Tensor = self.last_norm(self.blocks(self.norm(self.conv(x))))
        return maps.mean((2, 3))


@dataclass(frozen=True)
class ResNetImageNet(ModelSpec):
    """Settings of an ImageNet ResNet; images are (b, 3, 224, 224).

    Weights saved by torchvision's resnet18 and resnet50 load as they are. Convolutions start
    he_normal by fan_out, the last layer as torch does, both as in torchvision; BatchNorm has
    torch's defaults. Depth 50 strides in the 3×3 convolution.
    """

    depth: int = 18
    classes: int = 1000

    def __post_init__(self) -> None:
        require_classes(self)
        require_whole(self, "depth")
        require_choice(self, "depth", (18, 50))

    def build(self) -> Network:
        return ImageNetNetwork(self)


class ImageNetBlock(nn.Module):
    """What both kinds of block share: a projection of the input where its shape changes."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.downsample: nn.Module | None = None
        if stride != 1 or inputs != outputs:
            self.downsample = nn.Sequential(
                conv1x1(inputs, outputs, stride), NormAct(outputs, "none")
            )

    def residual(self, x: Tensor) -> Tensor:
        """What is added before the last activation."""
        if self.downsample is None:
            return x
        projected: Tensor = self.downsample(x)
        return projected


class ImageNetBasicBlock(ImageNetBlock):
    """Two 3×3 convolutions."""

    expansion = 1

    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__(inputs, width, stride)
        self.conv1 = conv3x3(inputs, width, stride)
        self.bn1 = NormAct(width)
        self.conv2 = conv3x3(width, width)
        self.bn2 = NormAct(width)

    def forward(self, x: Tensor) -> Tensor:
        residual = self.residual(x)
        out: Tensor = self.bn2(self.conv2(self.bn1(self.conv1(x))), residual)
        return out


class ImageNetBottleneck(ImageNetBlock):
    """1×1 down, 3×3, 1×1 up to four times the width."""

    expansion = 4

    def __init__(self, inputs: int, width: int, stride: int) -> None:
        outputs = width * self.expansion
        super().__init__(inputs, outputs, stride)
        self.conv1 = conv1x1(inputs, width)
        self.bn1 = NormAct(width)
        self.conv2 = conv3x3(width, width, stride)
        self.bn2 = NormAct(width)
        self.conv3 = conv1x1(width, outputs)
        self.bn3 = NormAct(outputs)

    def forward(self, x: Tensor) -> Tensor:
        residual = self.residual(x)
        out: Tensor = self.bn2(self.conv2(self.bn1(self.conv1(x))))
        out = self.bn3(self.conv3(out), residual)
        return out


# Depth -> the kind of block, and how many of it each of the four stages has.
STAGES: dict[int, tuple[type[ImageNetBasicBlock] | type[ImageNetBottleneck], tuple[int, ...]]] = {
    18: (ImageNetBasicBlock, (2, 2, 2, 2)),
    50: (ImageNetBottleneck, (3, 4, 6, 3)),
}


class ImageNetNetwork(Network):
    """A 7×7 stem, a max pool, four stages, mean over the map, linear layer."""

    def __init__(self, spec: ResNetImageNet) -> None:
        block, counts = STAGES[spec.depth]
        super().__init__(spec, embedding_dim=512 * block.expansion)
        self.conv1 = nn.Conv2d(3, IMAGENET_STEM_WIDTH, 7, stride=2, padding=3, bias=False)
        self.bn1 = NormAct(IMAGENET_STEM_WIDTH)
        inputs = IMAGENET_STEM_WIDTH
        stages = []
        for stage, count in enumerate(counts):
            width = IMAGENET_STEM_WIDTH * 2**stage
            blocks = nn.Sequential()
            for position in range(count):
                stride = 2 if stage > 0 and position == 0 else 1
                blocks.append(block(inputs, width, stride))
                inputs = width * block.expansion
            stages.append(blocks)
        self.layer1, self.layer2, self.layer3, self.layer4 = stages
        self.fc = nn.Linear(inputs, spec.classes)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def embed(self, x: Tensor) -> Tensor:
        maps: Tensor = F.max_pool2d(self.bn1(self.conv1(x)), 3, stride=2, padding=1)
        maps = self.layer4(self.layer3(self.layer2(self.layer1(maps))))
        return maps.mean((2, 3))
