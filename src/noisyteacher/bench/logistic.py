"""The plain floor: a logistic regression on the gold labels of A and V, its strength chosen on S.

The best student of gold labels only is what every teacher has to beat, and on words or tables that
is often this one.
"""

from __future__ import annotations

import time
from dataclasses import asdict

import numpy as np
from scipy.sparse import csr_matrix
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score

from noisyteacher.bench.run import BenchRun
from noisyteacher.bench.students import trial_seed
from noisyteacher.core.errors import InputError
from noisyteacher.core.machine import hardware
from noisyteacher.data import Split
from noisyteacher.pipeline.floor import STRENGTHS
from noisyteacher.runs import Row
from noisyteacher.train import EpochRecord, Inputs, TrainData

NAME = "LogisticRegression()"


def write_logistic_rows(run: BenchRun, labeled: int) -> None:
    """A row for every trial of this size that has none; its ``epochs`` are those of its rivals."""
    have = {
        (row.labeled, row.trial, row.epochs, row.gold_repeat)
        for row in run.run_folder.rows()
        if (row.method, row.recipe) == (NAME, run.recipe.name)
    }
    training = run.recipe.student_training
    for trial in range(run.recipe.trials):
        if (labeled, trial, training.epochs, training.gold_repeat) not in have:
            run.run_folder.append(_fit(run, labeled, trial, run.split(labeled, trial)))


def _fit(run: BenchRun, labeled: int, trial: int, parts: Split) -> Row:
    began = time.monotonic()
    recipe, y, test_y = run.recipe, run.dataset.y, np.asarray(run.dataset.test_y)
    x, test_x = _matrices(run.data)
    known = np.concatenate([parts.gold, parts.val])
    curve, said = [], []
    for i, strength in enumerate(STRENGTHS, 1):
        model = LogisticRegression(C=strength, max_iter=2000).fit(x[known], y[known])
        chosen = 100 * float(np.mean(model.predict(x[parts.selection]) == y[parts.selection]))
        said.append(model.predict(test_x))
        loss = -float(np.mean(_log_probability(model, x[known], y[known])))
        curve.append(EpochRecord(i, loss, chosen, 100 * float(np.mean(said[-1] == test_y))))
    best = max(range(len(curve)), key=lambda i: (curve[i].selection, -i))
    seconds = time.monotonic() - began
    training, seed = recipe.student_training, trial_seed(recipe, labeled, trial)
    return Row(
        recipe=recipe.name,
        dataset=recipe.dataset,
        distillation=None,
        labeled=labeled,
        method=NAME,
        gold_repeat=training.gold_repeat,
        generation=1,
        trial=trial,
        epochs=training.epochs,
        accuracy={
            "last": curve[best].test,
            "selected": curve[best].test,
            "best_test": max(point.test for point in curve if point.test is not None),
        },
        macro_f1=100 * float(f1_score(test_y, said[best], average="macro", zero_division=0)),
        teacher_accuracy=None,
        curve=[asdict(point) for point in curve],
        seconds=round(seconds, 3),
        images_per_second=round(len(known) * len(STRENGTHS) / max(seconds, 1e-9), 1),
        seeds={"recipe": recipe.seed, "trial": trial, "student": seed},
        hardware=hardware("cpu"),
    )


def _log_probability(model: LogisticRegression, x: csr_matrix, y: np.ndarray) -> np.ndarray:
    place = np.searchsorted(model.classes_, y)
    return np.asarray(model.predict_log_proba(x)[np.arange(len(y)), place])


def _matrices(data: TrainData) -> tuple[csr_matrix, csr_matrix]:
    """Training and test part, bags of words or tables, as scikit-learn reads them."""
    if data.test_inputs is None:
        raise InputError("A logistic regression is judged on a test part, and there is none.")
    parts = (data.inputs, data.test_inputs)
    if isinstance(data.inputs, tuple):
        width = 1 + max(int(part[0].max()) for part in parts)
        return _bags(parts[0], width), _bags(parts[1], width)
    if data.inputs.ndim != 2:
        raise InputError("A logistic regression reads words or a table, not images.")
    train, test = (csr_matrix(np.asarray(part)) for part in parts)
    return train, test


def _bags(pair: Inputs, width: int) -> csr_matrix:
    index, values = (part.cpu().numpy() for part in pair)
    rows = np.repeat(np.arange(len(index)), index.shape[1])
    return csr_matrix((values.reshape(-1), (rows, index.reshape(-1))), shape=(len(index), width))
