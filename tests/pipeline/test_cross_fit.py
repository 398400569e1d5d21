"""Linear students: all gold rows measure, train and judge; their blend is returned."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pyarrow.parquet as pq
import pytest
from safetensors.torch import load_file, save_file

import noisyteacher as nt
from command_line import run, run_well
from noisyteacher.choose import linear_choice
from noisyteacher.core.errors import InputError, NoisyTeacherWarning
from noisyteacher.data.embeddings import Embeddings, EmbeddingsAndWords
from noisyteacher.labels import TeacherLabels
from noisyteacher.labels.teacher_labels import join_labels
from noisyteacher.methods import Consistency, SLaM, Vanilla
from noisyteacher.models import BagLinear, Linear
from noisyteacher.pipeline import (
    Distilled,
    DistillSettings,
    gather,
    load_student,
    run_distill,
    save_student,
)
from noisyteacher.runs import read_rows
from tiny_encoder import save_classifier, save_image_encoder
from user_files import (
    MOODS,
    digits,
    noisy_probs,
    review_sets,
    reviews,
    write_digit_folders,
    write_reviews,
)


def fitted(out: Path | None = None, data: dict[str, Any] | None = None, **more: Any) -> Distilled:
    settings = DistillSettings(**more)
    task = gather(**(data or review_sets()))
    done = run_distill(task, settings, out, device="cpu", quiet=True)
    assert isinstance(done, Distilled)
    return done


def others(prefix: str, count: int) -> tuple[np.ndarray, list[str], np.ndarray]:
    """More reviews, under ids of their own: ids, texts and classes."""
    texts, y = reviews(400)
    rows = slice(300, 300 + count)
    return np.array([f"{prefix}{i}" for i in range(count)]), texts[rows], np.array(MOODS)[y[rows]]


@pytest.fixture
def encoder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("NOISYTEACHER_CACHE", str(tmp_path / "cache"))
    return save_classifier(tmp_path / "encoder", {0: "bad", 1: "good"})


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Distilled, Path]:
    out = tmp_path_factory.mktemp("run") / "run"
    return fitted(out), out


def test_no_gold_row_is_given_away(finished: tuple[Distilled, Path]) -> None:
    done, _ = finished
    assert done.task.sizes == {"gold": 60, "V": 0, "S": 0, "pool": 200, "test": 40}
    assert done.choice.rows == 60
    assert len(done.task.measures) == len(done.task.judges) == 60


def test_the_folder_holds_student_rows_card_and_predictions(
    finished: tuple[Distilled, Path],
) -> None:
    done, out = finished
    student = load_student(out / "student")
    assert done.task.test is not None
    texts, y = list(done.task.test.inputs), done.task.test.y
    right = 100 * float(np.mean(student.predict(texts) == np.array(MOODS)[y]))
    assert right == pytest.approx(done.tested[""], abs=0.01)
    rows = read_rows(out / "results.jsonl")
    assert [row.method for row in rows] == [repr(line.method) for line in done.choice.lines]
    assert [row.accuracy["out_of_fold"] for row in rows] == pytest.approx(
        [100 * line.score.value for line in done.choice.lines], abs=1e-3
    )
    assert [row.accuracy["last"] for row in rows] == [
        done.tested[repr(line.method)] for line in done.choice.lines
    ]
    told = pq.read_table(out / "out_of_fold.parquet")
    assert told["id"].to_pylist() == [f"r{i}" for i in range(60)]
    share = np.mean(told["label"].to_numpy() == told["predicted"].to_numpy())
    assert share == pytest.approx(done.choice.score.value, abs=0.1)
    card = (out / "student" / "README.md").read_text()
    assert done.verdict() in card
    assert "| the teacher |" in card
    assert "60 gold, 200 pool and 40 test examples" in card


def test_verdict_page_console_and_config_agree(finished: tuple[Distilled, Path]) -> None:
    done, out = finished
    config = orjson.loads((out / "student" / "config.json").read_bytes())
    assert config["about"]["verdict"] == done.verdict()
    assert config["about"]["table"] == done.table()
    assert sum(c["weight"] or 0 for c in config["about"]["candidates"]) == pytest.approx(
        1, abs=0.01
    )
    from noisyteacher.report import write_run_page

    page = write_run_page(out).read_text()
    assert "the blend averages the students by weight" in page
    assert "ForwardCorrection()" in page


def test_started_again_nothing_is_added(finished: tuple[Distilled, Path]) -> None:
    done, out = finished
    rows = (out / "results.jsonl").read_bytes()
    weights = (out / "student" / "model.safetensors").read_bytes()
    again = fitted(out)
    assert (out / "results.jsonl").read_bytes() == rows
    assert (out / "student" / "model.safetensors").read_bytes() == weights
    assert again.verdict() == done.verdict()
    with pytest.raises(InputError, match="holds a run with other training"):
        fitted(out, folds=4)


def test_val_rows_alone_measure_and_judge() -> None:
    data, val = review_sets(), others("v", 40)
    probs = noisy_probs(reviews(400)[1], 2, 0.8)[300:340]
    labels = join_labels([data["labels"], TeacherLabels.from_probs(val[0], probs, MOODS)])
    done = fitted(data=data | {"val": val, "labels": labels}, quick=True)
    assert done.choice.rows == 40
    assert len(done.task.measures) == 40
    assert set(done.task.ids[done.task.judges]) == set(val[0])


def test_selection_rows_judge_and_are_not_trained_on(tmp_path: Path) -> None:
    task, told = gather(**review_sets() | {"selection": others("s", 30)}), list[str]()
    settings = DistillSettings(quick=True)
    done = run_distill(task, settings, tmp_path, device="cpu", quiet=True, say=told.append)
    assert isinstance(done, Distilled)
    assert "2 methods are compared on the 30 rows of the selection set." in told
    progress = orjson.loads((tmp_path / "progress.json").read_bytes())
    assert progress["total"] == 4  # each method before the choice, and in the refit
    assert done.choice.rows == 30
    assert done.choice.teacher is None  # it labeled none of the rows that judge
    assert "the teacher's own" not in done.verdict()


def test_methods_named_by_the_user_replace_the_defaults() -> None:
    done = fitted(methods=(SLaM(hard=True), Vanilla()))
    assert [repr(line.method) for line in done.choice.lines] == [
        "GoldOnly()",
        "SLaM(hard=True)",
        "Vanilla()",
    ]


@pytest.mark.filterwarnings("ignore::noisyteacher.core.errors.NoisyTeacherWarning")
def test_methods_with_two_views_are_cross_fitted_on_words_alone() -> None:
    settings = DistillSettings(methods=(Consistency(SLaM()),), quick=True)
    assert settings.solves("text")
    assert not replace(settings, encoder="somewhere").solves("text")
    assert not replace(settings, student="linear").solves("table")
    assert not DistillSettings(epochs=3).solves("text")
    assert not DistillSettings(student="mlp").solves("text")
    assert not DistillSettings().solves("image")
    assert DistillSettings(student="linear").solves("table")
    assert DistillSettings(student=BagLinear(5, 2)).solves("text")


def test_a_table_is_solved_too() -> None:
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 330)
    x = (rng.normal(size=(3, 6))[y] + 0.7 * rng.normal(size=(330, 6))).astype(np.float32)
    ids, names = np.arange(330), np.array(["a", "b", "c"])[y]
    labels = TeacherLabels.from_probs(ids, noisy_probs(y, 3, 0.8), ["a", "b", "c"])
    data = {"gold": (ids[:50], x[:50], names[:50]), "pool": (ids[50:], x[50:]), "labels": labels}
    done = fitted(data=data, student="linear", metric="macro_f1")
    assert isinstance(done.student.spec, Linear)
    assert np.mean(done.student.predict(x) == names) > 0.6
    assert "The student's macro-F1 on held-out gold rows is" in done.verdict()


@pytest.mark.parametrize("encoder_option", ["embeddings", "auto"])
def test_embeddings_of_a_frozen_encoder(tmp_path: Path, encoder: Path, encoder_option: str) -> None:
    done = fitted(student=encoder_option, encoder=encoder, quick=True)
    featurizer = done.student.inputs.featurizer
    assert isinstance(featurizer, EmbeddingsAndWords)
    assert done.student.spec == BagLinear(16 + featurizer.words.features, 2)
    # An encoder without training knows less than words do.
    assert "Students on TF-IDF features have all of the weight: --student linear" in done.verdict()
    alone = fitted(featurizer=Embeddings(encoder), quick=True)
    assert alone.student.spec == Linear(16, 2)
    save_student(tmp_path / "student", done.student)
    shutil.rmtree(encoder)
    again = load_student(tmp_path / "student")
    texts = ["great lovely film", "awful dull film"]
    np.testing.assert_array_equal(again.logits(texts), done.student.logits(texts))


@pytest.mark.parametrize("changed", ["model.safetensors", "tokenizer.json"])
def test_another_encoder_in_the_same_folder_is_another_run(
    tmp_path: Path, encoder: Path, changed: str
) -> None:
    """What was solved on the vectors of the first one is not mixed with those of the second."""
    settings = {"student": "embeddings", "encoder": encoder, "quick": True, "folds": 2}
    fitted(tmp_path / "run", **settings)
    path = encoder / changed
    if path.suffix == ".json":
        path.write_text(path.read_text().replace('"great"', '"grand"'))
    else:
        weights = load_file(path)
        save_file({k: v.flip(0) for k, v in weights.items()}, path, {"format": "pt"})
    with pytest.raises(InputError, match="holds a run with another featurizer or encoder"):
        fitted(tmp_path / "run", **settings)


def test_many_texts_are_read_by_the_encoder_alone(
    encoder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("noisyteacher.pipeline.api.MOST_WITH_WORDS", 100)
    told: list[str] = []
    settings = DistillSettings(encoder=encoder, quick=True)
    done = run_distill(gather(**review_sets()), settings, device="cpu", quiet=True, say=told.append)
    assert isinstance(done, Distilled)
    assert done.student.spec == Linear(16, 2)
    assert "TF-IDF is not added to the embeddings of more than 100 texts." in told


@pytest.mark.parametrize("student", ["embeddings", "auto"])
def test_embeddings_of_images(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, student: str
) -> None:
    monkeypatch.setenv("NOISYTEACHER_CACHE", str(tmp_path / "cache"))
    folder, out = write_digit_folders(tmp_path / "digits"), tmp_path / "run"
    encoder = save_image_encoder(tmp_path / "encoder")
    files = ("--gold", folder / "gold", "--pool", folder / "pool", "--labels", folder / "labels")
    options = ("--student", student, "--encoder", encoder, "--quick", "--out", out)
    done = run_well("distill", *files, *options)
    assert "60 gold and 80 pool examples, 3 classes" in done.stderr
    shutil.rmtree(encoder)
    loaded = load_student(out / "student")
    assert loaded.spec == Linear(12, 3)
    # Raw images, as arrays of another size or as files; digits need no pre-training to be told.
    images, y = digits(140)
    paths = sorted((folder / "pool").iterdir(), key=lambda path: int(path.stem[1:]))
    from_files = loaded.logits(paths)
    np.testing.assert_allclose(from_files, loaded.logits(images[60:]), atol=1e-5)
    assert np.mean(from_files.argmax(1) == y[60:]) > 0.6
    assert "The student's accuracy on held-out gold rows is" in loaded.about["verdict"]
    told = tmp_path / "said.csv"
    run_well("predict", out / "student", folder / "pool", "--out", told)
    assert len(told.read_text().splitlines()) == 81


@pytest.mark.parametrize(
    ("data", "more", "match"),
    [
        ("text", {"student": "mlp"}, "is for the student embeddings, not for 'mlp'"),
        ("table", {"student": "linear"}, "reads texts or images, not tables"),
    ],
)
def test_an_encoder_that_is_not_used_is_refused(
    data: str, more: dict[str, Any], match: str
) -> None:
    given = review_sets()
    if data == "table":
        numbers = np.random.default_rng(0)
        given = {
            name: part
            if name == "labels"
            else (part[0], numbers.random((len(part[0]), 5)), *part[2:])
            for name, part in given.items()
        }
    with pytest.raises(InputError, match=match):
        fitted(data=given, encoder="somewhere", **more)


def test_embeddings_need_an_encoder() -> None:
    with pytest.raises(InputError, match="The student embeddings needs an encoder"):
        fitted(student="embeddings")


def test_noise_for_labels_does_not_spoil_the_student() -> None:
    done = fitted(data=review_sets(gold=120, count=400, right=0.5), seed=1)
    assert done.tested[""] >= done.tested["GoldOnly()"] - 5
    assert "were worth it" not in done.verdict()


def test_too_few_gold_rows_are_refused() -> None:
    with pytest.raises(InputError, match="8 gold examples with teacher labels are too few"):
        fitted(data=review_sets(gold=8))


def test_linear_students_are_judged_in_folds() -> None:
    with pytest.raises(InputError, match=r"at least 2 folds \(--folds\), not 1"):
        fitted(folds=1)


def test_a_teacher_that_knows_all_gold_rows_is_pointed_out() -> None:
    with pytest.warns(NoisyTeacherWarning, match="right on all 60 gold rows"):
        fitted(data=review_sets(right=1.0), quick=True)


def test_the_verdict_tells_that_students_were_compared_on_a_part_of_the_pool(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told = "compared after training on 50 of the 200 pool rows"
    assert told not in fitted().verdict()
    monkeypatch.setattr(linear_choice, "POOL_FOR_COMPARISON", 50)
    monkeypatch.setattr(linear_choice, "STREAMED_FOR_COMPARISON", 10)
    assert told in fitted().verdict()


def test_python_returns_the_student_with_its_verdict() -> None:
    student = nt.distill(**review_sets(), quick=True)
    assert student.predict(["great lovely superb", "awful dull poor"]).tolist() == ["good", "bad"]
    assert student.about["verdict"].endswith("data that resembles your gold rows.")


# -- the command line -----------------------------------------------------------------------


def test_distill_and_predict(tmp_path: Path) -> None:
    folder, out = write_reviews(tmp_path, gold=60, pool=150), tmp_path / "run"
    files = ("--gold", folder / "gold.csv", "--pool", folder / "pool.csv")
    done = run_well("distill", *files, "--labels", folder / "labels", "--out", out, "--quick")
    assert "60 gold and 150 pool examples, 2 classes; the teacher is right on" in done.stderr
    assert "The student's accuracy on held-out gold rows is" in done.stdout
    told = tmp_path / "said.csv"
    predicted = run_well(
        "predict", out / "student", folder / "pool.csv", "--out", told, "--abstain-below", 0.8
    )
    assert f"{told}: 150 predictions." in predicted.stdout
    assert "On held-out gold examples a threshold of 0.8 leaves out" in predicted.stdout
    lines = told.read_text().splitlines()
    assert lines[0] == '"id","class","probability"'
    assert len(lines) == 151


@pytest.mark.parametrize("suffix", ["jsonl", "parquet"])
def test_predictions_in_other_formats(
    tmp_path: Path, finished: tuple[Distilled, Path], suffix: str
) -> None:
    texts = tmp_path / "new.csv"
    texts.write_text("id,text\nx1,great lovely film\nx2,awful dull film\n")
    out = tmp_path / f"said.{suffix}"
    done = run_well("predict", finished[1] / "student", texts, "--out", out, "--json")
    assert orjson.loads(done.stdout) | {"file": ""} == {
        "file": "",
        "rows": 2,
        "left_out": 0,
        "on_held_out_gold_rows": None,
    }
    rows = (
        pq.read_table(out).to_pylist()
        if suffix == "parquet"
        else [orjson.loads(line) for line in out.read_bytes().splitlines()]
    )
    assert [(row["id"], row["class"]) for row in rows] == [("x1", "good"), ("x2", "bad")]
    again = run("predict", finished[1] / "student", texts, "--out", out)
    assert isinstance(again.exception, InputError)
    assert "add --overwrite to replace it" in str(again.exception)


# -- the audit ------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::noisyteacher.core.errors.NoisyTeacherWarning")
@pytest.mark.parametrize("unlabeled", [0, 8])
@pytest.mark.parametrize("val", [False, True])
def test_audit_and_distill_say_the_same(tmp_path: Path, val: bool, unlabeled: int) -> None:
    """The same sentence with the same numbers, and no advice against it."""
    folder = write_reviews(tmp_path, gold=70, pool=60)
    if unlabeled:
        # Of the gold rows; where the teacher saw others, rows without a label say nothing.
        labels = TeacherLabels.open(folder / "labels")
        kept = labels.ids[~np.isin(labels.ids, [f"r{i}" for i in range(30, 30 + unlabeled)])]
        labels.take(kept).save(folder / "labels", overwrite=True)
    files = ["--gold", folder / "gold.csv", "--pool", folder / "pool.csv"]
    audited = ["--gold", folder / "gold.csv"]
    if val:
        # The teacher saw the first gold rows: the others measure it, and judge.
        header, *lines = (folder / "gold.csv").read_text().splitlines()
        for name, part in (("seen", lines[:20]), ("new", lines[20:])):
            (tmp_path / f"{name}.csv").write_text("\n".join([header, *part]) + "\n")
        seen, new = tmp_path / "seen.csv", tmp_path / "new.csv"
        files = ["--gold", seen, "--val", new, "--pool", folder / "pool.csv"]
        audited = ["--gold", new, "--trained-on", seen]
    where = ("--labels", folder / "labels", "--out", tmp_path / "run")
    distilled = run_well("distill", *files, *where)
    inputs = ("--inputs", folder / "gold.csv", "--inputs", folder / "pool.csv")
    found = run_well("audit", folder / "labels", *audited, *inputs, "--json", "--replicates", 50)
    config = orjson.loads((tmp_path / "run" / "student" / "config.json").read_bytes())
    compared = orjson.loads(found.stdout)["numbers"]["comparison"]
    assert compared["rows"] == (50 - unlabeled if val else 70)
    assert compared["learned_from"] == 70 - unlabeled * val
    assert compared["verdict"] == config["about"]["verdict"]
    blend = config["about"]["candidates"][-1]
    assert 100 * compared["student"]["value"] == pytest.approx(blend["accuracy"], abs=0.006)
    assert "recommends" not in distilled.output
    assert "Do not distill" not in distilled.output + found.output
