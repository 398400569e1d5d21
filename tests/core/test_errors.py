"""Warnings name the user's file, however deep in the package they arise."""

from __future__ import annotations

import numpy as np
import pytest

from noisyteacher.core.errors import NoisyTeacherWarning, first_few
from noisyteacher.integrations.sklearn import SLaMClassifier


def test_a_warning_names_the_file_that_called_the_package() -> None:
    x = np.random.default_rng(0).normal(size=(80, 3))
    y = np.arange(40) % 2
    one_class = np.r_[np.full((30, 2), np.nan), np.full((10, 2), 0.5)]
    with pytest.warns(NoisyTeacherWarning) as caught:
        SLaMClassifier().fit(
            x[:40],
            np.r_[y[:30], np.zeros(10, np.int64)],
            X_pool=x[30:],
            teacher_probs=np.full((50, 2), 0.5),
            teacher_probs_gold=one_class,
        )
    assert any("so they cannot show" in str(found.message) for found in caught)
    assert {found.filename for found in caught} == {__file__}


def test_a_long_name_does_not_fill_the_screen() -> None:
    told = first_few(["a" * 1_000_000, "b"])
    assert told == f"'{'a' * 39}…{'a' * 39}', 'b'"
