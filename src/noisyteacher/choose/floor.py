"""The floor that every student of a teacher has to beat: logistic regression on gold labels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import torch
from scipy.sparse import csr_matrix
from sklearn.linear_model import LogisticRegression
from torch import Tensor

from noisyteacher.data import Inputs
from noisyteacher.models import BagLinear, Linear, ModelSpec

STRENGTHS = (0.1, 1.0, 10.0, 100.0)  # scikit-learn's C, chosen on S
_UNSEEN_LOGIT = -20.0  # of a class without a gold example

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


def as_network(
    model: LogisticRegression, classes: int, *, bags: bool
) -> tuple[ModelSpec, dict[str, Tensor]]:
    """The same function as a linear network: its settings and weights."""
    coef, intercept = model.coef_, model.intercept_
    if len(model.classes_) == 2:
        # scikit-learn keeps one row for two classes: the logit of the second against the first.
        coef, intercept = np.vstack([0 * coef, coef]), np.append(0.0, intercept)
    features = coef.shape[1]
    weight = np.zeros((classes, features), np.float32)
    bias = np.full(classes, _UNSEEN_LOGIT, np.float32)
    weight[model.classes_], bias[model.classes_] = coef, intercept
    if bags:
        state = {"bag.weight": torch.from_numpy(weight.T.copy()), "bias": torch.from_numpy(bias)}
        return BagLinear(features, classes), state
    state = {"fc.weight": torch.from_numpy(weight), "fc.bias": torch.from_numpy(bias)}
    return Linear(features, classes), state
