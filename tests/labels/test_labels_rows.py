"""Choosing rows, walking over them, and averaging teachers."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from label_helpers import assert_identical, assert_same_array, random_probs

from noisyteacher.core.errors import InputError
from noisyteacher.labels import TeacherLabels


def example(ids, k=None, seed=0, **keywords):
    rows = len(ids)
    extras = {"embedding": np.arange(rows * 3, dtype=np.float32).reshape(rows, 3)}
    missing = np.linspace(0, 1, rows)
    probs = random_probs(rows, 6, seed)
    return TeacherLabels.from_probs(ids, probs, k=k, missing=missing, extras=extras, **keywords)


def test_columns_and_defaults():
    labels = TeacherLabels.from_probs([5, 3], [[0.2, 0.8], [0.6, 0.4]])
    assert len(labels) == 2
    assert labels.ids.dtype == np.int64
    assert labels.classes == ("0", "1")
    assert labels.hard.dtype == np.int64
    assert labels.hard.tolist() == [1, 0]
    assert labels.missing.tolist() == [0, 0]
    assert labels.extras == {}
    assert (labels.teacher, labels.revision, labels.temperature) == (None, None, None)
    assert repr(labels) == "TeacherLabels(2 rows, all of 2 classes)"
    assert repr(example(["a"], k=2)) == "TeacherLabels(1 rows, top 2 of 6 classes, embedding)"


@pytest.mark.parametrize(
    "ids",
    [
        ["a", "b"],
        ("a", "b"),
        np.array(["a", "b"]),
        np.array(["a", "b"], object),
        iter(["a", "b"]),
        {"a": 1, "b": 2},
    ],
)
def test_string_ids_in_every_form(ids):
    labels = TeacherLabels.from_probs(ids, [[0.2, 0.8], [0.6, 0.4]])
    assert labels.ids.dtype == object
    assert set(map(type, labels.ids)) == {str}
    assert labels.ids.tolist() == ["a", "b"]


@pytest.mark.parametrize(
    "ids", [[1, 2], range(1, 3), np.array([1, 2], np.uint8), torch.tensor([1, 2]), [np.int32(1), 2]]
)
def test_integer_ids_in_every_form(ids):
    labels = TeacherLabels.from_probs(ids, [[0.2, 0.8], [0.6, 0.4]])
    assert labels.ids.dtype == np.int64
    assert labels.ids.tolist() == [1, 2]


@settings(max_examples=60, deadline=None)
@given(
    st.one_of(
        st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=20, unique=True),
        st.lists(st.text("ab\0é😀 ", max_size=4), min_size=1, max_size=20, unique=True).filter(
            lambda ids: not any(name.endswith("\0") for name in ids)
        ),
    ),
    st.data(),
)
def test_take_gives_each_id_its_own_row(ids, data):
    labels = example(ids, k=2)
    wanted = data.draw(st.lists(st.sampled_from(ids), max_size=30))
    taken = labels.take(wanted)
    rows = [ids.index(name) for name in wanted]
    assert taken.ids.tolist() == wanted
    assert taken.ids.dtype.kind == labels.ids.dtype.kind
    for name in ("topk_index", "topk_logprob", "topk_prob", "tail", "missing", "probs", "hard"):
        assert_same_array(getattr(taken, name), getattr(labels, name)[rows])
    assert_same_array(taken.extras["embedding"], labels.extras["embedding"][rows])
    assert taken.classes == labels.classes


def test_take_of_repeats_can_be_taken_from_again_but_not_saved(tmp_path):
    labels = example(["a", "b", "c"])
    twice = labels.take(["b", "a", "b"])
    assert_identical(twice.take(["b", "a"]), labels.take(["b", "a"]))
    with pytest.raises(InputError, match="repeated: 'b'"):
        twice.save(tmp_path / "store")
    assert list(tmp_path.iterdir()) == []


def test_take_from_no_rows():
    nothing = example([1, 2]).take([])
    assert len(nothing) == 0
    assert nothing.probs.shape == (0, 6)
    assert list(nothing.chunks(3)) == []
    with pytest.raises(InputError, match="ids 1"):
        nothing.take([1])


@pytest.mark.parametrize("ids", [["a", "bb", "c"], [7, -1, 3]])
def test_has_says_which_ids_are_there(ids):
    labels = example(ids)
    there = labels.has([ids[2], ids[0], ids[2]])
    assert there.dtype == bool
    assert there.all()
    assert labels.has(np.array([ids[1], ids[1] * 9])).tolist() == [True, False]
    assert labels.has(["7", "3"]).tolist() == labels.has([0, 1]).tolist() == [False, False]
    assert labels.has([]).tolist() == labels.take([]).has([]).tolist() == []
    assert not labels.take([]).has(ids).any()


def test_chunks_cover_the_rows_in_order_without_a_copy():
    labels = example(range(7), k=3)
    chunks = list(labels.chunks(3))
    assert [len(chunk) for chunk in chunks] == [3, 3, 1]
    assert np.concatenate([chunk.ids for chunk in chunks]).tolist() == list(range(7))
    assert_same_array(np.concatenate([chunk.probs for chunk in chunks]), labels.probs)
    assert_identical(chunks[1], labels.take([3, 4, 5]))
    assert np.shares_memory(chunks[0].topk_logprob, labels.topk_logprob)


@pytest.mark.parametrize("k", [None, 2])
def test_average_is_the_mean_of_the_dense_probabilities(k):
    ids = ["c", "a", "b", "d"]
    first = example(ids, k=k, seed=1, teacher="big", temperature=2.0)
    second = example(ids[::-1], k=k, seed=2, teacher="small", temperature=2.0)
    mean = TeacherLabels.average([first, second])
    assert mean.ids.tolist() == ids
    assert mean.k == 6
    expected = (first.probs + second.take(ids).probs) / 2
    np.testing.assert_allclose(mean.probs, expected, atol=5e-4)
    np.testing.assert_allclose(
        mean.missing, (first.missing + second.take(ids).missing) / 2, rtol=1e-6
    )
    assert mean.extras == {}
    assert mean.teacher == "mean of big, small"
    assert mean.temperature == 2.0
    kept = TeacherLabels.average([first, second], k=3)
    assert_same_array(kept.topk_index, mean.topk_index[:, :3])


def test_average_refuses_other_ids_and_classes():
    first = example(["a", "b", "c"])
    with pytest.raises(InputError, match="labels 1 to average lack the ids 'b', 'c'"):
        TeacherLabels.average([first, example(["a"])])
    with pytest.raises(InputError, match="labels 0 to average lack the ids 'd' of labels 2"):
        TeacherLabels.average([first, first, example(["a", "b", "c", "d"])])
    with pytest.raises(InputError, match="labels 1 to average lack the ids 'a', 'b', 'c'"):
        TeacherLabels.average([first, example([1, 2, 3])])
    with pytest.raises(InputError, match="different classes"):
        TeacherLabels.average([first, example(["a", "b", "c"], classes=list("uvwxyz"))])
    with pytest.raises(InputError, match="repeated: 'a'"):
        TeacherLabels.average([first.take(["a", "a"])])
    with pytest.raises(InputError, match="nothing to average"):
        TeacherLabels.average([])
