"""Schedules against the paper's printed numbers."""

from __future__ import annotations

import pytest

from noisyteacher.train import IMAGENET_STEPS, Constant, Cosine, Steps


def keras_rate(epoch: int) -> float:
    """The CIFAR schedule as its source writes it: 0-based epochs, strictly greater, absolute."""
    rate = 1.0
    for threshold, factor in ((80, 1e-1), (120, 1e-2), (160, 1e-3), (180, 0.5e-3)):
        if epoch > threshold:
            rate = factor
    return rate


def test_cifar_steps_are_absolute_and_strict() -> None:
    for epoch in range(200):
        assert Steps().factors(epoch, 200, 2) == [keras_rate(epoch)] * 2


def test_cifar_steps_scale() -> None:
    # 60 epochs: the thresholds fall at 24, 36, 48 and 54.
    at = [Steps().factors(epoch, 60, 1)[0] for epoch in range(60)]
    assert [i for i in range(1, 60) if at[i] != at[i - 1]] == [25, 37, 49, 55]


def test_imagenet_warms_up_then_steps() -> None:
    first = IMAGENET_STEPS.factors(0, 100, 10)
    assert first[0] == pytest.approx(1 / 50)
    assert IMAGENET_STEPS.factors(4, 100, 10)[-1] == 1.0
    changes = {31: 1e-1, 61: 1e-2, 81: 1e-3}
    for epoch in range(5, 100):
        expected = [factor for start, factor in changes.items() if epoch >= start]
        assert IMAGENET_STEPS.factors(epoch, 100, 1) == [expected[-1] if expected else 1.0]


def test_cosine_starts_at_the_peak_and_ends_near_zero() -> None:
    whole = [f for epoch in range(10) for f in Cosine().factors(epoch, 10, 5)]
    assert whole[0] == 1.0
    assert whole[25] == pytest.approx(0.5)
    assert 0 < whole[-1] < 0.01
    assert whole == sorted(whole, reverse=True)


def test_cosine_warm_up_reaches_the_peak() -> None:
    whole = [f for epoch in range(10) for f in Cosine(warmup=0.2).factors(epoch, 10, 5)]
    assert whole[:10] == pytest.approx([(i + 1) / 10 for i in range(10)])
    assert whole[10] == 1.0


def test_cosine_warm_up_of_a_fraction_of_a_step_stays_below_the_peak() -> None:
    assert max(Cosine(warmup=0.1).factors(0, 1, 11)) == 1.0


def test_constant() -> None:
    assert Constant().factors(3, 9, 2) == [1.0, 1.0]
