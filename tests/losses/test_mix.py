"""top_mask, mix and log_mix: the worked example of the paper's notation, and plain loops."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from noisyteacher.core.errors import InputError
from noisyteacher.losses import log_mix, mix, top_mask

MODES = ["sum", "none", "k-1"]
F = np.array([[0.5, 0.3, 0.15, 0.05]])
YS = np.array([[0.1, 0.6, 0.25, 0.05]])


def plain_top_mask(probs: np.ndarray, k: np.ndarray) -> np.ndarray:
    mask = np.zeros(probs.shape, dtype=bool)
    for row, size in enumerate(k):
        best_first = sorted(range(probs.shape[1]), key=lambda c: (-probs[row, c], c))
        for c in best_first[:size]:
            mask[row, c] = True
    return mask


def plain_mix(
    f: np.ndarray, alpha: np.ndarray, mask: np.ndarray, k: np.ndarray, normalize: str
) -> np.ndarray:
    m = np.empty_like(f)
    for row in range(len(f)):
        n = k[row] - 1 if normalize == "k-1" else 1
        for c in range(f.shape[1]):
            m[row, c] = alpha[row] * f[row, c]
            if mask[row, c]:
                m[row, c] += (1 - alpha[row]) * (1 - f[row, c]) / n
        if normalize == "sum":
            m[row] /= sum(m[row])
    return m


@st.composite
def cases(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """(student logits, teacher probs with many ties, alpha, k)."""
    rows, classes = draw(st.integers(1, 4)), draw(st.integers(2, 7))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    logits = rng.normal(size=(rows, classes)) * draw(st.sampled_from([0.1, 1.0, 10.0]))
    counts = rng.integers(0, 4, size=(rows, classes)) + np.eye(1, classes)
    alpha = np.array(draw(st.lists(st.floats(0.01, 1.0), min_size=rows, max_size=rows)))
    k = np.array(draw(st.lists(st.integers(2, classes), min_size=rows, max_size=rows)))
    return logits, counts / counts.sum(1, keepdims=True), alpha, k


def softmax(logits: np.ndarray) -> np.ndarray:
    e = np.exp(logits - logits.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


@pytest.mark.parametrize(
    ("normalize", "expected", "total"),
    [
        ("k-1", [0.425, 0.315, 0.2325, 0.035], 1.0075),
        ("none", [0.5, 0.42, 0.36, 0.035], 1.315),
        ("sum", [0.380228, 0.319392, 0.273764, 0.026616], 1.0),
    ],
)
def test_mix_of_the_worked_example(normalize: str, expected: list[float], total: float) -> None:
    mask = top_mask(YS, 3)
    assert mask.tolist() == [[True, True, True, False]]
    m = mix(F, 0.7, mask, 3, normalize=normalize)
    np.testing.assert_allclose(m[0], expected, atol=5e-7)
    assert m.sum() == pytest.approx(total, abs=5e-7)
    log_m = log_mix(
        torch.log(torch.tensor(F)),
        torch.tensor([0.7]),
        torch.tensor(mask),
        torch.tensor([3]),
        normalize,
    )
    np.testing.assert_allclose(log_m.exp()[0], expected, atol=5e-7)


@settings(max_examples=60, deadline=None)
@given(case=cases())
def test_top_mask_is_the_plain_loop(
    case: tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray],
) -> None:
    _, probs, _, k = case
    expected = plain_top_mask(probs, k)
    np.testing.assert_array_equal(top_mask(probs, k), expected)
    np.testing.assert_array_equal(top_mask(torch.tensor(probs), torch.tensor(k)), expected)


@settings(max_examples=60, deadline=None)
@given(case=cases(), normalize=st.sampled_from(MODES))
def test_mix_and_log_mix_are_the_plain_loop(
    case: tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray], normalize: str
) -> None:
    logits, probs, alpha, k = case
    f, mask = softmax(logits), plain_top_mask(probs, k)
    expected = plain_mix(f, alpha, mask, k, normalize)
    np.testing.assert_allclose(mix(f, alpha, mask, k, normalize), expected, rtol=1e-9)
    log_m = log_mix(
        torch.tensor(logits),
        torch.tensor(alpha),
        torch.tensor(mask),
        torch.tensor(k),
        normalize,
    )
    np.testing.assert_allclose(log_m, np.log(expected), rtol=1e-8, atol=1e-10)


def test_only_all_classes_make_the_papers_mix_a_distribution() -> None:
    f = np.array([[0.6, 0.3, 0.1]])
    ones = np.ones((1, 3), dtype=bool)
    assert mix(f, 0.3, ones, 3, "k-1").sum() == pytest.approx(1.0)
    assert mix(f, 0.3, top_mask(f, 2), 2, "k-1").sum() != pytest.approx(1.0)


def test_none_and_k_minus_1_are_one_for_two_classes_in_the_shortlist() -> None:
    mask = top_mask(YS, 2)
    np.testing.assert_allclose(mix(F, 0.7, mask, 2, "none"), mix(F, 0.7, mask, 2, "k-1"))


def test_consistency_of_the_mix_needs_alpha_above_one_over_k() -> None:
    """At alpha = .3 < 1/k the truth loses to a prediction outside the shortlist."""
    truth, outside = np.array([[1.0, 0.0, 0.0]]), np.array([[0.0, 0.0, 1.0]])
    mask = np.array([[True, True, False]])
    expected_label = mix(truth, 0.3, mask, 2, "k-1")

    def loss(f: np.ndarray) -> float:
        m = mix(f, 0.3, mask, 2, "k-1")
        return float(-(expected_label[:, :2] * np.log(m[:, :2])).sum())

    assert loss(truth) == pytest.approx(0.610864, abs=5e-7)
    assert loss(outside) == pytest.approx(0.356675, abs=5e-7)


def test_ties_go_to_the_lower_index_in_both_kinds() -> None:
    probs = np.full((2, 300), 1 / 300, dtype=np.float32)
    expected = np.arange(300) < 7
    assert (top_mask(probs, 7) == expected).all()
    assert (top_mask(torch.from_numpy(probs), 7).numpy() == expected).all()


def test_numpy_in_numpy_out_and_torch_in_torch_out() -> None:
    mask = top_mask(YS, np.int64(3))
    assert isinstance(mask, np.ndarray)
    assert mask.dtype == bool
    m = mix(F, np.array([0.7], dtype=np.float32), mask, 3)
    assert isinstance(m, np.ndarray)
    assert m.dtype == np.float64
    assert mix(F.astype(np.float16), 0.7, mask, 3).dtype == np.float32
    torch_mask = top_mask(torch.tensor(YS), torch.tensor([3]))
    assert torch_mask.dtype == torch.bool
    out = mix(torch.tensor(F).half(), 0.7, torch_mask, np.array([3]))
    assert isinstance(out, torch.Tensor)
    assert out.dtype == torch.float32


def test_read_only_arrays_and_masks_of_ones_are_welcome(recwarn: pytest.WarningsRecorder) -> None:
    frozen = YS.copy()
    frozen.flags.writeable = False
    assert top_mask(frozen[:, ::-1], 1).tolist() == [[False, False, True, False]]
    np.testing.assert_array_equal(
        mix(F, 0.7, np.array([[1, 1, 1, 0]]), 3), mix(F, 0.7, top_mask(YS, 3), 3)
    )
    assert not recwarn.list


def test_only_the_student_receives_gradient_from_the_mix() -> None:
    f = torch.tensor(F, requires_grad=True)
    alpha = torch.tensor([0.7], requires_grad=True)
    mix(f, alpha, top_mask(YS, 3), 3).square().sum().backward()
    assert f.grad is not None
    assert f.grad.abs().sum() > 0
    assert alpha.grad is None


def test_gradient_of_the_mix_is_the_numerical_one() -> None:
    f = torch.tensor(F, requires_grad=True)
    mask = torch.tensor(top_mask(YS, 3))
    for normalize in MODES:
        assert torch.autograd.gradcheck(lambda p, n=normalize: mix(p, 0.7, mask, 3, n), (f,))


NAN = YS.copy()
NAN[0, 2] = math.nan


@pytest.mark.parametrize(
    ("probs", "k", "message"),
    [
        (YS, 0, r"k must lie in \[1, 4\]; found 0"),
        (YS, 5, r"k must lie in \[1, 4\]; found 5"),
        (YS, 2.0, "k must be an integer"),
        (YS, True, "k must be an integer"),
        (YS, np.array([2, 2]), r"k must be a number or have shape \(1,\), not \(2,\)"),
        (YS, np.array([[2]]), r"not \(1, 1\)"),
        (YS[0], 2, r"probs must have shape \(n, L\), not \(4,\)"),
        (NAN, 2, "probs row 0 holds NaN"),
        (-YS, 2, r"probs row 0 holds a negative probability, -0\.6"),
    ],
)
@pytest.mark.parametrize("kind", [np.asarray, torch.tensor])
def test_top_mask_refuses(probs: np.ndarray, k: object, message: str, kind: object) -> None:
    with pytest.raises(InputError, match=message):
        top_mask(kind(probs), k)  # type: ignore[operator, type-var]


def test_top_mask_refuses_words() -> None:
    with pytest.raises(InputError, match="probs must hold numbers"):
        top_mask(YS.astype(str), 2)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"alpha": 0.0}, r"alpha must lie in \(0, 1\]; found 0"),
        ({"alpha": 1.01}, "alpha .* found 1.01"),
        ({"alpha": math.nan}, "alpha .* found nan"),
        ({"alpha": np.array([0.5, 0.5])}, r"alpha must be a number or have shape \(1,\)"),
        ({"k": 1}, r"k must lie in \[2, 4\]; found 1"),
        ({"k": 5}, "k .* found 5"),
        ({"mask": np.ones((1, 3), dtype=bool)}, r"mask must have shape \(1, 4\), not \(1, 3\)"),
        ({"mask": np.ones((4,), dtype=bool)}, "mask must have shape"),
        ({"mask": np.full((1, 4), 2)}, "mask .* found 2"),
        ({"mask": np.full((1, 4), 0.5)}, "mask must hold bools, or zeros and ones"),
        ({"normalize": "k"}, "normalize must be one of 'sum', 'none', 'k-1', not 'k'"),
        ({"student_probs": NAN}, "student_probs .* found nan"),
        ({"student_probs": 3 * F}, r"student_probs must lie in \[0, 1\]; found 1"),
    ],
)
@pytest.mark.parametrize("kind", [np.asarray, torch.tensor])
def test_mix_refuses(changed: dict[str, object], message: str, kind: object) -> None:
    arguments = {"student_probs": F, "alpha": 0.7, "mask": YS > 0.05, "k": 3, "normalize": "sum"}
    arguments |= changed
    arguments["student_probs"] = kind(arguments["student_probs"])  # type: ignore[operator]
    with pytest.raises(InputError, match=message):
        mix(**arguments)  # type: ignore[type-var]


@pytest.mark.parametrize("k", [2, 3, 4])
@pytest.mark.parametrize(("normalize", "bound"), [("sum", 0.5), ("none", 0.5), ("k-1", None)])
def test_the_alpha_below_which_a_hard_label_pushes_its_own_class_away(normalize, bound, k):
    """By differences: the gain from moving the student's mass to the label's class."""
    step, vanishes = 1e-5, 1 / k if bound is None else bound
    mask = plain_top_mask(YS, np.array([k]))

    def gain(alpha, source, label=1):
        sides = []
        for side in (-step, step):
            f = F.copy()
            f[0, label] += side
            f[0, source] -= side
            sides.append(math.log(mix(f, alpha, mask, k, normalize)[0, label]))
        return (sides[1] - sides[0]) / (2 * step)

    for source in range(4):
        if source == 1:
            continue
        inside = bool(mask[0, source])
        if inside or normalize != "sum":
            assert gain(vanishes, source) == pytest.approx(0, abs=1e-8)
            assert gain(vanishes - 0.05, source) < -0.01
        else:  # "sum" still pulls from outside the shortlist into it
            assert gain(vanishes, source) > 0.1
        assert gain(vanishes + 0.05, source) > 0.01
