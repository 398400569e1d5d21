"""Shapes against rejection sampling, noise rates, and the independence of the stream."""

import os

import numpy as np
import pytest
import torch
from scipy import stats

from noisyteacher import halfspace
from noisyteacher.halfspace import (
    Ball,
    Gaussian,
    HalfspaceLearner,
    Logistic,
    MassartNoise,
    NearMargin,
    NoisyHalfspace,
    NoisyTeacher,
    Points,
    RandomNoise,
    Slam,
    Sphere,
    long_servedio,
    simulate,
)

NOISELESS = RandomNoise(0.0)


def rejected(kind, dim, margin, rng):
    """Draw from the whole shape and throw away what lies inside the margin."""
    x = rng.normal(size=(200_000, dim))
    if kind is Gaussian:
        x /= np.sqrt(2 * dim)
        x = x[np.abs(x[:, 0]) <= 1]
        across = x[:, 1:]
        room = np.sqrt(1 - x[:, 0] ** 2)
        across *= np.minimum(1, room / np.linalg.norm(across, axis=1))[:, None]
    else:
        x /= np.linalg.norm(x, axis=1, keepdims=True)
    if kind is Ball:
        x *= rng.random((len(x), 1)) ** (1 / dim)
    return x[np.abs(x[:, 0]) >= margin]


@pytest.mark.parametrize("kind", [Ball, Sphere, Gaussian])
@pytest.mark.parametrize(("dim", "margin"), [(2, 0.1), (3, 0.4), (12, 0.2)])
def test_shapes_agree_with_rejection_sampling(kind, dim, margin):
    rng = np.random.default_rng(dim)
    expected = rejected(kind, dim, margin, rng)
    got = NoisyHalfspace(kind(dim, margin), NOISELESS).sample(20_000, seed=dim).x
    for view in (lambda x: x[:, 0], lambda x: x[:, 1], lambda x: np.linalg.norm(x, axis=1)):
        if np.ptp(view(expected)) < 1e-6:  # the norm on a sphere
            np.testing.assert_allclose(view(got), view(expected)[0], atol=1e-5)
        else:
            # Rounded, because a share of the Gaussian's points has norm 1 up to float32.
            pair = (np.round(view(points), 4) for points in (got, expected))
            assert stats.ks_2samp(*pair).pvalue > 1e-4


@pytest.mark.parametrize("kind", [Ball, Sphere, Gaussian, NearMargin])
@pytest.mark.parametrize(("dim", "margin"), [(2, 0.05), (30, 0.5), (400, 0.9), (5, 1.0)])
def test_points_keep_the_margin_and_stay_in_the_ball(kind, dim, margin):
    sample = NoisyHalfspace(kind(dim, margin), NOISELESS).sample(500)
    assert np.abs(sample.x[:, 0]).min() >= margin - 1e-6
    assert np.linalg.norm(sample.x, axis=1).max() <= 1 + 1e-5
    np.testing.assert_array_equal(sample.truth, np.sign(sample.x[:, 0]))
    np.testing.assert_array_equal(sample.y, sample.truth)
    assert abs(sample.truth.mean()) < 0.25


def test_near_margin_has_rare_points_and_a_frequent_pair():
    x = NoisyHalfspace(NearMargin(10, 0.2, rare=0.3), NOISELESS).sample(5000).x
    np.testing.assert_allclose(np.abs(x[:, 0]), 0.2, atol=1e-6)
    np.testing.assert_allclose(np.linalg.norm(x, axis=1), 1, atol=1e-5)
    frequent = np.abs(x[:, 1] - np.sign(x[:, 0]) * np.sqrt(0.96)) < 1e-6
    assert 0.67 < frequent.mean() < 0.73
    assert np.abs(x[frequent][:, 2:]).max() == 0
    assert abs(x[~frequent][:, 1].mean()) < 0.05


def test_points_draws_each_row_equally_often():
    table = np.array([[0.5, 0.5], [-0.5, 0.1], [0.9, 0.0]])
    data = NoisyHalfspace(Points.of(table, [2.0, 0.0], 0.5), NOISELESS)
    sample = data.sample(3000)
    rows = (sample.x[:, None] == table.astype(np.float32)).all(2)
    assert (rows.sum(1) == 1).all()
    np.testing.assert_allclose(rows.mean(0), 1 / 3, atol=0.05)
    np.testing.assert_array_equal(sample.truth, np.sign(sample.x[:, 0]))


def test_long_servedio_keeps_its_margin():
    shape = long_servedio(0.1)
    assert float(shape.points[:, 0].abs().min()) == pytest.approx(0.1)
    assert len(shape.points) == 8


def test_random_noise_has_its_rate():
    sample = NoisyHalfspace(Ball(5, 0.1), RandomNoise(0.3)).sample(20_000)
    assert np.mean(sample.y != sample.truth) == pytest.approx(0.3, abs=0.015)
    assert (sample.alpha == np.float32(0.7)).all()


def test_massart_noise_follows_eta_of_x_and_tells_only_the_bound():
    noise = MassartNoise(lambda x: 0.4 * (x[..., 1] > 0), bound=0.4)
    sample = NoisyHalfspace(Ball(5, 0.1), noise).sample(20_000)
    wrong = sample.y != sample.truth
    assert wrong[sample.x[:, 1] > 0].mean() == pytest.approx(0.4, abs=0.02)
    assert wrong[sample.x[:, 1] <= 0].sum() == 0
    assert (sample.alpha == np.float32(0.6)).all()


def test_teacher_noise_follows_alpha_of_x_and_tells_it():
    noise = NoisyTeacher(lambda x: torch.where(x[..., 0] > 0.3, 0.1, 0.9))
    sample = NoisyHalfspace(Sphere(3, 0.1), noise).sample(20_000)
    for alpha in (0.1, 0.9):
        here = sample.alpha == np.float32(alpha)
        right = sample.y[here] == sample.truth[here]
        assert right.mean() == pytest.approx(alpha, abs=0.02)
    np.testing.assert_array_equal(sample.alpha == np.float32(0.1), sample.x[:, 0] > 0.3)


def gather(data, runs, steps, seed):
    blocks = list(data.stream(runs, steps, seed))
    return torch.cat([b.x for b in blocks]), torch.cat([b.y0 for b in blocks])


def test_stream_does_not_depend_on_the_number_of_workers(monkeypatch):
    data = NoisyHalfspace(Ball(40, 0.1), RandomNoise(0.2))
    monkeypatch.setattr(os, "cpu_count", lambda: 1)
    one = gather(data, 3000, 20, seed=5)
    monkeypatch.setattr(os, "cpu_count", lambda: 4)
    four = gather(data, 3000, 20, seed=5)
    assert torch.equal(one[0], four[0])
    assert torch.equal(one[1], four[1])
    assert len(list(data.stream(3000, 20))) > 1


def test_every_draw_of_the_stream_is_fresh():
    data = NoisyHalfspace(Ball(40, 0.1), RandomNoise(0.2))
    x, _ = gather(data, 3000, 20, seed=5)
    assert x.shape == (20, 40, 3000)
    assert len(torch.unique(x[:, 3])) > 0.95 * 60_000  # float32 uniforms repeat a little
    other, _ = gather(data, 3000, 20, seed=6)
    assert not torch.isin(x[:, :, 0].flatten(), other[:, :, 0].flatten()).all()
    correlation = np.corrcoef(x[:, 3].numpy())
    assert np.abs(correlation - np.eye(20)).max() < 0.1


def test_reprs_tell_shapes_in_one_line():
    data = NoisyHalfspace(Ball(5, 0.2), RandomNoise(0.2))
    sample = data.sample(100)
    x = "x=float32 (100, 5), y=int64 (100,), truth=int64 (100,), alpha=float32 (100,)"
    assert repr(sample) == f"Examples({x})"
    learner = HalfspaceLearner(Slam()).fit(sample.x, sample.y, alpha=0.8)
    assert repr(learner) == "HalfspaceLearner(Slam(), keep=1.1, rescale=False)"
    assert repr(learner.history_).startswith("Iterates(steps=int64 (")
    result = simulate(data, {"Slam": Slam(), "plain": Logistic()}, runs=2, steps=9, test_points=5)
    assert "traces=dict of 2" in repr(result)
    assert max(len(repr(one)) for one in (sample, learner, result, result.traces["Slam"])) < 120


def test_dir_lists_the_public_names_only():
    assert dir(halfspace) == sorted(halfspace.__all__)
