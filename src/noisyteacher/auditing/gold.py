"""Gold labels as users have them: a table of ids and classes, by name or by number."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from noisyteacher.core.errors import InputError, NoisyTeacherWarning, first_few
from noisyteacher.io.classes import class_numbers, is_unknown
from noisyteacher.labels import TeacherLabels
from noisyteacher.labels.ids import check_unique
from noisyteacher.labels.importers.user_tables import (
    ID_COLUMNS,
    LABEL_COLUMNS,
    first_present,
    ids_in,
    read_table,
    stem_of,
)
from noisyteacher.labels.text_ids import ids_like


class Gold(NamedTuple):
    """Ids with their true classes."""

    ids: np.ndarray  # (n,) of the store's kind, integers or strings
    y: np.ndarray | None  # (n,) int64, -1 where unknown; None where the table has no labels

    @property
    def known(self) -> Gold:
        """The rows whose class is known."""
        if self.y is None:
            return Gold(self.ids[:0], np.empty(0, np.int64))
        return Gold(self.ids[self.y >= 0], self.y[self.y >= 0])


def read_gold(
    path: str | PathLike[str],
    labels: TeacherLabels,
    *,
    id_column: str | None = None,
    label_column: str | None = None,
    needs_labels: bool = True,
) -> Gold:
    """Read ids and true labels from a CSV, TSV, JSONL or Parquet table.

    Args:
        path: the table.
        labels: the store that the ids and classes belong to.
        id_column: by default ``id`` or ``ID``; without one, rows are named after the file, "gold/0"
            and so on.
        label_column: by default ``label``, ``fine_label``, ``target``, ``class`` or ``y``.
        needs_labels: refuse a table without labels, and leave out rows without one; else they
            stay, with y -1.
    """
    where = Path(path)
    names = LABEL_COLUMNS if label_column is None else (label_column,)
    table = read_table(where, ID_COLUMNS if id_column is None else (id_column,), names)
    if table.num_rows == 0:
        raise InputError(f"{where} has no rows: it names no gold labels.")
    ids = _read_ids(table, id_column, labels, where)
    column = first_present(names, table.column_names)
    if column is not None:
        gold = Gold(ids, _read_classes(table[column], labels.classes, where))
        return _without_unlabelled(gold, where) if needs_labels else gold
    if not needs_labels:
        return Gold(ids, None)
    raise InputError(
        f"{where} has no label column: looked for {first_few(names, 10)} among "
        f"{first_few(table.column_names, 10)}; name it: label_column= (--label-column)."
    )


def _read_ids(table: Any, id_column: str | None, labels: TeacherLabels, where: Path) -> np.ndarray:
    columns = table.column_names
    found = first_present(ID_COLUMNS if id_column is None else (id_column,), columns)
    if found is not None:
        ids = ids_like(ids_in(table, found, str(where)), labels.ids, str(where))
        try:
            check_unique(ids)
        except InputError as error:
            raise InputError(f"{where}: {error}") from None
        return ids
    if id_column is not None:
        raise InputError(f"{where} has no id column {id_column!r} among {first_few(columns, 10)}.")
    # As `label` and `distill` name them.
    ids = np.array([f"{stem_of(where)}/{row}" for row in range(table.num_rows)], np.str_)
    if not labels.has(ids).any():
        raise InputError(
            f"{where} has no column {ID_COLUMNS[0]!r} among {first_few(columns, 10)}, and the "
            f"teacher's labels have no rows called {first_few(ids.tolist(), 1)}; name the column "
            "of ids: id_column= (--id-column)."
        )
    return ids


def _read_classes(column: Any, classes: Sequence[str], where: Path) -> np.ndarray:
    """(n,) int64, -1 where unknown."""
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    texts = pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_null(kind)
    if not (texts or pa.types.is_integer(kind) or pa.types.is_boolean(kind)):
        raise InputError(f"{where}: labels are class names or whole numbers, not {kind}.")
    # A number in a file is a name first, as it is in a CSV: classes may be called 2, 1 and 0.
    said = column.cast(pa.string()).to_pylist()
    known = [not is_unknown(name, classes) for name in said]
    y = np.full(len(said), -1, np.int64)
    names = [name for name, there in zip(said, known, strict=True) if there]
    y[known] = class_numbers(names, classes, str(where))
    return y


def _without_unlabelled(gold: Gold, where: Path) -> Gold:
    known = gold.known
    lost = len(gold.ids) - len(known.ids)
    if not len(known.ids):
        raise InputError(f"{where} has no labels.")
    if lost:
        assert gold.y is not None
        first = first_few(gold.ids[gold.y < 0].tolist())
        warnings.warn(
            f"{lost} rows of {where} have no label and are left out: {first}.",
            NoisyTeacherWarning,
            stacklevel=3,
        )
    return known
