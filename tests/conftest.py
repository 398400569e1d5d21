"""Settings of the whole suite."""

from __future__ import annotations

import os

# Tests run side by side; threads of their own would only get into each other's way. The variables
# are read when NumPy, SciPy and torch are loaded, here and in the processes that tests start.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import sys
from typing import Any

import numpy as np
import pytest
import torch

torch.set_num_threads(1)


_isin = np.isin


def _refuse_text(element: Any, test_elements: Any, **options: Any) -> Any:
    """``np.isin``, but not for text: it would compare every string with every other one."""
    if sys._getframe(1).f_globals["__name__"].startswith("noisyteacher."):
        kinds = {np.asarray(part).dtype.kind for part in (element, test_elements)}
        assert not kinds & set("OT"), "use noisyteacher.io.ids.are_among for ids"
    return _isin(element, test_elements, **options)


np.isin = _refuse_text


def pytest_configure(config: pytest.Config) -> None:
    # Not in pyproject.toml: there it would import the package before jaxtyping's hook is in place.
    config.addinivalue_line("filterwarnings", "error::noisyteacher.core.errors.NoisyTeacherWarning")
