import numpy as np
import pytest
import torch

from noisyteacher.core.errors import InputError, NoisyTeacherWarning
from noisyteacher.labels import TeacherLabels
from noisyteacher.noise import TeacherNoise

PROBS = np.array([[0.7, 0.2, 0.1], [0.2, 0.5, 0.3], [0.1, 0.1, 0.8], [0.4, 0.3, 0.3]])
Y = np.array([0, 1, 2, 1])


def with_entry(value):
    probs = PROBS.copy()
    probs[2, 1] = value
    return probs


BAD_PROBS = [
    (with_entry(np.nan), "probabilities row 2 .* NaN"),
    (with_entry(np.inf), "probabilities row 2 .* infinity"),
    (with_entry(-0.1), r"probabilities row 2 holds a negative probability, -0\.1"),
    (np.array([[0.5, 0.6, -0.1]] * 4), r"probabilities row 0 holds a negative probability, -0\.1"),
    (with_entry(0.2), r"probabilities row 2 sums to 1\.1"),
    (PROBS * 2, "probabilities row 0 sums to 2"),
    (PROBS[0], r"shape \(n, L\), got \(3,\)"),
    (PROBS[None], r"shape \(n, L\), got \(1, 4, 3\)"),
    (np.ones((4, 1)), "at least 2 classes"),
    (np.array([["a", "b"]] * 4), "real numbers"),
]


@pytest.mark.parametrize(("probs", "match"), BAD_PROBS)
def test_bad_probabilities_at_fit_and_predict(probs, match):
    with pytest.raises(InputError, match=match):
        TeacherNoise().fit(probs, Y)
    noise = TeacherNoise().fit(PROBS, Y)
    with pytest.raises(InputError, match=match):
        noise.predict(probs)


@pytest.mark.parametrize(("probs", "match"), BAD_PROBS[:-1])
def test_bad_tensors(probs, match):
    with pytest.raises(InputError, match=match):
        TeacherNoise().fit(torch.tensor(probs), Y)


@pytest.mark.parametrize(
    ("y", "match"),
    [
        ([0, 1, 2], r"shape \(4,\).*\(3,\)"),
        ([[0], [1], [2], [1]], r"one class per row, but has shape \(4, 1\)"),
        ([0, 1, 2, 3], "0 to 2, but row 3 is 3"),
        ([0, -1, 2, 1], "0 to 2, but row 1 is -1"),
        ([0.0, 1.0, 2.0, 1.0], "whole numbers, not float"),
    ],
)
@pytest.mark.parametrize("kind", [list, np.array, torch.tensor])
def test_bad_truth(y, match, kind):
    with pytest.raises(InputError, match=match):
        TeacherNoise().fit(PROBS, kind(y))


@pytest.mark.parametrize(("rows", "alpha"), [(4, [1 / 3, 1 / 3, 1 / 3, 0.25]), (1, [0.25] * 4)])
@pytest.mark.parametrize("kind", [list, np.array, torch.tensor])
def test_a_v_of_one_class_is_a_warning(rows, alpha, kind):
    noise = TeacherNoise(lower_bound=0.25)
    with pytest.warns(NoisyTeacherWarning, match="are of class 1, so"):
        noise.fit(PROBS[:rows], kind([1] * rows))
    assert noise.n_val_ == rows
    assert noise.predict(PROBS).alpha.tolist() == pytest.approx(alpha)
    labels = TeacherLabels.from_probs(range(4), PROBS, ("cat", "dog", "eel"))
    with pytest.warns(NoisyTeacherWarning, match="are of class 'dog', so"):
        noise.fit(labels, ["dog"] * 4)


def test_names_where_the_classes_have_none():
    with pytest.raises(InputError, match=r"class names such as 'cat', .* classes have no names"):
        TeacherNoise().fit(PROBS, ["cat", "dog", "eel", "dog"])
    labels = TeacherLabels.from_probs(range(4), PROBS, ("cat", "dog", "eel"))
    with pytest.raises(InputError, match="y has the labels 'yak', which are not among the"):
        TeacherNoise().fit(labels, ["cat", "dog", "yak", "dog"])


def test_ragged_lists():
    with pytest.raises(InputError, match="one length"):
        TeacherNoise().fit([[0.5, 0.5], [1.0]], [0, 1])
    with pytest.raises(InputError, match="one class per row, but its rows differ"):
        TeacherNoise().fit(PROBS, [0, [1, 2], 1, 1])


def test_an_empty_v():
    with pytest.raises(InputError, match="V is empty"):
        TeacherNoise().fit(np.empty((0, 3)), np.empty(0, dtype=int))


@pytest.mark.parametrize(
    ("settings", "match"),
    [
        ({"lower_bound": 0.9}, r"0\.9 is not below 0\.9"),
        ({"lower_bound": 0.95, "threshold": 0.9}, "not below"),
        ({"lower_bound": -0.1}, "lower_bound .* -0.1"),
        ({"lower_bound": "1/L"}, "lower_bound must be a number from 0 to 1 or \"1/k\", .* '1/L'"),
        ({"lower_bound": float("nan")}, "lower_bound .* nan"),
        ({"threshold": 1.1}, "threshold .* 1.1"),
        ({"level": 60, "k": "level"}, "level .* 60"),
        ({"metric": "variance"}, "metric .* 'variance'"),
        ({"k": "all"}, "'all'"),
        ({"k": 1}, "2 to L, but it is 1"),
        ({"k": 4}, "2 to 3, but it is 4"),
    ],
)
def test_bad_settings(settings, match):
    noise = TeacherNoise(**settings)
    with pytest.raises(InputError, match=match):
        noise.fit(PROBS, Y)


@pytest.mark.parametrize("settings", [{"lower_bound": "high"}, {"k": 2.5}, {"per_class": "yes"}])
def test_settings_of_a_wrong_type_that_came_in_late(settings):
    noise = TeacherNoise().set_params(**settings)
    with pytest.raises(InputError, match=next(iter(settings))):
        noise.fit(PROBS, Y)


def test_predict_before_fit():
    with pytest.raises(InputError, match="not fitted"):
        TeacherNoise().predict(PROBS)


def test_another_number_of_classes():
    noise = TeacherNoise().fit(PROBS, Y)
    with pytest.raises(InputError, match=r"3 classes.* 2"):
        noise.predict(np.full((2, 2), 0.5))


def test_a_bad_row_is_named_by_its_place_in_the_whole_pool():
    pool = np.tile(PROBS.astype(np.float32), (200_000, 1))
    pool[-1, 0] = 2.0
    noise = TeacherNoise().fit(PROBS, Y)
    with pytest.raises(InputError, match="probabilities row 799999 "):
        noise.predict(pool)


def test_a_fit_that_fails_leaves_what_was_learned():
    noise = TeacherNoise(k=3).fit(PROBS, Y)
    before = noise.predict(PROBS)
    with pytest.raises(InputError, match="2 to 2"):
        noise.fit(np.array([[0.6, 0.4], [0.3, 0.7]]), [0, 1])
    np.testing.assert_array_equal(noise.predict(PROBS).alpha, before.alpha)
