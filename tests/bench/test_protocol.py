"""The protocol on bundled digits: what is shared, what is fresh, what stops and goes on."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from noisyteacher.bench import Arm, Generation, Recipe, Row, run_recipe
from noisyteacher.bench.bench_run import BenchRun, RunOptions, open_run
from noisyteacher.bench.method_sets import parse_methods
from noisyteacher.bench.plan import PlannedStudent, cohorts, planned_students
from noisyteacher.bench.recipe import smoke
from noisyteacher.bench.recipes.digits import digits
from noisyteacher.core.errors import InputError
from noisyteacher.labels import TeacherLabels
from noisyteacher.methods import VID, Calibrated, Consistency, GoldOnly, SLaM, Vanilla, Weighted
from noisyteacher.report.page_source import read_source
from noisyteacher.train import Adam, Job, engine


def small(methods: str = "GoldOnly();Vanilla();SLaM()", **changes: Any) -> Recipe:
    return replace(smoke(digits()), methods=parse_methods(methods), **changes)


def run(recipe: Recipe, out: Path, **options: Any) -> list[Row]:
    return run_recipe(recipe, out, device="cpu", quiet=True, **options)


def numbers(rows: list[Row]) -> list[tuple[object, ...]]:
    return sorted(((repr(r.key), r.accuracy, r.curve) for r in rows), key=lambda x: x[0])


@pytest.fixture
def trained(monkeypatch: pytest.MonkeyPatch) -> list[Job]:
    """Every job whose training is begun, in order."""
    begun: list[Job] = []
    build = engine._Runner.build

    def noted(runner: engine._Runner) -> None:
        begun.append(runner.job)
        build(runner)

    monkeypatch.setattr(engine._Runner, "build", noted)
    return begun


def test_labels_are_made_once_with_all_classes_and_shared(
    tmp_path: Path, trained: list[Job]
) -> None:
    run(small("Vanilla()"), tmp_path)
    store = tmp_path / "labels" / "24"
    before = {file.name: file.read_bytes() for file in store.iterdir()}
    labels = TeacherLabels.open(store)
    assert labels.k == labels.num_classes == 10
    rows = run(small("Vanilla();SLaM()", trials=2), tmp_path)
    assert {file.name: file.read_bytes() for file in store.iterdir()} == before
    assert [job.name for job in trained].count("24_teacher") == 1
    assert [(r.method, r.trial) for r in rows] == [
        ("Vanilla()", 0),
        ("Vanilla()", 1),
        ("SLaM()", 0),
        ("SLaM()", 1),
    ]


def test_stored_extras_stay_when_other_methods_come(tmp_path: Path) -> None:
    run(small("VID()"), tmp_path)
    run(small("SLaM()"), tmp_path)
    assert "embedding" in TeacherLabels.open(tmp_path / "labels" / "24").extras
    (tmp_path / "again").mkdir()
    run(small("SLaM()"), tmp_path / "again")
    assert "embedding" not in TeacherLabels.open(tmp_path / "again" / "labels" / "24").extras
    run(small("VID()"), tmp_path / "again")
    assert "embedding" in TeacherLabels.open(tmp_path / "again" / "labels" / "24").extras


def test_each_trial_has_its_own_split_and_all_share_a() -> None:
    with open_run(small(), "nowhere", RunOptions(device="cpu")) as opened:
        first, second = (opened.split(24, trial) for trial in (0, 1))
    np.testing.assert_array_equal(first.gold, second.gold)
    assert not np.array_equal(first.val, second.val)
    assert not np.array_equal(first.selection, second.selection)


def test_students_start_pretrained_and_arms_change_one_thing(
    tmp_path: Path, trained: list[Job]
) -> None:
    base = small("Vanilla()")
    arms = (Arm(), Arm("V out", val_role="out"), Arm("fresh", pretrained=False))
    recipe = replace(base, pretraining=base.teacher_training, pretrain="all", arms=arms)
    rows = run(recipe, tmp_path)
    assert [row.recipe for row in rows] == [
        "digits smoke",
        "digits smoke / V out",
        "digits smoke / fresh",
    ]
    usual, without_v, fresh = [job for job in trained if isinstance(job.method, Vanilla)]
    for name, value in usual.init.items():
        assert value.equal(without_v.init[name])
    assert fresh.init is None
    assert len(usual.positions) - len(without_v.positions) == recipe.val
    assert not np.isin(usual.val_positions, without_v.positions).any()
    # One cohort: same inputs, same settings.
    assert [job.name for job in trained][:2] == ["24_teacher", "24_pretrained"]


def test_stopped_and_started_again_gives_the_same_numbers(tmp_path: Path) -> None:
    whole = run(small(), tmp_path / "whole")
    assert run(small(), tmp_path / "parts", minutes=1e-9) == []
    assert not (tmp_path / "parts" / "results.jsonl").exists()
    assert numbers(run(small(), tmp_path / "parts")) == numbers(whole)


def test_time_that_runs_out_between_students(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = run(small(), tmp_path / "whole")
    left = iter([None] * 4)
    monkeypatch.setattr(BenchRun, "minutes_left", property(lambda self: next(left, 0)))
    some = run(small(), tmp_path / "parts")
    monkeypatch.undo()
    assert 0 < len(some) < len(whole)
    assert numbers(run(small(), tmp_path / "parts")) == numbers(whole)


def test_a_cohort_cut_short_has_rows_of_the_students_that_finished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = run(small(), tmp_path / "whole")
    finished: list[str] = []

    def until_one_has_finished() -> float:
        return float("inf") if finished else 0.0

    end_window = engine._Runner.end_window

    def noted(runner: engine._Runner, seconds: float) -> None:
        end_window(runner, seconds)
        if (
            runner.finished
            and runner.job.method in small().methods
            and "teacher" not in runner.job.name
        ):
            finished.append(runner.job.name)

    with monkeypatch.context() as patched:
        patched.setattr(BenchRun, "cohort", 3)
        patched.setattr(engine._Runner, "end_window", noted)
        patched.setattr(engine.time, "monotonic", until_one_has_finished)
        some = run(small(), tmp_path / "parts", minutes=60)
    assert [row.method for row in some] == ["GoldOnly()"]
    assert numbers(run(small(), tmp_path / "parts")) == numbers(whole)


def test_on_a_gpu_the_starts_of_all_sizes_are_trained_first_and_change_nothing(
    tmp_path: Path, trained: list[Job], monkeypatch: pytest.MonkeyPatch
) -> None:
    training = small().student_training
    recipe = small(labeled=(24, 30), pretraining=training, pretrain="all")
    one_by_one = run(recipe, tmp_path / "one by one")
    trained.clear()
    monkeypatch.setattr(BenchRun, "cohort", 8)
    together = run(recipe, tmp_path / "together")
    starts = ["24_teacher", "24_pretrained", "30_teacher", "30_pretrained"]
    assert sorted(job.name for job in trained[:4]) == sorted(starts)
    assert len(trained) == 4 + len(together)
    assert numbers(together) == numbers(one_by_one)


def test_second_generation(tmp_path: Path, trained: list[Job]) -> None:
    second = Generation(SLaM(), (Vanilla(), Calibrated(Vanilla())), students=2)
    recipe = small("SLaM()", trials=2, second=second)
    rows = run(recipe, tmp_path)
    assert [(r.method, r.generation, r.trial) for r in rows] == [
        ("SLaM()", 1, 0),
        ("SLaM()", 1, 1),
        ("Vanilla()", 2, 0),
        ("Vanilla()", 2, 1),
        ("Calibrated(inner=Vanilla())", 2, 0),
        ("Calibrated(inner=Vanilla())", 2, 1),
    ]
    firsts = [job for job in trained if "first" in job.name]
    assert len({job.seed for job in firsts}) == len(firsts) == 4
    for job in firsts:
        in_v = np.isin(job.positions, job.val_positions)
        assert in_v.sum() == recipe.val
        assert (job.prepared.columns.y.numpy()[in_v] == -1).all()
    stores = sorted(path for path in (tmp_path / "labels").iterdir() if path.name != "24")
    assert len(stores) == 2
    one, two = (TeacherLabels.open(path).probs for path in stores)
    assert not np.array_equal(one, two)
    begun = len(trained)
    assert run(recipe, tmp_path) == rows
    assert len(trained) == begun
    run(small("SLaM()"), tmp_path)  # without it, for once
    with pytest.raises(InputError, match="another first"):
        run(replace(recipe, second=replace(second, students=1)), tmp_path)


def test_first_students_get_the_pretraining_they_need(tmp_path: Path, trained: list[Job]) -> None:
    second = Generation(Weighted(), (Vanilla(),), students=1)
    trainings = {"pretraining": small().student_training, "pretrain": "needed"}
    run(small("Vanilla()", second=second, **trainings), tmp_path)
    starts = {job.name: job.init is not None for job in trained if "first" in job.name}
    assert list(starts.values()) == [True]


def test_a_store_may_stand_in_for_the_teacher(tmp_path: Path, trained: list[Job]) -> None:
    with open_run(small(), tmp_path, RunOptions(device="cpu")) as opened:
        ids, y, gold = opened.dataset.ids, opened.dataset.y, opened.split(24, 0).gold
    said = np.where(np.arange(len(y)) % 4 == 0, (y + 1) % 10, y)
    probs = np.full((len(y), 10), 0.02, np.float32)
    probs[np.arange(len(y)), said] = 0.82
    TeacherLabels.from_probs(ids, probs).save(tmp_path / "store")
    rows = run(small("Vanilla()"), tmp_path / "run", labels=tmp_path / "store")
    assert [job.name for job in trained if "teacher" in job.name] == []
    rest = np.setdiff1d(np.arange(len(y)), gold)
    assert rows[0].teacher_accuracy == pytest.approx(100 * np.mean(said[rest] == y[rest]))
    with pytest.raises(InputError, match="another teacher"):
        run(small("Vanilla()"), tmp_path / "run")
    TeacherLabels.from_probs(ids, probs[:, ::-1]).save(tmp_path / "store", overwrite=True)
    with pytest.raises(InputError, match="another teacher"):
        run(small("Vanilla()"), tmp_path / "run", labels=tmp_path / "store")
    turned = [str(digit) for digit in range(9, -1, -1)]
    TeacherLabels.from_probs(ids, probs, classes=turned).save(tmp_path / "turned")
    with pytest.raises(InputError, match="in another order: '9', '8'"):
        run(small("Vanilla()"), tmp_path / "other", labels=tmp_path / "turned")


def test_a_folder_of_another_run_is_refused_and_other_lengths_are_not(tmp_path: Path) -> None:
    first = run(small("Vanilla()"), tmp_path)
    with pytest.raises(InputError, match="another seed"):
        run(small("Vanilla()", seed=1), tmp_path)
    with pytest.raises(InputError, match="another val"):
        run(small("Vanilla()", val=30), tmp_path)
    longer = run(small("Vanilla()").with_student(epochs=3), tmp_path)
    assert [row.epochs for row in longer] == [2, 3]
    assert longer[0] == first[0]


def test_a_folder_of_the_first_version_goes_on(tmp_path: Path, trained: list[Job]) -> None:
    """Written at commit 980e486: rows, audit, comparison and commands are there."""
    old = Path(__file__).parents[1] / "runs" / "old_folders" / "bench"
    shutil.copytree(old, tmp_path / "run")
    rows = run(small("GoldOnly();SLaM()"), tmp_path / "run")
    assert [row.method for row in rows] == ["GoldOnly()", "SLaM()"]
    assert trained == []
    source = read_source(tmp_path / "run")
    assert source.comparison is not None
    assert source.comparison.student == "SLaM()"
    assert list(source.audits) == ["Teacher quality"]
    assert source.log.notes == ["a note"]
    more = run(small("GoldOnly();SLaM();Vanilla()"), tmp_path / "run")
    assert more[:2] == rows
    assert numbers(more) == numbers(run(small("GoldOnly();SLaM();Vanilla()"), tmp_path / "new"))


def test_a_teacher_whose_loss_became_nan_is_said_and_not_taken_for_lack_of_time(
    tmp_path: Path,
) -> None:
    recipe = small("Vanilla()")
    broken = replace(recipe.teacher_training, optimizer=Adam(float("inf")))
    with pytest.raises(InputError, match="24_teacher cannot be used: the loss became nan"):
        run(replace(recipe, teacher_training=broken), tmp_path)


def test_gold_repeat_stands_in_the_row(tmp_path: Path) -> None:
    (row,) = run(small("Vanilla()").with_student(gold_repeat=3), tmp_path)
    assert row.gold_repeat == 3


def test_cohorts_hold_students_of_one_cost_and_even_numbers() -> None:
    methods = (GoldOnly(), Consistency(None), Vanilla(), Consistency(SLaM()), SLaM())
    recipe = replace(small(), methods=methods, trials=3)
    groups = list(cohorts(list(planned_students(recipe)), 8))
    assert [len(group) for group in groups] == [5, 4, 6]
    assert [{len(s.method.views) for s in group} for group in groups] == [{1}, {1}, {2}]
    assert list(cohorts([], 8)) == []


def test_cohorts_are_filled_across_sizes_and_train_the_same_students(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = small("GoldOnly();Vanilla();SLaM();Consistency(SLaM())", labeled=(30, 24))
    one_by_one = run(recipe, tmp_path / "one")
    calls: list[list[str]] = []
    train = BenchRun.train

    def noted(self: BenchRun, jobs: list[Job], *rest: Any) -> Any:
        calls.append([job.name for job in jobs])
        return train(self, jobs, *rest)

    monkeypatch.setattr(BenchRun, "train", noted)
    monkeypatch.setattr(BenchRun, "cohort", 8)
    together = run(recipe, tmp_path / "together")
    assert numbers(together) == numbers(one_by_one)
    students = [names for names in calls if "teacher" not in names[0]]
    assert [len(names) for names in students] == [6, 2]
    assert {name.partition("_")[0] for name in students[0]} == {"30", "24"}


def test_methods_that_differ_in_a_sign_have_files_of_their_own() -> None:
    recipe = small()
    names = {
        PlannedStudent(recipe, 24, Arm(), method, 0).file_name
        for method in parse_methods("PolyLoss(-1.0);PolyLoss(1.0);PolyLoss(1.0, hard=True)")
    }
    assert len(names) == 3


def test_methods_that_an_arm_or_a_generation_cannot_have_are_refused_at_once() -> None:
    without = (Arm(), Arm("no start", pretrained=False))
    with pytest.raises(InputError, match=r"Weighted\(\) needs .* the arm 'no start' has none"):
        small("Weighted()", arms=without)
    with pytest.raises(
        InputError, match=r"VID\(\) needs more than the labels of a second generation"
    ):
        small(second=Generation(SLaM(), (VID(),)))


def test_bad_options() -> None:
    with pytest.raises(InputError, match="minutes must be above 0"):
        RunOptions(minutes=0)
    with pytest.raises(InputError, match="cohort"):
        RunOptions(cohort=0)
    with pytest.raises(InputError, match="at least one student"):
        Generation(SLaM(), (SLaM(),), students=0)
