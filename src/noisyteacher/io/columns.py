"""Columns of users' tables: which of them are what, and their values as ids, texts and numbers."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from noisyteacher.core.errors import InputError, first_few, warn
from noisyteacher.io.ids import clean_ids
from noisyteacher.io.images import IMAGE_SUFFIXES
from noisyteacher.io.user_tables import LABEL_COLUMNS, FileOptions, first_present

# What pandas calls an index without a name, in Parquet and in CSV files.
_NAMELESS_INDEX = re.compile(r"__index_level_\d+__|Unnamed: 0|")


@dataclass(frozen=True)
class InputColumns:
    """The columns that a student reads, and those of ids and labels, where there are any."""

    id: str | None
    label: str | None
    text: str | None
    features: tuple[str, ...] = ()  # of numbers; none where there are texts

    def inputs(self, table: Any, where: str) -> npt.NDArray[np.float32] | list[str]:
        """n texts, or (n, d) features."""
        wanted = [self.text] if self.text is not None else list(self.features)
        if missing := [name for name in wanted if name not in table.column_names]:
            raise InputError(f"{where}: the test part lacks the columns {first_few(missing)}.")
        if self.text is not None:
            return texts_in(table, self.text, where)
        return features_in(table, self.features, where)


def input_columns(
    table: Any,
    options: FileOptions,
    where: str,
    *,
    labeled: bool = True,
    features: Sequence[str] = (),
) -> InputColumns:
    """Choose the columns of a table of texts or numbers, and say what is left out.

    ``labeled=False`` reads no labels; the column that is usually a label is then no feature,
    unless a labeled table beside this one has it among its ``features``.
    """
    columns = table.column_names
    key = options.optional_column("id", columns, where)
    text = options.optional_column("text", columns, where)
    label = options.column("label", columns, where) if labeled else None
    unused = [name for name in options.names("label") if name not in features]
    dropped = None if labeled else first_present(unused, columns)
    rest = [name for name in columns if name not in (key, label, text, dropped)]
    index = _index_columns(table, rest)
    numbers = [name for name in rest if name not in index]
    if text is not None:
        _warn_of_unused(numbers, where)
        return InputColumns(key, label, text)
    _refuse_strings(table, numbers, where)
    if not numbers:
        raise InputError(f"{where} has no feature columns beside its label and id.")
    _warn_of_index(table, index, numbers, where)
    _warn_of_answers(numbers, label, where)
    return InputColumns(key, label, None, tuple(numbers))


def _warn_of_unused(columns: Sequence[str], where: str) -> None:
    # Not of a second label: it is not to be written into the text.
    if unused := [name for name in columns if name not in LABEL_COLUMNS]:
        what = "the column {} is" if len(unused) == 1 else "the columns {} are"
        warn(
            f"{where} has texts, and students read nothing else: {what.format(first_few(unused))} "
            "left out. To use a column such as a title, add it to the text."
        )


def _refuse_strings(table: Any, columns: Sequence[str], where: str) -> None:
    strings = [name for name in columns if is_text_type(table[name].type)]
    for name in strings:
        values = [value for value in table[name].to_pylist() if value]
        if values and all(value.lower().endswith(IMAGE_SUFFIXES) for value in values):
            raise InputError(
                f"{where}: {name!r} holds paths of images, such as {values[0]!r}, which are not "
                "followed; put the images of each class into a folder with its name (those of the "
                "pool into one folder), or their bytes into the column 'image' of a Parquet file."
            )
    if strings:
        raise InputError(
            f"{where} has no column 'text', and {first_few(strings)} "
            f"{'holds' if len(strings) == 1 else 'hold'} strings; name the text column with "
            "text_column= (--text-column), or remove or encode the columns of strings."
        )


def _warn_of_answers(features: Sequence[str], label: str | None, where: str) -> None:
    answers = [name for name in features if name in LABEL_COLUMNS]
    if label is not None and answers:
        warn(
            f"{where}: the label is {label!r}, and other columns with names of labels are used as "
            f"features: {first_few(answers)}. If they give the answer away, remove them, or name "
            "the right label with label_column= (--label-column)."
        )


def _index_columns(table: Any, columns: Sequence[str]) -> list[str]:
    """The columns in which pandas wrote its index: in files sorted by class they tell the class."""
    stored = (table.schema.metadata or {}).get(b"pandas", b"{}")
    named = orjson.loads(stored).get("index_columns", [])  # an index of numbers is an object
    return [n for n in columns if n in named or _NAMELESS_INDEX.fullmatch(n)]


def _warn_of_index(table: Any, index: Sequence[str], kept: Sequence[str], where: str) -> None:
    if index:
        warn(f"{where}: left out {first_few(index)}, an index that pandas wrote, not a feature.")
    if counting := [name for name in kept if _counts_rows(table[name])]:
        warn(
            f"{where}: {first_few(counting)} numbers the rows, but is used as a feature. If it is "
            "an id, name it with id_column= (--id-column), or remove it."
        )


def _counts_rows(values: Any) -> bool:
    if not pa.types.is_integer(values.type) or values.null_count or len(values) < 3:
        return False
    return bool((np.diff(values.to_numpy()) == 1).all())


def is_list(kind: Any) -> bool:
    """Whether an Arrow type is one of lists, of whatever kind."""
    return isinstance(kind, pa.ListType | pa.LargeListType | pa.FixedSizeListType)


def is_text_type(kind: Any) -> bool:
    """Whether an Arrow type is one of texts."""
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def ids_in(table: Any, column: str, where: str) -> npt.NDArray[Any]:
    """(n,) ids: integers stay integers, everything else is text."""
    values = table[column]
    if pa.types.is_floating(values.type):
        raise InputError(
            f"{where}: the id column {column!r} holds decimal numbers ({values.type}); save the "
            "ids as whole numbers or as text."
        )
    if values.null_count:
        raise InputError(f"{where}: the id column {column!r} has {values.null_count} empty values.")
    try:
        if pa.types.is_integer(values.type):
            return clean_ids(values.to_numpy())
        texts = values.cast(pa.string())
        # Arrow's texts are clean but for one thing, and cleaning takes as long as making them.
        if len(texts) and not pc.any(pc.ends_with(texts, "\0")).as_py():
            return np.asarray(texts.to_numpy(), object)
        return clean_ids(texts.to_pylist())
    except pa.ArrowException as error:
        raise InputError(f"{where}: the id column {column!r} holds {values.type}.") from error


def texts_in(table: Any, column: str, where: str) -> list[str]:
    """The column as a list of strings."""
    values = table[column]
    if values.null_count:
        rows = np.flatnonzero(values.is_null().to_numpy()).tolist()
        raise InputError(
            f"{where}: the column {column!r} has {values.null_count} empty texts, in the rows "
            f"{first_few(rows)} (counted from 0); leave these rows out."
        )
    try:
        return list(values.cast(pa.string()).to_pylist())
    except pa.ArrowException as error:
        raise InputError(f"{where}: the column {column!r} holds no texts: {error}.") from error


def numbers_in(table: Any, column: str, where: str) -> npt.NDArray[np.floating[Any]]:
    """(n, 1) values of a column of numbers, or (n, d) of one of lists, such as embeddings.

    They are float64 where the file has float64 or whole numbers, and float32 otherwise.
    """
    values, what = table[column], f"{where}: the column {column!r}"
    if values.null_count:
        raise InputError(f"{what} has {values.null_count} empty values.")
    width = 1
    if is_list(values.type):
        lengths = np.asarray(pc.list_value_length(values).to_numpy())
        other = np.flatnonzero(lengths != lengths[:1])
        if len(other):
            raise InputError(
                f"{what} has a list of {lengths[0]} values in row 0 and one of "
                f"{lengths[other[0]]} in row {other[0]}."
            )
        width, values = int(lengths[0]) if len(lengths) else 0, pc.list_flatten(values)
        if values.null_count:
            raise InputError(f"{what} has {values.null_count} empty values in its lists.")
    kind = values.type
    whole = pa.types.is_integer(kind) or pa.types.is_boolean(kind)
    if not (whole or pa.types.is_floating(kind)):
        raise InputError(f"{what} holds {table[column].type}, not numbers.")
    wide = pa.float64() if whole or kind == pa.float64() else pa.float32()
    return np.asarray(values.cast(wide, safe=False).to_numpy()).reshape(len(table), width)


def one_number_in(table: Any, column: str, where: str) -> npt.NDArray[np.floating[Any]]:
    """(n,) values of a column of numbers; one of lists is refused."""
    values = numbers_in(table, column, where)
    if values.shape[1] != 1:
        raise InputError(f"{where}: the column {column!r} holds lists, not numbers.")
    return values[:, 0]


def features_in(table: Any, columns: Sequence[str], where: str) -> npt.NDArray[np.float32]:
    """(n, d) numbers: columns side by side, columns of lists spread out."""
    parts = [numbers_in(table, name, where).astype(np.float32) for name in columns]
    features = np.concatenate(parts, axis=1)
    if rows := np.flatnonzero(~np.isfinite(features).all(1)).tolist():
        raise InputError(f"{where} has infinite or NaN features in rows {first_few(rows)}.")
    return features


def feature_names(table: Any, columns: Sequence[str]) -> tuple[str, ...]:
    """A name for each of the features: a column of lists has one for each place in its lists."""
    names: list[str] = []
    for column in columns:
        first = table[column][0].as_py() if is_list(table[column].type) else None
        names += [column] if first is None else [f"{column}[{i}]" for i in range(len(first))]
    return tuple(names)
