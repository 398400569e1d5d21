"""Sensible students and their training, by the kind of data."""

from __future__ import annotations

import re
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path

from noisyteacher.core.errors import InputError
from noisyteacher.core.user_code import import_named
from noisyteacher.data import Featurizer, HashedNgrams, Tfidf, Tokens
from noisyteacher.data.dataset import Kind
from noisyteacher.data.embeddings import Embeddings, EmbeddingsAndWords, ImageEmbeddings
from noisyteacher.data.frozen_encoder import FrozenEncoder
from noisyteacher.data.input_format import InputFormat
from noisyteacher.models import (
    MLP,
    BagLinear,
    BagMLP,
    CustomModel,
    Linear,
    MobileNet,
    ModelLike,
    ModelSpec,
    ResNetCifar,
    ResNetImageNet,
    TextEncoder,
    as_spec,
)
from noisyteacher.train import Adam, Cosine, Steps, TrainConfig

AUTO = "auto"
EMBEDDINGS = "embeddings"
HASHED = "hashed"
HELP = (
    "For texts: linear, mlp, hashed, embeddings (with --encoder), or the name or folder of a "
    "Hugging Face encoder. For tables: linear or mlp. For images: resnet20, resnet56, mobilenet; "
    "resnet18 or resnet50 for photographs; embeddings (with --encoder). For a network of your own: "
    "package.module:name, which is imported and run."
)
_IMAGE_STUDENT = re.compile(r"resnet\d+|mobilenet")
# An epoch has at least so many steps; a student, more than two epochs of it, at most so many.
LEAST_STEPS: dict[Kind, int] = {"text": 50, "table": 30, "image": 20}
MOST_STEPS: dict[Kind, int] = {"text": 10_000, "table": 10_000, "image": 100_000}
LEAST_EPOCHS = 2
_IMAGENET_DEPTHS = (18, 50)
_MOST_WORDS = 50_000  # of dense rows of texts
MOST_WITH_WORDS = 200_000  # texts that are read by an encoder and as words, at 14 KB each
_SMALLEST_BATCH = 32  # where the data is too small for 4 of the usual size


def import_network(text: str) -> ModelSpec:
    """The network of the user's own that ``package.module:name`` names, imported from there."""
    return as_spec(import_named(text))


def named_student(text: str) -> str | ModelSpec:
    """A student as a command line names it; ``package.module:name`` is imported."""
    return import_network(text) if ":" in text and not Path(text).exists() else text


def reads_embeddings(student: str | ModelLike, encoder: str | Path | None) -> bool:
    """Whether the student is a linear head on embeddings; refused where one is missing."""
    if encoder is None:
        if student == EMBEDDINGS:
            raise InputError(
                "The student embeddings needs an encoder: the folder or name of a Transformers or "
                "sentence-transformers model, encoder= (--encoder)."
            )
        return False
    if student not in (AUTO, "linear", EMBEDDINGS):
        raise InputError(
            f"An encoder (--encoder) is for the student embeddings, not for {student!r}: leave one "
            "of them out."
        )
    return True


def is_linear_student(
    student: str | ModelLike, kind: Kind, encoder: str | Path | None = None
) -> bool:
    """Whether this student of such data is linear."""
    if isinstance(student, str):
        linear = {"text": (AUTO, "linear", HASHED, EMBEDDINGS), "table": ("linear",)}
        return student in linear.get(kind, ()) or (
            kind == "image" and reads_embeddings(student, encoder)
        )
    return isinstance(student, BagLinear | Linear)


def featurizer_for(
    kind: Kind,
    student: str | ModelLike,
    encoder: str | Path | None = None,
    *,
    with_words: bool = False,
) -> Featurizer | None:
    """How this student reads such inputs; None is as they are.

    Texts are read by an encoder (``with_words``: with TF-IDF beside it), a tokenizer, as hashed
    words, or as TF-IDF.
    """
    if kind == "table":
        if encoder is not None:
            raise InputError("An encoder (--encoder) reads texts or images, not tables.")
        return None
    if reads_embeddings(student, encoder):
        if kind == "image":
            return ImageEmbeddings.cached(str(encoder))
        embeddings = Embeddings.cached(str(encoder))
        return EmbeddingsAndWords(embeddings, Tfidf()) if with_words else embeddings
    if kind == "image":
        return None
    if isinstance(student, TextEncoder):
        return Tokens(student.path_or_name)
    if isinstance(student, str) and _IMAGE_STUDENT.fullmatch(student):
        raise InputError(
            f"The student {student!r} is a network for images, and these examples are texts. Use "
            "linear, mlp, hashed, embeddings (with an encoder), or a Hugging Face text encoder."
        )
    if student == HASHED:
        return HashedNgrams()
    if not isinstance(student, str) or student in (AUTO, "linear", "mlp"):
        return Tfidf()
    names = (AUTO, "linear", "mlp", HASHED, EMBEDDINGS)
    if (close := get_close_matches(student.lower(), names, 1, 0.75)) and not Path(student).exists():
        raise InputError(f"There is no student {student!r} (did you mean {close[0]}?). {HELP}")
    return Tokens(student)


def student_for(student: str | ModelLike, inputs: InputFormat, classes: int) -> ModelSpec:
    """The settings that a name such as "auto", "mlp" or "resnet20" stands for, or a network."""
    if not isinstance(student, str):
        spec = as_spec(student)
        return _custom(spec, inputs, classes) if isinstance(spec, CustomModel) else spec
    if isinstance(inputs.featurizer, FrozenEncoder):
        return Linear(inputs.features, classes)
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


def _custom(spec: CustomModel, inputs: InputFormat, classes: int) -> CustomModel:
    """With the classes of the data, and for texts with what the network is to read."""
    featurizer = inputs.featurizer
    if featurizer is None:
        return replace(spec, classes=classes)
    if isinstance(featurizer, Tokens):
        return replace(spec, classes=classes, words=None)
    words = featurizer.max_features if isinstance(featurizer, Tfidf) else featurizer.features
    if words > _MOST_WORDS:
        raise InputError(
            f"A network of your own reads texts as TF-IDF rows of at most {_MOST_WORDS} words, and "
            f"this featurizer has {words}: give featurizer=Tfidf(max_features=20000), or "
            "featurizer=Tokens(...) to a network that takes input_ids and attention_mask."
        )
    return replace(spec, classes=classes, words=words)


def _image_student(student: str, inputs: InputFormat, classes: int) -> ModelSpec:
    if student == AUTO:
        student = "resnet20" if inputs.crop is None else "resnet18"
    if student == "mobilenet":
        return MobileNet(classes=classes)
    if _IMAGE_STUDENT.fullmatch(student) is None:
        raise InputError(f"There is no student {student!r} for images. {HELP}")
    depth = int(student.removeprefix("resnet"))
    if depth in _IMAGENET_DEPTHS:
        return ResNetImageNet(depth, classes)
    return ResNetCifar(depth, classes)


def training_for(kind: Kind, spec: ModelSpec, rows: int) -> TrainConfig:
    """How such a student is trained on so many rows.

    Small data gets more passes, not fewer steps; large data gets fewer epochs, so that steps stay
    within ``MOST_STEPS``. The text settings are those measured on reviews: 12 epochs of at least 50
    steps, batches of 256, one cycle up to a rate of 0.02, gold rows repeated 5 times.
    """
    least = LEAST_STEPS[kind]
    reads_tokens = isinstance(spec, CustomModel) and kind == "text" and spec.words is None
    if isinstance(spec, TextEncoder) or reads_tokens:
        optimizer, least = Adam(3e-5, weight_decay=0.01), 0
        config = TrainConfig(3, _SMALLEST_BATCH, optimizer, Cosine(warmup=0.1), gold_repeat=5)
    elif kind == "text":
        rate = 0.02 if isinstance(spec, BagLinear) else 0.002
        config = TrainConfig(12, 256, Adam(rate), Cosine(warmup=0.3), gold_repeat=5)
    elif kind == "table":
        rate = 0.01 if isinstance(spec, Linear) else 0.003
        config = TrainConfig(20, 256, Adam(rate), Cosine(warmup=0.1), gold_repeat=5)
    else:
        config = TrainConfig(50, 256, Adam(1.41e-3), Steps())
    batch = config.batch_size
    while batch > _SMALLEST_BATCH and rows < 4 * batch:
        batch //= 2
    steps = -(-rows // batch)
    if steps < least:
        return replace(config, batch_size=batch, steps_per_epoch=least)
    epochs = max(LEAST_EPOCHS, MOST_STEPS[kind] // steps)
    return replace(config, batch_size=batch, epochs=min(config.epochs, epochs))
