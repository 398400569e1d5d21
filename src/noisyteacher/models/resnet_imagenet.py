"""ResNet-18 and ResNet-50 for 224×224 images, with torchvision's layout and weight names."""

from __future__ import annotations

from dataclasses import dataclass

import torch.nn.functional as F
from torch import Tensor, nn

from noisyteacher.models.base import (
    ModelSpec,
    Network,
    require_choice,
    require_classes,
    require_whole,
)
from noisyteacher.models.conv import conv1x1, conv3x3
from noisyteacher.models.norm import NormAct

STEM_WIDTH = 64


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


class Block(nn.Module):
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


class BasicBlock(Block):
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


class Bottleneck(Block):
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
STAGES: dict[int, tuple[type[BasicBlock] | type[Bottleneck], tuple[int, ...]]] = {
    18: (BasicBlock, (2, 2, 2, 2)),
    50: (Bottleneck, (3, 4, 6, 3)),
}


class ImageNetNetwork(Network):
    """A 7×7 stem, a max pool, four stages, mean over the map, linear layer."""

    def __init__(self, spec: ResNetImageNet) -> None:
        block, counts = STAGES[spec.depth]
        super().__init__(spec, embedding_dim=512 * block.expansion)
        self.conv1 = nn.Conv2d(3, STEM_WIDTH, 7, stride=2, padding=3, bias=False)
        self.bn1 = NormAct(STEM_WIDTH)
        inputs = STEM_WIDTH
        stages = []
        for stage, count in enumerate(counts):
            width = STEM_WIDTH * 2**stage
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

    def classify(self, embedding: Tensor) -> Tensor:
        logits: Tensor = self.fc(embedding)
        return logits
