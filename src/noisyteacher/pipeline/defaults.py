"""Sensible students and their training, by the kind of data."""

from __future__ import annotations

import re
from dataclasses import replace

from noisyteacher.core.errors import InputError
from noisyteacher.data import Featurizer, Tfidf, Tokens
from noisyteacher.data.dataset import Kind
from noisyteacher.data.input_format import InputFormat
from noisyteacher.models import (
    MLP,
    BagLinear,
    BagMLP,
    Linear,
    MobileNet,
    ModelSpec,
    ResNetCifar,
    ResNetImageNet,
    TextEncoder,
)
from noisyteacher.train import Adam, Cosine, Steps, TrainConfig

AUTO = "auto"
HELP = (
    "auto; linear or mlp (text, tables); resnet20, resnet56, ... (images), resnet18 or resnet50 "
    "(photographs), mobilenet; or, for text, a Hugging Face encoder's name or folder"
)
_IMAGENET_DEPTHS = (18, 50)
_SMALLEST_BATCH = 32  # where the data is too small for 4 of the usual size


def featurizer_for(student: str | ModelSpec) -> Featurizer:
    """How this student reads texts: a tokenizer for encoders, else TF-IDF, not fitted yet."""
    if isinstance(student, TextEncoder):
        return Tokens(student.path_or_name)
    if isinstance(student, ModelSpec) or student in (AUTO, "linear", "mlp"):
        return Tfidf()
    return Tokens(student)


def student_for(student: str | ModelSpec, inputs: InputFormat, classes: int) -> ModelSpec:
    """The settings that a name such as "auto", "mlp" or "resnet20" stands for."""
    if isinstance(student, ModelSpec):
        return student
    if inputs.kind == "text":
        if isinstance(inputs.featurizer, Tokens):
            return TextEncoder(inputs.featurizer.tokenizer, classes)
        kind = BagMLP if student == "mlp" else BagLinear
        return kind(inputs.features, classes)
    if inputs.kind == "table":
        if student == "linear":
            return Linear(inputs.features, classes)
        if student in (AUTO, "mlp"):
            return MLP(inputs.features, classes)
        raise InputError(f"A student of tables is linear or mlp, not {student!r}.")
    return _image_student(student, inputs, classes)


def _image_student(student: str, inputs: InputFormat, classes: int) -> ModelSpec:
    if student == AUTO:
        student = "resnet20" if inputs.crop is None else "resnet18"
    if student == "mobilenet":
        return MobileNet(classes=classes)
    found = re.fullmatch(r"resnet(\d+)", student)
    if found is None:
        raise InputError(f"There is no student {student!r} of images; choose from: {HELP}.")
    depth = int(found[1])
    if depth in _IMAGENET_DEPTHS:
        return ResNetImageNet(depth, classes)
    return ResNetCifar(depth, classes)


def training_for(kind: Kind, spec: ModelSpec, rows: int) -> TrainConfig:
    """How such a student is trained on so many rows; small data gets more passes, not fewer steps.

    The text settings are those measured on reviews: 12 epochs of at least 50 steps, batches of
    256, one cycle up to a rate of 0.02, gold rows repeated 5 times.
    """
    if isinstance(spec, TextEncoder):
        optimizer = Adam(3e-5, weight_decay=0.01)
        return TrainConfig(3, 32, optimizer, Cosine(warmup=0.1), gold_repeat=5)
    if kind == "text":
        rate = 0.02 if isinstance(spec, BagLinear) else 0.002
        config = TrainConfig(12, 256, Adam(rate), Cosine(warmup=0.3), gold_repeat=5)
        return _at_least(50, config, rows)
    if kind == "table":
        rate = 0.01 if isinstance(spec, Linear) else 0.003
        config = TrainConfig(20, 256, Adam(rate), Cosine(warmup=0.1), gold_repeat=5)
        return _at_least(30, config, rows)
    return _at_least(20, TrainConfig(50, 256, Adam(1.41e-3), Steps()), rows)


def _at_least(steps: int, config: TrainConfig, rows: int) -> TrainConfig:
    batch = config.batch_size
    while batch > _SMALLEST_BATCH and rows < 4 * batch:
        batch //= 2
    config = replace(config, batch_size=batch)
    usual = -(-rows // config.batch_size)
    return config if usual >= steps else replace(config, steps_per_epoch=steps)
