import math

import numpy as np
import pytest
import reference_noise as reference
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from noisyteacher.core.errors import InputError
from noisyteacher.labels import TeacherLabels
from noisyteacher.noise import TeacherNoise, confidence, entropy, margin

ORACLE = np.array([[0.1, 0.6, 0.25, 0.05]])


def rows_of(classes, n=30, seed=0, concentration=0.3):
    rng = np.random.default_rng(seed)
    return rng.dirichlet(np.full(classes, concentration), size=n)


@pytest.mark.parametrize(("k", "expected"), [(1, 1.033114), (2, 0.518186), (3, 0.198515)])
def test_the_entropy_oracle(k, expected):
    assert entropy(ORACLE, k)[0] == pytest.approx(expected, abs=5e-7)
    assert confidence(ORACLE, k, "entropy")[0] == pytest.approx(-expected, abs=5e-7)


@pytest.mark.parametrize(("k", "expected"), [(1, 0.35), (2, 0.75), (3, 0.90)])
def test_the_margin_is_the_top_mass_less_the_next(k, expected):
    assert margin(ORACLE, k)[0] == pytest.approx(expected)
    assert confidence(ORACLE, k)[0] == pytest.approx(expected)


@given(
    st.integers(2, 7).flatmap(
        lambda classes: st.lists(
            st.lists(st.integers(0, 4), min_size=classes, max_size=classes).filter(any),
            min_size=1,
            max_size=5,
        )
    )
)
@settings(max_examples=80, deadline=None)
def test_both_metrics_match_plain_code(counts):
    probs = np.array(counts) / np.sum(counts, axis=1, keepdims=True)
    by_size = zip(*map(reference.margins, probs), strict=True)
    for k, margins in enumerate(by_size, start=1):
        np.testing.assert_array_equal(margin(probs, k), margins)
        for row, found in zip(probs, entropy(probs, k), strict=True):
            ranked = sorted(row, reverse=True)
            grouped = [sum(ranked[:k]), *ranked[k:]]
            expected = -sum(p * math.log(p) for p in grouped if p > 0)
            assert found == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("metric", ["margin", "entropy"])
def test_blocks_and_widths_do_not_change_a_bit(metric, monkeypatch):
    probs = rows_of(700, concentration=0.02).astype(np.float32)
    whole = [confidence(probs, k, metric) for k in (1, 2, 7, 8, 200)]
    monkeypatch.setattr("noisyteacher.noise.covariates._BLOCK_BYTES", 3 * 8 * 700)
    for k, expected in zip((1, 2, 7, 8, 200), whole, strict=True):
        np.testing.assert_array_equal(confidence(probs, k, metric), expected)
        np.testing.assert_array_equal(confidence(probs[5:6], k, metric), expected[5:6])
        np.testing.assert_array_equal(confidence(np.asfortranarray(probs), k, metric), expected)


@pytest.mark.parametrize("stored", [3, 5, 8])
def test_a_store_is_read_as_its_dense_form_with_the_tail_spread_evenly(stored):
    labels = TeacherLabels.from_probs(range(30), rows_of(8, concentration=1.0), k=stored)
    for k in range(1, stored):
        np.testing.assert_allclose(margin(labels, k), margin(labels.probs, k), atol=1e-6)
        np.testing.assert_allclose(entropy(labels, k), entropy(labels.probs, k), atol=1e-5)


def test_torch_in_torch_out():
    probs = torch.tensor(ORACLE, requires_grad=True)
    found = margin(probs, 2)
    assert isinstance(found, torch.Tensor)
    assert not found.requires_grad
    assert found.tolist() == margin(ORACLE, 2).tolist()


def test_coarse_types_are_read_in_float32():
    probs = torch.softmax(torch.randn(20, 50, generator=torch.Generator().manual_seed(0)), 1)
    for coarse in (probs.bfloat16(), probs.half()):
        np.testing.assert_array_equal(margin(coarse, 3), margin(coarse.float(), 3))


@pytest.mark.parametrize("k", [0, 4, -1])
def test_k_out_of_range(k):
    with pytest.raises(InputError, match=f"from 1 to 3.*{k}"):
        margin(ORACLE, k)


def test_k_beyond_the_store_and_unknown_metric():
    labels = TeacherLabels.from_probs([0], ORACLE, k=3)
    with pytest.raises(InputError, match="from 1 to 2"):
        entropy(labels, 3)
    with pytest.raises(InputError, match="'variance'"):
        confidence(ORACLE, 1, "variance")


def test_mass_on_no_class_is_doubt():
    """An LLM that says "Mixed" with 95 % has a favorite class, and is not sure of it."""
    listed = np.array([[0.03, 0.0, 0.0], [0.5, 0.3, 0.2], [0.6, 0.1, 0.1]])
    missing = 1 - listed.sum(1)
    labels = TeacherLabels.from_probs(
        np.arange(3), listed / listed.sum(1, keepdims=True), missing=missing
    )
    expected = np.sort(listed)[:, -1] - np.sort(listed)[:, -2]
    np.testing.assert_allclose(margin(labels), expected, atol=2e-3)
    shares = listed / listed.sum(1, keepdims=True)
    plain = -(shares * np.log(np.maximum(shares, 1e-300))).sum(1)
    expected = (1 - missing) * plain + missing * math.log(3)
    np.testing.assert_allclose(entropy(labels), expected, atol=2e-3)


@pytest.mark.parametrize("metric", ["margin", "entropy"])
@pytest.mark.parametrize("stored", [3, 4, 6])
def test_more_mass_on_no_class_is_more_doubt(metric, stored):
    missing = np.linspace(0, 0.99, 34)
    for row in ([0.9, 0.05, 0.02, 0.01, 0.01, 0.01], [0.3, 0.2, 0.15, 0.15, 0.1, 0.1]):
        labels = TeacherLabels.from_probs(range(34), [row] * 34, k=stored, missing=missing)
        for k in range(1, stored):
            assert (np.diff(confidence(labels, k, metric)) < 0).all()
    # As little as an answer that favors no class, and less than any other.
    even = TeacherLabels.from_probs([0], [[1 / 6] * 6], k=stored)
    assert confidence(labels, 1, metric)[-1] == pytest.approx(
        confidence(even, 1, metric)[0], abs=0.05
    )


@pytest.mark.parametrize("metric", ["margin", "entropy"])
def test_trust_falls_where_a_teacher_answers_off_the_list(metric):
    def teacher(n, seed):
        rng = np.random.default_rng(seed)
        missing = rng.uniform(0, 0.95, n)
        labels = TeacherLabels.from_probs(range(n), [[0.9, 0.08, 0.02]] * n, missing=missing)
        alpha = (1 - missing) * 0.9 + missing / 3
        return labels, np.where(rng.random(n) < alpha, 0, 1), alpha

    val, y, _ = teacher(4_000, seed=0)
    pool, _, alpha = teacher(2_000, seed=1)
    trust = TeacherNoise(lower_bound=0.2, metric=metric).fit(val, y).predict(pool)
    assert np.abs(trust.alpha - alpha).mean() < 0.025
