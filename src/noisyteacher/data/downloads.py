"""Data sets as their authors offer them: CIFAR, CelebA, IMDB's reviews; and the bundled digits."""

from __future__ import annotations

import pickle
import tarfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from sklearn.datasets import load_digits

from noisyteacher.core.errors import InputError, first_few
from noisyteacher.data.layouts import Found, RawData, RawPart, ReadOptions
from noisyteacher.io.ids import text_array
from noisyteacher.io.images import image_files

# -- digits --------------------------------------------------------------------------------------

_DIGITS_TEST_ROWS = 497
_DIGITS_SEED = 0


def read_digits() -> RawData:
    """Scikit-learn's handwritten digits, always split in the same way.

    1 797 images of 8×8 as tables of 64 features in 0..1; a fixed draw of 497 is the test part.
    """
    pixels, y = load_digits(return_X_y=True)
    inputs = (pixels / 16).astype(np.float32)
    ids = text_array([f"digit/{row}" for row in range(len(y))])
    drawn = np.random.default_rng(_DIGITS_SEED).permutation(len(y))
    train, test = (
        RawPart(inputs[rows], pa.array(y[rows]), ids[rows])
        for rows in (np.sort(drawn[_DIGITS_TEST_ROWS:]), np.sort(drawn[:_DIGITS_TEST_ROWS]))
    )
    return RawData("table", train, test, tuple(str(digit) for digit in range(10)))


# -- IMDB's reviews ------------------------------------------------------------------------------

_IMDB_CLASSES = ("neg", "pos")


def find_imdb(place: Path, options: ReadOptions) -> Found | None:
    """``train/neg`` and ``train/pos`` with text files, here or in a folder ``aclImdb`` here."""
    for folder in (place, place / "aclImdb"):
        train, test = _reviews(folder / "train"), _reviews(folder / "test")
        if train:
            return Found("aclImdb", (*train, *test), partial(_read_imdb, folder, train, test))
    return None


def _reviews(folder: Path) -> list[Path]:
    return [file for name in _IMDB_CLASSES for file in sorted((folder / name).glob("*.txt"))]


def _read_imdb(folder: Path, train: list[Path], test: list[Path]) -> RawData:
    test_part = _imdb_part(folder, test) if test else None
    return RawData("text", _imdb_part(folder, train), test_part, _IMDB_CLASSES)


def _imdb_part(folder: Path, files: list[Path]) -> RawPart:
    ids = [file.relative_to(folder).with_suffix("").as_posix() for file in files]
    labels = pa.array([_IMDB_CLASSES.index(file.parent.name) for file in files])
    return RawPart([_review(file) for file in files], labels, text_array(ids))


def _review(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{file} cannot be read as text: {error}.") from error


# -- CelebA --------------------------------------------------------------------------------------
# ``img_align_celeba/``, ``list_attr_celeba`` and ``list_eval_partition`` (.txt or .csv). The label
# is one attribute (0: absent, 1: present). Partition 0 is the training part, 2 the test part;
# partition 1 is left out.

_CELEBA_SIDE = 64  # 2.5 GB for 200 000 images
_CELEBA_PARTS = ("0", "2")


def find_celeba(place: Path, options: ReadOptions) -> Found | None:
    """A folder with both lists; the images may lie one folder deeper, as some mirrors have it."""
    attributes = _list_file(place, "list_attr_celeba")
    partition = _list_file(place, "list_eval_partition")
    if attributes is None:
        return None
    if partition is None:
        raise InputError(f"{place} has {attributes.name} and no list_eval_partition.txt or .csv.")
    images = place / "img_align_celeba"
    images = images / images.name if (images / images.name).is_dir() else images
    if not images.is_dir():
        raise InputError(f"{place} has {attributes.name} and no folder img_align_celeba.")
    files = (attributes, partition, *sorted(images.iterdir()))
    read = partial(_read_celeba, attributes, partition, images, options.attribute)
    return Found("CelebA", files, read)


def _list_file(place: Path, stem: str) -> Path | None:
    return next((f for f in (place / f"{stem}.txt", place / f"{stem}.csv") if f.is_file()), None)


def _read_celeba(attributes: Path, partition: Path, images: Path, attribute: str) -> RawData:
    names, rows = _celeba_table(attributes)
    if attribute not in names:
        raise InputError(
            f"CelebA has no attribute {attribute!r}; it has {first_few(names, limit=len(names))}."
        )
    column = names.index(attribute)
    present = {file: _present(values, column, file, attributes) for file, values in rows.items()}
    parts = {file: values[0] for file, values in _celeba_table(partition, header=False)[1].items()}
    missing = sorted(parts.keys() - present.keys())
    if missing:
        raise InputError(f"{attributes} lacks {len(missing)} images: {first_few(missing)}.")
    train, test = (
        _celeba_part([file for file, value in parts.items() if value == wanted], present, images)
        for wanted in _CELEBA_PARTS
    )
    classes = (f"not {attribute}", attribute)
    return RawData("image", train, test, classes, image_size=_CELEBA_SIDE)


def _celeba_part(files: list[str], present: dict[str, int], images: Path) -> RawPart:
    labels = pa.array([present[file] for file in files], pa.int64())
    encoded = image_files([images / file for file in files])
    return RawPart(encoded, labels, text_array(files))


def _present(values: list[str], column: int, file: str, where: Path) -> int:
    value = values[column] if column < len(values) else None
    if value not in ("1", "-1"):
        raise InputError(f"{where}: the attributes of {file} must be 1 or -1, not {value!r}.")
    return int(value == "1")


def _celeba_table(path: Path, header: bool = True) -> tuple[list[str], dict[str, list[str]]]:
    """Column names and, per image file, its values; the official .txt and the .csv of mirrors."""
    lines = [line for line in path.read_text().splitlines() if line.strip()]
    if path.suffix == ".csv":
        cells = [[cell.strip() for cell in line.split(",")] for line in lines]
        names, body = cells[0][1:], cells[1:]
    else:
        cells = [line.split() for line in lines]
        # The attribute list starts with a count and the names; the partition list has neither.
        names, body = (cells[1], cells[2:]) if header else ([], cells)
    short = [row[0] for row in body if len(row) < 2]
    if short:
        raise InputError(f"{path} has lines without values: {first_few(short)}.")
    return names, {row[0]: row[1:] for row in body}


# -- CIFAR ---------------------------------------------------------------------------------------
# The batches of the official python archives are pickles. They are read by an unpickler that can
# build dictionaries, lists, numbers, strings and NumPy arrays, and refuses everything else: a
# stranger's file runs no code.


@dataclass(frozen=True)
class _Edition:
    folder: str
    archive: str
    train: tuple[str, ...]
    test: str
    meta: str
    labels: str
    names: str

    @property
    def members(self) -> tuple[str, ...]:
        """The files: batches of the training part, that of the test part, the classes' names."""
        return (*self.train, self.test, self.meta)


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


def find_cifar(place: Path, options: ReadOptions) -> Found | None:
    """The archive, a folder that holds it, or the unpacked folder itself or its parent."""
    for edition in _EDITIONS:
        for archive in (place, place / edition.archive):
            if archive.name == edition.archive and archive.is_file():
                read = partial(_read_cifar, edition, archive, _members_of_archive)
                return Found("CIFAR", (archive,), read)
        for folder in (place, place / edition.folder):
            files = tuple(folder / name for name in edition.members)
            if all(file.is_file() for file in files):
                read = partial(_read_cifar, edition, folder, _members_of_folder)
                return Found("CIFAR", files, read)
    return None


def _members_of_folder(folder: Path, edition: _Edition) -> list[bytes]:
    return [(folder / name).read_bytes() for name in edition.members]


def _members_of_archive(archive: Path, edition: _Edition) -> list[bytes]:
    wanted = [f"{edition.folder}/{name}" for name in edition.members]
    found: dict[str, bytes] = {}
    try:
        # One pass: seeking back in a gzip stream would unpack it again for every member.
        with tarfile.open(archive, "r:gz") as tar:
            for member in tar:
                opened = tar.extractfile(member) if member.name in wanted else None
                if opened is not None:
                    found[member.name] = opened.read()
    except (OSError, EOFError, tarfile.TarError) as error:
        raise InputError(f"{archive} is not a readable archive: {error}.") from error
    absent = [name for name in wanted if name not in found]
    if absent:
        raise InputError(f"{archive} has no member {absent[0]}.")
    return [found[name] for name in wanted]


def _read_cifar(
    edition: _Edition, place: Path, read: Callable[[Path, _Edition], list[bytes]]
) -> RawData:
    *batches, meta = (
        load_batch(f"{place}/{name}", data)
        for name, data in zip(edition.members, read(place, edition), strict=True)
    )
    names = tuple(_text(name) for name in meta[edition.names])
    train = _cifar_part("train", batches[:-1], edition)
    return RawData("image", train, _cifar_part("test", batches[-1:], edition), names)


def _cifar_part(name: str, batches: list[dict[str, Any]], edition: _Edition) -> RawPart:
    planes, labels = [], []
    for batch in batches:
        data = batch.get("data")
        if not isinstance(data, np.ndarray) or data.dtype != np.uint8 or data.shape[1:] != (3072,):
            raise InputError(f"A CIFAR {name} batch does not hold uint8 rows of 3072 values.")
        planes.append(data)
        labels.extend(batch.get(edition.labels, ()))
    images = np.concatenate(planes).reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
    return RawPart(images, pa.array(labels))


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
