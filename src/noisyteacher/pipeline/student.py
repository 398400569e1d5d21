"""A finished student: weights, classes and how it reads raw inputs; in memory and on disk.

Its folder holds ``model.safetensors`` (weights), ``config.json`` (model, classes, normalization,
how it came to be), ``README.md`` (the card), for texts ``featurizer.json`` and, for encoders,
``tokenizer/`` or ``encoder/``. Nothing is ever unpickled, nothing outside of the folder is read,
and ``config.json`` holds the checksums of all other files but the card.
"""

from __future__ import annotations

import glob
import re
import secrets
import shutil
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save
from torch import Tensor

from noisyteacher.core.errors import InputError
from noisyteacher.core.files import temporary_sibling, write_atomic
from noisyteacher.core.hub import load_pretrained, quiet_loading
from noisyteacher.core.integrity import (
    check_file,
    file_sha256,
    note_missing,
    path_inside,
    read_json,
    sealed_json,
)
from noisyteacher.core.locks import hold_lock
from noisyteacher.core.reprs import notebook_html
from noisyteacher.data import Featurizer, InputFormat, Tfidf, Tokens
from noisyteacher.data.embeddings import (
    IMAGE_POOLINGS,
    WITH_WORDS,
    Embeddings,
    EmbeddingsAndWords,
    ImageEmbeddings,
)
from noisyteacher.data.frozen_encoder import FrozenEncoder
from noisyteacher.data.input_format import RawInputs
from noisyteacher.data.text import load_featurizer, save_featurizer
from noisyteacher.models import ModelLike, ModelSpec, Network, TextEncoder, from_config, to_config

FORMAT = "noisyteacher.Student"
VERSION = 1
_BATCH = 256
_TOKEN_BYTES = 4  # of the names that a folder bears only while it is written or replaced
_CONFIG, _CARD, _WEIGHTS, _FEATURIZER, _TOKENIZER, _ENCODER = (
    "config.json",
    "README.md",
    "model.safetensors",
    "featurizer.json",
    "tokenizer",
    "encoder",
)
# Featurizers with a copy of their encoder.
_ENCODERS = ("embeddings", WITH_WORDS, "image embeddings")
_FILES = "files"  # in the config: checksums by path
_REMEDY = "restore it from a copy, or make the student again"
_LAYERS = re.compile(r"depth|layers?$|blocks?$")  # settings that count layers
_MOST_LAYERS, _LARGEST_SETTING = 1_000, 1_000_000  # where the weights do not call for more


class Student:
    """A trained classifier of raw inputs: texts, uint8 images or image paths, or tables.

    ``about`` describes how it was made: data sizes, teacher, method, accuracies, versions.
    """

    def __init__(
        self,
        spec: ModelSpec,
        state: Mapping[str, Tensor],
        classes: tuple[str, ...],
        inputs: InputFormat,
        about: Mapping[str, Any] | None = None,
    ) -> None:
        self.spec = spec
        self.state = dict(state)
        self.classes = tuple(classes)
        self.inputs = inputs
        self.about = dict(about or {})

    @cached_property
    def network(self) -> Network:
        """The network in evaluation mode, on the CPU."""
        made = self.spec.build()
        made.load_state_dict(self.state)
        return made.eval()

    @torch.no_grad()
    def logits(self, inputs: RawInputs) -> np.ndarray:
        """(n, L) float32."""
        views, found = self.inputs.views(), []
        for start in range(0, len(inputs), _BATCH):
            shown = views.plain(self.inputs.tensors(inputs[start : start + _BATCH]))
            found.append(self.network(shown).float().numpy())
        return np.concatenate(found) if found else np.empty((0, len(self.classes)), np.float32)

    def predict_proba(self, inputs: RawInputs) -> np.ndarray:
        """(n, L) float32: class probabilities, in the order of ``classes``."""
        probs: np.ndarray = torch.from_numpy(self.logits(inputs)).softmax(1).numpy()
        return probs

    def predict(self, inputs: RawInputs) -> np.ndarray:
        """(n,) the name of the most probable class of each input."""
        best = self.logits(inputs).argmax(1)
        return np.array([self.classes[c] for c in best], np.str_)

    def __repr__(self) -> str:
        return f"Student({self.spec!r}, {self.inputs.kind}, {len(self.classes)} classes)"

    def _repr_html_(self) -> str:
        table = self.about.get("table") or {"header": (), "rows": ()}
        verdict = str(self.about.get("verdict", ""))
        return notebook_html(repr(self), verdict, header=table["header"], rows=table["rows"])


def save_student(
    folder: str | Path, student: Student, card: str = "", *, overwrite: bool = False
) -> None:
    """Write a student's folder, completely or not at all."""
    folder = Path(folder).absolute()
    lock = folder.with_name(f".{folder.name}.lock")
    with hold_lock(lock, str(folder), "choose another folder"):
        _finish_replacing(folder)
        if folder.exists() and not overwrite:
            raise InputError(f"{folder} exists already; overwrite=True would replace it.")
        if folder.exists() and not is_student(folder):
            raise InputError(f"{folder} is not a student's folder, so it is not overwritten.")
        with temporary_sibling(folder, folder=True) as temporary:
            _write(temporary, student, card)
            _put_in_place(temporary, folder)


def _write(folder: Path, student: Student, card: str) -> None:
    config: dict[str, Any] = {
        "format": FORMAT,
        "version": VERSION,
        "model": to_config(student.spec),
        "classes": student.classes,
        "inputs": student.inputs.to_json(),
        "about": student.about,
    }
    # Copies: weights that share memory, as tied layers do, cannot be saved as they are.
    weights = {
        name: value.detach().cpu().clone(memory_format=torch.contiguous_format)
        for name, value in student.state.items()
    }
    write_atomic(folder / _WEIGHTS, save(weights))
    if student.inputs.featurizer is not None:
        _write_featurizer(folder, student.inputs.featurizer)
    config[_FILES] = {
        path.relative_to(folder).as_posix(): file_sha256(path)
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
    write_atomic(folder / _CARD, (card or f"# {student!r}\n").encode())
    write_atomic(folder / _CONFIG, sealed_json(config))


def _write_featurizer(folder: Path, featurizer: Featurizer) -> None:
    save_featurizer(featurizer, folder / _FEATURIZER)
    encoder = featurizer.encoder if isinstance(featurizer, EmbeddingsAndWords) else featurizer
    if isinstance(encoder, FrozenEncoder):
        import transformers

        with quiet_loading(transformers):
            encoder.save_encoder(folder / _ENCODER)
    if isinstance(featurizer, Tokens):
        # A folder that is moved to another machine must still find its tokenizer.
        tokenizer = load_pretrained("AutoTokenizer", featurizer.tokenizer, "tokenizer")
        tokenizer.save_pretrained(folder / _TOKENIZER)


def _put_in_place(temporary: Path, folder: Path) -> None:
    if not folder.exists():
        temporary.rename(folder)
        return
    old = folder.with_name(f".{folder.name}.old-{secrets.token_hex(_TOKEN_BYTES)}")
    try:
        folder.rename(old)
        temporary.rename(folder)
    except BaseException:
        if not folder.exists():
            old.rename(folder)
        raise
    shutil.rmtree(old, ignore_errors=True)


def _replaced(folder: Path) -> list[Path]:
    """The folders that replacements which were killed have set aside, the newest first."""
    ending = "[0-9a-f]" * (2 * _TOKEN_BYTES)
    found = folder.parent.glob(f".{glob.escape(folder.name)}.old-{ending}")
    return sorted(found, key=lambda old: old.stat().st_mtime, reverse=True)


def _finish_replacing(folder: Path) -> None:
    """After a kill between the two renames the old student comes back; after them it goes."""
    for old in _replaced(folder):
        if is_student(folder):
            shutil.rmtree(old, ignore_errors=True)
        elif is_student(old) and not folder.exists():
            old.rename(folder)


def is_student(folder: str | Path) -> bool:
    """Whether a folder holds a saved student, whole or damaged."""
    try:
        fields = orjson.loads((Path(folder) / _CONFIG).read_bytes())
        return bool(fields["format"] == FORMAT)
    except (OSError, orjson.JSONDecodeError, KeyError, TypeError):
        return False


def load_student(folder: str | Path, student: ModelLike | None = None) -> Student:
    """Load a saved student; its predictions are the same as before saving.

    If the student is a network of your own, pass it as ``student``: the module, or the function
    that returns it. The folder contains its weights and its name, but not its code, and nothing is
    imported by that name.
    """
    folder = Path(folder).expanduser()
    if not folder.exists():
        # Read where it lies: the one that replaces it may still be at work.
        folder = next(filter(is_student, _replaced(folder.absolute())), folder)
    if not folder.is_dir():
        raise InputError(f"There is no student folder {folder}.")
    if not is_student(folder):
        inner = folder / "student"
        hint = f" Its student is in {inner}." if is_student(inner) else ""
        raise InputError(f"{folder} is not a student's folder: it has no {_CONFIG} of one.{hint}")
    config = read_json(path_inside(folder, _CONFIG), _REMEDY)
    if config.get("version") != VERSION:
        raise InputError(
            f"{folder} has format version {config.get('version')!r}; this program reads {VERSION}."
        )
    _check_files(folder, config.get(_FILES))
    try:
        return _read(folder, config, student)
    except (OSError, SafetensorError, KeyError, TypeError, ValueError, RuntimeError) as error:
        if isinstance(error, InputError):
            raise
        told = " ".join(line.strip() for line in str(error).splitlines()[:2])
        if student is not None and isinstance(error, RuntimeError):
            raise InputError(f"The weights in {folder} do not fit student=: {told}") from error
        raise InputError(f"{folder} is damaged ({told}); save it again.") from error


def _check_files(folder: Path, files: Any) -> None:
    """Refuse a folder whose files were changed, or lead out of it."""
    for path in folder.rglob("*"):
        path_inside(folder, path.relative_to(folder).as_posix())
    if files is None:
        note_missing(folder)
        return
    if not isinstance(files, dict):
        raise InputError(f"{folder / _CONFIG} does not list the student's files; {_REMEDY}.")
    for name, expected in files.items():
        check_file(path_inside(folder, name), expected, _REMEDY)


def _read(folder: Path, config: dict[str, Any], custom: ModelLike | None) -> Student:
    weights = load_file(folder / _WEIGHTS)
    classes = config["classes"]
    if not isinstance(classes, list) or not all(isinstance(name, str) for name in classes):
        raise InputError(f"{folder / _CONFIG} has no list of class names; {_REMEDY}.")
    if not isinstance(config["about"], dict):
        raise InputError(f"{folder / _CONFIG} has no description of its student; {_REMEDY}.")
    if custom is None:
        _check_sizes(config["model"], weights, folder)
    spec = from_config(config["model"], custom)
    if spec.classes != len(classes):
        raise InputError(
            f"{folder / _CONFIG} names {len(classes)} classes, and its model has {spec.classes}; "
            f"{_REMEDY}."
        )
    inputs = InputFormat.from_json(config["inputs"], _read_featurizer(folder))
    if custom is None:
        _check_shapes(spec, weights, folder)
        wanted = getattr(spec, "features", inputs.features)
        if wanted != inputs.features:
            told = f"the model reads {wanted} features and the inputs have {inputs.features}"
            raise _contradiction(folder, told)
    loaded = Student(spec, weights, tuple(classes), inputs, config["about"])
    loaded.network  # noqa: B018  weights that do not fit are found now
    return loaded


def _check_sizes(model: Any, weights: Mapping[str, Tensor], folder: Path) -> None:
    """Refuse settings too large for the weights that are there, before anything is built."""
    elements = sum(value.numel() for value in weights.values())
    stack: list[tuple[str, Any]] = [("model", model)]
    while stack:
        name, value = stack.pop()
        if isinstance(value, dict):
            stack += value.items()
        elif isinstance(value, list):
            stack += [(name, one) for one in value]
        elif isinstance(value, int | float):
            layers = _LAYERS.search(name) is not None
            most = max(len(weights), _MOST_LAYERS) if layers else max(elements, _LARGEST_SETTING)
            if abs(value) > most:
                raise _contradiction(folder, f"{name} is {value}")


def _check_shapes(spec: ModelSpec, weights: Mapping[str, Tensor], folder: Path) -> None:
    """Refuse a model whose weights have other names or shapes than those that are there."""
    if isinstance(spec, TextEncoder) and spec.config is None:
        # It would be downloaded, or read from somewhere else.
        raise _contradiction(folder, "its encoder is not described in it")
    with torch.device("meta"):
        wanted = {name: tuple(value.shape) for name, value in spec.build().state_dict().items()}
    found = {name: tuple(value.shape) for name, value in weights.items()}
    for name in sorted({*wanted, *found}):
        if wanted.get(name) != found.get(name):
            told = f"{name} has shape {found.get(name)} there and {wanted.get(name)} by the config"
            raise _contradiction(folder, told)


def _contradiction(folder: Path, told: str) -> InputError:
    return InputError(f"{folder / _CONFIG} does not fit the weights beside it: {told}; {_REMEDY}.")


def _read_featurizer(folder: Path) -> Featurizer | None:
    path = folder / _FEATURIZER
    if not path.exists():
        return None
    saved = read_json(path, _REMEDY)
    kind = saved.get("kind")
    if kind not in (*_ENCODERS, "tokens"):
        return load_featurizer(path)
    own = folder / (_ENCODER if kind in _ENCODERS else _TOKENIZER)
    if not own.is_dir():
        raise InputError(f"{own} is missing; {_REMEDY}.")
    _check_named_files(own)
    if kind == "image embeddings":
        if saved.get("pooling") not in IMAGE_POOLINGS:
            raise InputError(f"{path} has the pooling {saved.get('pooling')!r}; {_REMEDY}.")
        return ImageEmbeddings(own, saved["pooling"])
    length = saved.get("max_length")
    if type(length) is not int or not 0 < length <= _LARGEST_SETTING:
        raise InputError(f"{path} has the max_length {length!r}; {_REMEDY}.")
    if kind == "tokens":
        return Tokens(own, length)
    encoder = Embeddings(own, length)
    if kind != WITH_WORDS:
        return encoder
    try:
        return EmbeddingsAndWords(encoder, Tfidf.from_json(saved["words"]))
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(f"{path} has no words of TF-IDF: {error}; {_REMEDY}.") from error


def _check_named_files(folder: Path) -> None:
    """Refuse settings by which a tokenizer would be read from somewhere else."""
    for path in folder.rglob("*.json"):
        try:
            fields = orjson.loads(path.read_bytes())
        except orjson.JSONDecodeError as error:
            raise InputError(f"{path} is not JSON ({error}); {_REMEDY}.") from error
        for name, value in fields.items() if isinstance(fields, dict) else ():
            if name.endswith("_file") and value is not None:
                path_inside(folder, value)
