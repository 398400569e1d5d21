"""Data made once for all tests of this folder."""

from __future__ import annotations

from pathlib import Path

import pytest
from made_data import write_celeba, write_images, write_reviews


@pytest.fixture(scope="session")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder with tiny stand-ins for the paper's datasets."""
    folder = tmp_path_factory.mktemp("data")
    write_images(folder / "cifar10", classes=10, side=32)
    write_images(folder / "cifar100", classes=100, side=32)
    write_images(folder / "imagenet", classes=10, side=40)
    write_celeba(folder / "celeba")
    write_reviews(folder / "imdb")
    return folder


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")
