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

from noisyteacher.core.errors import InputError, first_few
from noisyteacher.labels.importers.settings import ImportSettings
from noisyteacher.labels.teacher_labels import TeacherLabels


def import_array(
    path: Path,
    *,
    ids: npt.NDArray[Any] | None = None,
    classes: Sequence[str] | None = None,
    settings: ImportSettings | None = None,
) -> TeacherLabels:
    """Read a ``.npy`` or ``.npz`` file; ``ids`` come before those inside it.

    ``classes`` name the columns, or put those that the file names itself into another order.
    """
    settings = settings or ImportSettings()
    arrays = _load(path)
    key = _values_key(arrays, path, settings.logits)
    if key == "logits":
        settings = replace(settings, logits=True)
    values = arrays[key]
    if ids is None:
        ids = arrays.get("ids")
    if ids is None:
        raise InputError(f"{path} has no ids; give one id for each row: ids= (--ids).")
    if values.ndim != 2:
        raise InputError(f"{path} must hold an array (rows, classes), got shape {values.shape}.")
    if len(ids) != len(values):
        raise InputError(f"{len(ids)} ids were given for the {len(values)} rows of {path}.")
    if "classes" in arrays:
        values, classes = _in_order(values, _names(arrays["classes"]), classes, path)
    return settings.make(ids, values, classes, where=str(path))


def _names(classes: npt.NDArray[Any]) -> list[str]:
    return [c.decode() if isinstance(c, bytes) else str(c) for c in classes.tolist()]


def _in_order(
    values: npt.NDArray[Any], inside: list[str], wanted: Sequence[str] | None, path: Path
) -> tuple[npt.NDArray[Any], Sequence[str]]:
    """The file's columns in the order of the classes asked for, by name; or under new names."""
    if wanted is None or list(wanted) == inside:
        return values, inside
    if not set(wanted) & set(inside):
        return values, wanted
    if sorted(wanted) != sorted(inside) or values.shape[1] != len(inside):
        raise InputError(
            f"{path} has the classes {first_few(inside, 10)}, not {first_few(wanted, 10)}."
        )
    return values[:, [inside.index(name) for name in wanted]], wanted


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
