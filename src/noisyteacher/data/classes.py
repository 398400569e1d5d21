"""Label columns as users have them, to class numbers and class names."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from noisyteacher.core.errors import InputError, first_few

BOOLEANS = ("false", "true")


def class_numbers(
    train: pa.ChunkedArray | pa.Array,
    test: pa.ChunkedArray | pa.Array | None,
    names: tuple[str, ...] = (),
    *,
    numbers_are_names: bool = False,
) -> tuple[np.ndarray, np.ndarray, tuple[str, ...]]:
    """Labels of both parts as int64 (-1: unknown), and the classes' names.

    Whole numbers are class numbers as they stand; or, where no ``names`` are given, class names
    as text is: with ``numbers_are_names``, for labels that a teacher's classes are still to meet,
    one of which may be called -1. Text is a class name; the names found in the training part,
    sorted, are the classes. Booleans are the classes "false" and "true".
    """
    if pa.types.is_dictionary(train.type):
        train = train.cast(train.type.value_type)
    if numbers_are_names and not names and pa.types.is_integer(train.type):
        train, test = (None if part is None else part.cast(pa.string()) for part in (train, test))
    if pa.types.is_string(train.type) or pa.types.is_large_string(train.type):
        known = names or tuple(sorted({v for v in train.to_pylist() if v}))
        y, test_y = (_by_name(column, known) for column in (train, test))
        return y, test_y, known
    y, test_y = (_by_number(column) for column in (train, test))
    if pa.types.is_boolean(train.type):
        return y, test_y, names or BOOLEANS
    top = int(max(y.max(initial=-1), test_y.max(initial=-1)))
    return y, test_y, names or tuple(str(c) for c in range(top + 1))


def _by_name(column: pa.ChunkedArray | None, known: tuple[str, ...]) -> np.ndarray:
    if column is None:
        return np.empty(0, np.int64)
    number = {name: i for i, name in enumerate(known)}
    values = [str(v) if v else None for v in column.to_pylist()]
    strange = sorted({v for v in values if v is not None and v not in number})
    if strange:
        raise InputError(f"Labels {first_few(strange)} are not among {first_few(known, 10)}.")
    return np.array([-1 if v is None else number[v] for v in values], np.int64)


def _by_number(column: pa.ChunkedArray | None) -> np.ndarray:
    if column is None:
        return np.empty(0, np.int64)
    if pa.types.is_boolean(column.type):
        column = column.cast(pa.int8())
    if pa.types.is_null(column.type):
        return np.full(len(column), -1, np.int64)
    if not pa.types.is_integer(column.type):
        raise InputError(f"Labels must be whole numbers or class names, not of type {column.type}.")
    y = np.asarray(column.cast(pa.int64()).fill_null(-1).to_numpy(), np.int64)
    if len(y) and y.min() < -1:
        raise InputError(f"Labels must be at least 0 (or -1: unknown), not {y.min()}.")
    return y
