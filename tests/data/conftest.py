"""Small datasets made on the spot, in the layouts that real ones come in."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache folder of the test's own, and no data folder from outside."""
    folder = tmp_path / "cache"
    monkeypatch.setenv("NOISYTEACHER_CACHE", str(folder))
    monkeypatch.delenv("NOISYTEACHER_DATA", raising=False)
    return folder


@pytest.fixture
def pictures() -> np.ndarray:
    """(12, 8, 8, 3) uint8."""
    return np.random.default_rng(3).integers(0, 256, (12, 8, 8, 3), dtype=np.uint8)
