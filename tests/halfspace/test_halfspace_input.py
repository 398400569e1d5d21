"""Each bad input says what is wrong, in one sentence."""

import numpy as np
import pytest
import torch

from noisyteacher.core.errors import InputError
from noisyteacher.halfspace import (
    Backward,
    Ball,
    HalfspaceLearner,
    Logistic,
    MassartNoise,
    NearMargin,
    NoisyHalfspace,
    NoisyTeacher,
    Perspectron,
    Points,
    RandomNoise,
    Slam,
    estimate_alpha,
    long_servedio,
    normalize_points,
    repeats_for,
    simulate,
    slam_steps,
)
from noisyteacher.halfspace.learner import Chosen, best_of_repeats, holdout_size

DATA = NoisyHalfspace(Ball(3, 0.2), RandomNoise(0.1))
POINTS = np.array([[0.5, 0.5], [-0.5, 0.1]])


@pytest.mark.parametrize("margin", [0.0, -0.1, 1.01, float("nan")])
def test_margin_outside_its_interval(margin):
    for make in (
        lambda: Ball(3, margin),
        lambda: Perspectron(margin),
        lambda: slam_steps(margin, 0.1, 0.5),
    ):
        with pytest.raises(InputError, match=r"margin must lie in \(0, 1\]"):
            make()


@pytest.mark.parametrize("eta", [0.5, 0.7])
def test_noise_of_one_half_or_more_cannot_be_learned(eta):
    for make in (lambda: RandomNoise(eta), lambda: MassartNoise(lambda x: x[..., 0], eta)):
        with pytest.raises(
            InputError, match=f"not {eta}.*opposite halfspace.*no number of samples"
        ):
            make()
    with pytest.raises(InputError, match=r"not -0\.1"):
        RandomNoise(-0.1)


def test_alpha_of_exactly_one_half():
    learner = HalfspaceLearner(Slam())
    with pytest.raises(InputError, match=r"exactly 0\.5 for 1 of 1 .*coin flip"):
        learner.fit(POINTS, [1, -1], alpha=0.5)
    with pytest.raises(InputError, match=r"exactly 0\.5 for 1 of 2"):
        learner.fit(POINTS, [1, -1], alpha=[0.9, 0.5])
    with pytest.raises(InputError, match="coin flip"):
        NoisyHalfspace(Ball(3, 0.2), NoisyTeacher(lambda x: torch.tensor(0.5))).sample(3)
    with pytest.raises(InputError, match="coin flip"):
        estimate_alpha([1, 1], [1, -1])


@pytest.mark.parametrize("alpha", [1.2, -0.1, float("nan")])
def test_alpha_outside_its_interval(alpha):
    with pytest.raises(InputError, match=r"alpha must lie in \[0, 1\]"):
        HalfspaceLearner(Slam()).fit(POINTS, [1, -1], alpha=alpha)


def test_dimension_one():
    for make in (
        lambda: Ball(1, 0.2),
        lambda: Points.of([[0.5], [-0.5]], [1.0], 0.2),
        lambda: HalfspaceLearner(Logistic()).fit([[0.5], [0.1]], [1, -1]),
    ):
        with pytest.raises(InputError, match="at least 2, not 1"):
            make()


def test_points_outside_the_unit_ball_can_be_rescaled():
    far = np.array([[3.0, 4.0], [0.5, 0.0], [0.0, -2.0]])
    with pytest.raises(InputError, match=r"2 of 3 points lie outside .* norm 5\).*rescale=True"):
        HalfspaceLearner(Logistic()).fit(far, [1, 1, -1])
    learner = HalfspaceLearner(Logistic(), rescale=True).fit(far[:1], [1])
    torch.testing.assert_close(learner.weights_[0], torch.tensor([0.3, 0.4]))
    with pytest.raises(InputError, match="outside the unit ball"):
        Points.of(far, [1.0, 1.0], 0.1)
    assert Points.of(far, [1.0, 1.0], 0.1, rescale=True).points.norm(dim=1).max() < 1 + 1e-6


def test_points_inside_the_margin_can_be_rescaled():
    near = np.array([[0.9, 0.1], [0.05, 0.05]])
    with pytest.raises(InputError, match=r"1 of 2 points .* margin 0\.2 .*row 1 at 0\.05.*rescale"):
        Points.of(near, [1.0, 0.0], 0.2)
    shape = Points.of(near, [1.0, 0.0], 0.2, rescale=True)
    assert float(shape.points[:, 0].abs().min()) >= 0.2
    with pytest.raises(InputError, match="points are closer"):
        Points.of([[0.1, 0.9]], [1.0, 0.0], 0.2, rescale=True)


def test_points_that_are_no_points():
    with pytest.raises(InputError, match="origin"):
        normalize_points(torch.zeros(1, 2))
    with pytest.raises(InputError, match="NaN"):
        HalfspaceLearner(Logistic()).fit([[0.1, float("nan")]], [1])
    with pytest.raises(InputError, match="not an array of numbers"):
        HalfspaceLearner(Logistic()).fit([["a", "b"]], [1])
    with pytest.raises(InputError, match=r"\(m, d\)"):
        Points.of([0.5, 0.5], [1.0, 0.0], 0.1)
    with pytest.raises(InputError, match=r"\(0, 1/6\]"):
        long_servedio(0.2)
    with pytest.raises(InputError, match="rare"):
        NearMargin(4, 0.2, rare=0.0)


def test_labels_and_shapes():
    learner = HalfspaceLearner(Slam())
    with pytest.raises(InputError, match=r"must be -1 or \+1, not 0"):
        learner.fit(POINTS, [0, 1], alpha=0.9)
    with pytest.raises(InputError, match=r"\(2, 2\) with \(3,\)"):
        learner.fit(POINTS, [1, 1, 1], alpha=0.9)
    with pytest.raises(InputError, match="alpha must be one number"):
        learner.fit(POINTS, [1, -1], alpha=[0.9])
    with pytest.raises(InputError, match=r"Slam\(\) needs alpha"):
        learner.fit(POINTS, [1, -1])
    with pytest.raises(InputError, match=r"call fit\(\) first"):
        _ = HalfspaceLearner(Slam()).weights_
    learner.fit(POINTS, [1, -1], alpha=0.9)
    with pytest.raises(InputError, match=r"\(n, 2\), not \(1, 3\)"):
        learner.predict(np.ones((1, 3)))
    with pytest.raises(InputError, match=r"\(m, 2\) or \(m, 1, 2\), not \(1, 2, 2\)"):
        learner.select([[[0.1, 0.1], [0.2, 0.2]]], [[1, 1]])
    with pytest.raises(InputError, match="1 runs in 2 dimensions"):
        learner.partial_fit(np.full((1, 3), 0.1), [1], alpha=0.9)
    with pytest.raises(InputError, match="keep"):
        HalfspaceLearner(Slam(), keep=1.0).fit(POINTS, [1, -1], alpha=0.9)


def test_noise_functions_are_checked():
    with pytest.raises(InputError, match=r"outside \[0, bound=0\.2\]"):
        NoisyHalfspace(Ball(3, 0.2), MassartNoise(lambda x: torch.tensor(0.3), 0.2)).sample(2)
    with pytest.raises(InputError, match="one value a point"):
        NoisyHalfspace(Ball(3, 0.2), NoisyTeacher(lambda x: torch.full((7,), 0.9))).sample(2)


def test_numbers_of_the_theory_and_of_simulations():
    with pytest.raises(InputError, match="epsilon"):
        slam_steps(0.1, 0.0, 0.5)
    with pytest.raises(InputError, match="gap"):
        slam_steps(0.1, 0.1, 0.0)
    with pytest.raises(InputError, match="gap"):
        holdout_size(0.1, 1.5, 10)
    with pytest.raises(InputError, match="delta"):
        repeats_for(1.0)
    with pytest.raises(InputError, match="horizon"):
        Backward(horizon=0)
    with pytest.raises(InputError, match="slack"):
        Backward(slack=0.5)
    with pytest.raises(InputError, match="runs must be at least 1"):
        simulate(DATA, {"Slam": Slam()}, runs=0, steps=5)
    with pytest.raises(InputError, match="multiple of 2"):
        simulate(DATA, {"Slam": Slam()}, runs=3, steps=5, repeats=2, holdout=5)
    with pytest.raises(InputError, match="groups of 2"):
        best_of_repeats(Chosen(torch.zeros(3, 2), np.zeros(3), np.zeros(3)), 2)
    with pytest.raises(InputError, match="n must be at least 1"):
        DATA.sample(0)
    with pytest.raises(InputError, match="one length"):
        estimate_alpha([1, 1], [1])
