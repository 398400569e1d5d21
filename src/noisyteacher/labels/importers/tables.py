"""Tables of probabilities, logits or labels.

Each row has an id and either one numeric column per class, or one column of lists, or a label. In
CSV a list is written as JSON: ``"[0.1, 0.9]"``.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import orjson
import pyarrow as pa

from noisyteacher.core.errors import InputError, NoisyTeacherWarning, first_few
from noisyteacher.labels.importers.classes import ClassAnswers
from noisyteacher.labels.importers.lines import name_files
from noisyteacher.labels.importers.one_label import (
    TEACHER_COLUMNS,
    label_column_of,
    read_labelled,
    with_text_labels,
)
from noisyteacher.labels.importers.settings import ImportSettings
from noisyteacher.labels.importers.user_tables import (
    ID_COLUMNS,
    first_present,
    ids_in,
    is_list,
    is_untyped,
    read_table,
)
from noisyteacher.labels.teacher_labels import TeacherLabels
from noisyteacher.labels.text_ids import with_whole_ids


def import_table(
    paths: Sequence[Path],
    *,
    ids: npt.NDArray[Any] | None = None,
    id_column: str | None = None,
    list_column: str | None = None,
    label_column: str | None = None,
    confidence_column: str | None = None,
    classes: ClassAnswers | None = None,
    settings: ImportSettings | None = None,
) -> TeacherLabels:
    """Read the rows of one or more tables.

    With ``list_column`` its lists are the values, and ``classes`` only names them. Without it every
    class has the column of its name, or of one of its synonyms; where no classes are given, all
    columns of floats are classes, and where there are none, a single column of lists is taken.
    ``ids`` come before the ids in ``id_column``, by default ``id`` or ``ID``.

    ``label_column`` holds one label per row; a table without columns of probabilities may call it
    ``label``, ``prediction`` or the like. The label has the probability in ``confidence_column``,
    by default ``confidence``, ``probability`` or ``score`` where that holds numbers from 0 to 1,
    and the other classes share the rest; without one it has all. The classes are ``classes``, or
    the labels that there are.
    """
    where, settings = name_files(paths), settings or ImportSettings()
    keys = ID_COLUMNS if id_column is None else (id_column,)
    if label_column is not None or confidence_column is not None:
        _check_one_label(list_column, settings)
    named = label_column is not None
    tables = _read_each(paths, keys, label_column)
    if not (named or list_column is not None or settings.logits):
        label_column = _find_label_column(tables, keys, classes, confidence_column, where)
        if label_column is not None:
            tables = _read_each(paths, keys, label_column)  # now with 01 and true as they stand
    table = _joined(tables, paths, keys)
    if not table.num_rows:
        raise InputError(f"{where} has no rows.")
    key = first_present(keys, table.column_names)
    if ids is None:
        _check_column(table, key or keys[0], where, "id_column= (--id-column)")
        ids = ids_in(table, key or keys[0], where)
    if len(ids) != table.num_rows:
        raise InputError(f"{len(ids)} ids were given for the {table.num_rows} rows of {where}.")
    if label_column is not None:
        _check_column(table, label_column, where, "label_column= (--label-column)")
        if confidence_column is not None:
            how = "confidence_column= (--confidence-column)"
            _check_column(table, confidence_column, where, how)
        found = not named
        said = read_labelled(table, label_column, confidence_column, classes, where, found=found)
        return settings.make(np.asarray(ids)[said.kept], said.probs, said.classes, where=where)
    values, names = _probabilities(table, key, list_column, classes, where, logits=settings.logits)
    try:
        return settings.make(ids, values, names, where=where)
    except InputError as error:
        hint = "" if classes or names is None else _label_hint(table.column_names, names)
        raise InputError(f"{error}{hint}") from error


def _label_hint(columns: Sequence[str], taken: Sequence[str]) -> str:
    # Times and costs beside a label look like classes, and only their sums tell.
    label = first_present([name for name in TEACHER_COLUMNS if name not in taken], columns)
    how = "say so: label_column= (--label-column)."
    return "" if label is None else f" If {label!r} holds the teacher's labels, {how}"


def _check_one_label(list_column: str | None, settings: ImportSettings) -> None:
    if list_column is not None:
        raise InputError("a table has a column of lists or one of labels, not both: name one.")
    if settings.logits:
        raise InputError("labels and confidences are no logits: leave out logits= (--logits).")


def _find_label_column(
    tables: Sequence[Any],
    keys: Sequence[str],
    classes: ClassAnswers | None,
    confidence_column: str | None,
    where: str,
) -> str | None:
    if confidence_column is not None:
        names = tables[0].column_names
        column = first_present([c for c in TEACHER_COLUMNS if c != confidence_column], names)
        if column is None:
            raise InputError(
                f"{where} has no column of labels among {first_few(names, 10)}; name it: "
                "label_column= (--label-column)."
            )
        return column
    rests = []
    for table in tables:
        key = first_present(keys, table.column_names)
        rests.append(table.select([name for name in table.column_names if name != key]))
    found = {label_column_of(rest, classes) for rest in rests}
    return found.pop() if len(found) == 1 else None


def _probabilities(
    table: Any,
    key: str | None,
    list_column: str | None,
    classes: ClassAnswers | None,
    where: str,
    *,
    logits: bool,
) -> tuple[npt.NDArray[Any], tuple[str, ...] | None]:
    """(n, L) numbers, and the classes where the table or the user names them."""
    rest = [name for name in table.column_names if name != key]
    if list_column is None and classes is None:
        list_column = _only_list_column(table.select(rest))
    if list_column is not None:
        _check_column(table, list_column, where, "list_column= (--list-column)")
        values = _lists(table[list_column], list_column, where)
        return values, None if classes is None else tuple(classes)
    columns = _class_columns(table.select(rest), classes, where, logits=logits)
    values = np.column_stack([_numbers(table[c], c, where) for c in columns.values()])
    return values, tuple(columns)


def _read_each(paths: Sequence[Path], keys: Sequence[str], label_column: str | None) -> list[Any]:
    # Beside files that know whether their ids are numbers, each file of text has to decide; files
    # of text alone decide together.
    together = all(is_untyped(path) for path in paths)
    if label_column is None:
        return [read_table(path, keys, whole_ids=not together) for path in paths]
    tables = (read_table(path, keys, (label_column,), whole_ids=not together) for path in paths)
    return [
        with_text_labels(table, label_column, str(path))
        for table, path in zip(tables, paths, strict=True)
    ]


def _joined(tables: Sequence[Any], paths: Sequence[Path], keys: Sequence[str]) -> Any:
    try:
        table = pa.concat_tables(tables, promote_options="permissive")
        key = first_present(keys, table.column_names)
        together = all(is_untyped(path) for path in paths)
        return with_whole_ids(table, key) if together and key is not None else table
    except pa.ArrowException as error:
        reason = " ".join(str(error).split()).rstrip(".")
        raise InputError(f"the columns of the tables differ: {reason}.") from error


def _check_column(table: Any, name: str, where: str, how: str) -> None:
    if name not in table.column_names:
        columns = first_few(table.column_names, 10)
        raise InputError(
            f"{where} has no column {name!r}; its columns are {columns}; name another: {how}."
        )


def _only_list_column(table: Any) -> str | None:
    if any(pa.types.is_floating(field.type) for field in table.schema):
        return None
    lists = [field.name for field in table.schema if is_list(field.type)]
    return lists[0] if len(lists) == 1 else None


def _class_columns(
    table: Any, classes: ClassAnswers | None, where: str, *, logits: bool
) -> dict[str, str]:
    """Class name to the name of its column."""
    if classes is None:
        floats = [field.name for field in table.schema if pa.types.is_floating(field.type)]
        others = [
            field.name
            for field in table.schema
            if pa.types.is_integer(field.type) or pa.types.is_decimal(field.type)
        ]
        if others and floats:
            told = f"{where}: the columns {first_few(others, 10)} hold other numbers than decimals"
            if logits:
                raise InputError(f"{told}; name the classes: classes= (--classes).")
            text = f"{told} and are not taken for classes; name the classes to change that."
            warnings.warn(text, NoisyTeacherWarning, stacklevel=3)
        if len(floats) < 2:
            columns = first_few(table.column_names, 10)
            raise InputError(
                f"{where} has no two columns of probabilities among {columns}; name the "
                "classes, classes= (--classes), the column of lists, list_column= "
                "(--list-column), or the column of labels, label_column= (--label-column)."
            )
        return {name: name for name in floats}
    found = {c: [a for a in names if a in table.column_names] for c, names in classes.items()}
    absent = [name for name, columns in found.items() if not columns]
    if absent:
        columns = first_few(table.column_names, 10)
        raise InputError(
            f"{where} has no column for the classes {first_few(absent)}; its columns are {columns}."
        )
    double = [name for name, columns in found.items() if len(columns) > 1]
    if double:
        raise InputError(f"{where} has several columns for the classes {first_few(double)}.")
    return {name: columns[0] for name, columns in found.items()}


def _numbers(column: Any, name: str, where: str) -> npt.NDArray[Any]:
    kind = column.type
    if column.null_count:
        raise InputError(f"{where}: the column {name!r} has {column.null_count} empty values.")
    if not (pa.types.is_floating(kind) or pa.types.is_integer(kind)):
        raise InputError(f"{where}: the column {name!r} holds {kind}, not numbers.")
    wide = pa.float64() if kind == pa.float64() or pa.types.is_integer(kind) else pa.float32()
    return np.asarray(column.cast(wide).to_numpy())


def _lists(column: Any, name: str, where: str) -> npt.NDArray[Any]:
    """(n, L) values of a column of lists, or of their JSON."""
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        column = _parsed(column, name, where)
    if not is_list(column.type):
        raise InputError(f"{where}: the column {name!r} holds {column.type}, not lists of numbers.")
    if column.null_count:
        raise InputError(f"{where}: the column {name!r} has {column.null_count} empty lists.")
    lengths = np.asarray(column.combine_chunks().value_lengths().to_numpy(zero_copy_only=False))
    other = np.flatnonzero(lengths != lengths[0])
    if len(other):
        row = int(other[0])
        raise InputError(
            f"{where}: the lists in {name!r} have {lengths[0]} values in row 0 and {lengths[row]} "
            f"in row {row}."
        )
    flat = pa.chunked_array([chunk.flatten() for chunk in column.chunks])
    return _numbers(flat, name, where).reshape(len(column), -1)


def _parsed(column: Any, name: str, where: str) -> Any:
    try:
        lists = [orjson.loads(text or "") for text in column.to_pylist()]
        return pa.chunked_array([pa.array(lists, pa.list_(pa.float64()))])
    except (orjson.JSONDecodeError, pa.ArrowException, TypeError) as error:
        raise InputError(f"{where}: the column {name!r} is not all JSON lists: {error}.") from error
