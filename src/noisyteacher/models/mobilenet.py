"""MobileNet v1, as in Keras."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

from torch import Tensor, nn

from noisyteacher.core.errors import InputError
from noisyteacher.models.layers import NormAct, conv1x1, conv3x3, he_normal_
from noisyteacher.models.spec import (
    ModelSpec,
    Network,
    require_choice,
    require_classes,
    require_dropout,
    require_real,
    require_whole,
)

EPS = 1e-3
STEM_WIDTH = 32
# (filters, stride) of the 13 depthwise blocks, before the width is applied.
BLOCKS = (
    (64, 1),
    (128, 2),
    (128, 1),
    (256, 2),
    (256, 1),
    (512, 2),
    *((512, 1),) * 5,
    (1024, 2),
    (1024, 1),
)
STRIDE_OF_BLOCKS = 16


@dataclass(frozen=True)
class MobileNet(ModelSpec):
    """Settings of a MobileNet v1; images are (b, 3, image_size, image_size).

    ``width`` scales all channel counts (Keras's alpha, TF-slim's depth_multiplier);
    ``depth_multiplier`` is Keras's: channels per input channel in the depthwise convolutions
    only. For 32×32 images, the last feature map is 1×1 with Keras's ``stem_stride`` of 2, and 2×2
    with 1.

    As in Keras, there are no convolution biases, activations are ReLU6, padding is at the bottom
    and right where the stride is 2, BatchNorm's eps is 1e-3, and there is dropout before the last
    layer. Unlike in Keras, weights are initialized with he_normal, because glorot_uniform makes
    depthwise weights almost vanish compared with eps, and BatchNorm's momentum is torch's 0.1,
    which adapts fast enough in short runs.
    """

    classes: int = 10
    width: float = 1.0
    depth_multiplier: int = 1
    image_size: int = 32
    stem_stride: int = 2
    dropout: float = 1e-3

    def __post_init__(self) -> None:
        require_classes(self)
        require_real(self, "width", "a finite number above 0", lambda width: 0 < width < inf)
        require_whole(self, "depth_multiplier", "image_size", "stem_stride")
        require_choice(self, "stem_stride", (1, 2))
        require_dropout(self)
        if self.channels(STEM_WIDTH) < 1:
            raise InputError(f"MobileNet: width {self.width} leaves the first layer no channels.")
        smallest = self.stem_stride * STRIDE_OF_BLOCKS
        if self.image_size < smallest:
            raise InputError(
                f"MobileNet: image_size must be at least {smallest} with a stem_stride of "
                f"{self.stem_stride}, not {self.image_size}."
            )

    def channels(self, filters: int) -> int:
        """The number of channels, at this width, of a layer of ``filters``."""
        return int(filters * self.width)

    def build(self) -> Network:
        return MobileNetwork(self)


class DepthwiseBlock(nn.Module):
    """A 3×3 convolution of each channel by itself, then 1×1 across channels."""

    def __init__(self, inputs: int, outputs: int, stride: int, multiplier: int) -> None:
        super().__init__()
        middle = inputs * multiplier
        self.depthwise = conv3x3(inputs, middle, stride, groups=inputs, keras=True)
        self.norm1 = NormAct(middle, "relu6", eps=EPS)
        self.pointwise = conv1x1(middle, outputs)
        self.norm2 = NormAct(outputs, "relu6", eps=EPS)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.norm2(self.pointwise(self.norm1(self.depthwise(x))))
        return out


class MobileNetwork(Network):
    """Stem, 13 depthwise blocks, mean over the map, dropout, linear layer."""

    def __init__(self, spec: MobileNet) -> None:
        super().__init__(spec, embedding_dim=spec.channels(BLOCKS[-1][0]))
        width = spec.channels(STEM_WIDTH)
        self.conv = conv3x3(3, width, spec.stem_stride, keras=True)
        self.norm = NormAct(width, "relu6", eps=EPS)
        self.blocks = nn.Sequential()
        for filters, stride in BLOCKS:
            outputs = spec.channels(filters)
            self.blocks.append(DepthwiseBlock(width, outputs, stride, spec.depth_multiplier))
            width = outputs
        self.dropout = nn.Dropout(spec.dropout)
        self.fc = nn.Linear(width, spec.classes)
        he_normal_(self)

    def embed(self, x: Tensor) -> Tensor:
        maps: Tensor = self.blocks(self.norm(self.conv(x)))
        return maps.mean((2, 3))

    def classify(self, embedding: Tensor) -> Tensor:
        logits: Tensor = self.fc(self.dropout(embedding))
        return logits
