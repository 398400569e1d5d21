"""Arrow tables, from Parquet or CSV, to ids, labels and inputs."""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from noisyteacher.core.errors import InputError, NoisyTeacherWarning, first_few
from noisyteacher.data.classes import class_numbers
from noisyteacher.data.source import Part, ReadOptions, Source, no_rows, row_ids
from noisyteacher.labels.importers.user_tables import (
    ID_COLUMNS,
    LABEL_COLUMNS,
    TEXT_COLUMNS,
    first_present,
    is_list,
)

IMAGE_COLUMNS = ("img", "image")
# What pandas calls an index without a name, in Parquet and in CSV files.
_NAMELESS_INDEX = re.compile(r"__index_level_\d+__|Unnamed: 0|")


def label_column(columns: Sequence[str], options: ReadOptions, where: str) -> str | None:
    """The label's column, None where the user says there is none."""
    if options.label is None:
        return None
    candidates = LABEL_COLUMNS if options.label == "auto" else (options.label,)
    found = first_present(candidates, columns)
    if found is None:
        raise InputError(
            f"{where} has no label column: looked for {first_few(candidates, 10)} among "
            f"{first_few(columns, 10)}."
        )
    return found


def id_column(columns: Sequence[str], options: ReadOptions, where: str) -> str | None:
    """The id's column; by default "id" where there is one."""
    if options.id_column is None:
        return None
    if options.id_column == "auto":
        return first_present(ID_COLUMNS, columns)
    if options.id_column not in columns:
        raise InputError(
            f"{where} has no id column {options.id_column!r} among {first_few(columns, 10)}."
        )
    return options.id_column


def ids_from(table: pa.Table, column: str | None, part: str) -> np.ndarray:
    """(n,) ids: the column's integers or strings, or row numbers where there is no column."""
    if column is None:
        return row_ids(part, table.num_rows)
    values = table[column]
    if values.null_count:
        raise InputError(f"The id column {column!r} has {values.null_count} empty values.")
    try:
        if pa.types.is_integer(values.type):
            return np.asarray(values.cast(pa.int64()).to_numpy(), np.int64)
        return np.array(values.cast(pa.string()).to_pylist(), np.str_)
    except pa.ArrowException as error:
        raise InputError(f"The id column {column!r} cannot be read: {error}") from error


def labels_from(
    train: pa.Table,
    test: pa.Table | None,
    column: str | None,
    names: tuple[str, ...],
    options: ReadOptions,
) -> tuple[np.ndarray, np.ndarray, tuple[str, ...]]:
    """Class numbers of both parts and the classes' names; all unknown where there is no column."""
    if column is None:
        test_rows = 0 if test is None else test.num_rows
        return np.full(train.num_rows, -1), np.full(test_rows, -1), names
    has_test = test is not None and column in test.column_names
    test_y = test[column] if test is not None and has_test else None
    y, numbers, classes = class_numbers(
        train[column], test_y, names, numbers_are_names=options.numbers_are_names
    )
    if test is not None and not has_test:
        numbers = np.full(test.num_rows, -1)
    return y, numbers, classes


def source_from_tables(
    train: pa.Table,
    test: pa.Table | None,
    options: ReadOptions,
    where: str,
    names: tuple[str, ...] = (),
) -> Source:
    """A text dataset where there is a text column, else a table of numbers."""
    if train.num_rows == 0:
        raise InputError(f"{where} has no training rows.")
    columns = train.column_names
    label, key = label_column(columns, options, where), id_column(columns, options, where)
    y, test_y, classes = labels_from(train, test, label, names, options)
    text = first_present(TEXT_COLUMNS, columns)
    features = [name for name in columns if name not in (label, key, text)]
    if text:
        _warn_of_unused(train, features, where)
    else:
        features = _without_index(train, features, where)
        _warn_of_answers(features, label, where)

    def inputs_of(table: pa.Table) -> np.ndarray | list[str]:
        return texts_from(table, text) if text else features_from(table, features, where)

    train_part = Part(ids_from(train, key, "train"), y, inputs_of(train))
    if test is None:
        test_part = no_rows(train_part.inputs)
    else:
        _check_columns(test, [text] if text else features, where)
        test_part = Part(ids_from(test, key, "test"), test_y, inputs_of(test))
    if text:
        return Source("text", classes, train_part, test_part)
    names_of = feature_names(train, features)
    return Source("table", classes, train_part, test_part, features=names_of)


def texts_from(table: pa.Table, column: str) -> list[str]:
    """The column as a list of strings."""
    values = table[column]
    if values.null_count:
        raise InputError(f"The column {column!r} has {values.null_count} empty texts.")
    try:
        return list(values.cast(pa.string()).to_pylist())
    except pa.ArrowException as error:
        raise InputError(f"The column {column!r} holds no texts: {error}") from error


def features_from(table: pa.Table, columns: Sequence[str], where: str) -> np.ndarray:
    """(n, d) float32: numeric columns side by side, list columns (embeddings) spread out."""
    if not columns:
        raise InputError(f"{where} has no feature columns beside its label and id.")
    parts = [_feature(table[name], name, where) for name in columns]
    features = np.concatenate(parts, axis=1)
    if not np.isfinite(features).all():
        rows = np.flatnonzero(~np.isfinite(features).all(1))
        raise InputError(
            f"{where} has infinite or NaN features in rows {first_few(rows.tolist())}."
        )
    return features


def _warn_of_unused(table: pa.Table, columns: Sequence[str], where: str) -> None:
    index = _index_columns(table, columns)
    # Nor a second label: it is not to be written into the text.
    unused = [name for name in columns if name not in (*index, *LABEL_COLUMNS)]
    if unused:
        what = "the column {} is" if len(unused) == 1 else "the columns {} are"
        warnings.warn(
            f"{where} has texts, which are all that a student reads: "
            f"{what.format(first_few(unused))} left out. Write what should be read, such as a "
            "title, into the text.",
            NoisyTeacherWarning,
            stacklevel=3,
        )


def _warn_of_answers(features: Sequence[str], label: str | None, where: str) -> None:
    answers = [name for name in features if name in LABEL_COLUMNS]
    if label is not None and answers:
        warnings.warn(
            f"{where}: the label is {label!r}, and {first_few(answers)}, by name a label too, is "
            "used as a feature. If it tells the answer, drop it, or name the right label with "
            "label= or label_column= (--label-column).",
            NoisyTeacherWarning,
            stacklevel=3,
        )


def _index_columns(table: pa.Table, columns: Sequence[str]) -> list[str]:
    """The columns in which pandas wrote its index."""
    stored = (table.schema.metadata or {}).get(b"pandas", b"{}")
    named = [
        name for name in orjson.loads(stored).get("index_columns", []) if isinstance(name, str)
    ]
    return [n for n in columns if n in named or _NAMELESS_INDEX.fullmatch(n)]


def _without_index(table: pa.Table, features: Sequence[str], where: str) -> list[str]:
    """The columns without those that count rows: in files sorted by class they tell the class."""
    index = _index_columns(table, features)
    if index:
        warnings.warn(
            f"{where}: left out {first_few(index)}, an index that pandas wrote, not a feature.",
            NoisyTeacherWarning,
            stacklevel=2,
        )
    kept = [name for name in features if name not in index]
    counting = [name for name in kept if _counts_rows(table[name])]
    if counting:
        warnings.warn(
            f"{where}: {first_few(counting)} counts the rows, and is used as a feature. If it is "
            "an id, name it with id_column= (--id-column), or drop it.",
            NoisyTeacherWarning,
            stacklevel=2,
        )
    return kept


def _counts_rows(values: pa.ChunkedArray) -> bool:
    if not pa.types.is_integer(values.type) or values.null_count or len(values) < 3:
        return False
    return bool((np.diff(values.to_numpy()) == 1).all())


def feature_names(table: pa.Table, columns: Sequence[str]) -> tuple[str, ...]:
    """A name for each of the features: a list column has one for each place in its lists."""
    names: list[str] = []
    for column in columns:
        values = table[column]
        if is_list(values.type):
            width = pc.list_value_length(values.slice(0, 1))[0].as_py()
            names += [f"{column}[{i}]" for i in range(width)]
        else:
            names.append(column)
    return tuple(names)


def _feature(values: pa.ChunkedArray, name: str, where: str) -> np.ndarray:
    kind = values.type
    if values.null_count:
        raise InputError(f"{where}: the feature {name!r} has {values.null_count} missing values.")
    if pa.types.is_boolean(kind) or pa.types.is_integer(kind) or pa.types.is_floating(kind):
        return np.asarray(values.cast(pa.float32(), safe=False).to_numpy())[:, None]
    if is_list(kind):
        lengths = pc.unique(pc.list_value_length(values)).to_pylist()
        if len(lengths) > 1:
            raise InputError(f"{where}: the lists in {name!r} differ in length.")
        flat = pc.list_flatten(values).cast(pa.float32(), safe=False)
        return np.asarray(flat.to_numpy()).reshape(len(values), lengths[0] if lengths else 0)
    raise InputError(f"{where}: the feature {name!r} is of type {kind}, not a number.")


def _check_columns(test: pa.Table, wanted: Sequence[str], where: str) -> None:
    missing = [name for name in wanted if name not in test.column_names]
    if missing:
        raise InputError(f"{where}: the test part lacks the columns {first_few(missing)}.")
