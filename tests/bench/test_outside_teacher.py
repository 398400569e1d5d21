"""A teacher with rows of its own: who sees which rows, and what changes between trials."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from noisyteacher.bench import Arm, Generation, Recipe, run_recipe
from noisyteacher.bench.bench_run import RunOptions, open_run
from noisyteacher.bench.plan import make_plan
from noisyteacher.bench.recipe import smoke
from noisyteacher.bench.recipes import find_recipe
from noisyteacher.bench.recipes.digits import digits
from noisyteacher.cli.bench_recipe import with_students
from noisyteacher.core.errors import InputError
from noisyteacher.data import Split, split_outside
from noisyteacher.labels import TeacherLabels
from noisyteacher.methods import Calibrated, Consistency, GoldOnly, SLaM, TaylorCE, Vanilla
from noisyteacher.train import Job, engine

SIZES = (500, 1000, 2500, 5000)
PARTS = ("gold", "val", "selection", "pool", "outside")


def drawn(labeled: int, trial: int = 0, seed: int = 0) -> Split:
    y = np.random.default_rng(0).integers(0, 100, 50_000)
    return split_outside(y, labeled, 15_000, 28_000, selection=500, seed=seed, trial=trial)


def small(**changes: Any) -> Recipe:
    training = smoke(digits()).student_training
    given = {
        "methods": (GoldOnly(), Vanilla(), SLaM()),
        "labeled": (20, 30),
        "outside": 40,
        "pool": 25,
        "selection": 16,
        "trials": 2,
        "pretraining": training,
        "pretrain": "all",
    }
    return replace(smoke(digits()), **(given | changes))


@pytest.fixture
def trained(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Job, Any]]:
    """Every job whose training is begun, in order, and its optimizer."""
    begun: list[tuple[Job, Any]] = []
    build = engine._Runner.build

    def noted(runner: engine._Runner) -> None:
        begun.append((runner.job, runner.session.config.optimizer))
        build(runner)

    monkeypatch.setattr(engine._Runner, "build", noted)
    return begun


@pytest.mark.parametrize("labeled", SIZES)
@pytest.mark.parametrize("trial", [0, 2])
def test_parts_are_disjoint_and_as_large_as_asked(labeled: int, trial: int) -> None:
    parts = drawn(labeled, trial)
    sizes = [len(getattr(parts, name)) for name in PARTS]
    assert sizes == [0, labeled, 500, 28_000, 15_000]
    for one, other in combinations(PARTS, 2):
        assert not np.intersect1d(getattr(parts, one), getattr(parts, other)).size


def test_pool_and_teachers_rows_are_the_same_for_every_size_and_trial() -> None:
    first = drawn(500)
    for parts in (*(drawn(size) for size in SIZES), drawn(1000, trial=1), drawn(1000, trial=2)):
        np.testing.assert_array_equal(parts.pool, first.pool)
        np.testing.assert_array_equal(parts.outside, first.outside)
    assert not np.array_equal(drawn(500, seed=1).pool, first.pool)
    assert not np.array_equal(drawn(500, seed=1).outside, first.outside)


def test_a_grows_within_a_trial_and_is_drawn_anew_with_s_in_the_next() -> None:
    sets = [drawn(size) for size in SIZES]
    for smaller, larger in pairwise(sets):
        assert np.isin(smaller.val, larger.val).all()
        np.testing.assert_array_equal(smaller.selection, larger.selection)
    other = drawn(1000, trial=1)
    assert not np.array_equal(other.val, drawn(1000).val)
    assert not np.array_equal(other.selection, drawn(1000).selection)


def test_rows_without_a_label_are_in_no_part() -> None:
    y = np.where(np.arange(100) % 5 == 0, -1, 0)
    parts = split_outside(y, 10, 30, 20, selection=20)
    used = np.concatenate([getattr(parts, name) for name in PARTS])
    assert len(used) == 80
    assert (y[used] == 0).all()


def test_too_few_rows_are_refused() -> None:
    with pytest.raises(InputError, match=r"A of 11 need 101 labeled examples, and there are 100"):
        split_outside(np.zeros(100, np.int64), 11, 40, 30, selection=20)


def test_a_split_refuses_teachers_rows_in_another_part() -> None:
    none = np.empty(0, np.int64)
    parts = Split(none, np.arange(5), none, np.arange(5, 9), outside=np.arange(8, 12))
    with pytest.raises(InputError, match="pool and outside share 1 examples"):
        parts.check(20)


def test_no_part_leaks_into_the_teacher(tmp_path: Path, trained: list[tuple[Job, Any]]) -> None:
    recipe = small()
    rows = run_recipe(recipe, tmp_path, device="cpu", quiet=True)
    assert len(rows) == 2 * 2 * 3
    jobs = {job.name: job for job, _ in trained}
    assert sum(job.name == "outside_teacher" for job, _ in trained) == 1
    with open_run(recipe, tmp_path, RunOptions(device="cpu")) as run:
        splits = {
            (size, trial): run.split(size, trial) for size in recipe.labeled for trial in range(2)
        }
        truth = run.dataset.y
    teacher = jobs["outside_teacher"]
    seen = teacher.positions[teacher.prepared.columns.index.numpy()]
    for (size, trial), parts in splits.items():
        others = np.concatenate([parts.gold, parts.val, parts.selection, parts.pool])
        assert not np.isin(seen, others).any()
        np.testing.assert_array_equal(np.sort(seen), parts.outside)
        started = jobs[f"{size}_pretrained_{trial}"]
        np.testing.assert_array_equal(np.sort(started.positions), parts.val)
    for job, _ in trained:
        if "epochs" not in job.name:
            continue
        size, trial = int(job.name.split("_")[0]), int(job.name.split("_")[2])
        parts = splits[size, trial]
        kept = job.positions[job.prepared.columns.index.numpy()]
        y = job.prepared.columns.y.numpy()
        # A is V: it measures the teacher, and its rows alone come with true labels.
        np.testing.assert_array_equal(job.val_positions, parts.val)
        np.testing.assert_array_equal(np.sort(kept[y >= 0]), parts.val)
        np.testing.assert_array_equal(y[y >= 0], truth[kept[y >= 0]])
        expected = [] if isinstance(job.method, GoldOnly) else parts.pool
        np.testing.assert_array_equal(np.sort(kept[y < 0]), expected)
        np.testing.assert_array_equal(job.selection, parts.selection)


def test_one_store_of_labels_serves_all_sizes_and_trials(tmp_path: Path) -> None:
    rows = run_recipe(small(), tmp_path, device="cpu", quiet=True)
    assert [path.name for path in (tmp_path / "labels").iterdir()] == ["outside"]
    assert len(TeacherLabels.open(tmp_path / "labels" / "outside")) == 120
    assert len({row.teacher_accuracy for row in rows}) == 1


def test_students_of_a_trial_start_from_its_own_pretraining(
    tmp_path: Path, trained: list[tuple[Job, Any]]
) -> None:
    run_recipe(small(labeled=(20,)), tmp_path, device="cpu", quiet=True)
    weights = {
        trial: {
            next(iter(job.init.values())).numpy().tobytes()
            for job, _ in trained
            if f"_{trial}_2epochs" in job.name
        }
        for trial in (0, 1)
    }
    assert [len(found) for found in weights.values()] == [1, 1]
    assert weights[0] != weights[1]


def test_an_arm_has_its_own_weight_decay(tmp_path: Path, trained: list[tuple[Job, Any]]) -> None:
    arms = (Arm(), Arm("weight decay 1", methods=(GoldOnly(),), weight_decay=1.0))
    rows = run_recipe(small(labeled=(20,), arms=arms), tmp_path, device="cpu", quiet=True)
    decays = {
        ("weight-decay-1" in job.name, job.weight_decay, optimizer.weight_decay)
        for job, optimizer in trained
        if "_2epochs" in job.name
    }
    assert decays == {(False, None, 0.0), (True, 1.0, 0.0)}
    assert [row.method for row in rows if row.recipe.endswith(" / weight decay 1")] == [
        "GoldOnly()",
        "GoldOnly()",
    ]


def test_the_recipe_is_what_it_says() -> None:
    recipe = find_recipe("cifar100-outside")
    assert (recipe.outside, recipe.pool, recipe.selection) == (15_000, 28_000, 500)
    assert recipe.labeled == SIZES
    assert (recipe.student_training.epochs, recipe.trials) == (60, 3)
    assert recipe.methods == (
        GoldOnly(),
        Consistency(None),
        Vanilla(),
        Calibrated(Vanilla()),
        SLaM(),
        TaylorCE(),
        Consistency(Vanilla()),
        Consistency(Calibrated(Vanilla())),
        Consistency(SLaM()),
    )
    decays = [(arm.weight_decay, arm.methods) for arm in recipe.arms]
    assert decays == [(None, None), (0.1, (GoldOnly(),)), (1.0, (GoldOnly(),))]
    assert recipe.student_training.optimizer.weight_decay == 0


def test_methods_of_the_command_line_have_the_recipes_own_weight_decay() -> None:
    recipe = with_students(find_recipe("cifar100-outside"), "1000", "Consistency(None)", None)
    assert recipe.arms == (Arm(),)
    assert (recipe.labeled, recipe.methods) == ((1000,), (Consistency(None),))


def test_gold_only_of_the_command_line_comes_with_all_its_weight_decays() -> None:
    recipe = find_recipe("cifar100-outside")
    assert with_students(recipe, None, "Vanilla();GoldOnly()", None).arms == recipe.arms


def test_the_plan_counts_one_teacher_and_a_start_for_each_trial(tmp_path: Path) -> None:
    plan = make_plan(small(), tmp_path, RunOptions(device="cpu", quiet=True))
    found = [(s.labeled, s.what, s.students) for s in plan.stages]
    assert found == [
        (20, "teacher", 1),
        (20, "student on A", 2),
        (20, "GoldOnly(); Vanilla(); SLaM()", 6),
        (30, "student on A", 2),
        (30, "GoldOnly(); Vanilla(); SLaM()", 6),
    ]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"pool": None}, "must set outside and pool"),
        ({"outside": 0}, "must set outside and pool"),
        ({"arms": (Arm("V out", val_role="out"),)}, "A also serves as V"),
        ({"second": Generation(SLaM(), (Vanilla(),))}, "A also serves as V"),
    ],
)
def test_what_does_not_go_together_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        small(**changes)


def test_folders_of_other_recipes_are_as_before() -> None:
    assert not {"outside", "pool"} & digits().lasting().keys()
    assert {"outside": "40", "pool": "25"}.items() <= small().lasting().items()
