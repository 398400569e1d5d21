"""Runs of linear students that are stopped, and go on with the folds that were solved."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from noisyteacher.choose import evidence, linear_choice
from noisyteacher.choose.evidence import DecisionRows, LinearCandidate, solve_candidates
from noisyteacher.core.progress import ProgressDisplay
from noisyteacher.methods import SLaM, Vanilla
from noisyteacher.pipeline import (
    Distilled,
    DistillSettings,
    Unfinished,
    gather,
    linear_run,
    run_distill,
)
from user_files import review_sets


def solved_folds(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of candidates of each finished call of the solver, from now on."""
    calls: list[int] = []

    def counted(rows: DecisionRows, candidates: Sequence[LinearCandidate], *rest: Any, **more: Any):
        solved = solve_candidates(rows, candidates, *rest, **more)
        calls.append(len(candidates))
        return solved

    for module in (evidence, linear_choice, linear_run):
        monkeypatch.setattr(module, "solve_candidates", counted)
    return calls


def test_a_stopped_run_goes_on_and_a_finished_one_is_not_solved_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings, task = DistillSettings(methods=(Vanilla(), SLaM())), gather(**review_sets())

    def call(folder: Path | None, minutes: float | None = None) -> Distilled | Unfinished:
        return run_distill(task, settings, folder, minutes=minutes, device="cpu", quiet=True)

    whole = call(None)
    assert isinstance(whole, Distilled)
    calls = solved_folds(monkeypatch)
    # Less than a fold takes: each call solves one all the same.
    for done in range(1, 6):
        cut = call(tmp_path, minutes=1e-4)
        assert isinstance(cut, Unfinished)
        assert len(cut.trained) == done * calls[0]
        assert len(calls) == done
    resumed = call(tmp_path)
    assert isinstance(resumed, Distilled)
    assert len(calls) == 7  # the refit, and every method for the test set
    again = call(tmp_path)
    assert isinstance(again, Distilled)
    assert len(calls) == 7
    for found in (resumed, again):
        assert found.tested == whole.tested
        assert found.verdict() == whole.verdict()
        for name, value in whole.student.state.items():
            assert torch.equal(found.student.state[name], value)


def test_out_of_time_the_folds_in_progress_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings, task = DistillSettings(methods=(SLaM(),)), gather(**review_sets() | {"test": None})
    calls = solved_folds(monkeypatch)
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        for done in (2, 4, 5):
            cut = run_distill(task, settings, tmp_path, minutes=1e-4, device="cpu", quiet=True)
            assert isinstance(cut, Unfinished)
            assert len(calls) == done
        assert isinstance(
            run_distill(task, settings, tmp_path, device="cpu", quiet=True), Distilled
        )
        assert len(calls) == 6
    finally:
        torch.set_num_threads(before)


def test_a_thread_begins_no_fold_that_would_take_it_too_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = [0.0]
    monkeypatch.setattr(linear_run.time, "monotonic", lambda: now[0])
    run: Any = SimpleNamespace(path=None, deadline=170)
    store = linear_run._SolvedFolds(None, [], 5)
    progress = linear_run._SolveProgress(run, ProgressDisplay(quiet=True), [], 5, store)
    with ThreadPoolExecutor(1) as other:
        progress("SLaM()", 0)
        now[0] = 40
        other.submit(progress, "SLaM()", 1).result()
        now[0] = 100
        with pytest.raises(linear_run.OutOfTime):
            progress("SLaM()", 2)  # the last one took this thread 100 seconds
        with pytest.raises(linear_run.OutOfTime):
            other.submit(progress, "SLaM()", 3).result()
    assert progress.begun == [("SLaM()", "fold 1"), ("SLaM()", "fold 2")]


def test_other_methods_are_solved_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    task, calls = gather(**review_sets() | {"test": None}), solved_folds(monkeypatch)
    for method, total in ((Vanilla(), 6), (SLaM(), 12), (Vanilla(), 12)):
        settings = DistillSettings(methods=(method,))
        run_distill(task, settings, tmp_path, device="cpu", quiet=True)
        assert len(calls) == total


def test_out_of_time_nothing_is_returned() -> None:
    done = run_distill(
        gather(**review_sets()), DistillSettings(), minutes=0, device="cpu", quiet=True
    )
    assert done == Unfinished(())
