"""A second generation: students label the pool, V's gold unseen by them."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from noisyteacher.core.errors import InputError
from noisyteacher.data import Split, TableViews
from noisyteacher.labels import TeacherLabels
from noisyteacher.methods import SLaM, Vanilla
from noisyteacher.models import Linear
from noisyteacher.pipeline import next_labels
from noisyteacher.train import Adam, Constant, Problem, TrainConfig, TrainData, train
from noisyteacher.train.predict import label

CONFIG = TrainConfig(epochs=6, batch_size=64, optimizer=Adam(0.05), schedule=Constant())


def make_problem() -> tuple[Problem, TeacherLabels]:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(900, 8)).astype(np.float32)
    truth = rng.normal(size=(8, 3))
    y = (x @ truth).argmax(1)
    noisy = np.where(rng.random(900) < 0.35, rng.integers(0, 3, 900), y)
    logits = 1.5 * np.eye(3)[noisy] + 0.3 * rng.normal(size=(900, 3))
    labels = TeacherLabels.from_logits(np.arange(900), logits.astype(np.float32))
    views = TableViews((0.0,) * 8, (1.0,) * 8)
    data = TrainData(torch.from_numpy(x), views, 3)
    rows = np.arange(900)
    split = Split(rows[:30], rows[30:150], rows[150:200], rows[200:])
    return Problem(data, rows, y, split, Linear(8, 3)), labels


def test_students_are_better_teachers_than_the_teacher() -> None:
    problem, labels = make_problem()
    second = next_labels(problem, SLaM(), labels, CONFIG, students=2, quiet=True)
    pool = problem.split.pool
    before = (labels.hard[pool] == problem.y[pool]).mean()
    after = (second.hard[pool] == problem.y[pool]).mean()
    assert after > before + 0.1
    np.testing.assert_array_equal(second.ids, labels.ids)
    (student,) = train(problem.job("last", SLaM(), second), problem.data, CONFIG, quiet=True)
    assert student.history.curve[-1].selection > 100 * before


def test_labels_are_the_mean_of_the_students() -> None:
    problem, labels = make_problem()
    found = next_labels(problem, Vanilla(), labels, CONFIG, students=2, seed=5, quiet=True)
    alone = []
    for i in range(2):
        seed = int(np.random.SeedSequence([5, i]).generate_state(1)[0])
        job = problem.job("s", Vanilla(), labels, seed=seed, val_role="pool")
        (student,) = train(job, problem.data, CONFIG, quiet=True)
        alone.append(
            label(
                student.network(),
                problem.data.inputs,
                problem.data.views,
                ids=problem.ids,
            ).probs
        )
    np.testing.assert_allclose(found.probs, np.mean(alone, 0), atol=2e-3)


def test_first_students_never_see_the_gold_of_v() -> None:
    problem, labels = make_problem()
    poisoned = problem.y.copy()
    job = problem.job("s", Vanilla(), labels, val_role="pool")
    in_v = np.isin(job.positions, problem.split.val)
    assert in_v.sum() == len(problem.split.val)
    assert (job.prepared.columns.y.numpy()[in_v] == -1).all()
    # Vanilla fits nothing on V either, so V's truth cannot change the labels it gives.
    poisoned[problem.split.val] = (poisoned[problem.split.val] + 1) % 3
    other = Problem(problem.data, problem.ids, poisoned, problem.split, problem.model)
    one, two = (
        next_labels(p, Vanilla(), labels, CONFIG, students=1, quiet=True) for p in (problem, other)
    )
    np.testing.assert_array_equal(one.probs, two.probs)


def test_no_student_is_refused() -> None:
    problem, labels = make_problem()
    with pytest.raises(InputError, match="at least one student"):
        next_labels(problem, SLaM(), labels, CONFIG, students=0)


def test_time_that_runs_out_gives_no_labels_and_a_later_call_goes_on(tmp_path) -> None:
    problem, labels = make_problem()
    settings = {"students": 1, "out": tmp_path, "quiet": True}
    assert next_labels(problem, Vanilla(), labels, CONFIG, minutes=0, **settings) is None
    found = next_labels(problem, Vanilla(), labels, CONFIG, **settings)
    assert found is not None
    assert len(found) == len(problem.ids)
