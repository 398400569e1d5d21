"""The oracles of the update family, the SLaM gradient lemma, and a plain loop as reference."""

import doctest
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from noisyteacher.halfspace import (
    Backward,
    HalfspaceLearner,
    Logistic,
    Perceptron,
    Perspectron,
    Slam,
)
from noisyteacher.halfspace import learner as learner_module
from noisyteacher.halfspace.theory import (
    expected_slam_slope,
    noisy_chance,
    slam_loss,
    slam_rate,
    slam_slope,
)

W, X, ALPHA = torch.tensor([0.6, -0.2]), torch.tensor([0.5, 0.5]), 0.8
S = W @ X
ONE, ZERO = torch.tensor(1.0), torch.tensor(0.0)
RULES = [Slam(), Backward(), Backward(slack=0.0, horizon=50), Perspectron(0.1),
         Perspectron(0.3, horizon=50), Logistic(), Perceptron()]  # fmt: skip


def leaky_relu_loss(s, y, leak):
    """Backward correction's loss: LeakyReLU_λ(−y·s), with (1−λ)z for z ≥ 0 and λz below; y = ±1."""
    z = -y * s
    return torch.where(z >= 0, (1 - leak) * z, leak * z)


def close(value, expected):
    torch.testing.assert_close(value, torch.tensor(expected), rtol=0, atol=2e-6)


def test_slam_oracle():
    close(S, 0.2)
    close(torch.sigmoid(S), 0.549834)
    close(noisy_chance(torch.sigmoid(S), ALPHA), 0.529900)
    close(slam_rate(S, ALPHA), 0.596172)
    close(slam_slope(S, ONE, ALPHA) * X, [-0.140130, -0.140130])
    close(slam_slope(S, ZERO, ALPHA) * X, [0.157956, 0.157956])
    close(Slam().push(S, ONE, ALPHA) * X, [0.235050, 0.235050])
    close(Slam().push(S, ZERO, ALPHA) * X, [-0.264950, -0.264950])


def test_leaky_relu_oracle():
    close(leaky_relu_loss(S, ONE, 0.2), -0.04)
    close(leaky_relu_loss(S, -ONE, 0.2), 0.16)
    rule = Backward(slack=0.0)
    close(-rule.push(S, ONE, ALPHA) * X, [-0.1, -0.1])
    close(-rule.push(S, ZERO, ALPHA) * X, [0.4, 0.4])


def test_perspectron_oracle():
    # The rule's own factor μ = γ/√t is 0.1 at the first step; METHODS gives g without it.
    rule = Perspectron(0.1)
    close(-rule.push(S, ONE, ALPHA) * X / 0.1, [-1 / 3, -1 / 3])
    close(-rule.push(S, ZERO, ALPHA) * X / 0.1, [4 / 3, 4 / 3])


def test_first_slam_step():
    learner = HalfspaceLearner(Slam()).fit([[0.6, 0.8]], [1], alpha=0.8)
    close(learner.weights_[0], [0.3, 0.4])


@settings(deadline=None, max_examples=50)
@given(
    st.floats(-8, 8),
    st.sampled_from([0.0, 1.0]),
    st.floats(0.02, 0.98).filter(lambda a: abs(a - 0.5) > 1e-3),
)
def test_lemma_slam_gradient_against_autograd(s, y0, alpha):
    s = torch.tensor(s, dtype=torch.float64, requires_grad=True)
    y0 = torch.tensor(y0, dtype=torch.float64)
    (slope,) = torch.autograd.grad(slam_loss(s, y0, alpha), s)
    torch.testing.assert_close(slam_slope(s, y0, alpha), slope, rtol=1e-9, atol=1e-12)
    # Algorithm 3: minus the gradient, times the step size 1/r.
    torch.testing.assert_close(
        Slam().push(s, y0, alpha), -slope / slam_rate(s, alpha), rtol=1e-7, atol=1e-9
    )


@settings(deadline=None, max_examples=30)
@given(st.floats(-8, 8), st.booleans(), st.floats(0.02, 0.98))
def test_lemma_expected_gradient(s, positive, alpha):
    s = torch.tensor(s, dtype=torch.float64, requires_grad=True)
    truth0 = torch.tensor(float(positive), dtype=torch.float64)
    chance = noisy_chance(truth0, alpha)  # of the noisy label +1
    expected = chance * slam_loss(s, 1 + 0 * s, alpha) + (1 - chance) * slam_loss(s, 0 * s, alpha)
    (slope,) = torch.autograd.grad(expected, s)
    torch.testing.assert_close(expected_slam_slope(s, truth0, alpha), slope, rtol=1e-8, atol=1e-10)


def test_backward_is_the_gradient_of_the_leaky_relu_loss():
    rule, leak = Backward(slack=0.05), 0.25  # η = 0.2
    s = torch.linspace(-1, 1, 20, requires_grad=True)
    for y0, y in ((0.0, -1.0), (1.0, 1.0)):
        (slope,) = torch.autograd.grad(leaky_relu_loss(s, torch.tensor(y), leak).sum(), s)
        torch.testing.assert_close(rule.push(s, torch.tensor(y0), 0.8), -slope)


def test_slam_is_finite_where_the_printed_step_size_is_not():
    far = torch.tensor([-200.0, 200.0])
    assert (slam_rate(far, 0.8) == 0).all()
    close(Slam().push(far, torch.tensor([1.0, 0.0]), 0.8), [0.8, -0.8])


def plain_loop(rule, x, y, alpha):
    """One run, one example at a time, straight from the rules' formulas."""
    w = np.zeros(x.shape[1])
    for t, (point, label, a) in enumerate(zip(x.astype(float), y, alpha, strict=True), 1):
        s, y0 = w @ point, (1 + label) / 2
        soft = isinstance(rule, Slam) or type(rule) is Logistic
        p = 1 / (1 + math.exp(-s)) if soft else float(s > 0)
        if isinstance(rule, Logistic):
            a = 1.0
        if isinstance(rule, Backward):
            a = a - rule.slack if a > 0.5 else a + rule.slack
        size = 1.0
        if isinstance(rule, Backward | Perspectron):
            size = 1 / math.sqrt(rule.horizon or t)
        if isinstance(rule, Perspectron):
            size *= rule.margin / (abs(s) + rule.margin)
        w += size * np.sign(2 * a - 1) * (y0 - (a * p + (1 - a) * (1 - p))) * point
        if isinstance(rule, Backward | Perspectron):
            w /= max(1.0, np.linalg.norm(w))
    return w


@pytest.mark.parametrize("rule", RULES, ids=repr)
@settings(deadline=None, max_examples=10)
@given(st.integers(0, 10_000), st.integers(2, 6), st.integers(1, 30))
def test_learner_agrees_with_a_plain_loop(rule, seed, dim, n):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 3, dim)).astype(np.float32)
    x *= rng.random((n, 3, 1)).astype(np.float32) / np.linalg.norm(x, axis=2, keepdims=True)
    y = rng.choice([-1, 1], size=(n, 3))
    alpha = rng.choice([0.1, 0.6, 0.8, 1.0], size=(n, 3)).astype(np.float32)
    learner = HalfspaceLearner(rule).fit(x, y, alpha)
    expected = [plain_loop(rule, x[:, r], y[:, r], alpha[:, r]) for r in range(3)]
    np.testing.assert_allclose(learner.weights_, expected, rtol=1e-3, atol=1e-4)


def test_a_label_trusted_below_one_half_is_turned_round():
    x = np.array([[0.6, 0.8], [0.0, 0.5], [-0.6, 0.1]])
    y = np.array([1, -1, 1])
    for rule in RULES[:5]:
        straight = HalfspaceLearner(rule).fit(x, y, alpha=0.8).weights_
        turned = HalfspaceLearner(rule).fit(x, -y, alpha=0.2).weights_
        torch.testing.assert_close(straight, turned)


def test_partial_fit_goes_on_where_fit_stopped():
    rng = np.random.default_rng(3)
    x = rng.uniform(-0.5, 0.5, size=(40, 3)).astype(np.float32)
    y = rng.choice([-1, 1], size=40)
    for rule in RULES:
        whole = HalfspaceLearner(rule, keep=1.3).fit(x, y, alpha=0.9)
        parts = HalfspaceLearner(rule, keep=1.3).fit(x[:13], y[:13], 0.9)
        parts.partial_fit(x[13:], y[13:], 0.9)
        torch.testing.assert_close(parts.weights_, whole.weights_)
        np.testing.assert_array_equal(parts.history_.steps, whole.history_.steps)
        assert parts.history_.steps[-1] == 40
        torch.testing.assert_close(parts.history_.weights[-1], whole.weights_)
        again = parts.fit(x[:13], y[:13], 0.9)
        assert again.steps_ == 13


def test_predict_gives_back_the_kind_of_array_it_got():
    learner = HalfspaceLearner(Slam()).fit([[0.6, 0.8], [0.1, -0.2]], [1, -1], alpha=0.9)
    given = learner.predict(np.array([[1.0, 1.0], [-1.0, -1.0], [0.0, 0.0]]))
    assert isinstance(given, np.ndarray)
    np.testing.assert_array_equal(given, [1, -1, -1])  # the plane itself counts as negative
    assert isinstance(learner.predict(torch.ones(2, 2)), torch.Tensor)
    two_runs = HalfspaceLearner(Slam()).fit([[[0.6, 0.8], [0.1, -0.2]]], [[1, -1]], alpha=0.9)
    assert two_runs.predict(np.ones((5, 2))).shape == (5, 2)


def test_the_example_in_the_docstring_works():
    assert doctest.testmod(learner_module).failed == 0
    assert doctest.testmod(learner_module).attempted == 4


def test_plain_rules_need_no_alpha_and_ignore_it():
    x, y = [[0.6, 0.8], [0.1, -0.2]], [1, -1]
    for rule in (Logistic(), Perceptron()):
        without = HalfspaceLearner(rule).fit(x, y).weights_
        torch.testing.assert_close(without, HalfspaceLearner(rule).fit(x, y, alpha=0.7).weights_)
