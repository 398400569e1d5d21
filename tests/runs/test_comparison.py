"""Confusions and disagreements against plain loops."""

from __future__ import annotations

import base64
from collections import Counter
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from safetensors.numpy import save

from noisyteacher.core.errors import InputError
from noisyteacher.core.integrity import seal_tensors
from noisyteacher.runs.comparison import (
    Comparison,
    Predictions,
    count_confusions,
    find_examples,
    read_comparison,
    sample_rows,
    thumbnail,
)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.integers(-1, 3), st.integers(0, 3)), max_size=40))
def test_confusions_are_counted(pairs) -> None:
    truth, said = np.array(pairs, np.int64).reshape(-1, 2).T
    found = count_confusions("teacher", "V", truth, said)
    expected = Counter((t, s) for t, s in pairs if t >= 0)
    assert {(t, s): n for t, s, n in found.counts} == expected


def test_the_surest_disagreements_come_first() -> None:
    teacher = np.array([[0.9, 0.1], [0.2, 0.8], [0.6, 0.4], [0.3, 0.7]])
    student = np.array([[0.1, 0.9], [0.9, 0.1], [0.7, 0.3], [0.6, 0.4]])
    truth = np.array([0, 0, 1, -1])
    count, found = find_examples(
        np.arange(4),
        ["a", "b", "c", "d" * 999],
        Predictions.of(teacher),
        Predictions.of(student),
        ("no", "yes"),
        truth,
    )
    assert count == 3
    assert [(e.id, e.teacher, e.student, e.truth) for e in found] == [
        ("0", "no", "yes", "no"),
        ("1", "yes", "no", "no"),
        ("3", "yes", "no", None),
    ]
    assert (found[0].teacher_sure, found[0].student_sure) == (0.9, 0.9)
    assert found[2].text == "d" * 400 + "…"


def test_no_more_than_150_examples_are_kept() -> None:
    teacher = np.tile([0.6, 0.4], (300, 1))
    sides = Predictions.of(teacher), Predictions.of(teacher[:, ::-1])
    count, found = find_examples(np.arange(300), ["x"] * 300, *sides, ("no", "yes"))
    assert (count, len(found)) == (300, 150)


def opened(address: str) -> np.ndarray:
    return np.asarray(Image.open(BytesIO(base64.b64decode(address.partition(",")[2]))))


def test_thumbnails_show_the_input() -> None:
    tiny = np.arange(192, dtype=np.uint8).reshape(8, 8, 3)
    np.testing.assert_array_equal(opened(thumbnail(tiny)), tiny)
    large = np.full((200, 100, 3), 90, np.uint8)
    small = opened(thumbnail(large))
    assert small.shape == (64, 32, 3)
    assert abs(small.astype(int) - 90).max() <= 2


def test_rows_of_a_table_are_numbers_or_pictures() -> None:
    sides = [Predictions.of(np.array([probs])) for probs in ([0.9, 0.1], [0.1, 0.9])]
    table = np.arange(16, dtype=np.float32)[None]
    _, (plain,) = find_examples(np.arange(1), table, *sides, ("no", "yes"))
    assert plain.text == "0, 1, 2, 3, 4, 5, 6, 7, …"
    _, (shown,) = find_examples(np.arange(1), table, *sides, ("no", "yes"), picture_shape=(4, 4))
    assert shown.image is not None
    np.testing.assert_array_equal(opened(shown.image), np.arange(0, 256, 17).reshape(4, 4))


def test_it_reads_back_as_it_was_saved(tmp_path: Path) -> None:
    ids, texts, truth = np.arange(5), list("abcde"), np.array([0, 1, 0, 1, -1])
    sides = [Predictions.of(np.random.default_rng(i).random((5, 2))) for i in (0, 1)]
    apart, examples = find_examples(ids, texts, *sides, ("no", "yes"), truth)
    assert examples
    confusions = [count_confusions("teacher", "V", truth, sides[0].top)]
    made = Comparison("SLaM()", ["no", "yes"], "V", 5, apart, confusions, examples)
    made.save(tmp_path)
    found = read_comparison(tmp_path)
    assert found is not None
    assert found.examples == made.examples
    assert [tuple(c) for c in found.confusions[0].counts] == made.confusions[0].counts
    (tmp_path / "comparison.json").write_text('{"student": "a"}')
    with pytest.raises(InputError, match="not a comparison"):
        read_comparison(tmp_path)
    assert read_comparison(tmp_path / "elsewhere") is None


def test_predictions_read_back_as_they_were_saved(tmp_path: Path) -> None:
    made = Predictions.of(np.random.default_rng(0).random((7, 3)).astype(np.float32))
    made.save(tmp_path / "p")
    found = Predictions.load(tmp_path / "p")
    np.testing.assert_array_equal(found.top, made.top)
    np.testing.assert_array_equal(found.probability, made.probability)
    (tmp_path / "p").write_bytes(b"something else")
    with pytest.raises(InputError, match="p is damaged: it does not match its checksum; delete it"):
        Predictions.load(tmp_path / "p")
    (tmp_path / "p").write_bytes(seal_tensors(save({"something else": made.top})))
    with pytest.raises(InputError, match=r"p does not hold predictions \(.*; delete it"):
        Predictions.load(tmp_path / "p")


def test_a_large_pool_is_sampled_in_order_and_always_alike() -> None:
    few, many = np.arange(10, 20), np.arange(3, 9000)
    np.testing.assert_array_equal(sample_rows(few), few)
    found = sample_rows(many)
    assert len(found) == len(np.unique(found)) == 5000
    assert (np.diff(found) > 0).all()
    np.testing.assert_array_equal(found, sample_rows(many))
