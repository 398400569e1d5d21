"""The floor that every student of a teacher has to beat: logistic regression on gold labels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from scipy.sparse import csr_matrix
from sklearn.linear_model import LogisticRegression

from noisyteacher.data import Inputs

STRENGTHS = (0.1, 1.0, 10.0, 100.0)  # scikit-learn's C, chosen on S

FeatureMatrix: TypeAlias = np.ndarray | csr_matrix  # (n, d)


@dataclass(frozen=True, eq=False)
class Floor:
    """A logistic regression of each strength, and its accuracy on S in percent."""

    models: tuple[LogisticRegression, ...]
    selection: tuple[float, ...]

    @property
    def best(self) -> int:
        """The place of the best on S; the weaker one wins ties."""
        return int(np.argmax(self.selection))


def fit_floor(
    x: FeatureMatrix, y: np.ndarray, selection_x: FeatureMatrix, selection_y: np.ndarray
) -> Floor:
    """Fit with each strength, and judge on S."""
    models = [LogisticRegression(C=c, max_iter=2000).fit(x, y) for c in STRENGTHS]
    scores = [100 * float(np.mean(m.predict(selection_x) == selection_y)) for m in models]
    return Floor(tuple(models), tuple(scores))


def feature_matrix(inputs: Inputs, width: int) -> FeatureMatrix:
    """Tables (n, d) as they are, bags of words as sparse rows with ``width`` columns."""
    if not isinstance(inputs, tuple):
        return inputs.cpu().numpy()
    index, values = (part.cpu().numpy() for part in inputs)
    ends = np.arange(len(index) + 1) * index.shape[1]
    columns = (values.reshape(-1), index.reshape(-1), ends)
    # A copy: what is done to the matrix must not change the inputs.
    return csr_matrix(columns, shape=(len(index), width), copy=True)
