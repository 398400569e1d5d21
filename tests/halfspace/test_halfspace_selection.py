"""Choosing iterates on noisy labels, amplification, and estimating α."""

import math

import numpy as np
import pytest
import torch

from noisyteacher.halfspace import (
    Ball,
    HalfspaceLearner,
    Iterates,
    NoisyHalfspace,
    NoisyTeacher,
    RandomNoise,
    Slam,
    choose_iterate,
    estimate_alpha,
    holdout_size,
    repeats_for,
    simulate,
)
from noisyteacher.halfspace.learner import Chosen, best_of_repeats, holdout_errors

DATA = NoisyHalfspace(Ball(4, 0.2), RandomNoise(0.3))


def tensors(sample):
    return torch.from_numpy(sample.x), torch.from_numpy(sample.y), torch.from_numpy(sample.alpha)


def test_noisy_error_is_eta_plus_a_share_of_the_true_error():
    sample = DATA.sample(40_000)
    x, y, alpha = tensors(sample)
    weights = torch.randn(6, 1, 4, generator=torch.Generator().manual_seed(0))
    true = holdout_errors(weights, x, torch.from_numpy(sample.truth))
    noisy = holdout_errors(weights, x, y)
    np.testing.assert_allclose(noisy, 0.3 + 0.4 * true, atol=0.01)
    np.testing.assert_allclose(holdout_errors(weights, x, y, alpha), true, atol=0.025)
    np.testing.assert_allclose(holdout_errors(weights, x, y, 0.7), true, atol=0.025)


def test_corrected_error_is_fair_when_alpha_depends_on_the_point():
    noise = NoisyTeacher(lambda x: torch.where(x[..., 1] > 0, 0.95, 0.2))
    sample = NoisyHalfspace(Ball(4, 0.2), noise).sample(40_000)
    x, y, alpha = tensors(sample)
    weights = torch.randn(6, 1, 4, generator=torch.Generator().manual_seed(1))
    true = holdout_errors(weights, x, torch.from_numpy(sample.truth))
    np.testing.assert_allclose(holdout_errors(weights, x, y, alpha), true, atol=0.02)


def test_holdout_of_each_run_agrees_with_a_plain_loop():
    generator = torch.Generator().manual_seed(2)
    weights = torch.randn(3, 2, 4, generator=generator)
    x = torch.randn(50, 2, 4, generator=generator)
    y = torch.randn(50, 2, generator=generator).sign()
    got = holdout_errors(weights, x, y, 0.8)
    for c in range(3):
        for r in range(2):
            wrong = ((x[:, r] @ weights[c, r] > 0) != (y[:, r] > 0)).float()
            assert float(got[c, r]) == pytest.approx(float(((wrong - 0.2) / 0.6).mean()), abs=1e-5)


def test_choose_iterate_takes_the_good_one_of_each_run():
    good, bad = torch.tensor([1.0, 0, 0, 0]), torch.tensor([-1.0, 0, 0, 0])
    history = Iterates(
        np.array([1, 5]), torch.stack([torch.stack([good, bad]), torch.stack([bad, good])])
    )
    x, y, _ = tensors(DATA.sample(500))
    chosen = choose_iterate(history, x, y)
    assert torch.equal(chosen.weights, torch.stack([good, good]))
    np.testing.assert_array_equal(chosen.steps, [1, 5])


def test_select_is_used_by_predict_until_the_next_step():
    train, hold = DATA.sample(300, seed=1), DATA.sample(2000, seed=2)
    learner = HalfspaceLearner(Slam(), keep=1.5).fit(train.x, train.y, 0.7)
    learner.select(hold.x, hold.y, 0.7)
    best = np.mean(learner.predict(hold.x) != hold.truth)
    each = holdout_errors(
        learner.history_.weights, torch.from_numpy(hold.x), torch.from_numpy(hold.truth)
    )
    assert best <= float(each.min()) + 0.05
    learner.partial_fit(train.x[:1], train.y[:1], 0.7)
    assert learner.chosen_ is None


def test_best_of_repeats_keeps_the_least_error_of_each_group():
    weights = torch.arange(12.0).reshape(6, 2)
    chosen = Chosen(weights, np.arange(6), np.array([0.3, 0.1, 0.2, 0.5, 0.6, 0.4]))
    best = best_of_repeats(chosen, 3)
    np.testing.assert_array_equal(best.steps, [1, 5])
    assert torch.equal(best.weights, weights[[1, 5]])


def test_amplification_makes_failures_rarer():
    # So few steps that one run in several misses the error asked for.
    options = {"rules": {"Slam": Slam()}, "steps": 60, "holdout": 1500, "seed": 3}
    data = NoisyHalfspace(Ball(10, 0.1), RandomNoise(0.25))
    once = simulate(data, runs=120, **options).chosen_errors["Slam"]
    epsilon = float(np.quantile(once, 0.7))
    often = simulate(data, runs=600, repeats=5, **options).chosen_errors["Slam"]
    assert often.shape == (120,)
    failures = np.mean(often > epsilon)
    assert failures < 0.12  # a single run fails with 0.3; five independent ones with 0.0024


def test_repeats_and_holdout_size_follow_their_formulas():
    assert repeats_for(0.01) == 1
    assert repeats_for(1e-6) == 3
    assert repeats_for(0.001, failure=0.5) == 10
    assert holdout_size(0.1, 0.5, 100, 0.01) == math.ceil(math.log(20_000) / (2 * 0.05**2))


def test_estimate_alpha_recovers_planted_noise():
    sample = DATA.sample(4000, seed=9)
    assert estimate_alpha(sample.y, sample.truth) == pytest.approx(0.7, abs=0.03)
    assert estimate_alpha([1, 1, 1], [1, 1, 1]) == pytest.approx(3.5 / 4)


def test_slam_learns_with_an_estimated_alpha():
    known = simulate(DATA, {"Slam": Slam()}, runs=40, steps=3000, keep=2.0)
    estimated = simulate(DATA, {"Slam": Slam()}, runs=40, steps=3000, keep=2.0, gold=300)
    assert estimated.traces["Slam"].errors[-1].mean() < 0.02
    assert not np.array_equal(known.traces["Slam"].norm, estimated.traces["Slam"].norm)
