"""ResNets for small images: v1 with basic blocks (6n+2), v2 with bottlenecks (9n+2)."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor, nn

from noisyteacher.core.errors import InputError
from noisyteacher.models.base import (
    ModelSpec,
    Network,
    require_choice,
    require_classes,
    require_whole,
)
from noisyteacher.models.conv import conv1x1, conv3x3, he_normal_
from noisyteacher.models.norm import NormAct

STEM_WIDTH = 16


@dataclass(frozen=True)
class ResNetCifar(ModelSpec):
    """Settings of a CIFAR ResNet; images are (b, 3, 32, 32), or any size that 4 divides.

    ``version`` 1 has depths 6n+2 (8, 20, 56, 110), version 2 (pre-activation bottlenecks) 9n+2
    (11, 20, 56, 110). ``layout`` "repdistiller" has convolutions without bias and BatchNorm on
    the projection shortcuts; "keras" is that of Keras's CIFAR example: biases, no BatchNorm on
    shortcuts, padding at the bottom and right where the stride is 2. None takes the usual one:
    "repdistiller" for version 1, "keras", the only one there is, for version 2.

    Weights start he_normal. BatchNorm's eps is torch's 1e-5, or Keras's 1e-3 in the Keras
    layout. Its momentum is torch's 0.1 in both: Keras's 0.99 (0.01 in torch's terms) would leave
    the running statistics of short runs far behind. L2 is a setting of training.
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
        """Whether the layers are laid out as in Keras's example."""
        return self.version == 2 or self.layout == "keras"

    @property
    def eps(self) -> float:
        """BatchNorm's eps."""
        return 1e-3 if self.keras else 1e-5

    def build(self) -> Network:
        return CifarNetwork(self)


class BasicBlock(nn.Module):
    """Version 1: two 3×3 convolutions, added to the input and then activated."""

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


class Bottleneck(nn.Module):
    """Version 2: normalise and activate first, then 1×1, 3×3, 1×1, added to the input."""

    def __init__(
        self, spec: ResNetCifar, inputs: int, width: int, outputs: int, stride: int
    ) -> None:
        super().__init__()
        eps = spec.eps
        # The stem has just normalised and activated what the very first block reads.
        after_stem = inputs == STEM_WIDTH
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


class CifarNetwork(Network):
    """Stem, three stages of blocks, mean over the map, linear layer."""

    def __init__(self, spec: ResNetCifar) -> None:
        make_blocks = _basic_blocks if spec.version == 1 else _bottlenecks
        blocks, width = make_blocks(spec)
        super().__init__(spec, embedding_dim=width)
        self.conv = conv3x3(3, STEM_WIDTH, bias=spec.keras)
        self.norm = NormAct(STEM_WIDTH, eps=spec.eps)
        self.blocks = nn.Sequential(*blocks)
        self.last_norm = nn.Identity() if spec.version == 1 else NormAct(width, eps=spec.eps)
        self.fc = nn.Linear(width, spec.classes)
        he_normal_(self)

    def embed(self, x: Tensor) -> Tensor:
        maps: Tensor = self.last_norm(self.blocks(self.norm(self.conv(x))))
        return maps.mean((2, 3))

    def classify(self, embedding: Tensor) -> Tensor:
        logits: Tensor = self.fc(embedding)
        return logits


def _basic_blocks(spec: ResNetCifar) -> tuple[list[nn.Module], int]:
    """The blocks of version 1 and the width they end with."""
    blocks: list[nn.Module] = []
    inputs = STEM_WIDTH
    for outputs in (16, 32, 64):
        for _ in range((spec.depth - 2) // 6):
            stride = 1 if inputs == outputs else 2
            blocks.append(BasicBlock(spec, inputs, outputs, stride))
            inputs = outputs
    return blocks, inputs


def _bottlenecks(spec: ResNetCifar) -> tuple[list[nn.Module], int]:
    """The blocks of version 2 and the width they end with."""
    blocks: list[nn.Module] = []
    inputs = STEM_WIDTH
    for width, outputs in ((16, 64), (64, 128), (128, 256)):
        for _ in range((spec.depth - 2) // 9):
            # The first stage widens without shrinking the map.
            stride = 1 if inputs in (STEM_WIDTH, outputs) else 2
            blocks.append(Bottleneck(spec, inputs, width, outputs, stride))
            inputs = outputs
    return blocks, inputs
