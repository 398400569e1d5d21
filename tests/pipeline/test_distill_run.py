"""Networks: gold only always among them, judged on rows they do not see, one chosen."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest
import torch
from torch import Tensor, nn

from noisyteacher.choose.choice import FLOOR, Candidate
from noisyteacher.core.errors import InputError, NoisyTeacherWarning
from noisyteacher.data import HashedNgrams, Tfidf, Tokens
from noisyteacher.data.input_format import fit_format
from noisyteacher.labels import TeacherLabels
from noisyteacher.methods import VID, Consistency, GoldOnly, SLaM, Vanilla
from noisyteacher.models import MLP, ModelSpec
from noisyteacher.pipeline import (
    Distilled,
    DistillSettings,
    Unfinished,
    distill,
    gather,
    load_student,
    run_distill,
)
from noisyteacher.pipeline.candidates import choose_candidates
from noisyteacher.pipeline.defaults import LEAST_STEPS
from noisyteacher.pipeline.network_run import _NetworkFit, run_networks
from noisyteacher.pipeline.preparation import Run
from noisyteacher.pipeline.task import Task
from noisyteacher.runs import read_rows
from noisyteacher.train import Adam, Job, TrainConfig, Trained, train
from noisyteacher.train.student_run import StudentRun
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


def make_gold(right: float = 0.8, count: int = 320, gold: int = 100) -> Task:
    """The same reviews without V and S."""
    parts = columns(count, right)
    texts, y = reviews(count)
    ids, names = parts["labels"].ids, np.array(MOODS)[y]
    known = {"gold": (ids[:gold], texts[:gold], names[:gold])}
    pool = {"pool": (ids[gold:-40], texts[gold:-40])}
    return gather(**known, **pool, test=parts["test"], labels=parts["labels"])


def run(task: Task, out: Path | None = None, **settings: Any) -> Distilled:
    chosen = DistillSettings(**{"training": QUICK} | settings)
    done = run_distill(task, chosen, out, device="cpu", quiet=True)
    assert isinstance(done, Distilled)
    return done


def names_of(done: Distilled) -> list[str]:
    return [line.name for line in done.choice.lines]


def scores(done: Distilled) -> list[float]:
    return [line.score.value for line in done.choice.lines]


def test_a_run_leaves_a_student_a_card_and_rows(tmp_path: Path) -> None:
    task = make_gold()
    done = run(task, tmp_path / "run", compare=True)
    names = names_of(done)
    assert names[:2] == [FLOOR, "GoldOnly()"]
    assert "Vanilla()" in names
    assert "Consistency(inner=None)" not in names  # a straw man on texts
    assert "Consistency(inner=SLaM(hard=True, k=2, per_class=True))" in names
    assert len(set(names)) == len(names)
    assert done.kept == next(line.name for line in done.choice.lines if line.weight == 1)
    assert done.choice.rows == 20

    student = load_student(tmp_path / "run" / "student")
    assert task.test is not None
    tested = student.predict(list(task.test.inputs)) == np.array(MOODS)[task.test.y]
    assert 100 * tested.mean() == pytest.approx(done.tested[""], abs=0.01)

    rows = read_rows(tmp_path / "run" / "results.jsonl")
    assert [row.method for row in rows] == names
    assert all(row.teacher_accuracy == task.teacher_accuracy for row in rows)
    assert [row.accuracy["last"] for row in rows] == [done.tested[name] for name in names]
    assert [row.accuracy["out_of_fold"] for row in rows] == pytest.approx(
        [100 * score for score in scores(done)], abs=1e-3
    )
    assert [row.epochs for row in rows] == [0] + [2] * (len(rows) - 1)
    card = (tmp_path / "run" / "student" / "README.md").read_text()
    for words in ("100 gold, 180 pool", "planted", "| margin up to | α |", "| the teacher |"):
        assert words in card
    assert done.verdict() in card
    assert f"The returned student is {done.kept}, trained on all gold rows." in done.verdict()


def test_held_out_rows_take_no_part_in_their_fold(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither as gold, nor to measure the teacher, nor as pool; the refit sees them all."""
    jobs: list[Job] = []

    def spy(some: Sequence[Job], *arguments: Any, **more: Any) -> list[Trained]:
        jobs.extend(some)
        return train(some, *arguments, **more)

    monkeypatch.setitem(run_networks.__globals__, "train", spy)
    task = make_gold()
    done = run(task, methods=(SLaM(),), folds=4)
    gold, pool = set(task.split.gold.tolist()), set(task.split.pool.tolist())
    inside: list[int] = []
    *in_folds, refit = jobs if done.kept != FLOOR else [*jobs, None]
    assert len(in_folds) == 8
    for job in in_folds:
        held_out = set(job.selection.tolist())
        assert len(held_out) == 25
        seen = set(job.positions[job.prepared.columns.index.numpy()].tolist())
        assert not seen & held_out
        assert seen == (gold - held_out) | (pool if job.method == SLaM() else set())
        if job.prepared.noise is not None:
            assert job.prepared.noise.n_val_ == 75
            assert set(job.val_positions.tolist()) == gold - held_out
            inside += sorted(held_out)
    assert sorted(inside) == sorted(gold)
    if refit is not None:
        assert gold <= set(refit.positions.tolist())
    np.testing.assert_array_equal(done.judged, task.split.gold)


def test_other_labels_of_held_out_rows_change_nothing_that_is_said_of_them() -> None:
    task = make_gold()
    first = run(task, methods=(SLaM(),))
    y = task.y.copy()
    y[first.judged] = 1 - y[first.judged]
    settings = DistillSettings(training=QUICK, methods=(SLaM(),))
    inputs, tensors = fit_format("text", list(task.inputs), Tfidf())

    def say(task: Task, held_out: np.ndarray) -> np.ndarray:
        device = torch.device("cpu")
        work = Run(task, settings, inputs, tensors, None, device, lambda text: None, True)
        fit = _NetworkFit(work)
        fit.held_out, fit.judged = [held_out], held_out
        assert fit.train([Candidate(GoldOnly()), Candidate(SLaM())], task.labels)
        return np.stack([fit._held_out_logits(c) for c in fit.candidates])

    held_out = first.judged
    np.testing.assert_array_equal(say(task, held_out), say(replace(task, y=y), held_out))


def test_run_again_nothing_is_trained_or_written_twice(tmp_path: Path) -> None:
    task = make_gold()
    first = run(task, tmp_path / "run")
    rows = (tmp_path / "run" / "results.jsonl").read_bytes()
    weights = (tmp_path / "run" / "student" / "model.safetensors").read_bytes()
    again = run(task, tmp_path / "run")
    assert (tmp_path / "run" / "results.jsonl").read_bytes() == rows
    assert (tmp_path / "run" / "student" / "model.safetensors").read_bytes() == weights
    assert again.verdict() == first.verdict()
    assert again.records == first.records  # the seconds too
    with pytest.raises(InputError, match="holds a run with other training"):
        run(task, tmp_path / "run", folds=3)


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
    assert sorted(row.method for row in read_rows(rows)) == sorted(methods)


@pytest.mark.parametrize("in_time", [0, 3])
def test_out_of_time_it_stops_and_goes_on_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, in_time: int
) -> None:
    """Before the first student, or before the refit."""
    task = make_gold()

    def some_in_time(jobs: Sequence[Job], *arguments: Any, **more: Any) -> list[Trained]:
        late = in_time == 0 or jobs[0].name.endswith("_refit")
        return train(jobs, *arguments, **more | {"minutes": 0 if late else None})

    settings = DistillSettings(training=QUICK, methods=(SLaM(), Vanilla()))
    with monkeypatch.context() as patch:
        patch.setitem(run_networks.__globals__, "train", some_in_time)
        patch.setattr(_NetworkFit, "_floor", lambda *_: pytest.fail("not the floor"))
        patch.setitem(run_networks.__globals__, "choose_candidates", without_floor)
        cut = run_distill(task, settings, tmp_path / "run", device="cpu", quiet=True)
    assert isinstance(cut, Unfinished)
    assert len(cut.trained) == in_time
    assert not (tmp_path / "run" / "student").exists()
    done, whole = (
        run(task, tmp_path / "run", methods=settings.methods),
        run(task, methods=settings.methods),
    )
    assert scores(done) == scores(whole)
    assert (tmp_path / "run" / "student").exists()


def without_floor(*arguments: Any, **more: Any) -> tuple[list[Candidate], Candidate | None]:
    candidates, anchor = choose_candidates(*arguments, **more)
    return candidates[1:], anchor


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
    with pytest.raises(InputError, match="another student"):  # words of one text are left out now
        run(make(), tmp_path / "run", quick=True)
    done = run(make(), tmp_path / "run", quick=True, featurizer=Tfidf(min_texts=1))
    assert (tmp_path / "run" / "results.jsonl").read_bytes() == rows
    stored = {row.method: row for row in read_rows(tmp_path / "run" / "results.jsonl")}
    for name in names_of(done):
        assert stored[name].accuracy["last"] == done.tested[name]


def test_a_folder_that_cannot_be_finished_is_refused_before_training(tmp_path: Path) -> None:
    (tmp_path / "run" / "student").mkdir(parents=True)
    (tmp_path / "run" / "student" / "notes.txt").write_text("mine")
    with pytest.raises(InputError, match="student exists and is not a student's folder"):
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


def test_doubt_and_extras_of_the_labels_belong_to_the_run(tmp_path: Path) -> None:
    """They change what a method makes of the labels, although the probabilities are the same."""
    given, n = columns(320, 0.8), 320
    spread = {"view_mean": np.full((n, 2, 2), 0.5, np.float32)}
    spread["view_std"] = np.zeros((n, 2, 2), np.float32)

    def task(**changed: Any) -> Task:
        return gather(**given | {"labels": replace(given["labels"], **changed)})

    doubted = task(missing=np.full(n, 0.1, np.float32))
    digests = [task().digest(), doubted.digest(), task(extras=spread).digest()]
    assert len(set(digests)) == 3


def test_students_stopped_at_a_nan_loss_are_out(tmp_path: Path) -> None:
    training = replace(QUICK, optimizer=Adam(float("inf")))
    with pytest.warns(NoisyTeacherWarning, match="is not used: the loss became nan"):
        done = run(make(), tmp_path / "run", training=training, quick=True)
    assert done.kept == FLOOR
    assert names_of(done) == [FLOOR]
    assert [row.method for row in read_rows(tmp_path / "run" / "results.jsonl")] == [FLOOR]


def blobs(right: float, seed: int = 0, gold: int = 200) -> dict[str, Any]:
    """A table of two rings, which no linear student can tell apart, and a teacher of it."""
    rng = np.random.default_rng(seed)
    n = gold + 1000
    y = rng.integers(0, 2, n)
    angle = rng.uniform(0, 2 * np.pi, n)
    radius = np.where(y == 1, 2.0, 1.0) + 0.15 * rng.normal(size=n)
    x = np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1).astype(np.float32)
    labels = TeacherLabels.from_probs(np.arange(n), noisy_probs(y, 2, right, seed), MOODS)
    names = np.array(MOODS)[y]
    return {
        "gold": (np.arange(gold), x[:gold], names[:gold]),
        "pool": (np.arange(gold, n - 300), x[gold:-300]),
        "test": (np.arange(n - 300, n), x[-300:], names[-300:]),
        "labels": labels,
    }


RINGS = TrainConfig(6, 64, Adam(0.01), steps_per_epoch=30)


def test_a_teacher_of_pure_noise_cannot_spoil_a_network() -> None:
    task = gather(**blobs(0.5))
    done = run(task, student="mlp", methods=(Vanilla(hard=True),), training=RINGS)
    assert done.kept == "GoldOnly()"
    assert done.tested["Vanilla(hard=True)"] < 90
    assert done.tested[""] > 95
    assert isinstance(done.student.spec, MLP)
    assert "were worth it" not in done.verdict()


def test_a_teacher_that_knows_more_than_the_gold_labels_is_used() -> None:
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 1240)
    x = rng.normal(size=(1240, 60)).astype(np.float32)
    x[:, 0] += 2.5 * y
    labels = TeacherLabels.from_probs(np.arange(1240), noisy_probs(y, 2, 0.95), MOODS)
    names = np.array(MOODS)[y]
    task = gather(
        gold=(np.arange(40), x[:40], names[:40]),
        pool=(np.arange(40, 940), x[40:940]),
        selection=(np.arange(940, 1240), x[940:], names[940:]),
        labels=labels,
    )
    done = run(task, student="mlp", methods=(Vanilla(),), training=RINGS)
    assert done.kept == "Vanilla()"
    assert "were worth it" in done.verdict()
    assert "trained without the selection set" in done.verdict()


def test_a_teacher_trained_on_the_gold_rows_is_measured_on_val_alone() -> None:
    """It is right on every gold row and guesses elsewhere: only V can tell."""
    parts = blobs(0.5)
    ids, x, names = parts["gold"]
    labels = parts["labels"]
    probs = labels.probs.copy()
    known = np.array([MOODS.index(name) for name in names[:100]])
    probs[:100] = 0.02 + 0.96 * np.eye(2)[known]
    parts |= {
        "gold": (ids[:100], x[:100], names[:100]),
        "val": (ids[100:], x[100:], names[100:]),
        "labels": TeacherLabels.from_probs(labels.ids, probs, MOODS),
    }
    task = gather(**parts)
    assert task.teacher_accuracy < 65
    done = run(task, student="mlp", methods=(SLaM(k=2), Vanilla()), training=RINGS)
    assert set(done.judged) <= set(task.split.val)
    assert done.choice.rows == 20
    assert done.tested[""] > 93
    assert done.kept != "Vanilla()"


def test_the_choice_is_blind_to_the_test_set() -> None:
    """Other test labels change the accuracies told, and nothing that is chosen."""
    parts = blobs(0.8)
    ids, x, names = parts["test"]
    flipped = np.where(names == MOODS[0], MOODS[1], MOODS[0])
    settings = {"student": "mlp", "methods": (Vanilla(), SLaM(k=2)), "training": RINGS}
    done, other = (
        run(gather(**parts | {"test": (ids, x, y)}), **settings) for y in (names, flipped)
    )
    assert done.kept == other.kept
    assert done.choice.score == other.choice.score
    assert other.tested[""] == pytest.approx(100 - done.tested[""], abs=0.01)
    assert max(other.tested, key=lambda name: other.tested[name]) != other.kept


class Dropping(nn.Module):
    """Batch norm and dropout: wrong unless put into evaluation mode."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(2, 32), nn.BatchNorm1d(32), nn.ReLU())
        self.drop, self.head = nn.Dropout(0.9), nn.Linear(32, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.drop(self.body(x)))


def test_students_are_judged_in_evaluation_mode() -> None:
    """What the table, the curve and the returned student say of the same rows agrees."""
    parts = blobs(0.9)
    ids, x, names = parts["test"]
    parts |= {"selection": (ids, x, names), "test": (ids + 5000, x + 1e-6, names)}
    task = gather(**parts)
    done = run(task, student=Dropping, methods=(Vanilla(),), training=RINGS)
    kept = done.records[done.kept]
    right = 100 * float(np.mean(done.student.predict(x) == names))
    assert kept.curve[-1]["selection"] == pytest.approx(right, abs=0.01)
    assert kept.curve[-1]["test"] == pytest.approx(right, abs=0.7)
    held_out = 100 * float(np.mean(done.choice.out_of_fold.argmax(1) == task.y[done.judged]))
    assert held_out == pytest.approx(right, abs=0.01)


def test_gold_labels_alone_cost_what_their_rows_cost(monkeypatch: pytest.MonkeyPatch) -> None:
    steps: dict[str, int] = {}
    original = StudentRun.__init__

    def count(self: StudentRun, job: Job, *arguments: Any) -> None:
        original(self, job, *arguments)
        steps.setdefault(repr(job.method), self.steps)  # not that of the refit

    monkeypatch.setattr(StudentRun, "__init__", count)
    monkeypatch.setitem(LEAST_STEPS, "text", 3)
    training = TrainConfig(1, 16, Adam(0.02))
    run(make_gold(count=640, gold=100), methods=(Vanilla(),), training=training)
    assert steps == {"GoldOnly()": 5, "Vanilla()": -(-(80 + 500) // 16)}


def test_a_second_generation_is_judged_like_the_first(tmp_path: Path) -> None:
    done = run(make(), tmp_path / "run", methods=(SLaM(hard=True),), generations=2)
    assert names_of(done)[-1] == "SLaM(hard=True), generation 2"
    rows = read_rows(tmp_path / "run" / "results.jsonl")
    assert [row.generation for row in rows] == [1, 1, 1, 2]


def test_generations_need_rows_that_no_generation_saw(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"give val= .*selection= \(--selection\)"):
        run(make_gold(), tmp_path / "run", generations=2)
    assert not (tmp_path / "run").exists()


def test_generations_refuse_what_later_labels_do_not_have(tmp_path: Path) -> None:
    given = columns(320, 0.8)
    rng = np.random.default_rng(0)
    probs, ids = given["labels"].probs, given["labels"].ids
    extras = {"embedding": rng.normal(size=(320, 4)).astype(np.float32)}
    given["labels"] = TeacherLabels.from_probs(ids, probs, MOODS, extras=extras)
    with pytest.raises(InputError, match="more than the labels of a second generation provide"):
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


def test_the_door_returns_the_student(tmp_path: Path) -> None:
    parts = columns(320, 0.8)
    parts.pop("test")
    student = distill(
        "linear", **parts, method="SLaM()", training=QUICK, device="cpu", out=tmp_path / "run"
    )
    assert student.about["verdict"]
    tried = [c["candidate"] for c in student.about["candidates"]]
    assert tried == [FLOOR, "GoldOnly()", "SLaM()", "the returned student"]
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
    assert tried == [FLOOR, "GoldOnly()", "SLaM()", "Vanilla()", "the returned student"]
    right = 100 * float(
        np.mean(stored.take(parts["val"][0]).hard == [*map(MOODS.index, parts["val"][2])])
    )
    assert student.about["teacher"]["accuracy_on_gold"] == pytest.approx(right, abs=0.01)


def test_the_door_stops_in_time(tmp_path: Path) -> None:
    parts, settings = columns(320, 0.8), {"training": QUICK, "device": "cpu", "minutes": 0}
    with pytest.raises(InputError, match=r"ran out after 0 students.* the same call goes on"):
        distill("linear", **parts, **settings, out=tmp_path / "run")
    assert not (tmp_path / "run" / "student").exists()
    done = distill("linear", **parts, **settings | {"minutes": None}, out=tmp_path / "run")
    assert len(done.about["candidates"]) > 2


def test_an_encoder_student_needs_nothing_but_its_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoder = save_classifier(tmp_path / "encoder", {0: "bad", 1: "good"})
    training = TrainConfig(1, 16, Adam(1e-3), steps_per_epoch=2)
    settings = {"student": str(encoder), "methods": (Consistency(SLaM()),), "training": training}
    task = make(count=240)
    tokens = Tokens(encoder, 16)
    first = run(task, featurizer=tokens, **settings)
    assert first.choice.lines[0].name == FLOOR  # with words of its own
    monkeypatch.setitem(run_networks.__globals__, "choose_candidates", without_floor)
    done = run(task, tmp_path / "run", featurizer=tokens, **settings)
    texts = list(task.inputs[:5])
    expected = done.student.logits(texts)
    shutil.rmtree(encoder)
    loaded = load_student(tmp_path / "run" / "student")
    np.testing.assert_allclose(loaded.logits(texts), expected, atol=1e-5)


def test_a_store_that_lacks_what_a_method_needs_is_refused_before_training(tmp_path: Path) -> None:
    settings = DistillSettings(methods=(VID(),), epochs=1)
    with pytest.raises(InputError, match="needs the teacher's embeddings"):
        run_distill(make(), settings, tmp_path, device="cpu", quiet=True)
    assert not (tmp_path / "results.jsonl").exists()
