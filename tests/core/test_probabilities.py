"""One rule for probabilities: whatever takes them accepts and refuses the same arrays."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import noisyteacher as nt
from noisyteacher.core.errors import InputError
from noisyteacher.core.probabilities import SUM_TOLERANCE, check_probabilities
from noisyteacher.noise import confidence

Y = [0, 1, 2, 1]
GOOD = np.array([[0.7, 0.2, 0.1], [0.2, 0.5, 0.3], [0.1, 0.1, 0.8], [0.4, 0.3, 0.3]])
NOISE = nt.TeacherNoise().fit(GOOD, Y)


def classify(probs):
    x = np.arange(24.0).reshape(12, 2)
    y, good = np.tile(Y, 3), np.tile(GOOD, (3, 1))  # at least 10 rows measure the teacher
    student = nt.SLaMClassifier(nt.models.MLP, steps=1, random_state=0)
    student.fit(x, y, X_pool=(x[:4],), teacher_probs=(probs,), teacher_probs_gold=good)


FUNCTIONS = {
    "from_probs": lambda probs: nt.TeacherLabels.from_probs(range(4), probs),
    "from_topk": lambda probs: nt.TeacherLabels.from_topk(
        range(4), [[0, 1, 2]] * 4, probs, np.zeros(4), ["a", "b", "c"]
    ),
    "fit": lambda probs: nt.TeacherNoise().fit(probs, Y),
    "predict": NOISE.predict,
    "confidence": confidence,
    "audit": lambda probs: nt.audit(probs, Y, replicates=50),
    "top_mask": lambda probs: nt.top_mask(probs, 2),
    "SLaMLoss": lambda probs: nt.SLaMLoss()(torch.zeros(4, 3), probs, 0.7, 2),
    "SLaMClassifier": classify,
}
ARRAYS = {
    "two decimals": (np.round(np.full((4, 3), 1 / 3), 2), True),
    "three decimals": (np.round(np.full((4, 3), 1 / 3), 3), True),
    "one-hot": (np.eye(3)[Y], True),
    "integers": (np.eye(3, dtype=np.int64)[Y], True),
    "a little above 1": (np.array([[1.015, 0, 0]] * 4), True),
    "the largest sum": (np.array([[1 + SUM_TOLERANCE - 1e-6, 0, 0]] * 4), True),
    "the smallest sum": (np.array([[0.5, 0.5 - SUM_TOLERANCE + 1e-6, 0]] * 4), True),
    "a sum too large": (np.array([[1 + SUM_TOLERANCE + 1e-6, 0, 0]] * 4), False),
    "a sum too small": (np.array([[0.5, 0.5 - SUM_TOLERANCE - 1e-6, 0]] * 4), False),
    "a tiny negative entry": (np.array([[1.0, 1e-7, -1e-7]] * 4), False),
    "a negative entry": (np.array([[1.1, 0, -0.1]] * 4), False),
    "NaN": (np.array([[0.5, 0.5, np.nan]] * 4), False),
    "infinity": (np.array([[0.5, 0.5, np.inf]] * 4), False),
    "infinities": (np.array([[np.inf, 0.5, -np.inf]] * 4), False),
    "percentages": (np.array([[70.0, 20.0, 10.0]] * 4), False),
    "logits": (np.array([[2.0, -1.0, 0.5]] * 4), False),
}
KINDS = {
    "float64": lambda probs: np.asarray(probs),
    "float32": lambda probs: np.asarray(probs, np.float32),
    "torch": torch.tensor,
    "bfloat16": lambda probs: torch.tensor(probs).bfloat16(),
}


def accepts(function, probs):
    try:
        FUNCTIONS[function](probs)
    except InputError:
        return False
    except ValueError as error:
        if "Input teacher_probs contains" in str(error):  # scikit-learn's own check for NaN
            return False
        raise
    return True


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ARRAYS)
@pytest.mark.parametrize("function", FUNCTIONS)
def test_every_function_has_the_same_rule(function, name, kind):
    probs, good = ARRAYS[name]
    given = KINDS[kind](probs)
    if kind == "bfloat16":
        if function == "SLaMClassifier":
            pytest.skip("scikit-learn does not read bfloat16")
        good = accepts("from_probs", given.float().numpy())  # after rounding
    assert accepts(function, given) == good


@pytest.mark.filterwarnings("ignore")
@settings(max_examples=60, deadline=None)
@given(st.floats(0.97, 1.03), st.floats(-1e-3, 1), st.sampled_from(list(KINDS)))
def test_functions_agree_on_rows_near_the_limits(total, first, kind):
    probs = KINDS[kind](np.array([[first, total - first, 0.0]] * 4))
    several = ("from_probs", "from_topk", "fit", "confidence", "top_mask", "SLaMLoss")
    assert len({accepts(function, probs) for function in several}) == 1


def test_the_sums_are_given_back_and_the_bad_row_is_named():
    probs = np.array([[0.5, 0.49], [0.25, 0.75]])
    np.testing.assert_array_equal(check_probabilities(probs, str), probs.sum(axis=1))
    rest = np.array([0.01, 0.5])
    with pytest.raises(InputError, match=r"^row 11 sums to 1\.5 instead of 1\.$"):
        check_probabilities(probs, "row {}".format, rest, first_row=10)
    with pytest.raises(InputError, match="percentages are to be divided by 100"):
        check_probabilities(100 * probs, str)
    assert check_probabilities(np.empty((0, 3)), str).shape == (0,)
    assert check_probabilities(torch.empty((0, 3)), str).shape == (0,)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_values_on_a_gpu_are_never_read():
    probs = torch.full((4, 3), 0.5, device="cuda")
    loss = nt.SLaMLoss()(torch.zeros(4, 3, device="cuda"), probs, 0.7, 2)
    assert torch.isfinite(loss)


def test_gradients_by_function_transforms_pass():
    teacher, x = torch.tensor(GOOD), torch.eye(4, dtype=torch.float64)

    def loss(weight):
        return nt.SLaMLoss()(x @ weight, teacher, 0.7, 2)

    weight = torch.zeros(4, 3, dtype=torch.float64, requires_grad=True)
    (expected,) = torch.autograd.grad(loss(weight), weight)
    torch.testing.assert_close(torch.func.grad(loss)(weight.detach()), expected)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int64, torch.float16])
def test_one_hot_labels_of_any_dtype_pass(dtype):
    one_hot = torch.eye(3)[Y].to(dtype)
    logits = torch.zeros(4, 3)
    expected = nt.SLaMLoss()(logits, torch.eye(3)[Y], 0.7, 2)
    torch.testing.assert_close(nt.SLaMLoss()(logits, one_hot, 0.7, 2), expected)
