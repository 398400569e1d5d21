"""The candidates trained and judged: gold only always among them, the best on S kept."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest
from sklearn.linear_model import LogisticRegression

from noisyteacher.core.errors import InputError, NoisyTeacherWarning
from noisyteacher.data import HashedNgrams, Tfidf, Tokens
from noisyteacher.data.input_format import fit_format
from noisyteacher.labels import TeacherLabels
from noisyteacher.methods import VID, Consistency, GoldOnly, SLaM, Vanilla, Weighted
from noisyteacher.models import ModelSpec
from noisyteacher.pipeline import (
    Distilled,
    DistillSettings,
    Student,
    distill,
    gather,
    load_student,
    run_distill,
    save_student,
)
from noisyteacher.pipeline.candidates import FLOOR, Candidate, choose_candidates, training_groups
from noisyteacher.pipeline.distillation import train_floor
from noisyteacher.pipeline.task import Task
from noisyteacher.runs import append_row, read_rows
from noisyteacher.train import Adam, TrainConfig
from tiny_encoder import save_classifier
from user_files import MOODS, noisy_probs, reviews

OLD_FOLDERS = Path(__file__).parents[1] / "runs" / "old_folders"
QUICK = TrainConfig(2, 64, Adam(0.02), gold_repeat=5, steps_per_epoch=10)


def columns(count: int, right: float) -> dict[str, Any]:
    """Reviews: 40 gold, 60 V, 60 S, the rest pool but for 40 test examples."""
    texts, y = reviews(count)
    ids = np.array([f"r{i}" for i in range(count)])
    names = np.array(MOODS)[y]

    def part(start: int, stop: int) -> tuple[Any, ...]:
        return ids[start:stop], texts[start:stop], names[start:stop]

    return {
        "gold": part(0, 40),
        "val": part(40, 100),
        "selection": part(100, 160),
        "pool": (ids[160:-40], texts[160:-40]),
        "test": part(count - 40, count),
        "labels": TeacherLabels.from_probs(ids, noisy_probs(y, 2, right), MOODS, teacher="planted"),
    }


def make(right: float = 0.8, count: int = 320) -> Task:
    return gather(**columns(count, right))


def run(task: Task, out: Path | None = None, **settings: Any) -> Distilled:
    chosen = DistillSettings(**{"training": QUICK} | settings)
    return run_distill(task, chosen, out, device="cpu", quiet=True)


def test_a_run_leaves_a_student_a_card_and_rows(tmp_path: Path) -> None:
    task = make()
    done = run(task, tmp_path / "run", compare=True)
    names = [outcome.candidate.name for outcome in done.outcomes]
    assert names[:2] == [FLOOR, "GoldOnly()"]
    assert {"Vanilla()", "Consistency(inner=None)"} <= set(names)
    assert "Consistency(inner=SLaM(hard=True, k=2, per_class=True))" in names
    assert len(set(names)) == len(names)
    assert done.best.selection == max(outcome.selection for outcome in done.outcomes)

    student = load_student(tmp_path / "run" / "student")
    chosen = task.split.selection
    texts = [task.inputs[i] for i in chosen]
    right = student.predict(texts) == np.array(MOODS)[task.y[chosen]]
    assert 100 * right.mean() == pytest.approx(done.best.selection)
    assert task.test is not None
    tested = student.predict(list(task.test.inputs)) == np.array(MOODS)[task.test.y]
    assert 100 * tested.mean() == pytest.approx(done.best.test)

    rows = read_rows(tmp_path / "run" / "results.jsonl")
    assert [row.method for row in rows] == names
    assert all(row.teacher_accuracy == task.teacher_accuracy for row in rows)
    assert [row.accuracy["last"] for row in rows] == [outcome.test for outcome in done.outcomes]
    card = (tmp_path / "run" / "student" / "README.md").read_text()
    for words in (
        "40 gold, 60 validation (V), 60 selection (S)",
        "planted",
        "| margin up to | α |",
    ):
        assert words in card
    assert done.verdict() in card


def test_run_again_nothing_is_trained_or_written_twice(tmp_path: Path) -> None:
    task = make()
    first = run(task, tmp_path / "run")
    rows = (tmp_path / "run" / "results.jsonl").read_bytes()
    weights = (tmp_path / "run" / "student" / "model.safetensors").read_bytes()
    again = run(task, tmp_path / "run")
    assert (tmp_path / "run" / "results.jsonl").read_bytes() == rows
    assert (tmp_path / "run" / "student" / "model.safetensors").read_bytes() == weights
    assert [o.selection for o in again.outcomes] == [o.selection for o in first.outcomes]
    assert [o.seconds for o in again.outcomes[1:]] == [o.seconds for o in first.outcomes[1:]]


def test_a_line_cut_off_by_a_kill_is_written_anew(tmp_path: Path) -> None:
    """Appended to, it would spoil a finished student's row and close the folder for good."""
    task, rows = make(), tmp_path / "run" / "results.jsonl"
    run(task, tmp_path / "run", quick=True)
    whole = rows.read_bytes()
    methods = [row.method for row in read_rows(rows)]
    rows.write_bytes(whole[:-20])
    run(task, tmp_path / "run", quick=True)
    assert [row.method for row in read_rows(rows)] == methods
    rows.write_bytes(whole[: whole.index(b"\n") - 20])
    run(task, tmp_path / "run", quick=True)
    assert [row.method for row in read_rows(rows)] == methods


def test_out_of_time_it_stops_and_goes_on_later(tmp_path: Path) -> None:
    task = make()
    settings = DistillSettings(training=QUICK)
    cut = run_distill(task, settings, tmp_path / "run", device="cpu", minutes=0, quiet=True)
    assert not cut.finished
    assert not (tmp_path / "run" / "student").exists()
    done = run(task, tmp_path / "run")
    assert done.finished
    whole = run(task)
    assert [o.selection for o in done.outcomes] == [o.selection for o in whole.outcomes]
    assert (tmp_path / "run" / "student").exists()


def test_students_training_groups_are_those_trained_one_by_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a GPU; there the engine runs a group's students at once."""
    task = make()
    alone = run(task, compare=True)
    groups: list[list[str]] = []

    def together(candidates: Sequence[Candidate], **more: bool) -> list[list[Candidate]]:
        made = training_groups(candidates, together=True)
        groups.extend([c.name for c in group] for group in made)
        return made

    monkeypatch.setitem(run_distill.__globals__, "training_groups", together)
    settings = DistillSettings(training=QUICK, compare=True)
    cut = run_distill(task, settings, tmp_path / "run", device="cpu", minutes=0, quiet=True)
    assert [o.candidate.name for o in cut.outcomes] == [FLOOR]
    done = run(task, tmp_path / "run", compare=True)
    assert [len(group) for group in groups[3:]] == [1, 5, 4]
    assert groups[4][0] == "GoldOnly()"
    for one, other in zip(alone.outcomes, done.outcomes, strict=True):
        assert (one.candidate, one.selection) == (other.candidate, other.selection)
    rows = read_rows(tmp_path / "run" / "results.jsonl")
    assert {row.method for row in rows} == {outcome.candidate.name for outcome in done.outcomes}


def test_a_folder_of_another_run_is_refused(tmp_path: Path) -> None:
    run(make(), tmp_path / "run", quick=True)
    with pytest.raises(InputError, match=r"holds a run with other files.* out= \(--out\)"):
        run(make(right=0.7), tmp_path / "run", quick=True)
    others = columns(320, 0.8)
    ids, texts, names = others["test"]
    swapped = gather(**others | {"test": (ids, texts, names[::-1])})
    with pytest.raises(InputError, match="holds a run with other files"):
        run(swapped, tmp_path / "run", quick=True)
    with pytest.raises(InputError, match="another student"):
        run(make(), tmp_path / "run", student="mlp", quick=True)


def test_a_folder_of_the_first_version_goes_on(tmp_path: Path) -> None:
    """Written at commit 980e486, without its checkpoints: everything is trained once more."""
    shutil.copytree(OLD_FOLDERS / "distill", tmp_path / "run")
    rows = (tmp_path / "run" / "results.jsonl").read_bytes()
    done = run(make(), tmp_path / "run", quick=True)
    assert (tmp_path / "run" / "results.jsonl").read_bytes() == rows
    stored = {row.method: row for row in read_rows(tmp_path / "run" / "results.jsonl")}
    for outcome in done.outcomes:
        assert stored[outcome.candidate.name].accuracy["last"] == outcome.test


def test_a_folder_that_cannot_be_finished_is_refused_before_training(tmp_path: Path) -> None:
    (tmp_path / "run" / "student").mkdir(parents=True)
    (tmp_path / "run" / "student" / "notes.txt").write_text("mine")
    with pytest.raises(InputError, match="student does not hold a student and is in the way"):
        run(make(), tmp_path / "run", quick=True)
    shutil.rmtree(tmp_path / "run" / "student")
    (tmp_path / "run" / "results.jsonl").write_text("not a row\n")
    with pytest.raises(InputError, match="line 1, is not a results row"):
        run(make(), tmp_path / "run", quick=True)
    assert not (tmp_path / "run" / "checkpoints").exists()


def test_another_featurizer_of_the_same_width_is_another_run(tmp_path: Path) -> None:
    """Its columns mean other words, and the student would have no way to know."""
    run(make(), tmp_path / "run", quick=True, featurizer=HashedNgrams(256, (1, 1)))
    with pytest.raises(InputError, match="another featurizer"):
        run(make(), tmp_path / "run", quick=True, featurizer=HashedNgrams(256, (2, 2)))


def test_a_better_student_of_an_earlier_call_is_named(tmp_path: Path) -> None:
    run(make(), tmp_path / "run", quick=True)
    gold = next(r for r in read_rows(tmp_path / "run" / "results.jsonl") if r.curve)
    best = [*gold.curve[:-1], gold.curve[-1] | {"selection": 101.0}]
    append_row(tmp_path / "run" / "results.jsonl", replace(gold, method="Vanilla()", curve=best))
    with pytest.warns(NoisyTeacherWarning, match=r"a better .*: Vanilla\(\), 101\.00 % on S"):
        run(make(), tmp_path / "run", quick=True)


def test_students_stopped_at_a_nan_loss_have_no_row(tmp_path: Path) -> None:
    training = replace(QUICK, optimizer=Adam(float("inf")))
    with pytest.warns(NoisyTeacherWarning, match="is not used: the loss became nan"):
        done = run(make(), tmp_path / "run", training=training, quick=True)
    assert done.best.candidate.name == FLOOR
    assert [row.method for row in read_rows(tmp_path / "run" / "results.jsonl")] == [FLOOR]


def test_a_teacher_that_is_always_wrong_cannot_spoil_the_student() -> None:
    plain = replace(QUICK, gold_repeat=1, steps_per_epoch=20)
    done = run(make(right=0.0, count=1000), methods=(Vanilla(),), training=plain)
    by_name = {outcome.candidate.name: outcome for outcome in done.outcomes}
    assert by_name["Vanilla()"].selection < 50
    assert not done.best.candidate.uses_teacher
    assert done.best.selection > 80
    assert done.verdict().startswith("The teacher's labels did not help")


def test_a_good_teacher_is_said_to_help_only_when_better_on_s() -> None:
    done = run(make(right=0.9), methods=(SLaM(),))
    taught = done.outcomes[-1]
    if taught.selection > done.best_of_gold.selection:
        assert f"{taught.candidate.name} is kept" in done.verdict()
    else:
        assert "did not help" in done.verdict()  # a tie goes to the gold labels
    assert "S has 60 examples" in done.verdict()


def test_a_second_generation_is_judged_like_the_first(tmp_path: Path) -> None:
    done = run(make(), tmp_path / "run", methods=(SLaM(hard=True),), generations=2)
    last = done.outcomes[-1]
    assert last.candidate.name == "SLaM(hard=True), generation 2"
    rows = read_rows(tmp_path / "run" / "results.jsonl")
    assert [row.generation for row in rows] == [1, 1, 1, 2]


def test_generations_refuse_what_later_labels_do_not_have(tmp_path: Path) -> None:
    given = columns(320, 0.8)
    rng = np.random.default_rng(0)
    probs, ids = given["labels"].probs, given["labels"].ids
    extras = {"embedding": rng.normal(size=(320, 4)).astype(np.float32)}
    given["labels"] = TeacherLabels.from_probs(ids, probs, MOODS, extras=extras)
    with pytest.raises(InputError, match="needs more than labels of a second generation have"):
        run(gather(**given), tmp_path / "run", methods=(VID(),), generations=2)
    assert not (tmp_path / "run" / "results.jsonl").exists()


def test_a_student_that_cannot_be_built_is_refused_before_anything_is_trained(
    tmp_path: Path,
) -> None:
    @dataclass(frozen=True)
    class Own(ModelSpec):
        classes: int = 2

        def build(self) -> Any:
            raise AssertionError("it was never meant to work")

    with pytest.raises(InputError, match=r"Own\.build failed .*never meant to work"):
        run(make(), tmp_path / "run", student=Own())
    assert not (tmp_path / "run" / "recipe.json").exists()


def test_the_door_returns_the_best_student(tmp_path: Path) -> None:
    parts = columns(320, 0.8)
    parts.pop("test")
    student = distill(
        "linear", **parts, method="SLaM()", training=QUICK, device="cpu", out=tmp_path / "run"
    )
    assert student.about["verdict"]
    assert [c["candidate"] for c in student.about["candidates"]] == [FLOOR, "GoldOnly()", "SLaM()"]
    assert student.predict(["great lovely film"]).tolist() == ["good"]
    config = orjson.loads((tmp_path / "run" / "student" / "config.json").read_bytes())
    assert config["about"]["sizes"] == {"gold": 40, "V": 60, "S": 60, "pool": 120, "test": 0}


def test_the_door_takes_several_methods_and_logits() -> None:
    parts = columns(320, 0.8)
    stored = parts.pop("labels")
    spoken = ("gold", "pool", "val")
    ids = np.concatenate([parts[part][0] for part in spoken])
    student = distill(
        "linear",
        **parts,
        labels=np.log(stored.take(ids).probs) + 3,
        classes=MOODS,
        logits=True,
        method=["SLaM()", Vanilla()],
        training=QUICK,
        device="cpu",
    )
    tried = [c["candidate"] for c in student.about["candidates"]]
    assert tried == [FLOOR, "GoldOnly()", "SLaM()", "Vanilla()"]
    right = 100 * float(
        np.mean(stored.take(parts["val"][0]).hard == [*map(MOODS.index, parts["val"][2])])
    )
    assert student.about["teacher"]["accuracy_on_V"] == pytest.approx(right, abs=0.01)


def test_the_door_stops_in_time_with_the_best_so_far(tmp_path: Path) -> None:
    parts, settings = columns(320, 0.8), {"training": QUICK, "device": "cpu", "minutes": 0}
    with pytest.warns(NoisyTeacherWarning, match="best of the 1 students.*call goes on"):
        student = distill("linear", **parts, **settings, out=tmp_path / "run")
    assert student.about["kept"] == FLOOR
    assert not (tmp_path / "run" / "student").exists()
    done = distill("linear", **parts, **settings | {"minutes": None}, out=tmp_path / "run")
    assert len(done.about["candidates"]) > 2


def test_an_encoder_student_needs_nothing_but_its_folder(tmp_path: Path) -> None:
    encoder = save_classifier(tmp_path / "encoder", {0: "bad", 1: "good"})
    training = TrainConfig(1, 16, Adam(1e-3), steps_per_epoch=2)
    settings = {"student": str(encoder), "methods": (Consistency(SLaM()),), "training": training}
    task = make(count=240)
    done = run(task, tmp_path / "run", featurizer=Tokens(encoder, 16), **settings)
    assert done.outcomes[0].candidate.name == FLOOR  # with words of its own
    trained = done.outcomes[1].student
    whole = Student(trained.spec.build().spec, trained.state, trained.classes, trained.inputs)
    save_student(tmp_path / "saved", whole)
    texts = list(task.inputs[:5])
    expected = trained.logits(texts)
    shutil.rmtree(encoder)
    loaded = load_student(tmp_path / "saved")
    np.testing.assert_allclose(loaded.logits(texts), expected, atol=1e-5)


def test_candidates_by_kind_and_wish() -> None:
    def named(*arguments: Any, **more: Any) -> list[str]:
        return [candidate.name for candidate in choose_candidates(*arguments, **more)]

    consistency = "Consistency(inner=SLaM(hard=True, per_class=True))"
    assert named("text", 3, SLaM()) == [FLOOR, "GoldOnly()", "SLaM()", consistency]
    assert named("image", 3, SLaM()) == ["GoldOnly()", "SLaM()", "Consistency(inner=SLaM())"]
    assert named("image", 3, Consistency(SLaM())) == ["GoldOnly()", "Consistency(inner=SLaM())"]
    assert named("text", 3, SLaM(), quick=True) == [FLOOR, "GoldOnly()", "SLaM()"]
    assert named("text", 3, GoldOnly(), quick=True) == [FLOOR, "GoldOnly()"]
    assert named("image", 3, SLaM(), methods=[Vanilla()]) == ["GoldOnly()", "Vanilla()"]
    # A few hundred rows of V fill a table of 10 by 10, but not of 100 by 100.
    corrected = "Consistency(inner=ForwardCorrection())"
    assert corrected in named("text", 10, SLaM(), compare=True)
    assert corrected not in named("text", 100, SLaM(), compare=True)
    calibrated = "Consistency(inner=Calibrated(inner=TaylorCE(2)))"
    assert calibrated in named("table", 100, SLaM(), compare=True)
    assert calibrated not in named("image", 100, SLaM(), compare=True)
    with pytest.raises(InputError, match="pre-trained"):
        choose_candidates("text", 3, SLaM(), methods=[Weighted()])


def test_every_candidate_has_a_checkpoint_of_its_own() -> None:
    alike = [Consistency(SLaM(threshold=0.95)), Consistency(SLaM(), threshold=0.95)]
    candidates = [*map(Candidate, alike), Candidate(alike[0], generation=2)]
    assert len({candidate.file_name for candidate in candidates}) == 3


def test_a_store_that_lacks_what_a_method_needs_is_refused_before_training(tmp_path: Path) -> None:
    settings = DistillSettings(methods=(VID(),), epochs=1)
    with pytest.raises(InputError, match="needs the teacher's embeddings"):
        run_distill(make(), settings, tmp_path, device="cpu", quiet=True)
    assert not (tmp_path / "results.jsonl").exists()


def test_the_floor_is_scikit_learns_logistic_regression() -> None:
    task = make()
    inputs, tensors = fit_format("text", list(task.inputs), Tfidf())
    student = train_floor(task, inputs, tensors)
    rows = np.concatenate([task.split.gold, task.split.val])
    assert inputs.featurizer is not None
    vectorizer = inputs.featurizer.vectorizer_  # type: ignore[attr-defined]
    texts = np.array(task.inputs)
    best = 0.0
    expected = None
    for strength in (0.1, 1.0, 10.0, 100.0):
        model = LogisticRegression(C=strength, max_iter=2000)
        model.fit(vectorizer.transform(texts[rows]), task.y[rows])
        chosen = task.split.selection
        score = model.score(vectorizer.transform(texts[chosen]), task.y[chosen])
        if score > best:
            best, expected = score, model.predict_proba(vectorizer.transform(texts))
    np.testing.assert_allclose(student.predict_proba(list(task.inputs)), expected, atol=2e-3)


def test_settings_are_checked() -> None:
    with pytest.raises(InputError, match="seed must be at least 0, not -1"):
        DistillSettings(seed=-1)
    with pytest.raises(InputError, match="generations must be at least 1"):
        DistillSettings(generations=0)
    with pytest.raises(InputError, match="epochs must be at least 1"):
        DistillSettings(epochs=0)


def test_a_perfect_score_on_a_small_s_is_not_beyond_chance() -> None:
    done = run(make(right=0.8), methods=(SLaM(),))
    rows = len(done.task.split.selection)
    right = round(done.best.selection * rows / 100)
    share = (right + 1) / (rows + 2)
    assert done.chance == pytest.approx(200 * (share * (1 - share) / rows) ** 0.5)
    assert done.chance > 0
