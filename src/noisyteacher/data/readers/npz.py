"""Plain NumPy archives.

Keys: ``x_train``, ``y_train`` and, if there is a test part, ``x_test``, ``y_test``; or ``inputs``,
``labels``, ``test_inputs``, ``test_labels``. Optional: ``ids``, ``test_ids``, ``classes``. Inputs
are uint8 images (n, H, W, 3), (n, H, W, 1) or (n, H, W); tables (n, d); or n strings.
"""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa

from noisyteacher.core.errors import InputError, first_few
from noisyteacher.data.classes import class_numbers
from noisyteacher.data.dataset import Kind
from noisyteacher.data.source import Found, Part, ReadOptions, Source, no_rows, row_ids

_KEYS = (
    ("x_train", "y_train", "x_test", "y_test"),
    ("inputs", "labels", "test_inputs", "test_labels"),
)


def find(place: Path, options: ReadOptions) -> Found | None:
    """An ``.npz`` file, or a folder with exactly one."""
    files = [place] if place.is_file() else sorted(place.glob("*.npz"))
    if len(files) != 1 or files[0].suffix != ".npz":
        return None
    return Found("NumPy archive", (files[0],), lambda: _read(files[0], options))


def _read(file: Path, options: ReadOptions) -> Source:
    try:
        with np.load(file, allow_pickle=False) as archive:
            arrays = {key: archive[key] for key in archive.files}
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
        raise InputError(f"{file} is not a readable NumPy archive: {error}.") from error
    keys = next((keys for keys in _KEYS if keys[0] in arrays), None)
    if keys is None:
        raise InputError(f"{file} has neither 'x_train' nor 'inputs'; it has {first_few(arrays)}.")
    x, y, x_test, y_test = keys
    kind = _kind(arrays[x], file)
    train_y, test_y, classes = _labels(arrays, y, y_test, len(arrays[x]), options)
    train = Part(_ids(arrays, "ids", "train", len(train_y)), train_y, _inputs(arrays[x], kind))
    if x_test not in arrays:
        return Source(kind, classes, train, no_rows(train.inputs))
    if _kind(arrays[x_test], file) != kind or arrays[x_test].ndim != arrays[x].ndim:
        raise InputError(f"{file}: {x_test!r} and {x!r} are not of the same kind.")
    if y_test not in arrays:
        test_y = np.full(len(arrays[x_test]), -1)
    ids = _ids(arrays, "test_ids", "test", len(test_y))
    return Source(kind, classes, train, Part(ids, test_y, _inputs(arrays[x_test], kind)))


def _kind(inputs: np.ndarray, file: Path) -> Kind:
    if inputs.dtype == np.uint8 and (
        inputs.ndim == 3 or (inputs.ndim == 4 and inputs.shape[-1] in (1, 3))
    ):
        return "image"
    if inputs.ndim == 1 and inputs.dtype.kind == "U":
        return "text"
    if inputs.ndim == 2 and inputs.dtype.kind in "biuf":
        return "table"
    raise InputError(
        f"{file}: inputs must be uint8 (n, H, W, 3), numbers (n, d) or strings (n,), not "
        f"{inputs.dtype} of shape {inputs.shape}."
    )


def _inputs(array: np.ndarray, kind: Kind) -> np.ndarray | list[str]:
    if kind == "text":
        return [str(text) for text in array]
    if kind == "table":
        return np.asarray(array, np.float32)
    if array.ndim == 3:
        array = array[..., None]
    return np.broadcast_to(array, (*array.shape[:3], 3))


def _labels(
    arrays: Mapping[str, np.ndarray], y: str, y_test: str, rows: int, options: ReadOptions
) -> tuple[np.ndarray, np.ndarray, tuple[str, ...]]:
    names = tuple(str(name) for name in arrays.get("classes", ()))
    if y not in arrays:
        return np.full(rows, -1), np.empty(0, np.int64), names
    test = pa.array(arrays[y_test].reshape(-1)) if y_test in arrays else None
    train = pa.array(arrays[y].reshape(-1))
    return class_numbers(train, test, names, numbers_are_names=options.numbers_are_names)


def _ids(arrays: Mapping[str, np.ndarray], key: str, part: str, rows: int) -> np.ndarray:
    ids = arrays.get(key)
    return row_ids(part, rows) if ids is None else ids.reshape(-1)
