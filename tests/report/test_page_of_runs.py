"""What a bench run and a distillation save for their pages, which read files only."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import orjson
import pytest

from noisyteacher.bench import Row, run_recipe
from noisyteacher.bench.recipe import Recipe, smoke
from noisyteacher.bench.recipes.digits import digits
from noisyteacher.core.errors import InputError, NoisyTeacherWarning
from noisyteacher.data import load_dataset, split
from noisyteacher.labels import TeacherLabels
from noisyteacher.methods import (
    VID,
    ConfidentPruning,
    CutStat,
    GoldOnly,
    Method,
    SLaM,
    Vanilla,
)
from noisyteacher.models import MLP
from noisyteacher.pipeline import Distilled, DistillSettings, gather, run_distill
from noisyteacher.report import write_run_page
from noisyteacher.report.page_source import facts, read_source
from noisyteacher.runs import RunFolder
from noisyteacher.runs.comparison import read_comparison
from noisyteacher.train import Adam, TrainConfig
from user_files import MOODS, noisy_probs, reviews


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Recipe, Path, list[Row]]:
    small = MLP(64, 10, hidden=(16,))
    recipe = digits(small, small, trials=1)
    training = replace(recipe.student_training, epochs=2)
    recipe = replace(
        recipe,
        methods=(GoldOnly(), Vanilla(), SLaM()),
        student_training=training,
        teacher_training=training,
    )
    folder = tmp_path_factory.mktemp("bench") / "run"
    return recipe, folder, run(recipe, folder)


def run(recipe: Recipe, folder: Path) -> list[Row]:
    return run_recipe(recipe, folder, device="cpu", quiet=True, picture_shape=(8, 8))


def test_a_bench_run_is_audited_and_compared(finished) -> None:
    _, folder, rows = finished
    data, labels = load_dataset("digits"), TeacherLabels.open(folder / "labels" / "30")
    parts = split(data.y, 30, val=100, selection=100, seed=0, trial=0)
    right = labels.take(data.ids[parts.val]).hard == data.y[parts.val]
    audit = orjson.loads((folder / "audits" / "30.json").read_bytes())
    assert audit["numbers"]["quality"]["accuracy"]["value"] == pytest.approx(right.mean())
    assert audit["numbers"]["pool_rows"] == len(parts.pool)

    found = read_comparison(folder)
    assert found is not None
    on_selection = {
        row.method: max(point["selection"] for point in row.curve)
        for row in rows
        if row.distillation
    }
    assert found.student == max(on_selection, key=lambda method: on_selection[method])
    teacher, _student = found.confusions
    said = labels.take(data.ids[parts.pool]).hard
    assert sum(n for t, s, n in teacher.counts if t == s) == (said == data.y[parts.pool]).sum()
    assert found.rows == len(parts.pool)
    assert all(one.image for one in found.examples)


@pytest.mark.parametrize("kept", ["*teacher*", "nothing"])
def test_without_checkpoints_nothing_is_trained_for_the_page(
    finished, tmp_path: Path, kept: str
) -> None:
    recipe, folder, rows = finished
    copy = tmp_path / "run"
    shutil.copytree(folder, copy)
    for path in {*(copy / "checkpoints").iterdir()} - {*(copy / "checkpoints").glob(kept)}:
        path.unlink()
    before = sorted((copy / "checkpoints").iterdir())
    (copy / "comparison.json").unlink()
    assert run(recipe, copy) == rows
    assert (copy / "comparison.json").read_bytes() == (folder / "comparison.json").read_bytes()
    assert sorted((copy / "checkpoints").iterdir()) == before
    # A folder of an earlier version has no predictions: its page keeps what there is.
    shutil.rmtree(copy / "predictions")
    assert run(recipe, copy) == rows
    assert (copy / "comparison.json").read_bytes() == (folder / "comparison.json").read_bytes()
    assert sorted((copy / "checkpoints").iterdir()) == before


def test_the_page_is_made_of_files_alone(finished, tmp_path: Path) -> None:
    """Neither data nor labels, checkpoints or predictions are needed for it."""
    _, folder, _ = finished
    whole = write_run_page(folder, tmp_path / "whole.html").read_text()
    copy = tmp_path / "run"
    shutil.copytree(folder, copy)
    for name in ("labels", "checkpoints", "predictions"):
        shutil.rmtree(copy / name)
    assert write_run_page(copy, tmp_path / "copy.html").read_text() == whole


def test_a_killed_run_has_a_page_of_what_is_finished(finished, tmp_path: Path) -> None:
    recipe, _, _ = finished
    some = replace(recipe, methods=(Vanilla(), SLaM()))
    killed, append = [], RunFolder.append

    def append_once(folder: RunFolder, row: Row) -> None:
        if killed:
            raise KeyboardInterrupt
        append(folder, row)
        killed.append(row)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(RunFolder, "append", append_once)
        with pytest.raises(KeyboardInterrupt):
            run(some, tmp_path)
    assert (tmp_path / "audits" / "30.json").exists()
    found = read_comparison(tmp_path)
    assert found is not None
    assert found.student == "Vanilla()"


def test_a_teacher_that_cannot_be_audited_has_students_all_the_same(
    finished, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*arguments: object, **more: object) -> None:
        raise InputError("V has one class.")

    monkeypatch.setitem(run_recipe.__globals__, "audit", refuse)
    recipe = replace(smoke(digits()), methods=(Vanilla(),))
    with pytest.warns(NoisyTeacherWarning, match=r"teacher is not audited: V has one class\."):
        assert len(run(recipe, tmp_path)) == 1
    assert not (tmp_path / "audits").exists()


def test_a_distillation_is_compared_on_pool_and_selection_set(tmp_path: Path) -> None:
    texts, y = reviews(240)
    ids, names = np.array([f"r{i}" for i in range(240)]), np.array(MOODS)[y]
    labels = TeacherLabels.from_probs(ids, noisy_probs(y, 2, 0.8), MOODS)
    task = gather(
        gold=(ids[:30], texts[:30], names[:30]),
        val=(ids[30:80], texts[30:80], names[30:80]),
        selection=(ids[80:120], texts[80:120], names[80:120]),
        pool=(ids[120:], texts[120:]),
        labels=labels,
    )
    training = TrainConfig(2, 64, Adam(0.02), gold_repeat=5, steps_per_epoch=10)
    settings = DistillSettings(methods=(SLaM(),), training=training)
    done = run_distill(task, settings, tmp_path / "run", device="cpu", quiet=True)
    assert isinstance(done, Distilled)
    found = read_comparison(tmp_path / "run")
    assert found is not None
    student, teacher = done.student.predict(texts[120:]), np.array(MOODS)[labels.hard[120:]]
    apart = set(ids[120:][student != teacher].tolist())
    assert found.disagreements == len(apart)
    assert {one.id for one in found.examples} <= apart
    assert all(one.truth is None and one.text for one in found.examples)
    tested = next(c for c in found.confusions if c.who == "student")
    right = sum(n for t, s, n in tested.counts if t == s)
    said = done.student.predict(texts[80:120]) == names[80:120]
    assert right == said.sum()  # without a refit, the student that judged is the one returned


def test_the_page_tells_where_a_teachers_accuracy_was_measured(finished, tmp_path: Path) -> None:
    recipe, folder, _ = finished
    told = dict(facts(read_source(folder)))
    assert "Teacher's accuracy on the test part" in told
    assert told["Teacher"].startswith("MLP")
    # A store that lacks the test part, as this one does, is judged on the training part.
    labels = folder / "labels" / "30"
    small = replace(recipe, methods=(Vanilla(),))
    run_recipe(small, tmp_path, labels=labels, device="cpu", quiet=True)
    told = dict(facts(read_source(tmp_path)))
    (where,) = (name for name in told if name.startswith("Teacher's accuracy"))
    assert where == (
        "Teacher's accuracy on the test part, or, where its store lacks that, on the training "
        "part without A"
    )
    assert told["Teacher"].startswith("the label store 30")


@pytest.mark.parametrize("method", [VID(), CutStat(neighbours=3), ConfidentPruning()])
def test_the_best_student_may_need_more_than_labels(tmp_path: Path, method: Method) -> None:
    """The teacher's embeddings, or a student pre-trained on A."""
    recipe = replace(smoke(digits()), methods=(method,))
    run(recipe, tmp_path)
    # A later call with other methods still shows it, where it is the best.
    for methods in ((method,), (GoldOnly(),)):
        (tmp_path / "comparison.json").unlink(missing_ok=True)
        run(replace(recipe, methods=methods), tmp_path)
        found = read_comparison(tmp_path)
        assert found is not None
        assert found.student == repr(method)
