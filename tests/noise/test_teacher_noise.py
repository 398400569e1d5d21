from fractions import Fraction

import numpy as np
import planted_teachers as planted
import pytest
import reference_noise as reference
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone

from noisyteacher.noise import TeacherNoise


def simplex(classes, n, seed, concentration=0.3):
    rng = np.random.default_rng(seed)
    probs = rng.dirichlet(np.full(classes, concentration), size=n)
    y = (probs.cumsum(axis=1) > rng.random((n, 1))).argmax(axis=1)
    return probs, y


@st.composite
def teachers(draw):
    """V, its truth and a pool, of few distinct rows, so that ties are everywhere."""
    classes = draw(st.integers(2, 6))
    row = st.lists(st.integers(0, 3), min_size=classes, max_size=classes).filter(any)
    val = draw(st.lists(row, min_size=2, max_size=25))
    pool = draw(st.lists(row, min_size=1, max_size=8))
    truth = st.lists(st.integers(0, classes - 1), min_size=len(val), max_size=len(val))
    y = draw(truth.filter(lambda values: len(set(values)) > 1))
    return tuple(np.array(r) / np.sum(r, axis=1, keepdims=True) for r in (val, pool)), y


@given(teachers(), st.sampled_from(["0.6", "0.75", "0.9"]))
@settings(max_examples=150, deadline=None)
def test_alpha_and_k_match_one_curve_per_size(teacher, threshold):
    (val, pool), y = teacher
    noise = TeacherNoise(lower_bound=0.25, threshold=float(threshold)).fit(val, y)
    trust = noise.predict(pool)
    alpha, k = reference.alpha_and_k(val, y, pool, lower_bound=0.25, threshold=Fraction(threshold))
    np.testing.assert_allclose(trust.alpha, alpha, atol=1e-6)
    assert trust.k.tolist() == k
    assert trust.unreachable == 0


@given(teachers(), st.sampled_from(["0.6", "0.9"]))
@settings(max_examples=60, deadline=None)
def test_a_bound_of_one_over_k_is_each_rows_own(teacher, threshold):
    (val, pool), y = teacher
    noise = TeacherNoise(lower_bound="1/k", threshold=float(threshold)).fit(val, y)
    trust = noise.predict(pool)
    free, k = reference.alpha_and_k(val, y, pool, lower_bound=0.0, threshold=Fraction(threshold))
    assert trust.k.tolist() == k
    expected = [max(alpha, 1 / size) for alpha, size in zip(free, k, strict=True)]
    np.testing.assert_allclose(trust.alpha, expected, atol=1e-6)
    # A bound of 1/k that the curve itself has, and one that it is below, are both at the bound.
    at_bound = [alpha <= 1 / size + 1e-7 for alpha, size in zip(free, k, strict=True)]
    assert trust.share_at_lower_bound == pytest.approx(np.mean(at_bound))


def test_a_wide_pool_matches_one_curve_per_size():
    """Wide enough for the first look to be narrower than the cuts."""
    val, y = simplex(300, 40, seed=0, concentration=0.05)
    pool, _ = simplex(300, 20, seed=1, concentration=0.05)
    trust = TeacherNoise().fit(val, y).predict(pool)
    _, k = reference.alpha_and_k(val, y, pool, lower_bound=0.5, threshold=Fraction(9, 10))
    assert trust.k.tolist() == k
    assert len(set(k)) > 5


@pytest.mark.parametrize("metric", ["margin", "entropy"])
def test_a_planted_alpha_is_recovered(metric):
    val, y, _ = planted.stepwise(20_000, seed=0)
    pool, _, alpha = planted.stepwise(5_000, seed=1)
    trust = TeacherNoise(k=2, metric=metric).fit(val, y).predict(pool)
    assert np.abs(trust.alpha - alpha).mean() < 0.02
    for planted_alpha in (0.6, 0.8, 0.97):
        found = trust.alpha[alpha == planted_alpha]
        assert found.mean() == pytest.approx(planted_alpha, abs=0.01)


@pytest.mark.parametrize("metric", ["margin", "entropy"])
def test_a_planted_k_is_recovered(metric):
    val, y, _ = planted.with_shortlists(6_000, seed=0)
    pool, _, k = planted.with_shortlists(3_000, seed=1)
    trust = TeacherNoise(metric=metric).fit(val, y).predict(pool)
    for size in (2, 3, 6):
        assert (trust.k == k)[k == size].mean() > 0.97


def test_a_favourite_class_is_seen_only_per_class():
    val, y, _ = planted.with_a_favourite(6_000, seed=0)
    pool, _, predicted = planted.with_a_favourite(2_000, seed=1)
    pooled = TeacherNoise().fit(val, y).predict(pool)
    split = TeacherNoise(per_class=True).fit(val, y).predict(pool)
    for label, alpha in ((0, 0.95), (1, 0.60)):
        assert pooled.alpha[predicted == label].mean() == pytest.approx(0.775, abs=0.03)
        assert split.alpha[predicted == label].mean() == pytest.approx(alpha, abs=0.03)
    # When it says 0 its first choice is good enough; when it says 1 the second one is needed.
    assert (split.k[predicted == 0] == 2).mean() > 0.95
    assert (split.k[predicted == 1] == 2).mean() > 0.95


def test_cuts_are_per_class_too():
    val, y, predicted = planted.with_a_favourite(6_000, seed=0)
    # When it says 1 and is wrong, the truth is its last choice: only all classes hold it.
    last = np.argmin(val + 1e-9 * np.arange(val.shape[1]), axis=1)
    y = np.where((y != predicted) & (predicted == 1), last, y)
    pooled = TeacherNoise().fit(val, y).predict(val)
    split = TeacherNoise(per_class=True).fit(val, y).predict(val)
    assert (split.k[predicted == 0] == 2).mean() > 0.95
    assert (split.k[predicted == 1] > 2).mean() > 0.95
    assert (pooled.k[predicted == 0] == 2).mean() < 0.5


@pytest.mark.parametrize(("rows", "own"), [(49, False), (50, True)])
def test_a_class_needs_fifty_rows_of_v(rows, own):
    val, y, _ = planted.with_a_favourite(400, seed=0)
    rare = planted.with_margins(np.linspace(0, 0.9, rows), np.full(rows, 2), 4)
    val, y = np.vstack([val, rare]), np.append(y, np.full(rows, 3))
    noise = TeacherNoise(per_class=True).fit(val, y)
    assert set(noise.by_class_) == ({0, 1, 2} if own else {0, 1})
    pooled = TeacherNoise().fit(val, y).predict(rare)
    trust = noise.predict(rare)
    if own:
        assert noise.by_class_[2].n == rows
        assert (trust.alpha == 0.5).all()
    else:
        np.testing.assert_array_equal(trust.alpha, pooled.alpha)
        np.testing.assert_array_equal(trust.k, pooled.k)


def test_per_class_is_the_model_fitted_on_that_class_alone():
    val, y = simplex(5, 1_000, seed=0)
    pool, _ = simplex(5, 300, seed=1)
    trust = TeacherNoise(per_class=True).fit(val, y).predict(pool)
    for label in range(5):
        own, asked = val.argmax(1) == label, pool.argmax(1) == label
        assert own.sum() >= 50
        alone = TeacherNoise().fit(val[own], y[own]).predict(pool[asked])
        np.testing.assert_array_equal(trust.alpha[asked], alone.alpha)
        np.testing.assert_array_equal(trust.k[asked], alone.k)


def test_fixed_and_level_k_are_one_for_all_also_per_class():
    val, y = simplex(6, 500, seed=0)
    for per_class in (False, True):
        fixed = TeacherNoise(k=4, per_class=per_class).fit(val, y)
        level = TeacherNoise(k="level", level=0.8, per_class=per_class).fit(val, y)
        assert fixed.predict(val).k.tolist() == [4] * 500
        ranked = np.argsort(-val, axis=1, kind="stable")
        hits = (ranked == y[:, None]).cumsum(axis=1).mean(axis=0)
        expected = max(2, int(np.flatnonzero(hits >= 0.8)[0]) + 1)
        assert level.k_ == expected
        assert set(level.predict(val).k.tolist()) == {expected}
        assert level.cuts_ is None
        assert bool(level.by_class_) == per_class


def test_a_fixed_k_may_be_at_or_above_the_threshold():
    val, y = simplex(6, 200, seed=0)
    trust = TeacherNoise(lower_bound=0.95, k=2).fit(val, y).predict(val)
    assert trust.alpha.min() >= np.float32(0.95)


def test_equal_probabilities_rank_the_lower_class_first():
    val = np.full((40, 4), 0.25)
    noise = TeacherNoise(lower_bound=0.0, k="level", level=0.5)
    assert noise.fit(val, np.tile([0, 1], 20)).k_ == 2
    assert noise.alpha_curve_.values_.tolist() == [0.5]
    assert noise.fit(val, np.tile([2, 3], 20)).k_ == 3
    # Right 0 % of the time, yet never below 0.001.
    assert noise.predict(val).alpha.tolist() == [np.float32(1e-3)] * 40


def test_results_have_the_promised_types_and_ranges():
    val, y = simplex(5, 200, seed=0)
    trust = TeacherNoise().fit(val.tolist(), y.tolist()).predict(val)
    assert trust.alpha.dtype == np.float32
    assert trust.k.dtype == np.int64
    assert trust.alpha.shape == trust.k.shape == (200,)
    assert len(trust) == 200
    assert trust.alpha.min() >= 0.5
    assert trust.alpha.max() <= 1
    assert trust.k.min() >= 2
    assert trust.k.max() <= 5
    assert trust.share_at_lower_bound == (trust.alpha == 0.5).mean() > 0


def test_torch_in_torch_out():
    val, y = simplex(5, 200, seed=0)
    expected = TeacherNoise().fit(val, y).predict(val)
    probs = torch.tensor(val, requires_grad=True)
    trust = TeacherNoise().fit(probs, torch.tensor(y)).predict(probs)
    assert isinstance(trust.alpha, torch.Tensor)
    assert isinstance(trust.k, torch.Tensor)
    assert trust.alpha.dtype == torch.float32
    assert trust.k.dtype == torch.int64
    assert not trust.alpha.requires_grad
    assert trust.alpha.tolist() == expected.alpha.tolist()
    assert trust.k.tolist() == expected.k.tolist()
    assert trust.share_at_lower_bound == expected.share_at_lower_bound


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_results_stay_on_the_device():
    val, y = simplex(5, 200, seed=0)
    trust = TeacherNoise().fit(val, y).predict(torch.tensor(val, device="cuda"))
    assert trust.alpha.is_cuda
    assert trust.k.is_cuda


def test_an_empty_pool():
    val, y = simplex(5, 100, seed=0)
    trust = TeacherNoise(per_class=True).fit(val, y).predict(np.empty((0, 5)))
    assert trust.alpha.shape == trust.k.shape == (0,)
    assert trust.share_at_lower_bound == trust.unreachable_share == 0


def test_scikit_learn_conventions():
    noise = TeacherNoise(k=3, metric="entropy")
    assert repr(noise) == "TeacherNoise(k=3, metric='entropy')"
    val, y = simplex(5, 100, seed=0)
    assert noise.fit(val, y) is noise
    assert (noise.n_val_, noise.num_classes_, noise.k_) == (100, 5, 3)
    again = clone(noise)
    assert again.get_params() == noise.get_params()
    assert not hasattr(again, "alpha_curve_")


def test_what_was_learned_can_be_looked_at():
    val, y = simplex(5, 400, seed=0)
    noise = TeacherNoise(per_class=True).fit(val, y)
    assert (np.diff(noise.alpha_curve_.knots_) > 0).all()
    assert (np.diff(noise.alpha_curve_.values_) >= 0).all()
    assert 1 <= len(noise.cuts_) <= 4
    assert sum(curves.n for curves in noise.by_class_.values()) == noise.n_val_ == 400
    assert all(len(c.alpha_curve.knots_) <= c.n for c in noise.by_class_.values())


def test_the_repr_of_trust_is_one_line():
    val, y = simplex(5, 400, seed=0)
    trust = TeacherNoise().fit(val, y).predict(val)
    mean, high = trust.alpha.mean(), trust.alpha.max()
    assert repr(trust) == (
        f"Trust(rows=400, alpha=0.500 to {high:.3f} (mean {mean:.3f}), "
        f"k=2 to {trust.k.max()} (median {np.median(trust.k):g}))"
    )
    assert repr(TeacherNoise().fit(val, y).predict(torch.tensor(val))) == repr(trust)
    assert repr(TeacherNoise().fit(val, y).predict(val[:0])) == "Trust(rows=0)"
