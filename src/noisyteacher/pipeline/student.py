"""A finished student: weights, classes and how it reads raw inputs; in memory and on disk.

Its folder holds ``model.safetensors`` (weights), ``config.json`` (model, classes, normalization,
how it came to be), ``README.md`` (the card), for texts ``featurizer.json`` and, for encoders,
``tokenizer/``. Nothing is ever unpickled.
"""

from __future__ import annotations

import glob
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
from noisyteacher.core.files import write_atomic
from noisyteacher.data import Featurizer, InputFormat, Tokens, load_featurizer, save_featurizer
from noisyteacher.data.embeddings import Embeddings
from noisyteacher.data.input_format import RawInputs
from noisyteacher.models import ModelLike, ModelSpec, Network, from_config, to_config

FORMAT = "noisyteacher.Student"
VERSION = 1
_BATCH = 256
_TOKEN_BYTES = 4  # of the names that a folder bears only while it is written or replaced
_CONFIG, _WEIGHTS, _FEATURIZER, _TOKENIZER, _ENCODER = (
    "config.json",
    "model.safetensors",
    "featurizer.json",
    "tokenizer",
    "encoder",
)


class Student:
    """Predicts classes of raw inputs: texts, uint8 images or image paths, or tables.

    ``about`` is how it came to be: data sizes, teacher, method, accuracies, versions.
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
        """(n,) the most probable class of each input, by name."""
        best = self.logits(inputs).argmax(1)
        return np.array([self.classes[c] for c in best], np.str_)

    def __repr__(self) -> str:
        return f"Student({self.spec!r}, {self.inputs.kind}, {len(self.classes)} classes)"


def save_student(
    folder: str | Path, student: Student, card: str = "", *, overwrite: bool = False
) -> None:
    """Write a student's folder; it appears whole or not at all."""
    folder = Path(folder).absolute()
    _finish_replacing(folder)
    if folder.exists():
        if not overwrite:
            raise InputError(f"{folder} exists already; overwrite=True would replace it.")
        if not is_student(folder):
            raise InputError(f"{folder} is not a student's folder, so it is not overwritten.")
    folder.parent.mkdir(parents=True, exist_ok=True)
    temporary = folder.with_name(f".{folder.name}.tmp-{secrets.token_hex(_TOKEN_BYTES)}")
    temporary.mkdir()
    try:
        _write(temporary, student, card)
        _put_in_place(temporary, folder)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise


def _write(folder: Path, student: Student, card: str) -> None:
    config = {
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
    write_atomic(folder / "README.md", (card or f"# {student!r}\n").encode())
    write_atomic(folder / _CONFIG, orjson.dumps(config, option=orjson.OPT_INDENT_2))


def _write_featurizer(folder: Path, featurizer: Featurizer) -> None:
    save_featurizer(featurizer, folder / _FEATURIZER)
    if isinstance(featurizer, Embeddings):
        featurizer.save_encoder(folder / _ENCODER)
    if isinstance(featurizer, Tokens):
        from transformers import AutoTokenizer

        # A folder that is moved to another machine must still find its tokenizer.
        tokenizer = AutoTokenizer.from_pretrained(featurizer.tokenizer, trust_remote_code=False)
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
    """Whether a folder holds a saved student."""
    try:
        return bool(_read_config(Path(folder))["format"] == FORMAT)
    except (OSError, orjson.JSONDecodeError, KeyError, TypeError):
        return False


def load_student(folder: str | Path, student: ModelLike | None = None) -> Student:
    """Read a student back; it predicts as it did when saved.

    ``student`` is the network where it is one of the caller's own: the module, or the function
    that makes it. The folder holds its weights and its name, and no code is imported by that name.
    """
    folder = Path(folder)
    if not folder.exists():
        # Read where it lies: the one that replaces it may still be at work.
        folder = next(filter(is_student, _replaced(folder.absolute())), folder)
    if not folder.is_dir():
        raise InputError(f"There is no student's folder {folder}.")
    if not is_student(folder):
        raise InputError(f"{folder} is not a student's folder: it has no {_CONFIG} of one.")
    config = _read_config(folder)
    if config["version"] != VERSION:
        raise InputError(
            f"{folder} has format version {config['version']!r}; this program reads {VERSION}."
        )
    try:
        weights = load_file(folder / _WEIGHTS)
        inputs = InputFormat.from_json(config["inputs"], _read_featurizer(folder))
        loaded = Student(
            from_config(config["model"], student),
            weights,
            tuple(config["classes"]),
            inputs,
            config["about"],
        )
        loaded.network  # noqa: B018  weights that do not fit are found now
    except (OSError, SafetensorError, KeyError, TypeError, RuntimeError) as error:
        told = " ".join(line.strip() for line in str(error).splitlines()[:2])
        if student is not None and isinstance(error, RuntimeError):
            raise InputError(f"The weights in {folder} do not fit student=: {told}") from error
        raise InputError(f"{folder} is damaged ({told}); save it anew.") from error
    return loaded


def _read_config(folder: Path) -> Any:
    return orjson.loads((folder / _CONFIG).read_bytes())


def _read_featurizer(folder: Path) -> Featurizer | None:
    path = folder / _FEATURIZER
    if not path.exists():
        return None
    if (own := folder / _ENCODER).is_dir():
        saved = orjson.loads(path.read_bytes())
        return Embeddings(own, saved["max_length"])
    own = folder / _TOKENIZER
    if own.is_dir():
        saved = orjson.loads(path.read_bytes())
        return Tokens(own, saved["max_length"])
    return load_featurizer(path)
