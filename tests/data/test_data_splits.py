"""The split into A, V, S and U."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from noisyteacher.core.errors import InputError, MissingIdsError
from noisyteacher.data import Split, split, split_by_ids


@settings(max_examples=60, deadline=None)
@given(
    n=st.integers(20, 200),
    sizes=st.tuples(st.integers(1, 6), st.integers(0, 6), st.integers(0, 6)),
    seed=st.integers(0, 5),
    trial=st.integers(0, 5),
    stratified=st.booleans(),
)
def test_the_sets_are_disjoint_and_cover_everything(
    n: int, sizes: tuple[int, int, int], seed: int, trial: int, stratified: bool
) -> None:
    y = np.arange(n) % 4
    made = split(y, *sizes, seed=seed, trial=trial, stratified=stratified)
    assert (len(made.gold), len(made.val), len(made.selection)) == sizes
    together = np.concatenate([made.gold, made.val, made.selection, made.pool])
    assert sorted(together.tolist()) == list(range(n))
    assert all(part.dtype == np.int64 for part in (made.gold, made.val, made.selection, made.pool))
    assert made.drawn == {
        "seed": seed,
        "trial": trial,
        "stratified": stratified,
        "stratified_held_out": False,
    }
    again = split(y, *sizes, seed=seed, trial=trial, stratified=stratified)
    for name in ("gold", "val", "selection", "pool"):
        np.testing.assert_array_equal(getattr(made, name), getattr(again, name))


@pytest.mark.parametrize("stratified", [False, True])
def test_gold_is_fixed_and_nested_while_the_rest_is_redrawn(stratified: bool) -> None:
    y = np.random.default_rng(0).integers(0, 10, 2000)

    def draw(labeled: int, trial: int = 0, seed: int = 0) -> Split:
        return split(y, labeled, 50, 50, seed=seed, trial=trial, stratified=stratified)

    one, two = draw(100, trial=0), draw(100, trial=1)
    np.testing.assert_array_equal(one.gold, two.gold)
    for name in ("val", "selection", "pool"):
        assert set(getattr(one, name)) != set(getattr(two, name))
    assert set(one.gold) < set(draw(300).gold)
    assert set(one.gold) != set(draw(100, seed=1).gold)


def test_stratified_gold_keeps_the_shares_of_the_classes() -> None:
    balanced = np.random.default_rng(1).permutation(np.repeat(np.arange(10), 100))
    gold = split(balanced, 50, 10, 10, stratified=True).gold
    assert np.bincount(balanced[gold]).tolist() == [5] * 10
    skewed = np.random.default_rng(2).permutation(np.repeat([0, 1, 2], [700, 200, 100]))
    counts = np.bincount(skewed[split(skewed, 100, 10, 10, stratified=True).gold])
    np.testing.assert_allclose(counts, [70, 20, 10], atol=1)


def test_stratified_v_and_s_keep_the_shares_of_the_classes() -> None:
    skewed = np.random.default_rng(2).permutation(np.repeat([0, 1, 2], [700, 240, 60]))
    for trial in range(50):
        made = split(skewed, 200, 100, 40, trial=trial, stratified=True, stratified_held_out=True)
        held_out = [np.bincount(skewed[part], minlength=3) for part in (made.val, made.selection)]
        np.testing.assert_allclose(held_out, [[70, 24, 6], [28, 9.6, 2.4]], atol=1.5)


def test_stratified_draws_are_even_for_rare_classes_too() -> None:
    """Each row that is not gold lands in S about equally often, the only one of its class too."""
    y, hits = np.repeat([0, 1, 2, 3, 4], [50, 6, 2, 1, 1]), np.zeros(60)
    for trial in range(1000):
        hits[split(y, 20, 28, 12, trial=trial, stratified_held_out=True).selection] += 1
    free = np.setdiff1d(np.arange(60), split(y, 20, 28, 12).gold)
    assert abs(hits[free] - 300).max() < 6 * np.sqrt(300 * 0.7)


def test_draws_of_published_rows_stay_as_they_were() -> None:
    made = split(np.arange(40) % 4, 8, 6, 6, seed=1, trial=2, stratified=True)
    assert made.gold.tolist() == [4, 5, 15, 22, 24, 31, 33, 38]
    assert made.val.tolist() == [12, 25, 27, 32, 34, 37]
    assert made.selection.tolist() == [3, 10, 17, 18, 20, 23]


def test_a_share_of_the_data() -> None:
    assert len(split(1000, 0.04, 10, 10).gold) == 40
    assert len(split(np.int64(1000), np.int32(40), 10, 10).gold) == 40
    assert len(split(162_770, 0.03).gold) == 4883  # the paper's CelebA count


def test_rows_without_a_label_go_to_the_pool() -> None:
    y = np.where(np.arange(100) < 30, 1, -1)
    made = split(y, 10, 10, 10)
    assert set(range(30, 100)) == set(made.pool.tolist())
    with pytest.raises(InputError, match="need 31 labeled examples, and there are 30"):
        split(y, 11, 10, 10)


def test_draws_are_even() -> None:
    """Over many trials each example that is not gold lands in V about equally often."""
    hits = np.zeros(60)
    for trial in range(600):
        hits[split(60, 20, 10, 10, trial=trial).val] += 1
    free = np.setdiff1d(np.arange(60), split(60, 20, 10, 10).gold)
    assert hits.sum() == 6000
    assert abs(hits[free] - 150).max() < 5 * np.sqrt(150)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"y": 100, "labeled": 50, "val": 40, "selection": 20}, "need 110 labeled examples"),
        ({"y": 10_000, "labeled": 1.0}, "between 0 and 1, not 1.0"),
        ({"y": 10_000, "labeled": -0.5}, "between 0 and 1"),
        ({"y": 10_000, "labeled": 0}, "at least one example"),
        ({"y": 10_000, "labeled": True}, "not True"),
        ({"y": 10_000, "labeled": "many"}, "not 'many'"),
        ({"y": 10_000, "labeled": 5, "val": -1}, "val must be"),
        ({"y": 10_000, "labeled": 5, "selection": 1.5}, "selection must be"),
        ({"y": 10_000, "labeled": 5, "seed": -1}, "seed must be"),
        ({"y": 10_000, "labeled": 5, "stratified": True}, "needs the labels"),
        ({"y": np.zeros((10, 2), int), "labeled": 5}, r"shape \(10, 2\)"),
        ({"y": np.zeros(10), "labeled": 5}, "float64"),
    ],
)
def test_bad_requests(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        split(**arguments)  # type: ignore[arg-type]


def test_check_names_what_is_wrong() -> None:
    a, b, none = np.array([0, 1]), np.array([1, 2]), np.empty(0, np.int64)
    with pytest.raises(InputError, match="gold and val share 1 examples, at positions 1"):
        Split(a, b, none, none).check(5)
    with pytest.raises(InputError, match=r"pool has positions outside 0\.\.4"):
        Split(a, none, none, np.array([5])).check(5)
    with pytest.raises(InputError, match="selection holds some examples more than once"):
        Split(a, none, np.array([3, 3]), none).check(5)
    Split(a, none, np.array([3]), np.array([2])).check(5)


def test_a_split_of_the_users_own() -> None:
    ids = np.array(["a", "b", "c", "d", "e"])
    made = split_by_ids(ids, np.array(["d"]), np.array(["a"]), np.array(["e"]))
    assert made.gold.tolist() == [3]
    assert made.pool.tolist() == [1, 2]
    assert split_by_ids(ids, ["d"], ["a"], pool=["b"]).pool.tolist() == [1]
    with pytest.raises(InputError, match="gold and val share 1 ids: 'd'"):
        split_by_ids(ids, np.array(["d", "b"]), np.array(["a", "d"]))
    with pytest.raises(InputError, match="val and pool share 1 ids: 'a'"):
        split_by_ids(ids, ["d"], ["a"], pool=["a", "b"])
    with pytest.raises(MissingIdsError, match="'z'"):
        split_by_ids(ids, ["z"], ["a"])
    with pytest.raises(InputError, match="more than once"):
        split_by_ids(ids, ["d", "d"], ["a"])
