"""The theorem and its proof, tried: the guarantee, the two claims, and what came after."""

import math

import numpy as np
import pytest
import torch

from noisyteacher.halfspace import (
    Backward,
    Ball,
    Logistic,
    MassartNoise,
    NoisyHalfspace,
    NoisyTeacher,
    Perspectron,
    RandomNoise,
    Slam,
    Sphere,
    long_servedio,
    simulate,
    slam_steps,
)
from noisyteacher.halfspace.study import Cell
from noisyteacher.halfspace.theory import NORM_GROWTH, drift

EVERY_STEP = 1 + 1e-9


@pytest.mark.parametrize("shape", ["near-margin", "ball", "gaussian"])
@pytest.mark.parametrize("margin", [0.4, 0.2])
@pytest.mark.parametrize("noise", [0.1, 0.3])
def test_some_iterate_is_good_within_the_bound(shape, margin, noise):
    cell = Cell(shape, margin, epsilon=0.1, noise=noise)
    steps = cell.steps(0.25)
    # Far fewer steps than the proof's constant asks for, so the guarantee holds all the more.
    assert steps < slam_steps(margin, 0.1, cell.gap)
    result = simulate(
        cell.data(), {"Slam": Slam()}, runs=100, steps=steps, test_points=4000, holdout=2000
    )
    assert np.mean(result.traces["Slam"].best[-1] <= 0.1) >= 0.99
    assert np.mean(result.chosen_errors["Slam"] <= 0.1) >= 0.99


def test_guarantee_with_an_alpha_that_crosses_one_half():
    # |½ − α(x)| ≥ 0.3 is what the theorem needs; a teacher may be wrong more often than right.
    noise = NoisyTeacher(lambda x: torch.where(x[..., 1] > 0.1, 0.1, 0.8))
    data = NoisyHalfspace(Ball(6, 0.2), noise)
    result = simulate(data, {"Slam": Slam(), "Logistic": Logistic()}, runs=60, steps=3000, keep=1.5)
    assert np.mean(result.traces["Slam"].best[-1] <= 0.05) >= 0.99
    assert result.traces["Logistic"].errors[-1].mean() > 0.15


def test_steps_of_the_theorem():
    assert slam_steps(0.1, 0.1, 0.5) == math.floor(16 * NORM_GROWTH / 0.009 / 0.005**2) + 1
    ratio = slam_steps(0.05, 0.1, 0.5) / slam_steps(0.1, 0.1, 0.5)
    assert ratio == pytest.approx(4, rel=1e-6)
    # With a large δ the first claim asks for more than the second.
    assert slam_steps(0.1, 0.1, 1.0, delta=0.5) == math.floor(128 * math.log(20) / 1e-4) + 1


@pytest.mark.parametrize("noise", [0.05, 0.35])
@pytest.mark.parametrize("shape", ["near-margin", "ball"])
def test_first_claim_correlation_grows_with_the_errors(shape, noise):
    cell = Cell(shape, margin=0.3, epsilon=0.1, noise=noise)
    result = simulate(
        cell.data(), {"Slam": Slam()}, runs=400, steps=200, keep=EVERY_STEP, test_points=2000
    )
    trace = result.traces["Slam"]
    np.testing.assert_array_equal(result.steps, np.arange(1, 201))
    # w = 0 before the first step predicts -1 everywhere, wrong on one half.
    errors = np.concatenate([np.full((1, 400), 0.5), trace.errors[:-1]])
    room = trace.correlation - drift(cell.margin, cell.gap) * errors.cumsum(0)
    assert (room.mean(1) > -3 * room.std(1) / 20).all()
    assert room[-1].mean() > 0


@pytest.mark.parametrize("noise", [0.0, 0.25, 0.45])
def test_second_claim_norm_grows_like_the_root(noise):
    data = NoisyHalfspace(Sphere(5, 0.1), RandomNoise(noise))
    result = simulate(data, {"Slam": Slam()}, runs=200, steps=2000, keep=1.2, test_points=100)
    mean_square = (result.traces["Slam"].norm ** 2).mean(1)
    assert (mean_square <= NORM_GROWTH * result.steps).all()


def test_second_claim_bound_on_one_step():
    # E[u·w] ≤ |2α−1|·max_s s·σ(−s) ≤ 1/e, also where the paper's own step E[|2α−1|·z] ≤ E[z] fails.
    s = torch.linspace(-50, 50, 20001, dtype=torch.float64)
    drift_along_w = s * (1 - torch.sigmoid(s))
    assert 0.27 < float(drift_along_w.max()) <= 1 / math.e


def test_perspectron_regret_inequality_under_massart_noise():
    rng = np.random.default_rng(0)
    for _ in range(500):
        dim, n, margin = rng.integers(2, 6), 8, rng.uniform(0.02, 0.4)
        x = rng.normal(size=(n, dim))
        x[:, 0] = rng.choice([-1, 1], n) * rng.uniform(margin, 1, n)
        across = np.linalg.norm(x[:, 1:], axis=1)
        x[:, 1:] *= (np.sqrt(1 - x[:, 0] ** 2) * rng.random(n) / across)[:, None]
        bound = rng.uniform(0, 0.49)
        eta = bound * rng.random(n)
        w = rng.normal(size=dim)
        w *= rng.random() / np.linalg.norm(w)
        s = torch.from_numpy(x @ w)
        rule = Perspectron(margin)
        # The rule's push is −μ·g·x with μ = γ at the first step.
        plus = -rule.push(s, torch.ones(n), 1 - bound) / margin
        minus = -rule.push(s, torch.zeros(n), 1 - bound) / margin
        positive = x[:, 0] > 0
        chance = torch.from_numpy(np.where(positive, 1 - eta, eta))  # of the label +1
        g = (chance * plus + (1 - chance) * minus).numpy()
        left = np.mean(g * (x @ (w - np.eye(dim)[0])))
        predicted = x @ w > 0
        noisy_error = np.where(predicted == positive, eta, 1 - eta).mean()
        assert left >= noisy_error - bound - 1e-5
        assert max(plus.abs().max(), minus.abs().max()) <= 1 / margin


def test_perspectron_learns_under_massart_noise():
    # Noise on one side of e₂ only; the rule knows the bound and nothing else.
    noise = MassartNoise(lambda x: 0.4 * (x[..., 1] * x[..., 0].sign() > 0), bound=0.4)
    data = NoisyHalfspace(Ball(5, 0.15), noise)
    result = simulate(data, {"P": Perspectron(0.15)}, runs=40, steps=6000, keep=1.5, holdout=2000)
    assert np.mean(result.chosen_errors["P"] <= 0.1) >= 0.95


def test_plain_logistic_fails_on_long_and_servedios_points():
    data = NoisyHalfspace(long_servedio(0.025), RandomNoise(0.2))
    rules = {"Slam": Slam(), "Logistic": Logistic()}
    result = simulate(data, rules, runs=30, steps=6000, keep=2.0, test_points=4000)
    assert np.median(result.traces["Slam"].errors[-1]) == 0
    assert np.median(result.traces["Logistic"].errors[-1]) > 0.4


def test_sanity_simulation():
    # Errors known from elsewhere, whose points' shape is not; the last iterate counts.
    data, steps = NoisyHalfspace(Sphere(30, 0.1), RandomNoise(0.2)), 40_000
    rules = {
        "leaky": Backward(slack=0.0, horizon=steps),
        "slam": Slam(),
        "persp": Perspectron(0.1, horizon=steps),
    }
    result = simulate(data, rules, runs=16, steps=steps, keep=3.0, test_points=20_000)
    expected = {"leaky": 0.0148, "slam": 0.0082, "persp": 0.0078}
    for name, error in expected.items():
        assert 0.6 * error < result.traces[name].errors[-1].mean() < 1.5 * error
