"""Data in which one example has several labels is refused in one clear sentence."""

from __future__ import annotations

import pyarrow as pa
import pytest

from noisyteacher.core.errors import InputError
from noisyteacher.io.classes import label_numbers, label_texts

REMEDY = r"Each example must have exactly one label; multi-label data is not supported\."


@pytest.mark.parametrize("kind", [pa.list_(pa.string()), pa.large_list(pa.string())])
def test_lists(kind: pa.DataType) -> None:
    with pytest.raises(InputError, match=f"^gold.csv holds lists. {REMEDY}$"):
        label_texts(pa.array([["a"], ["a", "b"]], kind), "gold.csv")


@pytest.mark.parametrize("both", ["sport;news", "sport|news", "news, sport", "sport; news;sport"])
def test_labels_that_split_into_labels_of_the_file(both: str) -> None:
    with pytest.raises(InputError, match=rf"has the label '.*', which names several.* {REMEDY}$"):
        label_texts(pa.array(["sport", both, "news", None]), "gold.csv")


def test_labels_that_split_into_the_teachers_classes() -> None:
    with pytest.raises(InputError, match="has the label 'a;b', which names several classes"):
        label_numbers(["a;b", "b;a"], ("a", "b"), "gold.csv")


def test_a_separator_inside_a_name_is_no_second_label() -> None:
    names = ["Sci;Tech", "Rock|Pop", "food, drink", "Sci", "food"]
    assert label_texts(pa.array(names), "gold.csv") == names
    assert label_numbers(names, tuple(names), "gold.csv").tolist() == [0, 1, 2, 3, 4]
