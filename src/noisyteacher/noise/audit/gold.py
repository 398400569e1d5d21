"""Gold labels as users have them: a table of ids and classes, by name or by number."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
from jaxtyping import Int
from torch import Tensor

from noisyteacher.errors import InputError, first_few
from noisyteacher.labels import TeacherLabels
from noisyteacher.labels.ids import check_unique, clean_ids


class Gold(NamedTuple):
    """Ids with their true classes."""

    ids: np.ndarray  # (n,) of the store's kind, integers or strings
    y: np.ndarray | None  # (n,) int64; None where the table has no labels


def read_gold(
    path: str | PathLike[str], labels: TeacherLabels, *, needs_labels: bool = True
) -> Gold:
    """Read the columns ``id`` and ``label`` of a CSV or Parquet table.

    Args:
        path: the table.
        labels: the store that the ids and classes belong to.
        needs_labels: refuse a table without the column ``label``.
    """
    where = Path(path)
    table = _read_table(where)
    _check_column(table, "id", where)
    if table.num_rows == 0:
        raise InputError(f"{where} has no rows: it names no gold labels.")
    ids = _read_ids(table["id"], labels, where)
    if "label" not in table.column_names and not needs_labels:
        return Gold(ids, None)
    _check_column(table, "label", where)
    kind = table["label"].type
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    texts = pa.types.is_string(kind) or pa.types.is_large_string(kind)
    if not (pa.types.is_integer(kind) or texts):
        raise InputError(f"{where}: labels are class names or whole numbers, not {kind}.")
    # A number in a file is a name first, as it is in a CSV: classes may be called 2, 1 and 0.
    return Gold(ids, class_numbers(table["label"].cast(pa.string()).to_pylist(), labels.classes))


def class_numbers(y: Any, classes: Sequence[str]) -> Int[np.ndarray, " n"]:
    """Classes as int64: integers as they stand, texts as class names, else as numbers in text."""
    if isinstance(y, Tensor):
        y = y.detach().cpu().numpy()
    try:
        array = np.asarray(y)
    except ValueError:
        raise InputError("y must have one true class per row, but its rows differ.") from None
    if array.ndim != 1:
        raise InputError(f"y must have one true class per row, but its shape is {array.shape}.")
    if array.dtype.kind in "iu":
        digits = [name for name in classes if name.isdigit()]
        if digits and list(classes) != [str(i) for i in range(len(classes))]:
            raise InputError(
                f"y holds whole numbers, and classes are called {first_few(digits)}, which are not "
                "their places; give y as class names."
            )
        return array.astype(np.int64)
    if array.dtype.kind not in "UO" or not all(isinstance(name, str) for name in array.tolist()):
        if array.size == 0:
            return np.empty(0, np.int64)
        raise InputError(f"y must hold class names or whole numbers, but it is {array.dtype}.")
    number = {name: n for n, name in enumerate(classes)}
    if not all(name in number for name in array.tolist()):
        number = {str(n): n for n in range(len(classes))} | number
        _check_names(array, number, classes)
    return np.array([number[name] for name in array.tolist()], np.int64)


def _check_names(names: np.ndarray, known: dict[str, int], classes: Sequence[str]) -> None:
    unknown = dict.fromkeys(name for name in names.tolist() if name not in known)
    if unknown:
        raise InputError(
            f"the labels {first_few(unknown)} are no classes of this teacher; "
            f"its classes are {first_few(classes, 10)}."
        )
    if sum(name in classes for name in set(names.tolist())) > 0:
        strange = dict.fromkeys(name for name in names.tolist() if name not in classes)
        raise InputError(f"the labels mix class names with the numbers {first_few(strange)}.")


def _read_table(path: Path) -> Any:
    try:
        if path.suffix == ".parquet":
            return pq.ParquetFile(path).read()
        # As text, so that ids such as 007 and classes such as NA stay what they are.
        converting = pa_csv.ConvertOptions(
            column_types={"id": pa.string(), "label": pa.string()}, strings_can_be_null=False
        )
        parsing = pa_csv.ParseOptions(newlines_in_values=True)
        return pa_csv.read_csv(path, parse_options=parsing, convert_options=converting)
    except (OSError, pa.ArrowException) as error:
        reason = " ".join(str(error).split()).rstrip(".")
        raise InputError(f"{path} cannot be read as a table: {reason}.") from error


def _check_column(table: Any, name: str, where: Path) -> None:
    if name not in table.column_names:
        columns = first_few(table.column_names, 10)
        raise InputError(f"{where} has no column {name!r}; its columns are {columns}.")
    if table.column_names.count(name) > 1:
        raise InputError(f"{where} has several columns {name!r}.")
    if table[name].null_count:
        raise InputError(f"{where}: the column {name!r} has {table[name].null_count} empty values.")


def _read_ids(column: Any, labels: TeacherLabels, where: Path) -> np.ndarray:
    wanted = pa.string() if labels.ids.dtype.kind == "U" else pa.int64()
    try:
        ids = clean_ids(column.cast(wanted).to_pylist())
    except pa.ArrowException:
        raise InputError(
            f"{where}: the ids of the store are whole numbers, but {first_few(column.to_pylist())} "
            "are not all."
        ) from None
    try:
        check_unique(ids)
    except InputError as error:
        raise InputError(f"{where}: {error}") from None
    return ids
