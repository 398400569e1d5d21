"""From a split to jobs: who is trained on what, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from toy import NoisyViews

from noisyteacher.core.errors import InputError, MissingIdsError, NoisyTeacherWarning
from noisyteacher.data import Split
from noisyteacher.labels import TeacherLabels
from noisyteacher.methods import GoldOnly, SLaM, Vanilla, Weighted
from noisyteacher.models import Linear
from noisyteacher.train import Problem, TrainData

ROWS = np.arange(100)
IDS = np.array([f"row {i}" for i in ROWS])
Y = np.random.default_rng(0).integers(0, 3, 100)
SPLIT = Split(ROWS[:10], ROWS[10:40], ROWS[40:50], ROWS[50:])


def problem(y: np.ndarray = Y, split: Split = SPLIT) -> Problem:
    data = TrainData(torch.zeros(100, 4), NoisyViews(), 3)
    return Problem(data, IDS, y, split, Linear(4, 3))


def labels(ids: np.ndarray = IDS) -> TeacherLabels:
    rng = np.random.default_rng(1)
    return TeacherLabels.from_logits(ids, rng.normal(size=(len(ids), 3)).astype(np.float32))


@pytest.mark.parametrize(
    ("role", "gold", "pool"), [("gold", 40, 50), ("pool", 10, 80), ("out", 10, 50)]
)
def test_the_roles_of_v(role: str, gold: int, pool: int) -> None:
    job = problem().job("s", SLaM(k=2), labels(), val_role=role)
    y = job.prepared.columns.y.numpy()
    assert ((y >= 0).sum(), (y < 0).sum()) == (gold, pool)
    known = job.positions[y >= 0]
    np.testing.assert_array_equal(y[y >= 0], Y[known])
    # However V takes part, the noise model is fitted on it.
    assert job.prepared.noise.n_val_ == 30
    assert not np.isin(SPLIT.selection, job.positions).any()


def test_gold_only_needs_no_labels() -> None:
    job = problem().job("s", GoldOnly(), None)
    assert len(job.prepared.columns) == 40
    assert job.prepared.columns.rows_per_epoch == 90


def test_missing_labels_are_named() -> None:
    with pytest.raises(MissingIdsError, match=r"row 9[0-9]"):
        problem().job("s", Vanilla(), labels(IDS[:90]))


def test_labels_of_strangers_are_named_once() -> None:
    wide = labels(np.concatenate([IDS, ["stranger"]]))
    here = problem()
    with pytest.warns(NoisyTeacherWarning, match="1 of 101 labeled ids .*'stranger'"):
        here.job("s", Vanilla(), wide)
    here.job("again", Vanilla(), wide)


def test_overlaps_and_wrong_labels_are_refused() -> None:
    with pytest.raises(InputError, match="gold and val share 1 examples"):
        problem(split=Split(ROWS[:11], ROWS[10:40], ROWS[40:50], ROWS[50:])).job(
            "s", GoldOnly(), None
        )
    unknown = Y.copy()
    unknown[3] = -1
    with pytest.raises(InputError, match=r"0\.\.2; those of 'row 3'"):
        problem(unknown).job("s", GoldOnly(), None)
    with pytest.raises(InputError, match="val_role"):
        problem().job("s", GoldOnly(), None, val_role="gone")


def test_a_method_that_needs_pre_training_says_so() -> None:
    with pytest.raises(InputError, match=r"pre-trained on A: train one with GoldOnly\(\)"):
        problem().job("s", Weighted(), labels())
