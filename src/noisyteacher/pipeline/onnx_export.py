"""A student as an ONNX file that takes what the student's reading gives, and returns logits.

Normalization is inside the file. Inputs: ``image`` uint8 (n, H, W, 3); ``table`` float32 (n, d);
for texts the featurizer's two columns, ``indices`` and ``values``, or ``input_ids`` and
``attention_mask``. A student on embeddings takes ``embedding`` float32 (n, d); with its encoder in
the same file, it takes what the encoder reads: ``input_ids`` and ``attention_mask``, or
``pixel_values``. One that reads words too takes their ``indices`` and ``values`` after these.
"""

from __future__ import annotations

import logging
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import torch
from torch import Tensor, nn

from noisyteacher.core.errors import InputError
from noisyteacher.core.files import temporary_sibling, write_atomic
from noisyteacher.core.user_code import import_extra
from noisyteacher.data import Tokens
from noisyteacher.data.embeddings import Embeddings, EmbeddingsAndWords, join_words
from noisyteacher.data.frozen_encoder import FrozenEncoder
from noisyteacher.data.input_format import RawInputs
from noisyteacher.models import CustomNetwork
from noisyteacher.pipeline.student import Student

OPSET = 18
_WORDS = ("indices", "values")


def export_onnx(student: Student, path: str | Path, *, with_encoder: bool = False) -> Path:
    """Write the student as one ONNX file; any number of examples may be asked at a time.

    ``with_encoder`` puts the frozen encoder of a student on embeddings into the file.
    """
    for module in ("onnx", "onnxscript"):
        import_extra(module, "onnx", "Exporting needs onnx")
    path = Path(path)
    wrapped = _Whole(student, with_encoder=with_encoder).eval()
    given = onnx_inputs(student, _dummy(student), with_encoder=with_encoder)
    batch = torch.export.Dim("batch", min=1)
    sizes: list[dict[int, Any]] = [{0: batch} for _ in given]
    if with_encoder and isinstance(encoder := _encoder_of(student), Embeddings):
        tokens = torch.export.Dim("tokens", min=2, max=encoder.max_length)
        for size, _ in zip(sizes, encoder.input_names, strict=False):
            size[1] = tokens
    path.parent.mkdir(parents=True, exist_ok=True)
    with temporary_sibling(path, folder=True) as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the exporter, about its own workings
        logging.getLogger("torch.onnx").setLevel(logging.ERROR)
        file = folder / "model.onnx"
        try:
            torch.onnx.export(
                wrapped,
                tuple(map(torch.from_numpy, given.values())),
                str(file),
                input_names=list(given),
                output_names=["logits"],
                dynamic_shapes={"inputs": tuple(sizes)},
                opset_version=OPSET,
                dynamo=True,
                external_data=False,
                verbose=False,
            )
        except Exception as error:
            if wrapped.encoder is not None:
                first = str(error).strip().partition("\n")[0]
                raise InputError(
                    f"The encoder cannot be written as ONNX ({first}); leave out --with-encoder to "
                    "write the student that reads its embeddings."
                ) from error
            if not isinstance(wrapped.network, CustomNetwork):
                raise
            raise _not_exported(wrapped.network.name) from error
        write_atomic(path, _with_classes(file, student))
    return path


def input_names(student: Student, *, with_encoder: bool = False) -> tuple[str, ...]:
    """The names of the file's inputs."""
    return tuple(onnx_inputs(student, _dummy(student), with_encoder=with_encoder))


def onnx_inputs(
    student: Student, inputs: RawInputs, *, with_encoder: bool = False
) -> dict[str, np.ndarray]:
    """What ONNX Runtime must be given for these raw inputs."""
    featurizer, plain = student.inputs.featurizer, student.inputs.plain_inputs(inputs)
    found: dict[str, Any]
    if with_encoder:
        encoder = _encoder_of(student)
        read = encoder.encoder_inputs(plain)
        found = {name: read[name] for name in encoder.input_names}
    elif isinstance(featurizer, FrozenEncoder | EmbeddingsAndWords):
        found = {"embedding": _encoder_of(student).transform(plain)}
    elif featurizer is None:
        found = {student.inputs.kind: plain}
    else:
        names = ("input_ids", "attention_mask") if isinstance(featurizer, Tokens) else _WORDS
        found = dict(zip(names, featurizer.transform(plain), strict=True))
    if isinstance(featurizer, EmbeddingsAndWords):
        found |= dict(zip(_WORDS, featurizer.words.transform(plain), strict=True))
    return {name: np.ascontiguousarray(value) for name, value in found.items()}


def _encoder_of(student: Student) -> FrozenEncoder:
    featurizer = student.inputs.featurizer
    if isinstance(featurizer, EmbeddingsAndWords):
        return featurizer.encoder
    if not isinstance(featurizer, FrozenEncoder):
        raise InputError("Only a student on embeddings has an encoder to export (--with-encoder).")
    return featurizer


def _dummy(student: Student) -> RawInputs:
    # Two examples, as one would be taken for a fixed size.
    if student.inputs.kind == "text":
        return ["one text", "another text"]
    if student.inputs.kind == "table":
        return np.zeros((2, student.inputs.features), np.float32)
    assert student.inputs.size is not None
    return np.zeros((2, *student.inputs.size, 3), np.uint8)


def _not_exported(network: str) -> InputError:
    return InputError(
        f"{network} cannot be written as ONNX for any number of examples; its code may branch on "
        "values, or fix the number: write x.shape[0] where it has len(x)."
    )


def _with_classes(file: Path, student: Student) -> bytes:
    """The file's bytes with the class names in its metadata."""
    import onnx

    model = onnx.load(str(file))
    if any(not given.type.tensor_type.shape.dim[0].dim_param for given in model.graph.input):
        raise _not_exported(repr(student.spec))
    classes = orjson.dumps(student.classes).decode()
    onnx.helper.set_model_props(model, {"classes": classes, "kind": student.inputs.kind})
    made: bytes = model.SerializeToString()
    return made


class _Whole(nn.Module):
    """Normalization and network in one."""

    def __init__(self, student: Student, *, with_encoder: bool) -> None:
        super().__init__()
        self.network = student.spec.build()
        self.network.load_state_dict(student.state)
        self.network.eval()
        inputs = student.inputs
        self.views = inputs.views()
        self.images = inputs.kind == "image" and inputs.featurizer is None
        self.featurizer = _encoder_of(student) if with_encoder else None
        self.with_words = isinstance(inputs.featurizer, EmbeddingsAndWords)
        # Registered as a part of this module, so that its weights are written.
        self.encoder = None if self.featurizer is None else self.featurizer.model.cpu()
        if isinstance(self.network, CustomNetwork):
            return
        for module in list(self.network.modules()):
            for name, child in module.named_children():
                if isinstance(child, nn.EmbeddingBag):
                    setattr(module, name, _GatheredBag(child))

    def forward(self, *inputs: Tensor) -> Tensor:
        x: Any = inputs if len(inputs) > 1 else inputs[0]
        if self.featurizer is not None:
            names = self.featurizer.input_names
            x = self.featurizer.unit_vectors(dict(zip(names, inputs, strict=False)))
            inputs = (x, *inputs[len(names) :])
        if self.with_words:
            x = join_words(*inputs)
        if self.images:
            x = x.permute(0, 3, 1, 2)
        logits: Tensor = self.network(self.views.plain(x)).float()
        return logits


class _GatheredBag(nn.Module):
    """The weighted sum of an EmbeddingBag in operations that ONNX has."""

    def __init__(self, bag: nn.EmbeddingBag) -> None:
        super().__init__()
        self.weight = bag.weight

    def forward(self, indices: Tensor, per_sample_weights: Tensor) -> Tensor:
        return (self.weight[indices] * per_sample_weights[..., None]).sum(1)
