"""Scikit-learn's bundled handwritten digits: real data that needs no network.

1 797 images of 8×8 as tables of 64 features in 0..1. A fixed draw of 497 is the test part.
"""

from __future__ import annotations

import numpy as np
from sklearn.datasets import load_digits

from noisyteacher.data.source import Part, Source

_TEST_ROWS = 497
_SEED = 0


def read() -> Source:
    """The digits, always split in the same way."""
    pixels, y = load_digits(return_X_y=True)
    inputs = (pixels / 16).astype(np.float32)
    ids = np.array([f"digit/{row}" for row in range(len(y))], np.str_)
    drawn = np.random.default_rng(_SEED).permutation(len(y))
    train, test = (
        Part(ids[rows], y[rows].astype(np.int64), inputs[rows])
        for rows in (np.sort(drawn[_TEST_ROWS:]), np.sort(drawn[:_TEST_ROWS]))
    )
    return Source("table", tuple(str(digit) for digit in range(10)), train, test)
