"""Linear students of teachers with a planted fault: what ``distill`` returns, and what it says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier

import noisyteacher as nt
from command_line import run, run_well
from noisyteacher.core.errors import InputError, NoisyTeacherWarning
from noisyteacher.labels import TeacherLabels
from noisyteacher.methods import SLaM, Vanilla
from noisyteacher.pipeline import Student

NAMES = np.array(["a", "b", "c"])
WIDTH = 8
GOLD, VAL, POOL, TEST = slice(0, 120), slice(120, 240), slice(240, 540), slice(540, 3540)
# Hard labels are what a fault of the teacher spoils first.
METHODS = (Vanilla(hard=True), SLaM())


def table(seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Ids, rows and classes; the classes overlap, so that one neighbor is a poor guide."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 3, TEST.stop)
    centers = 0.7 * rng.normal(size=(3, WIDTH))
    x = (centers[y] + rng.normal(size=(len(y), WIDTH))).astype(np.float32)
    return np.arange(len(y)), x, y


def distilled(said: np.ndarray, seed: int = 0, gold: slice = GOLD, **more: Any) -> Student:
    """A linear student of a teacher that says these classes, and is sure of them."""
    ids, x, y = table(seed)
    labels = TeacherLabels.from_probs(ids[:540], (0.02 + 0.94 * np.eye(3)[said])[:540], NAMES)
    parts = {"gold": (ids[gold], x[gold], NAMES[y[gold]]), "pool": (ids[POOL], x[POOL])}
    return nt.distill("linear", **parts, labels=labels, method=METHODS, **more)


def accuracy_of(predict: Any, seed: int = 0) -> float:
    _, x, y = table(seed)
    return float(np.mean(predict(x[TEST]) == NAMES[y[TEST]]))


def gold_only(rows: slice, seed: int = 0) -> float:
    """The best of several logistic regressions on gold labels alone, in hindsight."""
    _, x, y = table(seed)
    fits = [
        LogisticRegression(C=c, max_iter=1000).fit(x[rows], NAMES[y[rows]])
        for c in (0.01, 0.1, 1, 10)
    ]
    return max(accuracy_of(fit.predict, seed) for fit in fits)


def trained_on_gold(seed: int = 0) -> np.ndarray:
    """What one neighbor among the gold rows says: all of them right, and many others wrong."""
    _, x, y = table(seed)
    said = KNeighborsClassifier(1).fit(x[GOLD], y[GOLD]).predict(x)
    assert (said[GOLD] == y[GOLD]).all()
    assert np.mean(said[TEST] == y[TEST]) < gold_only(GOLD, seed) - 0.05
    return np.asarray(said)


def stated(student: Student) -> float:
    return float(student.about["candidates"][-1]["accuracy"]) / 100


@pytest.mark.parametrize("seed", [0, 1])
def test_rows_that_the_teacher_never_saw_tell_what_it_is_worth(seed: int) -> None:
    ids, x, y = table(seed)
    val = (ids[VAL], x[VAL], NAMES[y[VAL]])
    student = distilled(trained_on_gold(seed), seed, val=val)
    accuracy = accuracy_of(student.predict, seed)
    assert accuracy > gold_only(slice(0, 240), seed) - 0.015
    assert student.about["teacher"]["accuracy_on_gold"] < 80
    low, high = student.about["candidates"][-1]["interval"]
    assert low <= 100 * accuracy <= high
    assert "were worth it" not in student.about["verdict"]
    assert "probably trained on them" not in student.about["verdict"]


def test_a_teacher_that_has_seen_the_gold_rows_is_pointed_out() -> None:
    """Its pool labels carry the classes of held-out gold rows, so that all figures are too high."""
    with pytest.warns(NoisyTeacherWarning, match="right on all 120 gold rows: it was probably"):
        student = distilled(trained_on_gold())
    assert stated(student) > accuracy_of(student.predict) + 0.02
    assert (
        "The teacher is right on all of these rows. It was probably trained on them, which would "
        "make these figures too high; measure it on rows that it was not trained on (--val)."
    ) in student.about["verdict"]


def test_a_teacher_that_saw_gold_is_refused_without_val(tmp_path: Path) -> None:
    ids, x, y = table()
    said = trained_on_gold()
    for name, part in (("gold", GOLD), ("val", VAL), ("pool", POOL)):
        columns: dict[str, Any] = {f"f{i}": x[part, i] for i in range(WIDTH)} | {"id": ids[part]}
        if name != "pool":
            columns["label"] = NAMES[y[part]]
        pq.write_table(pa.table(columns), tmp_path / f"{name}.parquet")
    labels = TeacherLabels.from_probs(ids[:540], (0.02 + 0.94 * np.eye(3)[said])[:540], NAMES)
    labels.save(tmp_path / "labels")
    files = ("--gold", tmp_path / "gold.parquet", "--pool", tmp_path / "pool.parquet")
    where = (*files, "--labels", tmp_path / "labels", "--out", tmp_path / "run")
    command = ("distill", *where, "--student", "linear", "--quick", "--teacher-saw-gold")
    refused = run(*command)
    assert isinstance(refused.exception, InputError)
    told = "cannot be measured on them. Use --val to give labeled examples"
    assert told in str(refused.exception)
    assert not (tmp_path / "run").exists()
    run_well(*command, "--val", tmp_path / "val.parquet")


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_labels_that_are_noise_do_no_harm_and_are_called_so(seed: int) -> None:
    said = np.random.default_rng(seed + 10).integers(0, 3, TEST.stop)
    ids, x, y = table(seed)
    test = (ids[TEST], x[TEST], NAMES[y[TEST]])
    student = distilled(said, seed, slice(0, 240), test=test)
    by_name = {one["candidate"]: one for one in student.about["candidates"]}
    returned = by_name["the returned blend"]["accuracy_on_test"]
    assert returned > by_name["GoldOnly()"]["accuracy_on_test"] - 1
    verdict = student.about["verdict"]
    assert "were not worth it" in verdict or "did not help" in verdict
