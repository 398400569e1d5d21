"""Settings of the whole suite."""

from __future__ import annotations

import os

# Tests run side by side; threads of their own would only get into each other's way. The variables
# are read when NumPy, SciPy and torch are loaded, here and in the processes that tests start.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import pytest
import torch

torch.set_num_threads(1)


def pytest_configure(config: pytest.Config) -> None:
    # Not in pyproject.toml: there it would import the package before jaxtyping's hook is in place.
    config.addinivalue_line("filterwarnings", "error::noisyteacher.core.errors.NoisyTeacherWarning")
