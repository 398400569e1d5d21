"""Bad input gets one clear sentence that names what is wrong."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest
import torch
from label_helpers import random_probs

from noisyteacher.core.errors import InputError, MissingIdsError, NoisyTeacherWarning
from noisyteacher.labels import TeacherLabels

GOOD = [[0.5, 0.5, 0.0], [0.1, 0.2, 0.7]]


def make(ids=("a", "b"), probs=GOOD, **keywords):
    return TeacherLabels.from_probs(ids, probs, **keywords)


@pytest.mark.parametrize(
    ("probs", "message"),
    [
        ([[0.5, 0.5, 0.0], [math.nan, 0.5, 0.5]], r"probs row 1 \(id 'b'\) holds NaN or infinity"),
        ([[math.inf, 0.5, 0.5], [1, 0, 0]], r"probs row 0 \(id 'a'\) holds NaN or infinity"),
        ([[0.5, 0.5, 0.0], [1.5, -0.5, 0]], r"row 1 \(id 'b'\) holds a negative .*-0\.5"),
        ([[0.5, 0.4, 0.0], [1, 0, 0]], r"row 0 \(id 'a'\) sums to 0\.9 instead of 1"),
        ([[0.5, 0.5, 0.0], [1, 0, 0.03]], r"row 1 \(id 'b'\) sums to 1\.03"),
        ([[50, 50, 0], [70, 20, 10]], r"row 0 .* sums to 100 .*percentages are to be divided"),
        ([[0.5, 0.5, 0.0]], r"probs must have shape \(2, L\), got \(1, 3\)"),
        ([0.5, 0.5], r"probs must have shape \(2, L\), got \(2,\)"),
        (np.zeros((2, 3, 1)), r"got \(2, 3, 1\)"),
        ([[1.0], [1.0]], "At least 2 classes"),
        (np.zeros((2, 0)), "At least 2 classes"),
        ([[0.5, 0.5], [1.0]], "rows have one length"),
        ([["x", "y"], ["z", "w"]], "must be real numbers"),
        (np.ones((2, 3), complex), "must be real numbers"),
    ],
)
@pytest.mark.parametrize("library", ["numpy", "torch"])
def test_bad_probabilities(probs, message, library):
    if library == "torch":
        try:
            probs = torch.as_tensor(probs)
        except (TypeError, ValueError):
            pytest.skip("torch has no such tensor")
    with pytest.raises(InputError, match=message):
        make(probs=probs)


def test_the_row_is_named_wherever_it_is(monkeypatch):
    monkeypatch.setattr("noisyteacher.labels.topk._BLOCK_VALUES", 12)
    probs = random_probs(30, 3)
    probs[23, 1] = math.nan
    with pytest.raises(InputError, match=r"probs row 23 \(id 123\)"):
        TeacherLabels.from_probs(range(100, 130), probs)


def test_rounded_sums_pass():
    probs = random_probs(200, 1000)
    assert len(TeacherLabels.from_probs(range(200), probs.astype(np.float16), k=3)) == 200
    assert len(TeacherLabels.from_probs([0], torch.tensor([[0.996, 0.0]]).bfloat16())) == 1
    # Three classes, three decimals and two: divided by their sum, they are probabilities again.
    for rounded in ([0.333, 0.333, 0.333], [0.33, 0.33, 0.33]):
        np.testing.assert_allclose(TeacherLabels.from_probs([0], [rounded]).probs, 1 / 3, atol=1e-3)


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        (["a", "a"], "unique; repeated: 'a'"),
        ([3, 3], "unique; repeated: 3"),
        (torch.tensor([3, 3]), "unique; repeated: 3"),
        (["a", 1], "all strings or all integers, got a mix"),
        ([True, False], "all strings or all integers, got True"),
        ([1.0, 2.0], r"all strings or all integers, got 1\.0"),
        (np.array([1.0, 2.0]), "all strings or all integers"),
        ([None, "a"], "all strings or all integers, got None"),
        ([b"a", b"b"], "all strings or all integers, got b'a'"),
        ("ab", "sequence of strings or integers, got 'ab'"),
        (3, "sequence of strings or integers, got 3"),
        (None, "sequence of strings or integers, got None"),
        ([["a"], ["b"]], "all strings or all integers"),
        (np.array([[1, 2]]), "one-dimensional"),
        ([2**63, 1], "signed 64-bit"),
        (np.array([2**63, 1], np.uint64), "signed 64-bit"),
        (["a\0", "b"], "NUL"),
        (["\ud800", "b"], "valid Unicode"),
        (np.array(["\ud800", "b"]), "valid Unicode"),
    ],
)
def test_bad_ids(ids, message):
    with pytest.raises(InputError, match=message):
        make(ids=ids)


def test_repeated_ids_are_named_a_few_at_a_time():
    probs = np.full((40, 2), 0.5)
    with pytest.raises(InputError, match="repeated: 0, 1, 2, 3, 4 and 15 more"):
        TeacherLabels.from_probs(list(range(20)) * 2, probs)


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"classes": ["x", "y"]}, "2 classes were named for 3 columns"),
        ({"classes": ["x", "y", "x"]}, "unique; repeated: 'x'"),
        ({"classes": ["x", "y", 3]}, "strings, got 3"),
        ({"classes": "xyz"}, "sequence of strings, got 'xyz'"),
        ({"classes": ["x", "y", "\ud800"]}, "valid Unicode"),
        ({"k": 0}, "between 1 and 3, got 0"),
        ({"k": 4}, "between 1 and 3, got 4"),
        ({"k": 2.0}, r"between 1 and 3, got 2\.0"),
        ({"k": True}, "between 1 and 3, got True"),
        ({"missing": [0.5]}, r"missing must have shape \(2,\), got \(1,\)"),
        ({"missing": [0.5, 1.5]}, r"missing row 1 \(id 'b'\) is 1\.5"),
        ({"missing": [math.nan, 0]}, r"missing row 0 \(id 'a'\) is nan"),
        ({"temperature": 0.0}, r"temperature must be a positive number, got 0\.0"),
        ({"temperature": math.inf}, "temperature must be a positive number, got inf"),
        ({"temperature": "hot"}, "temperature must be a positive number, got 'hot'"),
        ({"teacher": "\ud800"}, "valid Unicode"),
        ({"extras": {"embedding": np.zeros((3, 4))}}, r"'embedding'\] must have shape \(2, d\)"),
        ({"extras": {"embedding": np.zeros(2)}}, r"'embedding'\] must have shape \(2, d\)"),
        ({"extras": {"view_mean": np.zeros((2, 3))}}, r"must have shape \(2, 2, 3\), got \(2, 3\)"),
        ({"extras": {"view_std": torch.zeros(2, 2, 4)}}, r"got \(2, 2, 4\)"),
        ({"extras": {"other": np.zeros(3)}}, "for 2 rows"),
        ({"extras": {"other": np.float32(3)}}, "for 2 rows"),
        ({"extras": {"other": np.zeros((2, 0))}}, "for 2 rows"),
        ({"extras": {"other": [[1.0], [math.nan]]}}, r"row 1 \(id 'b'\) holds NaN or infinity"),
        ({"extras": {"other": [True, False]}}, "integers or floats"),
        ({"extras": {"other": ["x", "y"]}}, "real numbers"),
        ({"extras": {"tail": [1.0, 2.0]}}, "'tail' cannot be the name"),
        ({"extras": {"a.b": [1.0, 2.0]}}, "'a.b' cannot be the name"),
    ],
)
def test_bad_keywords(keywords, message):
    with pytest.raises(InputError, match=message):
        make(**keywords)


@pytest.mark.parametrize(
    ("logits", "message"),
    [
        ([[1.0, math.nan], [0.0, 0.0]], r"logits row 0 \(id 'a'\) holds NaN or \+infinity"),
        ([[1.0, 2.0], [math.inf, 0.0]], r"logits row 1 \(id 'b'\) holds NaN or \+infinity"),
        ([[1.0, 2.0], [-math.inf, -math.inf]], r"logits row 1 \(id 'b'\) has no finite logit"),
        ([1.0, 2.0], r"logits must have shape \(2, L\)"),
    ],
)
def test_bad_logits(logits, message):
    with pytest.raises(InputError, match=message):
        TeacherLabels.from_logits(["a", "b"], logits)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"index": [[0, 3], [1, 4]]}, r"index row 1 \(id 'b'\) names a class outside 0 to 3"),
        ({"index": [[0, -1], [1, 2]]}, r"index row 0 \(id 'a'\) names a class outside"),
        ({"index": [[0, 1], [2, 2]]}, r"index row 1 \(id 'b'\) names a class twice"),
        ({"index": [[0.0, 1.0], [1.0, 2.0]]}, "index must be integers"),
        ({"index": [0, 1]}, r"index must have shape \(2, 2\)"),
        ({"prob": [[0.5, 0.4], [0.5, 0.6]]}, r"prob and tail of row 1 \(id 'b'\) sums to 1\.2"),
        ({"prob": [[0.5, math.nan], [0.5, 0.4]]}, "holds NaN"),
        ({"prob": [[1.0, -0.1], [0.5, 0.4]]}, "holds a negative probability"),
        ({"prob": [0.5, 0.4]}, r"prob must have shape \(2, k\)"),
        ({"prob": np.zeros((2, 5)), "index": np.zeros((2, 5), int)}, "between 1 and 4 columns"),
        ({"tail": [0.1, -0.1]}, r"tail row 1 \(id 'b'\) is -0\.1"),
        ({"tail": [[0.1], [0.1]]}, r"tail must have shape \(2,\)"),
        # Two more classes cannot hold .5 with .1 or less each.
        ({"prob": [[0.5, 0.4], [0.4, 0.1]], "tail": [0.1, 0.5]}, r"tail row 1 \(id 'b'\) is 0\.5"),
    ],
)
def test_bad_top_k(changed, message):
    good = {"index": [[0, 1], [1, 3]], "prob": [[0.5, 0.4], [0.5, 0.4]], "tail": [0.1, 0.1]}
    TeacherLabels.from_topk(["a", "b"], **good, classes=list("wxyz"))
    with pytest.raises(InputError, match=message):
        TeacherLabels.from_topk(["a", "b"], **(good | changed), classes=list("wxyz"))


def test_missing_ids_are_named():
    labels = make()
    with pytest.raises(MissingIdsError, match=r"no teacher labels for ids 'c', 'd'\.") as error:
        labels.take(["a", "c", "d", "c"])
    assert isinstance(error.value, KeyError)
    assert isinstance(error.value, ValueError)
    with pytest.raises(MissingIdsError, match="ids 0, 1; the ids here are strings"):
        labels.take([0, 1])
    numbered = make(ids=[10, 5])
    with pytest.raises(MissingIdsError, match=r"ids 11, 4\."):
        numbered.take([5, 11, 10, 4])
    with pytest.raises(MissingIdsError, match="the ids here are integers"):
        numbered.take(["10"])


def test_bad_chunk_size():
    with pytest.raises(InputError, match="at least 1, got 0"):
        make().chunks(0)


@pytest.mark.parametrize("kind", [np.asarray, torch.tensor])
def test_probabilities_given_as_logits_are_noticed(kind):
    probs = np.random.default_rng(0).dirichlet([1, 1, 1], 20)
    with pytest.warns(NoisyTeacherWarning, match="look like probabilities"):
        TeacherLabels.from_logits(range(20), kind(probs))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        TeacherLabels.from_logits(range(20), kind(np.log(probs)))
        TeacherLabels.from_logits(range(20), kind(2 * probs))


@pytest.mark.parametrize("dtype", [">f4", np.longdouble])
def test_logits_of_types_that_torch_does_not_have(dtype):
    logits = np.array([[1, 0], [0, 2]], dtype)
    labels = TeacherLabels.from_logits(["a", "b"], logits)
    assert labels.topk_index.tolist() == [[0, 1], [1, 0]]
