"""What users hand in from Python or the shell, to datasets and teacher labels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from noisyteacher.core.errors import InputError, first_few
from noisyteacher.data import Dataset, read_examples
from noisyteacher.data.dataset import as_inputs
from noisyteacher.io.classes import label_texts, number_classes
from noisyteacher.io.ids import as_text, clean_ids, is_text
from noisyteacher.io.user_tables import FileOptions
from noisyteacher.labels import TeacherLabels
from noisyteacher.labels.importers import ImportSettings, import_array, import_table, with_synonyms
from noisyteacher.labels.importers.probability_files import kind_of_outputs
from noisyteacher.labels.teacher_labels import join_labels

# A file or folder, a dataset, or columns: (ids, inputs), with labels (ids, inputs, y).
ExamplesLike: TypeAlias = str | Path | Dataset | tuple[Any, ...]
# Teacher labels, a store, a file of probabilities, an array (n, L) of them or (n,) of class names;
# or several.
LabelsLike: TypeAlias = TeacherLabels | str | Path | np.ndarray | Sequence[Any]


def as_examples(
    given: ExamplesLike,
    name: str,
    options: FileOptions | None = None,
    *,
    labeled: bool = True,
    features: Sequence[str] = (),
) -> Dataset:
    """A dataset whose rows all stand in the training part, named after the set."""
    if isinstance(given, str | Path):
        return read_examples(given, options, labeled=labeled, features=features)
    if isinstance(given, Dataset):
        return given if labeled else replace(given, y=np.full(len(given), -1, np.int64))
    columns = 3 if labeled else 2
    if not isinstance(given, tuple) or len(given) != columns:
        wanted = "(ids, inputs, y)" if labeled else "(ids, inputs)"
        raise InputError(f"{name} must be a path, a Dataset or {wanted}.")
    ids, (kind, inputs) = clean_ids(given[0]), as_inputs(given[1])
    y = np.full(len(ids), -1, np.int64)
    names: tuple[str, ...] = ()
    if labeled:
        column = pa.array(np.asarray(given[2]).tolist())
        (y,), names = number_classes([column], f"{name}: y", numbers_are_names=True)
    return Dataset(
        name=name,
        kind=kind,
        ids=ids,
        inputs=inputs,
        y=y,
        test_ids=ids[:0],
        test_inputs=inputs[:0],
        test_y=np.empty(0, np.int64),
        classes=names,
    )


def as_labels(
    given: LabelsLike,
    sets: Sequence[Dataset],
    classes: Sequence[str] | None = None,
    *,
    logits: bool = False,
) -> TeacherLabels:
    """Teacher labels from whatever holds them.

    Arrays without ids have one row for each example of ``sets``, in their order: gold, then pool,
    then V where it was given.
    """
    if isinstance(given, TeacherLabels):
        return given
    settings = ImportSettings(logits=logits)
    if isinstance(given, list | tuple):
        if given and all(isinstance(part, str) and not Path(part).exists() for part in given):
            raise InputError(
                f"labels: there are no files {first_few(given)}. A list holds several sources of "
                "labels; give the names of classes as a NumPy array."
            )
        return join_labels([as_labels(part, sets, classes, logits=logits) for part in given])
    if isinstance(given, str | Path):
        return _read_labels(Path(given).expanduser(), sets, classes, settings)
    values = np.asarray(given)
    if values.ndim == 0:
        raise InputError(
            "labels must be TeacherLabels, a path, an array of probabilities (n, classes) or an "
            f"array of class names (n,), not {type(given).__name__}."
        )
    if values.ndim == 1 and values.dtype.kind != "f":
        return _hard_labels(values, sets, classes)
    return settings.make(_ids_in_order(sets, len(values)), values, classes, where="labels")


def _hard_labels(
    values: np.ndarray, sets: Sequence[Dataset], classes: Sequence[str] | None
) -> TeacherLabels:
    """Labels from one class for each row, as a classifier's ``predict`` gives them."""
    ids, column = _ids_in_order(sets, len(values)), pa.array(values.tolist())
    if classes is None:
        texts = label_texts(column, "labels")
        said = {text for text in texts if text is not None}
        # The teacher may never have named some of the classes, and gold labels may be numbers.
        gold = sets[0].classes if said & {*sets[0].classes} else ()
        classes, column = [*gold, *sorted(said - {*gold})], pa.array(texts, pa.string())
    (y,), classes = number_classes([column], "labels", classes)
    certain = np.eye(len(classes), dtype=np.float32)[y[y >= 0]]
    return TeacherLabels.from_probs(ids[y >= 0], certain, classes)


def _read_labels(
    path: Path, sets: Sequence[Dataset], classes: Sequence[str] | None, settings: ImportSettings
) -> TeacherLabels:
    if not path.exists():
        raise InputError(f"There are no teacher labels at {path}.")
    if path.is_dir():
        return TeacherLabels.open(path)
    kind = kind_of_outputs(path)
    if kind == "array":
        return import_array(
            path, ids=partial(_ids_in_order, sets), classes=classes, settings=settings
        )
    if kind == "table":
        names = None if classes is None else with_synonyms(dict.fromkeys(classes, ()))
        return import_table([path], classes=names, settings=settings)
    raise InputError(
        f"{path} is neither a label store nor .npy, .npz, .csv, .tsv or .parquet probabilities; "
        "for an LLM's answers run `noisyteacher import` first."
    )


def _ids_in_order(sets: Sequence[Dataset], count: int) -> np.ndarray:
    sizes = [len(part) for part in sets]
    if sum(sizes) != count:
        listed = " + ".join(
            f"{size} of {part.name}" for size, part in zip(sizes, sets, strict=True)
        )
        raise InputError(
            f"Teacher probabilities without ids need one row for each example ({listed}, in this "
            f"order, {sum(sizes)} in all), and there are {count}."
        )
    if len({is_text(part.ids) for part in sets}) > 1:
        return np.concatenate([as_text(part.ids) for part in sets])
    return np.concatenate([part.ids for part in sets])
