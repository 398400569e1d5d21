"""The floor to beat: plain logistic regression on the gold labels, as a student of its own."""

from __future__ import annotations

import numpy as np
import torch
from scipy.sparse import csr_matrix
from sklearn.linear_model import LogisticRegression
from torch import Tensor

from noisyteacher.data import Tfidf
from noisyteacher.data.input_format import InputFormat, RawInputs, fit_format
from noisyteacher.data.tensors import gather_rows
from noisyteacher.models import BagLinear, Linear, ModelSpec
from noisyteacher.pipeline.student import Student
from noisyteacher.pipeline.task import Task
from noisyteacher.train import Inputs

STRENGTHS = (0.1, 1.0, 10.0, 100.0)  # scikit-learn's C, chosen on S
_UNSEEN_LOGIT = -20.0  # of a class without a gold example


def train_floor(task: Task, inputs: InputFormat, tensors: Inputs) -> Student:
    """Fit on A and V with each strength, keep the best on S; the weaker one wins ties.

    Text students that are encoders bring no bags of words, so the floor makes its own.
    """
    if task.kind == "text" and not isinstance(inputs.featurizer, Tfidf):
        inputs, tensors = fit_format("text", task.inputs, Tfidf())
    parts = task.split
    rows = np.concatenate([parts.gold, parts.val])
    features, y = _features(inputs, tensors, rows), task.y[rows]
    chosen, chosen_y = _features(inputs, tensors, parts.selection), task.y[parts.selection]
    best: tuple[float, Student] | None = None
    for strength in STRENGTHS:
        fitted = LogisticRegression(C=strength, max_iter=2000).fit(features, y)
        right = float(np.mean(fitted.predict(chosen) == chosen_y))
        if best is None or right > best[0]:
            best = (right, _student(fitted, inputs, task.classes))
    assert best is not None
    return best[1]


def _features(inputs: InputFormat, tensors: Inputs, rows: np.ndarray) -> np.ndarray | csr_matrix:
    shown = inputs.views().plain(gather_rows(tensors, torch.from_numpy(rows)))
    if not isinstance(shown, tuple):
        return shown.numpy()
    index, values = (part.numpy() for part in shown)
    ends = np.arange(len(index) + 1) * index.shape[1]
    shape = (len(index), inputs.features)
    return csr_matrix((values.reshape(-1), index.reshape(-1), ends), shape=shape)


def _student(fitted: LogisticRegression, inputs: InputFormat, classes: tuple[str, ...]) -> Student:
    """The same function as a network's weights."""
    coef, intercept = fitted.coef_, fitted.intercept_
    if len(fitted.classes_) == 2:
        # scikit-learn keeps one row for two classes: the logit of the second against the first.
        coef, intercept = np.vstack([0 * coef, coef]), np.append(0.0, intercept)
    weight = np.zeros((len(classes), coef.shape[1]), np.float32)
    bias = np.full(len(classes), _UNSEEN_LOGIT, np.float32)
    weight[fitted.classes_], bias[fitted.classes_] = coef, intercept
    spec: ModelSpec
    state: dict[str, Tensor]
    if inputs.kind == "text":
        spec = BagLinear(inputs.features, len(classes))
        state = {"bag.weight": torch.from_numpy(weight.T.copy()), "bias": torch.from_numpy(bias)}
    else:
        spec = Linear(inputs.features, len(classes))
        state = {"fc.weight": torch.from_numpy(weight), "fc.bias": torch.from_numpy(bias)}
    return Student(spec, state, classes, inputs)


def accuracy(student: Student, inputs: RawInputs, y: np.ndarray) -> float:
    """In percent."""
    return 100 * float(np.mean(student.logits(inputs).argmax(1) == y))
