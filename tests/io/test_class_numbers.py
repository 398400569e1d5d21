"""Labels given in Python, as numbers or as names, to class numbers."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
import torch

from noisyteacher.core.errors import InputError
from noisyteacher.io.classes import class_numbers, label_numbers, number_classes

NAMES = ("cat", "dog", "owl")


@pytest.mark.parametrize(
    "values",
    [
        [2, 0, 1],
        np.array([2, 0, 1], np.uint8),
        torch.tensor([2, 0, 1]),
        ["owl", "cat", "dog"],
        ("owl", "cat", "dog"),
        np.array(["owl", "cat", "dog"], object),
    ],
)
def test_numbers_and_names_mean_the_same(values: object) -> None:
    found = class_numbers(values, NAMES)
    assert (found.tolist(), found.dtype) == ([2, 0, 1], np.int64)


def test_booleans_are_the_names_of_two_classes() -> None:
    assert class_numbers(["True", "FALSE"], ("0", "1")).tolist() == [1, 0]
    assert class_numbers([True, False], ("False", "True")).tolist() == [1, 0]
    assert class_numbers(torch.tensor([True, False]), ("1", "0")).tolist() == [0, 1]


def test_without_names_only_numbers_will_do() -> None:
    assert class_numbers([1, 0], None).tolist() == [1, 0]
    assert class_numbers([], None).tolist() == []
    with pytest.raises(InputError, match=r"y holds class names such as 'cat', .* have no names"):
        class_numbers(["cat"], None)


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ([0.5, 1.0], "truth must hold class names or whole numbers, not float64"),
        (["cat", None], "truth must hold class names or whole numbers, not object"),
        ([[0, 1]], r"truth must hold one class per row, but has shape \(1, 2\)"),
        ([[0], [0, 1]], "truth must hold one class per row, but its rows differ"),
        (
            ["cat", "yak"],
            "truth has the labels 'yak', which are not among the teacher's classes 'cat'",
        ),
    ],
)
def test_other_labels_are_refused(values: object, said: str) -> None:
    with pytest.raises(InputError, match=said):
        class_numbers(values, NAMES, "truth")


def test_numbers_are_refused_where_classes_are_called_by_other_numbers() -> None:
    with pytest.raises(InputError, match="called '5', '1', which are not their positions"):
        class_numbers([1, 0], ("5", "1"))


def test_a_class_is_meant_by_its_own_name_before_any_synonym() -> None:
    """Whatever the user calls a synonym of another class."""
    found = label_numbers(["cat", "pet", "dog"], NAMES, "y", {"cat": 1, "pet": 1})
    assert found.tolist() == [0, 1, 1]


@pytest.mark.parametrize("typed", [True, False])
def test_booleans_of_a_column_are_the_classes_false_and_true(typed: bool) -> None:
    column = pa.array([True, False, None, True])
    column = column if typed else column.dictionary_encode()
    (y,), names = number_classes([column], "y")
    assert (y.tolist(), names) == ([1, 0, -1, 1], ("false", "true"))


def test_a_number_that_is_a_synonym_leaves_no_number_a_place() -> None:
    with pytest.raises(InputError, match="y has the labels '0', which are not among"):
        label_numbers(["1", "0"], NAMES, "y", {"1": 2})
