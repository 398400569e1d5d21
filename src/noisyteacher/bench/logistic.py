"""The floor of a recipe: a plain logistic regression on gold labels, its strength chosen on S."""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_matrix
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score, log_loss

from noisyteacher.bench.bench_run import BenchRun
from noisyteacher.bench.plan import PlannedStudent
from noisyteacher.bench.recipe import LOGISTIC, Arm
from noisyteacher.core.errors import InputError
from noisyteacher.core.machine import hardware
from noisyteacher.data.tensors import FeatureMatrix, feature_matrix
from noisyteacher.methods import GoldOnly
from noisyteacher.runs import Row
from noisyteacher.train import TrainData

STRENGTHS = (0.1, 1.0, 10.0, 100.0)  # scikit-learn's C, chosen on S


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
    """Fit with each strength, and compare on S."""
    models = [LogisticRegression(C=c, max_iter=2000).fit(x, y) for c in STRENGTHS]
    scores = [100 * float(model.score(selection_x, selection_y)) for model in models]
    return Floor(tuple(models), tuple(scores))


def write_logistic_rows(run: BenchRun, labeled: int) -> None:
    """A logistic regression on A and V for every trial without one: often the best of gold alone.

    The ``epochs`` of its rows are those of its rivals; its curve has a point for each strength.
    """
    have = {row.key for row in run.run_folder.rows()}
    for trial in range(run.recipe.trials):
        rival = PlannedStudent(run.recipe, labeled, Arm(), GoldOnly(), trial)
        if tuple((rival.row_start | {"method": LOGISTIC}).values()) not in have:
            run.run_folder.append(_logistic_row(run, rival))


def _logistic_row(run: BenchRun, rival: PlannedStudent) -> Row:
    began = time.monotonic()
    parts, test_y = run.split(rival.labeled, rival.trial), np.asarray(run.dataset.test_y)
    x, test_x = _feature_matrices(run.data)
    y, known = run.dataset.y, np.concatenate([parts.gold, parts.val])
    floor = fit_floor(x[known], y[known], x[parts.selection], y[parts.selection])
    curve = [
        {
            "epoch": i + 1,
            "loss": float(log_loss(y[known], m.predict_proba(x[known]), labels=m.classes_)),
            "selection": floor.selection[i],
            "test": 100 * float(m.score(test_x, test_y)),
        }
        for i, m in enumerate(floor.models)
    ]
    said = floor.models[floor.best].predict(test_x)
    seconds, best = time.monotonic() - began, curve[floor.best]["test"]
    return Row(
        **rival.row_start | {"method": LOGISTIC},
        accuracy={"last": best, "selected": best, "best_test": max(p["test"] for p in curve)},
        macro_f1=100 * float(f1_score(test_y, said, average="macro", zero_division=0)),
        teacher_accuracy=None,
        curve=curve,
        seconds=round(seconds, 3),
        images_per_second=round(len(known) * len(STRENGTHS) / max(seconds, 1e-9), 1),
        seeds={"recipe": run.recipe.seed, "trial": rival.trial, "student": rival.seed},
        hardware=hardware("cpu"),
    )


def _feature_matrices(data: TrainData) -> tuple[csr_matrix, csr_matrix]:
    """Training and test part, bags of words or tables."""
    if data.test_inputs is None:
        raise InputError("A logistic regression needs a test part, and there is none.")
    parts = (data.inputs, data.test_inputs)
    width = 0
    if isinstance(data.inputs, tuple):
        width = 1 + max(int(part[0].max()) for part in parts)
    elif data.inputs.ndim != 2:
        raise InputError("A logistic regression reads words or a table, not images.")
    found = [csr_matrix(feature_matrix(part, width)) for part in parts]
    for matrix in found:
        matrix.sum_duplicates()
    return found[0], found[1]
