"""Gold labels as users have them: a table of ids and classes, by name or by number."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import NamedTuple

import numpy as np

from noisyteacher.core.errors import InputError, first_few
from noisyteacher.io.classes import (
    by_class_label,
    class_label_names,
    label_numbers,
    label_texts,
    labeled_rows,
)
from noisyteacher.io.columns import ids_in
from noisyteacher.io.formats import stem_of
from noisyteacher.io.ids import check_unique, ids_like, row_ids
from noisyteacher.io.user_tables import ID_COLUMNS, FileOptions, first_present, read_table
from noisyteacher.labels import TeacherLabels


class Gold(NamedTuple):
    """Gold rows: their ids and true classes."""

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
        labels: the label store whose ids and classes the table uses.
        id_column: the column of ids, by default ``id`` or ``ID``. If there is none, rows are named
            after the file, "gold/0" and so on.
        label_column: the column of labels, by default ``label``, ``fine_label``, ``target``,
            ``class`` or ``y``.
        needs_labels: if true, a table without labels is an error, and rows without a label are left
            out. Otherwise these rows have the class -1.
    """
    where, options = Path(path), FileOptions(id_column, label_column=label_column)
    table = read_table(where, options.names("id"), options.names("label"))
    columns = table.column_names
    if table.num_rows == 0:
        raise InputError(f"{where} has no rows: it names no gold labels.")
    key = options.optional_column("id", columns, str(where))
    if key is None:
        ids = _rows_of_the_store(stem_of(where), len(table), labels, columns, where)
    else:
        ids = ids_like(ids_in(table, key, str(where)), labels.ids, str(where))
        try:
            check_unique(ids)
        except InputError as error:
            raise InputError(f"{where}: {error}") from None
    if not needs_labels and first_present(options.names("label"), columns) is None:
        return Gold(ids, None)
    column = options.column("label", columns, str(where))
    texts = label_texts(table[column], f"{where}: the column {column!r}")
    texts = by_class_label(texts, class_label_names(table.schema, column), labels.classes)
    y = label_numbers(texts, labels.classes, str(where))
    if needs_labels:
        known = labeled_rows(y, ids, str(where))
        ids, y = ids[known], y[known]
    return Gold(ids, y)


def _rows_of_the_store(
    name: str, count: int, labels: TeacherLabels, columns: Sequence[str], where: Path
) -> np.ndarray:
    """The ids that `label` and `distill` give to rows without any."""
    ids = row_ids(name, count)
    if not labels.has(ids).any():
        raise InputError(
            f"{where} has no column {ID_COLUMNS[0]!r} among {first_few(columns, 10)}, and the "
            f"teacher's labels have no rows called {first_few(ids.tolist(), 1)}; name the column "
            "of ids: id_column= (--id-column)."
        )
    return ids
