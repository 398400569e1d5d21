"""from_probs, from_logits and from_topk against plain reference code, and the cost of rounding."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from label_helpers import assert_identical, assert_same_array, random_probs

from noisyteacher.labels import TeacherLabels

HALF_STEP = 2.0**-11  # the largest relative error of rounding to float16


@st.composite
def prob_matrices(draw, min_classes=2):
    """Rows with ties, zeros, near-ties and very small entries."""
    width = draw(st.integers(min_classes, 12))
    weight = st.one_of(
        st.sampled_from([0.0, 0.0, 1.0, 1.0, 1.0001, 2.0, 1e-3, 1e-30, 1e-42]),
        st.floats(0, 1, width=32),
    )
    row = st.lists(weight, min_size=width, max_size=width).filter(lambda r: sum(r) > 1e-3)
    rows = np.array(draw(st.lists(row, min_size=1, max_size=5)), np.float64)
    return (rows / rows.sum(axis=1, keepdims=True)).astype(np.float32)


def reference_row(probs: np.ndarray, k: int) -> dict[str, object]:
    """One row of ``from_probs``, slowly: sort by rounded value, then by class."""
    probs = probs / np.float32(probs.sum(dtype=np.float64))
    logs = [float(np.log(p)) if p > 0 else -math.inf for p in probs]
    rounded = [-math.inf if v < -87 else float(np.float16(min(v, 0.0))) for v in logs]
    order = sorted(range(len(probs)), key=lambda c: (-rounded[c], c))
    kept, rest = order[:k], order[k:]
    values = [math.exp(rounded[c]) for c in kept]
    kept_mass = sum(float(probs[c]) for c in kept)
    tail = sum(float(probs[c]) for c in rest) * sum(values) / kept_mass
    tail = min(tail, len(rest) * values[-1] * (1 - 1e-6))
    mass = sum(values) + tail
    dense = np.zeros(len(probs))
    dense[kept] = np.array(values) / mass
    dense[rest] = tail / mass / max(len(rest), 1)
    return {"index": kept, "logprob": [rounded[c] for c in kept], "probs": dense}


@settings(max_examples=150, deadline=None)
@given(prob_matrices(), st.data())
def test_from_probs_agrees_with_the_plain_way(probs, data):
    k = data.draw(st.integers(1, probs.shape[1]))
    labels = TeacherLabels.from_probs(range(len(probs)), probs, k=k)
    assert labels.topk_index.dtype == np.uint8
    assert labels.topk_logprob.dtype == np.float16
    for row, given_probs in enumerate(probs):
        expected = reference_row(given_probs, k)
        assert labels.topk_index[row].tolist() == expected["index"]
        assert labels.topk_logprob[row].tolist() == expected["logprob"]
        np.testing.assert_allclose(labels.probs[row], expected["probs"], rtol=2e-6, atol=1e-44)


@settings(max_examples=150, deadline=None)
@given(prob_matrices(), st.data())
def test_dense_probabilities_are_consistent_with_the_stored_order(probs, data):
    k = data.draw(st.integers(1, probs.shape[1]))
    labels = TeacherLabels.from_probs(range(len(probs)), probs, k=k)
    dense = labels.probs
    assert dense.dtype == np.float32
    np.testing.assert_allclose(dense.sum(axis=1), 1, atol=2e-6)
    np.testing.assert_allclose(labels.topk_prob.sum(axis=1) + labels.tail, 1, atol=2e-6)
    # A stable sort gives ties to the lower class: the order that masks are made with.
    assert_same_array(
        np.argsort(-dense, axis=1, kind="stable")[:, :k].astype(np.uint8), labels.topk_index
    )
    assert_same_array(labels.hard, dense.argmax(axis=1))


@settings(max_examples=100, deadline=None)
@given(prob_matrices())
def test_rounding_error_is_bounded_for_every_probability(probs):
    exact = probs.astype(np.float64) / probs.sum(axis=1, dtype=np.float64, keepdims=True)
    labels = TeacherLabels.from_probs(range(len(probs)), probs)
    size = np.abs(np.log(np.where(exact > 0, exact, 1)))
    entropy = (exact * size).sum(axis=1, keepdims=True)
    # Each log moves by at most HALF_STEP of its size, their normalizer by that of the mean size.
    bound = exact * (size + entropy) * HALF_STEP * 1.05
    assert np.all(np.abs(labels.probs - exact) <= bound + 1e-6)


def test_rounding_moves_probabilities_and_margins_by_less_than_a_thousandth():
    for classes, scale in ((2, 3.0), (10, 2.0), (100, 3.0), (1000, 4.0)):
        probs = random_probs(2000, classes, seed=classes, scale=scale)
        stored = TeacherLabels.from_probs(range(2000), probs).probs
        ordered, moved = -np.sort(-probs, axis=1), -np.sort(-stored, axis=1)
        margin = (moved[:, 0] - moved[:, 1]) - (ordered[:, 0] - ordered[:, 1])
        assert np.abs(stored - probs).max() < 5e-4
        assert np.abs(margin).max() < 1e-3
        # Normalized, the head's mass is right where it is almost 1, which decides k(x).
        head = np.cumsum(moved, axis=1, dtype=np.float64)
        exact = np.cumsum(ordered, axis=1, dtype=np.float64)
        certain = exact > 0.999
        assert np.abs(head - exact)[certain].max() < 1e-5


def test_ties_after_rounding_go_to_the_lower_class():
    # float16 cannot tell these two apart, so the larger second one does not come first.
    labels = TeacherLabels.from_probs([0], [[0.30000, 0.30001, 0.39999]])
    assert labels.topk_index.tolist() == [[2, 0, 1]]
    assert labels.topk_logprob[0, 1] == labels.topk_logprob[0, 2]
    uniform = TeacherLabels.from_probs([0], np.full((1, 1000), 1e-3), k=20)
    assert uniform.topk_index.tolist() == [list(range(20))]
    assert uniform.hard.tolist() == [0]
    assert uniform.tail == pytest.approx(0.98, abs=1e-5)


def test_zero_probabilities_stay_zero():
    labels = TeacherLabels.from_probs(["a"], [[0.0, 1.0, 0.0]])
    assert labels.topk_index.tolist() == [[1, 0, 2]]
    assert labels.topk_logprob.tolist() == [[0.0, -math.inf, -math.inf]]
    assert not np.signbit(labels.topk_logprob[0, 0])
    assert labels.probs.tolist() == [[0.0, 1.0, 0.0]]
    # A tail of zeros is exactly zero, not rounding noise.
    top = TeacherLabels.from_probs(["a"], [[0.0, 0.3, 0.5, 0.2, 0.0]], k=3)
    assert top.tail.tolist() == [0.0]


@pytest.mark.parametrize(
    ("classes", "dtype"),
    [(256, np.uint8), (257, np.uint16), (65536, np.uint16), (65537, np.uint32)],
)
def test_indices_use_the_smallest_unsigned_type(classes, dtype):
    probs = np.zeros((1, classes), np.float32)
    probs[0, [classes - 1, 1, 0]] = 0.5, 0.25, 0.25
    labels = TeacherLabels.from_probs([7], probs, k=3)
    assert labels.topk_index.dtype == dtype
    assert labels.topk_index.tolist() == [[classes - 1, 0, 1]]
    assert labels.num_classes == classes
    assert labels.probs[0, classes - 1] == pytest.approx(0.5, abs=1e-3)


@pytest.mark.parametrize(
    "convert",
    [
        torch.from_numpy,
        lambda a: torch.from_numpy(a).requires_grad_(),
        lambda a: torch.from_numpy(a).bfloat16(),
        lambda a: a.astype(np.float16),
        lambda a: a.astype(np.float64),
        lambda a: np.asfortranarray(a),
        lambda a: a.tolist(),
    ],
)
def test_any_kind_of_float_array_is_taken_and_left_alone(convert):
    probs = random_probs(50, 20)
    given_probs = convert(probs.copy())
    labels = TeacherLabels.from_probs(range(50), given_probs, k=5)
    np.testing.assert_allclose(labels.probs.max(axis=1), probs.max(axis=1), rtol=1e-2)
    again = np.asarray(torch.as_tensor(given_probs).detach().float())
    np.testing.assert_allclose(again, probs, rtol=1e-2, atol=1e-6)


def test_many_blocks_give_the_same_as_one_row_at_a_time(monkeypatch):
    probs = random_probs(40, 9)
    whole = TeacherLabels.from_probs(range(40), probs, k=4)
    monkeypatch.setattr("noisyteacher.labels.topk._BLOCK_VALUES", 27)
    assert_identical(TeacherLabels.from_probs(range(40), probs, k=4), whole)
    assert_same_array(whole.probs, TeacherLabels.from_probs(range(40), probs, k=4).probs)


def test_rows_that_sum_almost_to_one_are_normalized():
    labels = TeacherLabels.from_probs([0], [[0.5004, 0.5004]])
    np.testing.assert_allclose(labels.probs, [[0.5, 0.5]], atol=1e-7)


def test_from_logits_is_the_softmax_at_a_temperature():
    logits = np.random.default_rng(0).standard_normal((30, 8)).astype(np.float32) * 5
    cooled = torch.softmax(torch.from_numpy(logits) / 2.5, dim=1)
    labels = TeacherLabels.from_logits(range(30), logits, k=3, temperature=2.5, teacher="t")
    expected = TeacherLabels.from_probs(
        range(30), cooled, k=3, temperature=2.5, teacher="t", revision=None
    )
    assert_same_array(labels.topk_index, expected.topk_index)
    np.testing.assert_allclose(labels.probs, expected.probs, atol=5e-4)
    assert (labels.temperature, labels.teacher) == (2.5, "t")
    assert TeacherLabels.from_logits(range(30), logits).temperature == 1.0


def test_from_logits_holds_extreme_logits():
    labels = TeacherLabels.from_logits([0, 1], [[1e4, -1e4, 0.0], [-math.inf, 2.0, 2.0]])
    assert labels.probs.tolist() == [[1.0, 0.0, 0.0], [0.0, 0.5, 0.5]]
    assert labels.topk_index.tolist() == [[0, 1, 2], [1, 2, 0]]


@settings(max_examples=80, deadline=None)
@given(prob_matrices(min_classes=3), st.data())
def test_from_topk_needs_no_order_and_agrees_with_from_probs(probs, data):
    rows, classes = probs.shape
    k = data.draw(st.integers(1, classes - 1))
    expected = TeacherLabels.from_probs(range(rows), probs, k=k)
    shuffle = data.draw(st.permutations(range(k)))
    index = expected.topk_index[:, shuffle].astype(np.int64)
    prob = np.take_along_axis(probs, index, axis=1)
    tail = np.maximum(1 - prob.sum(axis=1, dtype=np.float64), 0)
    labels = TeacherLabels.from_topk(range(rows), index, prob, tail, expected.classes)
    assert_same_array(labels.topk_index, expected.topk_index)
    np.testing.assert_allclose(labels.probs, expected.probs, rtol=2e-3, atol=2e-6)


def test_from_topk_takes_torch_and_a_full_row():
    labels = TeacherLabels.from_topk(
        torch.tensor([4, 2]),
        torch.tensor([[0, 1], [1, 0]]),
        torch.tensor([[0.25, 0.75], [0.5, 0.5]]),
        torch.zeros(2),
        ["no", "yes"],
        missing=torch.tensor([0.5, 0.0]),
    )
    assert labels.k == labels.num_classes == 2
    assert labels.topk_index.tolist() == [[1, 0], [0, 1]]
    assert labels.missing.tolist() == [0.5, 0.0]
    assert labels.tail.tolist() == [0.0, 0.0]
