"""Finding the rows of ids."""

from __future__ import annotations

import numpy as np
import pytest

from noisyteacher.io import ids
from noisyteacher.io.ids import IdLookup, are_among, as_text, text_array

NAMES = text_array(["b", "a", "ä", "", "a1"])


def found(known: np.ndarray, wanted: np.ndarray) -> list[int]:
    return IdLookup(known).find(wanted).tolist()


def test_texts_are_found() -> None:
    assert found(NAMES, text_array(["a1", "c", "b", "", "b"])) == [4, -1, 0, 3, 0]
    assert found(NAMES, NAMES) == [0, 1, 2, 3, 4]
    assert found(NAMES.astype(np.str_), NAMES) == [0, 1, 2, 3, 4]
    assert found(NAMES, text_array([])) == []


def test_nothing_is_found_among_none_or_among_numbers() -> None:
    assert found(text_array([]), NAMES[:2]) == [-1, -1]
    assert found(NAMES, np.arange(2)) == [-1, -1]
    assert found(np.arange(5), NAMES[:2]) == [-1, -1]
    assert found(np.arange(5)[::-1], np.array([4, 9, 0])) == [0, -1, 4]


def test_of_a_repeated_text_the_last_row_counts() -> None:
    assert found(text_array(["a", "b", "a"]), text_array(["b", "a"])) == [1, 2]


def test_texts_of_the_same_hash_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ids, "_keys", lambda all_ids: np.array([len(i) for i in all_ids]))
    # "c" has the hash of "a" alone; "b" and "a" share one.
    assert found(text_array(["a", "bb"]), text_array(["c", "bb", "a"])) == [-1, 1, 0]
    assert found(text_array(["a", "b"]), text_array(["c", "b", "a"])) == [-1, 1, 0]


@pytest.mark.parametrize("text", [True, False])
def test_ids_among_others(text: bool) -> None:
    rng = np.random.default_rng(0)
    wanted, others = rng.integers(0, 50, 40), rng.integers(0, 50, 20)
    expected = [number in others.tolist() for number in wanted.tolist()]
    if text:
        wanted, others = as_text(wanted), as_text(others)
    assert are_among(wanted, others).tolist() == expected
    assert are_among(wanted, others[:0]).tolist() == [False] * len(wanted)
