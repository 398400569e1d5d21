"""Bulk labeling says what the model says."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from toy import Net, PlainCE, make_toy, small

from noisyteacher.core.errors import InputError
from noisyteacher.data import ImageViews
from noisyteacher.models import ResNetCifar
from noisyteacher.train import train
from noisyteacher.train.predict import label


def test_labels_are_the_models_probabilities() -> None:
    toy = make_toy()
    (student,) = train(toy.job("s", PlainCE()), toy.data, small(2), quiet=True)
    ids = np.array([f"row {i}" for i in range(len(toy.labels))])
    labels = label(
        student.network(),
        toy.data.inputs,
        toy.data.views,
        ids=ids,
        batch_size=37,
        embeddings=True,
        name="toy",
    )
    model = Net().build().eval()
    model.load_state_dict(student.state)
    expected = model(toy.data.inputs).softmax(1).detach().numpy()
    # Log-probabilities are stored in float16.
    np.testing.assert_allclose(labels.probs, expected, atol=2e-3)
    np.testing.assert_array_equal(labels.hard, expected.argmax(1))
    np.testing.assert_allclose(
        labels.extras["embedding"], model.embed(toy.data.inputs).detach().numpy(), rtol=1e-5
    )
    assert labels.teacher == "toy"
    assert labels.ids[3] == "row 3"


def test_view_statistics_are_mean_and_spread_over_crops() -> None:
    images = torch.from_numpy(
        np.random.default_rng(0).integers(0, 256, (5, 3, 32, 32), dtype=np.uint8)
    )
    views = ImageViews(mean=(0.5,) * 3, std=(0.25,) * 3)
    spec = ResNetCifar(depth=8, classes=4)
    torch.manual_seed(0)
    model = spec.build()
    labels = label(model, images, views, ids=np.arange(5), view_passes=4, seed=7)
    generator = torch.Generator().manual_seed(7)
    with torch.no_grad():
        logits = torch.stack([model(views.crop(images, generator)) for _ in range(4)])
    for i, temperature in enumerate((1.0, 2.0)):
        runs = (logits / temperature).softmax(-1)
        mean, std = labels.extras["view_mean"], labels.extras["view_std"]
        np.testing.assert_allclose(mean[:, i], runs.mean(0).numpy(), atol=1e-3)
        np.testing.assert_allclose(std[:, i], runs.std(0).numpy(), atol=1e-3)


def test_no_rows_have_labels_of_the_right_shape() -> None:
    views = ImageViews(mean=(0.5,) * 3, std=(0.25,) * 3)
    spec = ResNetCifar(depth=8, classes=4)
    labels = label(
        spec.build(),
        torch.empty((0, 3, 32, 32), dtype=torch.uint8),
        views,
        ids=np.arange(0),
        embeddings=True,
        view_passes=2,
    )
    assert labels.probs.shape == (0, 4)
    shapes = {name: values.shape for name, values in labels.extras.items()}
    assert shapes == {"embedding": (0, 64), "view_mean": (0, 2, 4), "view_std": (0, 2, 4)}


def test_bad_calls_are_refused() -> None:
    toy = make_toy()
    common = (Net().build(), toy.data.inputs, toy.data.views)
    with pytest.raises(InputError, match="3 ids do not match 240"):
        label(*common, ids=np.arange(3))
    with pytest.raises(InputError, match="at least 2"):
        label(*common, ids=np.arange(240), view_passes=1)
    with pytest.raises(InputError, match="image views"):
        label(*common, ids=np.arange(240), view_passes=2)
