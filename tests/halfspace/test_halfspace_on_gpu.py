"""The same experiments on a CUDA device."""

import numpy as np
import pytest
import torch

from noisyteacher.halfspace import (
    HalfspaceLearner,
    NearMargin,
    NoisyHalfspace,
    RandomNoise,
    Slam,
    simulate,
)
from noisyteacher.halfspace.study import SHAPES, Cell, all_rules

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]


@pytest.mark.parametrize("shape", SHAPES)
def test_learners_reach_the_same_errors_on_both_devices(shape):
    data = Cell(shape, 0.3, 0.1, 0.2).data()
    options = {"runs": 300, "steps": 1500, "keep": 2.0, "holdout": 500, "gold": 301}
    errors = {
        device: simulate(data, all_rules(0.3), device=device, **options)
        for device in ("cpu", "cuda")
    }
    for name, trace in errors["cpu"].traces.items():
        other = errors["cuda"].traces[name]
        spread = trace.errors[-1].std() / np.sqrt(300) + 1e-3
        assert abs(trace.errors[-1].mean() - other.errors[-1].mean()) < 6 * spread
        assert (
            abs(
                errors["cpu"].chosen_errors[name].mean() - errors["cuda"].chosen_errors[name].mean()
            )
            < 0.02
        )


def test_the_same_examples_give_the_same_weights():
    sample = NoisyHalfspace(NearMargin(9, 0.3, rare=0.5), RandomNoise(0.2)).sample(300)
    on_cpu = HalfspaceLearner(Slam()).fit(sample.x, sample.y, 0.8)
    on_gpu = HalfspaceLearner(Slam(), device="cuda").fit(sample.x, sample.y, 0.8)
    torch.testing.assert_close(on_gpu.weights_.cpu(), on_cpu.weights_, rtol=1e-4, atol=1e-4)
    on_gpu.select(sample.x, sample.y, 0.8)
    assert isinstance(on_gpu.predict(sample.x), np.ndarray)
