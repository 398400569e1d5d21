"""The official CIFAR-10 and CIFAR-100 python archives, packed or unpacked.

Their batches are pickles. They are read by an unpickler that can build dictionaries, lists,
numbers, strings and NumPy arrays, and refuses everything else: a stranger's file runs no code.
"""

from __future__ import annotations

import pickle
import tarfile
from collections.abc import Callable
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np

from noisyteacher.core.errors import InputError
from noisyteacher.data.source import Found, Part, ReadOptions, Source, row_ids


@dataclass(frozen=True)
class _Edition:
    folder: str
    archive: str
    train: tuple[str, ...]
    test: str
    meta: str
    labels: str
    names: str


_EDITIONS = (
    _Edition(
        folder="cifar-10-batches-py",
        archive="cifar-10-python.tar.gz",
        train=tuple(f"data_batch_{i}" for i in range(1, 6)),
        test="test_batch",
        meta="batches.meta",
        labels="labels",
        names="label_names",
    ),
    _Edition(
        folder="cifar-100-python",
        archive="cifar-100-python.tar.gz",
        train=("train",),
        test="test",
        meta="meta",
        labels="fine_labels",
        names="fine_label_names",
    ),
)


def find(place: Path, options: ReadOptions) -> Found | None:
    """The archive, a folder that holds it, or the unpacked folder itself or its parent."""
    for edition in _EDITIONS:
        for archive in (place, place / edition.archive):
            if archive.name == edition.archive and archive.is_file():
                return Found("CIFAR", (archive,), _reader(edition, _from_archive(archive, edition)))
        for folder in (place, place / edition.folder):
            files = tuple(folder / name for name in (*edition.train, edition.test, edition.meta))
            if all(file.is_file() for file in files):
                return Found("CIFAR", files, _reader(edition, _from_folder(folder)))
    return None


def _from_folder(folder: Path) -> Callable[[], Callable[[str], tuple[str, bytes]]]:
    return lambda: lambda name: (str(folder / name), (folder / name).read_bytes())


def _from_archive(
    archive: Path, edition: _Edition
) -> Callable[[], Callable[[str], tuple[str, bytes]]]:
    def open_all() -> Callable[[str], tuple[str, bytes]]:
        # One pass: seeking back in a gzip stream would unpack it again for every member.
        wanted = {f"{edition.folder}/{n}" for n in (*edition.train, edition.test, edition.meta)}
        found: dict[str, bytes] = {}
        try:
            with tarfile.open(archive, "r:gz") as tar:
                for member in tar:
                    opened = tar.extractfile(member) if member.name in wanted else None
                    if opened is not None:
                        found[member.name] = opened.read()
        except (OSError, EOFError, tarfile.TarError) as error:
            raise InputError(f"{archive} is not a readable archive: {error}.") from error

        def member_bytes(name: str) -> tuple[str, bytes]:
            path = f"{edition.folder}/{name}"
            if path not in found:
                raise InputError(f"{archive} has no member {path}.")
            return f"{archive}:{path}", found[path]

        return member_bytes

    return open_all


def _reader(
    edition: _Edition, opener: Callable[[], Callable[[str], tuple[str, bytes]]]
) -> Callable[[], Source]:
    def read() -> Source:
        member = opener()
        meta = load_batch(*member(edition.meta))
        names = tuple(_text(name) for name in meta[edition.names])
        train = _part("train", [load_batch(*member(n)) for n in edition.train], edition)
        test = _part("test", [load_batch(*member(edition.test))], edition)
        return Source("image", names, train, test)

    return read


def _part(name: str, batches: list[dict[str, Any]], edition: _Edition) -> Part:
    planes, labels = [], []
    for batch in batches:
        data = batch.get("data")
        if not isinstance(data, np.ndarray) or data.dtype != np.uint8 or data.shape[1:] != (3072,):
            raise InputError(f"A CIFAR {name} batch does not hold uint8 rows of 3072 values.")
        planes.append(data)
        labels.extend(batch.get(edition.labels, ()))
    images = np.concatenate(planes).reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
    return Part(row_ids(name, len(images)), np.array(labels, np.int64), images)


def _text(value: object) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


def _latin1(text: str, encoding: str) -> bytes:
    """How protocol 2 stores bytes; no other codec is needed."""
    if encoding not in ("latin1", "latin-1"):
        raise pickle.UnpicklingError(f"the codec {encoding!r} is not allowed")
    return text.encode("latin-1")


_RECONSTRUCT = np.zeros(0).__reduce__()[0]  # NumPy's own name for it changed between versions
_ALLOWED: dict[tuple[str, str], object] = {
    ("numpy.core.multiarray", "_reconstruct"): _RECONSTRUCT,
    ("numpy._core.multiarray", "_reconstruct"): _RECONSTRUCT,
    ("numpy", "ndarray"): np.ndarray,
    ("numpy", "dtype"): np.dtype,
    ("_codecs", "encode"): _latin1,
}


class _ArraysOnly(pickle.Unpickler):
    """Refuses every global but the few that NumPy arrays and bytes are made of."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in _ALLOWED:
            raise pickle.UnpicklingError(f"{module}.{name} is not allowed in a CIFAR batch")
        return _ALLOWED[module, name]

    def persistent_load(self, pid: Any) -> Any:
        raise pickle.UnpicklingError("references to other files are not allowed")


def load_batch(name: str, data: bytes) -> dict[str, Any]:
    """One batch file as a dictionary with text keys; ``name`` stands in the error."""
    try:
        loaded = _ArraysOnly(BytesIO(data), encoding="bytes").load()
    except Exception as error:  # a damaged pickle can fail in any way
        raise InputError(f"{name} is not a CIFAR batch: {error}.") from error
    if not isinstance(loaded, dict):
        raise InputError(f"{name} is not a CIFAR batch: it holds a {type(loaded).__name__}.")
    return {_text(key): value for key, value in loaded.items()}
