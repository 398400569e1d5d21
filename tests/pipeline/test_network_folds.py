"""Networks in several folds: which student judges which rows, and what each was trained on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch

from noisyteacher.choose import linear_choice
from noisyteacher.choose.choice import Candidate
from noisyteacher.choose.evidence import DecisionRows
from noisyteacher.data.input_format import fit_format
from noisyteacher.labels import TeacherLabels
from noisyteacher.methods import Consistency, GoldOnly, SLaM, Vanilla
from noisyteacher.pipeline import DistillSettings, gather, network_run, run_distill
from noisyteacher.pipeline.network_run import _NetworkFit
from noisyteacher.pipeline.preparation import Run
from noisyteacher.pipeline.task import Task
from noisyteacher.train import Adam, Job, TrainConfig, Trained, train
from noisyteacher.train.predict import predict_logits
from noisyteacher.train.solver import LinearFit
from user_files import MOODS, noisy_probs

SHORT = TrainConfig(2, 32, Adam(0.02), steps_per_epoch=10)
FLOOR = Candidate(None)
TWO_VIEWS = Candidate(Consistency(SLaM(k=2)))
# Students of two views stand before one of one view, and are trained after it.
CANDIDATES = [FLOOR, Candidate(GoldOnly()), TWO_VIEWS, Candidate(Vanilla())]


def sets(**roles: slice) -> dict[str, Any]:
    """90 gold rows, the last 20 of which have the inputs of the first 20; pool and test."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 400)
    x = rng.normal(size=(400, 5)).astype(np.float32)
    x[:, 0] += 1.5 * y
    x[70:90] = x[:20]
    ids, names = np.arange(400), np.array(MOODS)[y]
    labeled = {"gold": slice(0, 90), "test": slice(330, 400)} | roles
    return {
        **{name: (ids[rows], x[rows], names[rows]) for name, rows in labeled.items()},
        "pool": (ids[90:250], x[90:250]),
        "labels": TeacherLabels.from_probs(ids, noisy_probs(y, 2, 0.8), MOODS),
    }


def fit_of(task: Task, **settings: Any) -> _NetworkFit:
    inputs, tensors = fit_format("table", task.inputs)
    chosen = DistillSettings("mlp", training=SHORT, **settings)
    device = torch.device("cpu")
    return _NetworkFit(Run(task, chosen, inputs, tensors, None, device, lambda text: None, True))


@pytest.fixture(scope="module")
def trained() -> _NetworkFit:
    fit = fit_of(gather(**sets()), folds=3)
    assert fit.train(CANDIDATES, fit.task.labels)
    return fit


def test_every_row_is_judged_by_the_student_that_did_not_see_it(trained: _NetworkFit) -> None:
    fit, x = trained, np.asarray(trained.task.inputs)
    assert len(fit.held_out) == 3
    for candidate in CANDIDATES:
        said = fit._held_out_logits(candidate)
        assert said.shape == (90, 2)
        for part, rows in enumerate(fit.held_out):
            if candidate.method is None:
                expected = fit.floors[part].logits(x[rows])
            else:
                student = fit.trained[candidate][part]
                assert student.job.method == candidate.method
                np.testing.assert_array_equal(student.job.selection, rows)
                shown = fit.run.tensors[torch.from_numpy(rows)]
                expected = predict_logits(student.network(), shown, fit.data.views, device="cpu")
            np.testing.assert_array_equal(fit.judged[rows], rows)
            np.testing.assert_array_equal(said[rows], expected)


def test_identical_inputs_are_held_out_together(trained: _NetworkFit) -> None:
    for rows in trained.held_out:
        first, copies = rows[rows < 20], rows[rows >= 70]
        np.testing.assert_array_equal(first + 70, copies)


def test_test_accuracies_are_means_over_the_folds(trained: _NetworkFit) -> None:
    fit, test = trained, trained.task.test
    assert test is not None
    returned = fit.floors[1]
    found = fit.tested(returned)
    x, y = np.asarray(test.inputs), test.y
    assert found[""] == pytest.approx(100 * np.mean(returned.logits(x).argmax(1) == y), abs=0.01)
    for candidate in CANDIDATES:
        logits = [student.logits(x) for student in fit.floors]
        if candidate.method is not None:
            shown = fit.run.inputs.tensors(x)
            logits = [
                predict_logits(student.network(), shown, fit.data.views, device="cpu")
                for student in fit.trained[candidate]
            ]
        right = [100 * np.mean(one.argmax(1) == y) for one in logits]
        assert len({round(share, 3) for share in right}) > 1
        assert found[candidate.name] == pytest.approx(np.mean(right), abs=0.01)


def test_the_refit_sees_all_gold_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    fit, jobs, floors = fit_of(gather(**sets())), list[Job](), list[set[int]]()

    def spy(some: Sequence[Job], *arguments: Any, **more: Any) -> list[Trained]:
        jobs.extend(some)
        return train(some, *arguments, **more)

    def gold_only(rows: DecisionRows, seed: int) -> LinearFit:
        floors.append(set(rows.ids.tolist()))
        assert rows.judges.all()
        np.testing.assert_array_equal(rows.features, x[rows.ids])
        return linear_choice.fit_gold_only(rows, seed=seed)

    x = fit._floor_inputs[1]
    monkeypatch.setattr(network_run, "train", spy)
    monkeypatch.setattr(network_run, "fit_gold_only", gold_only)
    assert fit.train(CANDIDATES, fit.task.labels)
    (held_out,) = fit.held_out
    gold = set(range(90))
    assert set(held_out.tolist()) < gold
    assert floors == [gold - set(held_out.tolist())]
    jobs.clear()
    for candidate in CANDIDATES:
        assert fit.refit(candidate) is not None
    assert floors[1:] == [gold]
    assert [job.method for job in jobs] == [candidate.method for candidate in CANDIDATES[1:]]
    for job in jobs:
        seen = set(job.positions[job.prepared.columns.index.numpy()].tolist())
        assert gold <= seen


def test_a_third_generation_is_taught_by_the_second(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[TeacherLabels] = []
    made: list[TeacherLabels | None] = []

    def spy(
        problem: Any, method: Any, labels: TeacherLabels, *arguments: Any, **more: Any
    ) -> TeacherLabels | None:
        asked.append(labels)
        made.append(original(problem, method, labels, *arguments, **more))
        return made[-1]

    original = network_run.next_labels
    monkeypatch.setattr(network_run, "next_labels", spy)
    task = gather(**sets(val=slice(250, 290), selection=slice(290, 330)))
    settings = DistillSettings("mlp", (Vanilla(),), training=SHORT, generations=3)
    run_distill(task, settings, device="cpu", quiet=True)
    assert asked == [task.labels, made[0]]


def test_networks_are_chosen_by_the_metric_that_the_user_names(trained: _NetworkFit) -> None:
    evidence = trained.evidence(TWO_VIEWS)
    assert (evidence.metric, evidence.anchor) == ("accuracy", CANDIDATES.index(TWO_VIEWS))
    other = fit_of(trained.task, metric="macro_f1", seed=3)
    other.judged, other.held_out = trained.judged, trained.held_out
    other.candidates, other.trained = trained.candidates, trained.trained
    other.floors = trained.floors
    evidence = other.evidence(None)
    assert (evidence.metric, evidence.seed, evidence.anchor) == ("macro_f1", 3, None)
