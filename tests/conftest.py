"""Settings of the whole suite."""

from __future__ import annotations

import pytest
import torch

# Tests run side by side; threads of their own would only get into each other's way.
torch.set_num_threads(1)


def pytest_configure(config: pytest.Config) -> None:
    # Not in pyproject.toml: there it would import the package before jaxtyping's hook is in place.
    config.addinivalue_line("filterwarnings", "error::noisyteacher.core.errors.NoisyTeacherWarning")
