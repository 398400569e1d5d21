"""Parameter counts, shapes and plain second implementations of the image models."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from noisyteacher.core.errors import InputError
from noisyteacher.models import MobileNet, ResNetCifar, ResNetImageNet
from noisyteacher.models.layers import TrailingPadConv2d

V1 = {  # depth: (Keras 10, 100 classes), (RepDistiller-style 10, 100)
    8: ((78_186, 84_036), (78_042, 83_892)),
    20: ((273_066, 278_916), (272_474, 278_324)),
    56: ((857_706, 863_556), (855_770, 861_620)),
    110: ((1_734_666, 1_740_516), (1_730_714, 1_736_564)),
}
V2 = [  # depth, classes, trainable, total with BatchNorm statistics
    (11, 10, 297_418, 299_178),
    (11, 100, 320_548, None),
    (11, 2, 295_362, 297_122),
    (20, 10, 570_602, None),
    (20, 100, 593_732, None),
    (56, 10, 1_663_338, 1_673_738),
    (56, 100, 1_686_468, 1_696_868),
    (110, 10, 3_302_442, 3_323_210),
    (110, 100, 3_325_572, 3_346_340),
]
MOBILE = [  # classes, width, depth_multiplier, trainable, total
    (10, 1.0, 1, 3_217_226, 3_239_114),
    (10, 1.0, 2, 6_411_370, 6_443_178),
    (10, 2.0, 1, 12_713_610, 12_757_386),
    (2, 1.0, 1, 3_209_026, None),
    (2, 1.0, 2, 6_403_170, None),
    (2, 2.0, 1, 12_697_218, None),
    (1000, 1.0, 1, 4_231_976, 4_253_864),
]
SMALL = [
    ResNetCifar(8),
    ResNetCifar(8, layout="keras", classes=3),
    ResNetCifar(11, version=2, classes=2),
    MobileNet(width=0.25),
    MobileNet(width=0.5, depth_multiplier=2, stem_stride=1),
    ResNetImageNet(18, classes=7),
]


def built_without_memory(spec):
    with torch.device("meta"):
        return spec.build()


def counts(model):
    trainable = sum(p.numel() for p in model.parameters() if p.requires_grad)
    statistics = sum(b.numel() for name, b in model.named_buffers() if "running" in name)
    return trainable, trainable + statistics


@pytest.mark.parametrize("depth", V1)
@pytest.mark.parametrize(("column", "layout"), [(0, "keras"), (1, "repdistiller")])
def test_v1_counts(depth, column, layout):
    for classes, wanted in zip((10, 100), V1[depth][column], strict=True):
        spec = ResNetCifar(depth, classes, layout=layout)
        assert counts(built_without_memory(spec))[0] == wanted


def test_v1_is_laid_out_as_repdistiller_by_default():
    assert counts(built_without_memory(ResNetCifar()))[0] == V1[56][1][0]


@pytest.mark.parametrize(("depth", "classes", "trainable", "total"), V2)
def test_v2_counts(depth, classes, trainable, total):
    got = counts(built_without_memory(ResNetCifar(depth, classes, version=2)))
    assert got[0] == trainable
    assert total is None or got[1] == total


@pytest.mark.parametrize(("classes", "width", "multiplier", "trainable", "total"), MOBILE)
def test_mobilenet_counts(classes, width, multiplier, trainable, total):
    spec = MobileNet(classes, width, multiplier)
    got = counts(built_without_memory(spec))
    assert got[0] == trainable
    assert total is None or got[1] == total


@pytest.mark.parametrize(("depth", "wanted"), [(18, 11_689_512), (50, 25_557_032)])
def test_imagenet_counts(depth, wanted):
    assert counts(built_without_memory(ResNetImageNet(depth)))[0] == wanted


@pytest.mark.parametrize("spec", SMALL, ids=repr)
@pytest.mark.parametrize("train", [False, True])
def test_embedding_logits_and_gradients(spec, train):
    torch.manual_seed(0)
    model = spec.build().train(train)
    if isinstance(spec, MobileNet):
        model.dropout.p = 0.0
    x = torch.randn(3, 3, 64, 64)
    embedding = model.embed(x)
    assert embedding.shape == (3, model.embedding_dim)
    logits = model(x)
    assert logits.shape == (3, spec.classes)
    assert (model.classes, model.spec) == (spec.classes, spec)
    torch.testing.assert_close(model.classify(embedding), logits)
    logits.square().sum().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters())


@pytest.mark.parametrize("spec", SMALL, ids=repr)
def test_channels_last_and_autocast_change_no_shape_and_little_else(spec):
    torch.manual_seed(0)
    model = spec.build().eval()
    x = torch.randn(2, 3, 32, 32)
    wanted = model(x)
    model = model.to(memory_format=torch.channels_last)
    x = x.to(memory_format=torch.channels_last)
    torch.testing.assert_close(model(x), wanted, rtol=1e-4, atol=1e-4)
    with torch.autocast("cpu", torch.bfloat16):
        low = model(x)
    assert low.dtype == torch.bfloat16
    assert (low - wanted).norm() < 0.1 * wanted.norm()


def test_channels_last_survives_to_the_last_map():
    for spec in SMALL[:5]:
        model = spec.build().to(memory_format=torch.channels_last)
        x = torch.randn(2, 3, 32, 32).to(memory_format=torch.channels_last)
        maps = model.blocks(model.norm(model.conv(x)))
        assert maps.is_contiguous(memory_format=torch.channels_last)


@pytest.mark.parametrize(
    ("spec", "size", "side"),
    [
        (MobileNet(width=0.25), 32, 1),
        (MobileNet(width=0.25, stem_stride=1), 32, 2),
        (MobileNet(width=0.25, image_size=224), 224, 7),
    ],
)
def test_mobilenet_map_sizes(spec, size, side):
    model = spec.build().eval()
    maps = model.blocks(model.norm(model.conv(torch.randn(1, 3, size, size))))
    assert maps.shape == (1, 256, side, side)


def test_mobilenet_drops_out_before_the_last_layer_only_in_training():
    model = MobileNet(width=0.25, dropout=0.5).build()
    embedding = torch.ones(64, model.embedding_dim)
    assert not torch.equal(model.classify(embedding), model.classify(embedding))
    model.eval()
    assert torch.equal(model.classify(embedding), model.classify(embedding))


def test_trailing_padding_reads_pixels_as_keras_does():
    conv = TrailingPadConv2d(1, 1, 3, 2, bias=False)
    x = torch.arange(1.0, 65.0).view(1, 1, 8, 8)
    padded = F.pad(x, (0, 1, 0, 1))
    for row in range(3):
        for column in range(3):
            nn.init.zeros_(conv.weight)
            conv.weight.data[0, 0, row, column] = 1
            wanted = padded[:, :, row : row + 8 : 2, column : column + 8 : 2][..., :4, :4]
            assert torch.equal(conv(x), wanted)
    assert conv(x)[0, 0, -1, -1] == 0  # the last kernel position reads the padding


@pytest.mark.parametrize("spec", SMALL[:5], ids=repr)
def test_weights_start_he_normal(spec):
    torch.manual_seed(0)
    for module in spec.build().modules():
        if isinstance(module, nn.Conv2d | nn.Linear):
            weight = module.weight
            if weight.numel() > 2000:
                std = math.sqrt(2 / weight[0].numel())
                assert abs(weight.std().item() / std - 1) < 0.06
            assert module.bias is None or not module.bias.any()


def test_batch_norm_settings():
    def settings_of(spec):
        norms = [m for m in spec.build().modules() if isinstance(m, nn.BatchNorm2d)]
        return {(m.eps, m.momentum) for m in norms}

    assert settings_of(ResNetCifar(8)) == {(1e-5, 0.1)}
    assert settings_of(ResNetCifar(8, layout="keras")) == {(1e-3, 0.1)}
    assert settings_of(ResNetCifar(11, version=2)) == {(1e-3, 0.1)}
    assert settings_of(MobileNet(width=0.25)) == {(1e-3, 0.1)}


# --- second implementations: plain functions of the state dict, in evaluation mode ---


class Plain:
    """Reads a network's layers by name and applies them one by one."""

    def __init__(self, model, eps):
        self.state, self.eps = model.state_dict(), eps

    def conv(self, x, name, stride=1, groups=1, trailing=False):
        weight, bias = self.state[f"{name}.weight"], self.state.get(f"{name}.bias")
        if trailing and stride == 2:
            return F.conv2d(F.pad(x, (0, 1, 0, 1)), weight, bias, 2, 0, 1, groups)
        return F.conv2d(x, weight, bias, stride, weight.shape[-1] // 2, 1, groups)

    def norm(self, x, name):
        part = {k: self.state[f"{name}.{k}"].view(-1, 1, 1) for k in ("weight", "bias")}
        mean = self.state[f"{name}.running_mean"].view(-1, 1, 1)
        var = self.state[f"{name}.running_var"].view(-1, 1, 1)
        return (x - mean) / (var + self.eps).sqrt() * part["weight"] + part["bias"]

    def head(self, x):
        return x.mean((-1, -2)) @ self.state["fc.weight"].T + self.state["fc.bias"]


def scrambled(spec):
    """The network in double precision and evaluation mode, with no layer near the identity."""
    torch.manual_seed(1)
    model = spec.build().double().eval()
    for name, tensor in model.state_dict().items():
        if name.endswith(("running_var", "norm.weight")) or ("bn" in name and "weight" in name):
            nn.init.uniform_(tensor, 0.5, 1.5)
        elif name.endswith(("bias", "running_mean")):
            nn.init.normal_(tensor, std=0.2)
    return model


@pytest.mark.parametrize("layout", ["repdistiller", "keras"])
def test_v1_second_implementation(layout):
    model = scrambled(ResNetCifar(14, layout=layout))
    keras = layout == "keras"
    net = Plain(model, 1e-3 if keras else 1e-5)
    image = torch.randn(2, 3, 32, 32, dtype=torch.double)
    x = net.norm(net.conv(image, "conv"), "norm").relu()
    for i in range(6):
        name, stride = f"blocks.{i}", 2 if i in (2, 4) else 1
        out = net.conv(x, f"{name}.conv1", stride, trailing=keras)
        out = net.norm(out, f"{name}.norm1").relu()
        out = net.norm(net.conv(out, f"{name}.conv2"), f"{name}.norm2")
        if stride == 2:
            x = net.conv(x, f"{name}.shortcut.0", 2)
            x = x if keras else net.norm(x, f"{name}.shortcut.1")
        x = (out + x).relu()
    torch.testing.assert_close(model(image), net.head(x))


def test_v2_second_implementation():
    model = scrambled(ResNetCifar(20, version=2))
    net = Plain(model, 1e-3)
    image = torch.randn(2, 3, 32, 32, dtype=torch.double)
    x = net.norm(net.conv(image, "conv"), "norm").relu()
    for i in range(6):
        name, stride = f"blocks.{i}", 2 if i in (2, 4) else 1
        out = x if i == 0 else net.norm(x, f"{name}.norm1").relu()
        out = net.norm(net.conv(out, f"{name}.conv1", stride), f"{name}.norm2").relu()
        out = net.norm(net.conv(out, f"{name}.conv2"), f"{name}.norm3").relu()
        out = net.conv(out, f"{name}.conv3")
        x = out + (net.conv(x, f"{name}.shortcut", stride) if i % 2 == 0 else x)
    x = net.norm(x, "last_norm").relu()
    torch.testing.assert_close(model(image), net.head(x))


def test_mobilenet_second_implementation():
    model = scrambled(MobileNet(width=0.25, depth_multiplier=2))
    net = Plain(model, 1e-3)
    image = torch.randn(2, 3, 64, 64, dtype=torch.double)
    x = net.norm(net.conv(image, "conv", 2, trailing=True), "norm").clamp(0, 6)
    for i in range(13):
        name, stride = f"blocks.{i}", 2 if i in (1, 3, 5, 11) else 1
        out = net.conv(x, f"{name}.depthwise", stride, groups=x.shape[1], trailing=True)
        out = net.norm(out, f"{name}.norm1").clamp(0, 6)
        x = net.norm(net.conv(out, f"{name}.pointwise"), f"{name}.norm2").clamp(0, 6)
    torch.testing.assert_close(model(image), net.head(x))


@pytest.mark.parametrize(("depth", "blocks"), [(18, (2, 2, 2, 2)), (50, (3, 4, 6, 3))])
def test_imagenet_second_implementation(depth, blocks):
    model = scrambled(ResNetImageNet(depth, classes=5))
    net = Plain(model, 1e-5)
    image = torch.randn(1, 3, 64, 64, dtype=torch.double)
    x = net.norm(net.conv(image, "conv1", 2), "bn1").relu()
    x = F.max_pool2d(x, 3, 2, 1)
    last, strided = (2, 1) if depth == 18 else (3, 2)
    for stage, count in enumerate(blocks, start=1):
        for i in range(count):
            name, stride = f"layer{stage}.{i}", 2 if stage > 1 and i == 0 else 1
            out = x
            for j in range(1, last + 1):
                out = net.conv(out, f"{name}.conv{j}", stride if j == strided else 1)
                out = net.norm(out, f"{name}.bn{j}")
                out = out if j == last else out.relu()
            if f"{name}.downsample.0.weight" in net.state:
                x = net.norm(net.conv(x, f"{name}.downsample.0", stride), f"{name}.downsample.1")
            x = (out + x).relu()
    torch.testing.assert_close(model(image), net.head(x))


# --- torchvision's names and shapes, listed independently ---


def torchvision_listing(depth):
    shapes = {}

    def conv(name, outputs, inputs, size):
        shapes[f"{name}.weight"] = (outputs, inputs, size, size)

    def bn(name, channels):
        for part in ("weight", "bias", "running_mean", "running_var"):
            shapes[f"{name}.{part}"] = (channels,)
        shapes[f"{name}.num_batches_tracked"] = ()

    conv("conv1", 64, 3, 7)
    bn("bn1", 64)
    inputs = 64
    counts_of = {18: (2, 2, 2, 2), 50: (3, 4, 6, 3)}[depth]
    for stage, (width, count) in enumerate(zip((64, 128, 256, 512), counts_of, strict=True), 1):
        outputs = width if depth == 18 else 4 * width
        layers = (
            [(width, None, 3), (width, width, 3)]
            if depth == 18
            else [(width, None, 1), (width, width, 3), (outputs, width, 1)]
        )
        for i in range(count):
            name = f"layer{stage}.{i}"
            for j, (out, into, size) in enumerate(layers, 1):
                conv(f"{name}.conv{j}", out, inputs if into is None else into, size)
                bn(f"{name}.bn{j}", out)
            if i == 0 and inputs != outputs:
                conv(f"{name}.downsample.0", outputs, inputs, 1)
                bn(f"{name}.downsample.1", outputs)
            inputs = outputs
    shapes["fc.weight"], shapes["fc.bias"] = (1000, inputs), (1000,)
    return shapes


@pytest.mark.parametrize(("depth", "tensors"), [(18, 122), (50, 320)])
def test_torchvision_weights_load_strictly(depth, tensors):
    listing = torchvision_listing(depth)
    assert len(listing) == tensors  # how many a torchvision state dict has
    model = built_without_memory(ResNetImageNet(depth))
    assert {name: tuple(t.shape) for name, t in model.state_dict().items()} == listing
    state = {name: torch.zeros(shape, device="meta") for name, shape in listing.items()}
    model.load_state_dict(state, strict=True)


@pytest.mark.parametrize(
    ("kind", "settings", "named"),
    [
        (ResNetCifar, {"depth": 57}, "57"),
        (ResNetCifar, {"depth": 2}, "2"),
        (ResNetCifar, {"depth": 11}, "11"),
        (ResNetCifar, {"depth": 8, "version": 2}, "8"),
        (ResNetCifar, {"depth": "56"}, "'56'"),
        (ResNetCifar, {"depth": True}, "True"),
        (ResNetCifar, {"version": 3}, "3"),
        (ResNetCifar, {"classes": 1}, "1"),
        (ResNetCifar, {"layout": "caffe"}, "'caffe'"),
        (ResNetCifar, {"version": 2, "layout": "repdistiller"}, "'repdistiller'"),
        (MobileNet, {"width": 0}, "0"),
        (MobileNet, {"width": -1.0}, "-1.0"),
        (MobileNet, {"width": math.nan}, "nan"),
        (MobileNet, {"width": math.inf}, "inf"),
        (MobileNet, {"width": "wide"}, "'wide'"),
        (MobileNet, {"width": 0.01}, "0.01"),
        (MobileNet, {"depth_multiplier": 0}, "0"),
        (MobileNet, {"depth_multiplier": 1.5}, "1.5"),
        (MobileNet, {"stem_stride": 3}, "3"),
        (MobileNet, {"image_size": 28}, "28"),
        (MobileNet, {"dropout": 1.0}, "1.0"),
        (MobileNet, {"dropout": -0.1}, "-0.1"),
        (ResNetImageNet, {"depth": 34}, "34"),
        (ResNetImageNet, {"classes": 0}, "0"),
    ],
)
def test_bad_settings_are_refused_and_named(kind, settings, named):
    with pytest.raises(InputError, match=named):
        kind(**settings)
