"""NumPy files of (n, L) probabilities or logits.

A ``.npy`` file needs its ids beside it. A ``.npz`` file may hold them: its keys are ``probs`` or
``logits``, and optionally ``ids`` and ``classes``.
"""

from __future__ import annotations

import zipfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from noisyteacher.errors import InputError, first_few
from noisyteacher.labels.importers.settings import ImportSettings
from noisyteacher.labels.teacher_labels import TeacherLabels


def import_array(
    path: Path,
    *,
    ids: npt.NDArray[Any] | None = None,
    classes: Sequence[str] | None = None,
    settings: ImportSettings | None = None,
) -> TeacherLabels:
    """Read a ``.npy`` or ``.npz`` file; ``ids`` and ``classes`` come before those inside it."""
    settings = settings or ImportSettings()
    arrays = _load(path)
    key = _values_key(arrays, path, settings.logits)
    if key == "logits":
        settings = replace(settings, logits=True)
    values = arrays[key]
    if ids is None:
        ids = arrays.get("ids")
    if ids is None:
        raise InputError(f"{path} has no ids; give a file with one id for each row (--ids).")
    if values.ndim != 2:
        raise InputError(f"{path} must hold an array (rows, classes), got shape {values.shape}.")
    if len(ids) != len(values):
        raise InputError(f"{len(ids)} ids were given for the {len(values)} rows of {path}.")
    if classes is None and "classes" in arrays:
        classes = [str(name) for name in arrays["classes"].tolist()]
    return settings.make(ids, values, classes, where=str(path))


def _load(path: Path) -> dict[str, npt.NDArray[Any]]:
    try:
        loaded = np.load(path, allow_pickle=False)
        if isinstance(loaded, np.ndarray):
            return {"array": loaded}
        with loaded:
            return {key: loaded[key] for key in loaded.files}
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
        raise InputError(f"{path} is not a readable NumPy file: {error}") from error


def _values_key(arrays: dict[str, npt.NDArray[Any]], path: Path, logits: bool) -> str:
    wanted = ("array", "logits" if logits else "probs", "probs" if logits else "logits")
    found = [key for key in wanted if key in arrays]
    if not found:
        raise InputError(f"{path} has neither 'probs' nor 'logits', only {first_few(arrays)}.")
    return found[0]
