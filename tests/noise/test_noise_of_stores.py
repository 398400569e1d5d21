from fractions import Fraction

import numpy as np
import planted_teachers as planted
import pytest
import reference_noise as reference

from noisyteacher.core.errors import InputError, NoisyTeacherWarning
from noisyteacher.labels import TeacherLabels
from noisyteacher.noise import TeacherNoise


def store(probs, k):
    return TeacherLabels.from_probs(range(len(probs)), probs, k=k)


@pytest.fixture
def never_dense(monkeypatch):
    def refuse(labels):
        raise AssertionError("the labels were made dense")

    monkeypatch.setattr(TeacherLabels, "probs", property(refuse))


@pytest.mark.usefixtures("never_dense")
def test_shortlists_within_the_store_are_found_without_making_it_dense():
    val, y, _ = planted.with_shortlists(6_000, seed=0)
    pool, _, k = planted.with_shortlists(3_000, seed=1)
    noise = TeacherNoise().fit(store(val, 7), y)
    trust = noise.predict(store(pool, 7))
    for size in (2, 3, 6):
        assert (trust.k == k)[k == size].mean() > 0.97
    assert isinstance(trust.alpha, np.ndarray)


@pytest.mark.parametrize("stored", [2, 3, 5])
def test_k_within_a_store_matches_one_curve_per_size(stored):
    rng = np.random.default_rng(stored)
    val = rng.dirichlet(np.full(7, 2.0), size=80)
    y = (val.cumsum(axis=1) > rng.random((80, 1))).argmax(axis=1)
    labels = store(val, stored)
    noise = TeacherNoise(threshold=0.8).fit(labels, y)
    with pytest.warns(NoisyTeacherWarning):
        trust = noise.predict(labels)
    in_top = np.cumsum(labels.topk_index == y[:, None], axis=1).astype(bool)
    margins = np.array([reference.margins(row) for row in labels.topk_prob.tolist()])
    curves = [
        reference.step_fit(margins[:, k].tolist(), in_top[:, k].tolist()) for k in range(stored - 1)
    ]
    for row, k in zip(margins, trust.k, strict=True):
        at = [reference.step_value(*c, m) for c, m in zip(curves, row, strict=True)]
        reached = [size for size, alpha in enumerate(at, start=1) if alpha >= Fraction(4, 5)]
        assert k == (max(2, reached[0]) if reached else 7)
    assert trust.unreachable == (trust.k == 7).sum()


@pytest.mark.usefixtures("never_dense")
@pytest.mark.parametrize("metric", ["margin", "entropy"])
def test_shortlists_beyond_the_store_are_counted_and_get_all_classes(metric):
    val, y, _ = planted.with_shortlists(6_000, seed=0)
    pool, _, k = planted.with_shortlists(3_000, seed=1)
    noise = TeacherNoise(metric=metric).fit(store(val, 5), y)
    assert len(noise.cuts_) == 4
    with pytest.warns(NoisyTeacherWarning, match=r"3\d\.\d%"):
        trust = noise.predict(store(pool, 5))
    assert (trust.k == 8)[k == 6].mean() > 0.97
    assert (trust.k == k)[k < 6].mean() > 0.97
    assert trust.unreachable == (trust.k == 8).sum()
    assert trust.unreachable_share == trust.unreachable / 3_000


def test_a_dense_pool_cannot_go_beyond_the_cuts_of_a_sparse_v():
    val, y, _ = planted.with_shortlists(2_000, seed=0)
    noise = TeacherNoise().fit(store(val, 5), y)
    with pytest.warns(NoisyTeacherWarning, match="stored"):
        trust = noise.predict(val)
    assert trust.unreachable == (trust.k == 8).sum() > 500


def test_a_sparse_pool_under_cuts_of_a_dense_v():
    val, y, _ = planted.with_shortlists(2_000, seed=0)
    noise = TeacherNoise().fit(val, y)
    whole = noise.predict(store(val, 8))
    assert whole.unreachable == 0
    with pytest.warns(NoisyTeacherWarning):
        cut_off = noise.predict(store(val, 4))
    reached = cut_off.k < 8
    # Rounding of the stored values moves a few rows.
    assert (cut_off.k == whole.k)[reached].mean() > 0.97
    assert (whole.k > 3)[~reached].mean() > 0.97


@pytest.mark.parametrize("per_class", [False, True])
def test_reading_in_blocks_changes_nothing(monkeypatch, per_class):
    val, y, _ = planted.with_shortlists(1_000, seed=0)
    labels = store(val, 8)
    whole = TeacherNoise(per_class=per_class).fit(labels, y).predict(labels)
    monkeypatch.setattr("noisyteacher.noise.covariates._BLOCK_BYTES", 8 * 8 * 77)
    parts = TeacherNoise(per_class=per_class).fit(labels, y).predict(labels)
    np.testing.assert_array_equal(whole.alpha, parts.alpha)
    np.testing.assert_array_equal(whole.k, parts.k)


def test_a_truth_that_is_not_stored_counts_as_wrong_at_every_size():
    probs = planted.with_margins(np.linspace(0.1, 0.9, 60), np.zeros(60, int), 6)
    y = np.full(60, 5)
    y[0] = 4
    noise = TeacherNoise(lower_bound=0.0).fit(store(probs, 3), y)
    assert noise.cuts_.tolist() == [np.inf, np.inf]
    assert noise.alpha_curve_.values_.max() == np.float64(1e-3)


def test_a_fixed_k_that_the_store_cannot_serve():
    val, y, _ = planted.with_shortlists(200, seed=0)
    with pytest.raises(InputError, match=r"store 4 of 8.*k = 5"):
        TeacherNoise(k=5).fit(store(val, 4), y)
    noise = TeacherNoise(k=5).fit(val, y)
    with pytest.raises(InputError, match=r"store 4 of 8.*k = 5"):
        noise.predict(store(val, 4))
    for served in (4, 8):
        trust = TeacherNoise(k=served).fit(store(val, 4), y).predict(store(val, 4))
        assert set(trust.k.tolist()) == {served}


def test_a_level_beyond_the_store_means_all_classes():
    val, y, _ = planted.with_shortlists(600, seed=0)
    with pytest.warns(NoisyTeacherWarning, match=r"top-3 accuracy.*0\.99"):
        noise = TeacherNoise(k="level", level=0.99).fit(store(val, 3), y)
    assert noise.k_ == 8
    assert set(noise.predict(store(val, 3)).k.tolist()) == {8}


def test_one_stored_probability_is_not_enough():
    val, y, _ = planted.with_shortlists(60, seed=0)
    with pytest.raises(InputError, match="at least 2"):
        TeacherNoise().fit(store(val, 1), y)
    noise = TeacherNoise().fit(val, y)
    with pytest.raises(InputError, match="at least 2"):
        noise.predict(store(val, 1))


@pytest.mark.usefixtures("never_dense")
def test_the_curves_of_a_class_are_those_of_the_rows_whose_top_class_it_is():
    rng = np.random.default_rng(0)
    val = rng.dirichlet(np.ones(5), size=900)
    top = val.argmax(axis=1)
    # Of each class the teacher is right in another share of the rows.
    y = np.where(rng.random(900) < 0.95 - 0.1 * top, top, (top + 1) % 5)
    noise = TeacherNoise(k=3, per_class=True).fit(store(val, 3), y)
    trust = noise.predict(store(val, 3))
    assert len(noise.by_class_) == 5
    for label in range(5):
        mine = top == label
        alone = TeacherNoise(k=3).fit(store(val[mine], 3), y[mine]).predict(store(val[mine], 3))
        np.testing.assert_array_equal(trust.alpha[mine], alone.alpha)


def test_curves_per_class_belong_to_the_classes_they_were_fitted_on(tmp_path) -> None:
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 300)
    probs = rng.dirichlet([1, 1], 300)
    noise = TeacherNoise(per_class=True).fit(
        TeacherLabels.from_probs(np.arange(300), probs, ["a", "b"]), y
    )
    noise.save(tmp_path / "noise.json")
    turned = TeacherLabels.from_probs(np.arange(300), probs[:, ::-1], ["b", "a"])
    for known in (noise, TeacherNoise.load(tmp_path / "noise.json")):
        with pytest.raises(InputError, match="another order: 'a', 'b', not 'b', 'a'"):
            known.predict(turned)


@pytest.mark.parametrize("names", [("cat", "dog", "eel", "fox"), ("3", "2", "1", "0")])
def test_names_and_numbers_of_classes_mean_the_same(names):
    val, y, _ = planted.stepwise(400, seed=0)
    labels = TeacherLabels.from_probs(range(400), val, names)
    by_number = TeacherNoise(per_class=True).fit(labels, y)
    for truth in ([names[c] for c in y], np.array(names)[y], np.array(names, object)[y]):
        by_name = TeacherNoise(per_class=True).fit(labels, truth)
        np.testing.assert_array_equal(
            by_name.predict(labels).alpha, by_number.predict(labels).alpha
        )
        np.testing.assert_array_equal(by_name.cuts_, by_number.cuts_)
