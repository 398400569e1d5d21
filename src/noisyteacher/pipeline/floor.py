"""The floor to beat: plain logistic regression on the gold labels, as a student of its own."""

from __future__ import annotations

import numpy as np
import torch

from noisyteacher.choose.floor import FeatureMatrix, as_network, feature_matrix, fit_floor
from noisyteacher.data import Tfidf
from noisyteacher.data.input_format import InputFormat, RawInputs, fit_format
from noisyteacher.data.tensors import gather_rows
from noisyteacher.pipeline.student import Student
from noisyteacher.pipeline.task import Task
from noisyteacher.train import Inputs


def train_floor(task: Task, inputs: InputFormat, tensors: Inputs) -> Student:
    """Fit on A and V with each strength, keep the best on S; the weaker one wins ties.

    Text students that are encoders bring no bags of words, so the floor makes its own.
    """
    if task.kind == "text" and not isinstance(inputs.featurizer, Tfidf):
        inputs, tensors = fit_format("text", task.inputs, Tfidf())
    parts, views = task.split, inputs.views()

    def features(rows: np.ndarray) -> FeatureMatrix:
        shown = views.plain(gather_rows(tensors, torch.from_numpy(rows)))
        return feature_matrix(shown, inputs.features)

    rows = np.concatenate([parts.gold, parts.val])
    chosen = features(parts.selection), task.y[parts.selection]
    floor = fit_floor(features(rows), task.y[rows], *chosen)
    best, bags = floor.models[floor.best], task.kind == "text"
    return Student(*as_network(best, len(task.classes), bags=bags), task.classes, inputs)


def accuracy(student: Student, inputs: RawInputs, y: np.ndarray) -> float:
    """In percent."""
    return 100 * float(np.mean(student.logits(inputs).argmax(1) == y))
