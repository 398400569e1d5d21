"""The verb ``label``: bulk inference into a store, in shards, resumed after a kill."""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import typer
from typer.testing import CliRunner, Result

from noisyteacher.cli.label import EPILOG, label
from noisyteacher.core.errors import InputError
from noisyteacher.core.locks import hold_lock
from noisyteacher.data import Tfidf
from noisyteacher.data.dataset import rgb_images
from noisyteacher.data.input_format import fit_format
from noisyteacher.labels import TeacherLabels
from noisyteacher.models import BagLinear, ResNetCifar
from noisyteacher.pipeline import Student, load_student, read_examples, save_student
from noisyteacher.pipeline.labeling import LabelingProgress, label_files
from noisyteacher.pipeline.teachers import ModelTeacher
from tiny_encoder import save_classifier
from user_files import digits, reviews, write_digit_folders, write_reviews

# A teacher that remembers every batch it saw, and dies by its own hand when told to.
TEACHER = """
import os, signal
from pathlib import Path
import numpy as np

def logits(ids, inputs):
    log = Path("seen.txt")
    seen = log.read_text().split() if log.exists() else []
    if os.environ.get("DIE_AFTER") and len(seen) >= int(os.environ["DIE_AFTER"]):
        os.kill(os.getpid(), signal.SIGKILL)
    log.write_text(" ".join(seen + list(ids)))
    good = np.array([len(text) % 7 for text in inputs], float)
    return np.stack([3 - good, good], axis=1)

def wrong(ids, inputs):
    return np.zeros(len(ids))
"""


@pytest.fixture(autouse=True)
def image_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOISYTEACHER_CACHE", str(tmp_path / "cache"))


def run(*arguments: object) -> Result:
    app = typer.Typer()
    app.command(epilog=EPILOG)(label)
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def printed(*arguments: object) -> dict[str, Any]:
    result = run(*arguments, "--device", "cpu", "--json")
    assert result.exit_code == 0, (result.output, result.exception)
    return json.loads(result.stdout)  # type: ignore[no-any-return]


def refused(*arguments: object) -> str:
    result = run(*arguments)
    assert isinstance(result.exception, InputError), result.output
    return str(result.exception)


def text_student(folder: Path) -> Student:
    texts, _ = reviews(50)
    inputs, _ = fit_format("text", texts, Tfidf())
    torch.manual_seed(0)
    spec = BagLinear(inputs.features, 2)
    state = {"bag.weight": torch.randn(inputs.features, 2), "bias": torch.zeros(2)}
    student = Student(spec, state, ("bad", "good"), inputs)
    save_student(folder, student)
    return student


def test_a_saved_student_is_a_teacher(tmp_path: Path) -> None:
    files, student = write_reviews(tmp_path / "data", 30, 50), text_student(tmp_path / "student")
    sources = [files / "gold.csv", files / "pool.csv"]
    out = tmp_path / "labels"
    summary = printed(tmp_path / "student", *sources, "--out", out, "--shard-size", 20)
    assert summary["rows"] == 80
    assert summary["classes"] == ["bad", "good"]
    labels = TeacherLabels.open(out)
    for source in sources:
        part = read_examples(source, labeled=False)
        said = labels.take(part.ids)
        np.testing.assert_allclose(said.probs, student.predict_proba(part.inputs), atol=2e-3)
        assert said.hard.tolist() == student.logits(part.inputs).argmax(1).tolist()
    assert not out.with_name("labels.partial").exists()
    one = tmp_path / "one"
    printed(tmp_path / "student", *sources, "--out", one, "--batch-size", 7)
    np.testing.assert_array_equal(TeacherLabels.open(one).topk_logprob, labels.topk_logprob)


def test_classes_are_told_apart_by_name(tmp_path: Path) -> None:
    files = write_reviews(tmp_path / "data", 30, 50)
    text_student(tmp_path / "student")
    names = tmp_path / "names.json"
    names.write_text('["so, so", "fine"]')

    def labeled(classes: object) -> TeacherLabels:
        out = tmp_path / "labels"
        printed(
            tmp_path / "student", files / "pool.csv", "--out", out, "--classes", classes,
            "--overwrite", "--csv", tmp_path / "said.csv",
        )  # fmt: skip
        return TeacherLabels.open(out)

    own, turned, other = labeled("bad,good"), labeled("good,bad"), labeled(names)
    assert own.classes == turned.classes == ("bad", "good")
    np.testing.assert_array_equal(own.topk_index, turned.topk_index)
    assert other.classes == ("so, so", "fine")
    with (tmp_path / "said.csv").open() as file:
        first = next(csv.DictReader(file))
    assert (first["id"], first["label"]) == (other.ids[0], other.classes[other.hard[0]])
    assert float(first["probability"]) == pytest.approx(other.topk_prob[0, 0])
    told = refused(
        tmp_path / "student", files / "pool.csv", "--out", tmp_path / "x", "--classes", "good,fine"
    )
    assert "all its own names, or all new ones" in told


def test_killed_and_started_again_it_goes_on(tmp_path: Path) -> None:
    (tmp_path / "my_teacher.py").write_text(TEACHER)
    files = write_reviews(tmp_path / "data", 30, 50)
    command = [sys.executable, "-c", "import typer; from noisyteacher.cli.label import label; "
               "typer.run(label)", "my_teacher:logits", str(files / "pool.csv"), "--out", "labels",
               "--classes", "bad, good", "--shard-size", "20", "--batch-size", "10"]  # fmt: skip
    killed = subprocess.run(
        command, cwd=tmp_path, env=os.environ | {"DIE_AFTER": "30"}, capture_output=True
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert not (tmp_path / "labels").exists()
    assert (tmp_path / "labels.partial").is_dir()
    again = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert again.returncode == 0, again.stderr
    assert "Continuing with the finished shards" in again.stderr
    assert "50 of 50 labeled" in again.stderr
    seen = (tmp_path / "seen.txt").read_text().split()
    # The first shard is not asked for again; the second, killed halfway, is.
    pool = read_examples(files / "pool.csv", labeled=False)
    assert seen == [*pool.ids[:20], *pool.ids[20:30], *pool.ids[20:50]]
    labels = TeacherLabels.open(tmp_path / "labels")
    assert labels.ids.tolist() == pool.ids.tolist()
    assert labels.teacher == "my_teacher:logits"
    assert labels.hard.tolist() == [int(len(text) % 7 >= 2) for text in pool.inputs]
    assert not (tmp_path / "labels.partial").exists()


def test_killed_while_its_plan_was_written_it_starts_again(tmp_path: Path) -> None:
    files = write_reviews(tmp_path / "data", 30, 50)
    text_student(tmp_path / "student")
    work = tmp_path / "labels.partial"
    work.mkdir()
    (work / ".plan.json.x1").write_bytes(b'{"tea')
    printed(tmp_path / "student", files / "pool.csv", "--out", tmp_path / "labels")
    assert not work.exists()


def test_two_labelings_of_one_store_are_not_mixed(tmp_path: Path) -> None:
    files = write_reviews(tmp_path / "data", 30, 50)
    text_student(tmp_path / "student")
    arguments = [tmp_path / "student", files / "pool.csv", "--out", tmp_path / "labels"]
    with hold_lock(tmp_path / "labels.lock", "it", "wait"):
        sentence = refused(*arguments)
    assert "labels is in use by another process" in sentence
    assert sentence.endswith("choose another store with out= (--out).")
    printed(*arguments)
    assert not (tmp_path / "labels.lock").exists()


def test_shards_of_other_files_are_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files, student = write_reviews(tmp_path / "data", 30, 50), text_student(tmp_path / "student")
    asked: list[int] = []
    teacher = ModelTeacher(student, "student", device=torch.device("cpu"))
    usual = teacher.label

    def say(ids: np.ndarray, inputs: Any, batch_size: int, seed: int) -> TeacherLabels:
        if len(asked) == 2:
            raise KeyboardInterrupt
        asked.append(len(ids))
        return usual(ids, inputs, batch_size, seed)

    monkeypatch.setattr(teacher, "label", say)
    pool = read_examples(files / "pool.csv", labeled=False)
    with pytest.raises(KeyboardInterrupt):
        label_files(teacher, [pool], tmp_path / "labels", shard_size=20)
    monkeypatch.setattr(teacher, "label", usual)
    gold = read_examples(files / "gold.csv", labeled=False)
    lines: list[str] = []
    label_files(teacher, [gold], tmp_path / "labels", shard_size=20, say=lines.append)
    assert any("starting over" in line for line in lines)
    assert TeacherLabels.open(tmp_path / "labels").ids.tolist() == gold.ids.tolist()


def test_batches_are_halved_when_memory_runs_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files, student = write_reviews(tmp_path / "data", 30, 50), text_student(tmp_path / "student")
    teacher = ModelTeacher(student, "student", device=torch.device("cpu"))
    usual, sizes = teacher.label, []

    def say(ids: np.ndarray, inputs: Any, batch_size: int, seed: int) -> TeacherLabels:
        sizes.append(batch_size)
        if batch_size > 20:
            raise torch.OutOfMemoryError("no memory")
        return usual(ids, inputs, batch_size, seed)

    monkeypatch.setattr(teacher, "label", say)
    pool = read_examples(files / "pool.csv", labeled=False)
    seen: list[LabelingProgress] = []
    options: dict[str, Any] = {"batch_size": 64, "shard_size": 25, "on_progress": seen.append}
    made = label_files(teacher, [pool], tmp_path / "labels", **options)
    assert sizes == [64, 32, 16, 16]
    assert made is not None
    assert made.rows == len(TeacherLabels.open(tmp_path / "labels")) == 50
    assert [progress.done for progress in seen] == [25, 50]
    assert seen[-1].seconds_left == 0

    def broken(*_: Any) -> TeacherLabels:
        raise RuntimeError("another fault")

    monkeypatch.setattr(teacher, "label", broken)
    with pytest.raises(RuntimeError, match="another fault"):
        label_files(teacher, [pool], tmp_path / "other")


def test_images_with_embeddings_and_view_statistics(tmp_path: Path) -> None:
    folder = write_digit_folders(tmp_path / "data", 12, 10)
    images, _ = digits(22)
    inputs, _ = fit_format("image", rgb_images(images))
    spec = ResNetCifar(8, 3)
    torch.manual_seed(0)
    save_student(tmp_path / "s", Student(spec, spec.build().state_dict(), ("0", "1", "2"), inputs))
    extras = ["--embeddings", "--view-passes", 3, "--shard-size", 4]
    summary = printed(tmp_path / "s", folder / "pool", "--out", tmp_path / "l", *extras)
    assert summary["extras"] == ["embedding", "view_mean", "view_std"]
    labels = TeacherLabels.open(tmp_path / "l")
    assert labels.ids.tolist() == sorted(p.name for p in (folder / "pool").iterdir())
    assert labels.extras["embedding"].shape == (10, 64)
    assert labels.extras["view_mean"].shape == (10, 2, 3)
    assert (labels.extras["view_std"] > 0).any()


def test_a_hugging_face_classifier(tmp_path: Path) -> None:
    folder = save_classifier(tmp_path / "classifier", {0: "bad", 1: "good"})
    files = write_reviews(tmp_path / "data", 30, 10)
    summary = printed(folder, files / "pool.csv", "--out", tmp_path / "l", "--max-length", 16)
    assert summary["classes"] == ["bad", "good"]
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    pool = read_examples(files / "pool.csv", labeled=False)
    coded = AutoTokenizer.from_pretrained(folder)(
        list(pool.inputs), padding=True, truncation=True, max_length=16, return_tensors="pt"
    )
    with torch.no_grad():
        logits = AutoModelForSequenceClassification.from_pretrained(folder).eval()(**coded).logits
    labels = TeacherLabels.open(tmp_path / "l")
    np.testing.assert_allclose(labels.probs, logits.softmax(1).numpy(), atol=2e-3)


def test_bad_input_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "teachers_of_mine.py").write_text(TEACHER)
    files = write_reviews(tmp_path / "data", 30, 50)
    text_student(tmp_path / "student")
    out, pool = ["--out", tmp_path / "l"], files / "pool.csv"
    assert "neither a saved student" in refused("/no/such/model", pool, *out)
    assert "cannot be imported" in refused("no_such_module:f", pool, *out)
    assert "cannot be imported" in refused("teachers_of_mine:none", pool, *out)
    assert "must return logits" in refused("teachers_of_mine:wrong", pool, *out)
    assert "need a model, not a function" in refused(
        "teachers_of_mine:logits", pool, *out, "--embeddings"
    )
    assert "statistics need images" in refused("student", pool, *out, "--view-passes", 2)
    assert "share ids" in refused("student", pool, pool, *out)
    numbered = tmp_path / "numbered.csv"
    numbered.write_text("id,text\n1,good\n")
    assert "must all be text, or all whole" in refused("student", pool, numbered, *out)
    assert "2 classes, and 3 were named" in refused("student", pool, *out, "--classes", "a,b,c")
    table = tmp_path / "table.csv"
    table.write_text("f,g\n1,2\n")
    assert "reads texts, not tables" in refused("student", table, *out)
    assert not (tmp_path / "l").exists()
    (tmp_path / "l").mkdir()
    assert "exists already" in refused("student", pool, *out)


def test_help_has_an_example() -> None:
    assert "noisyteacher label runs/mine/student pool.csv" in " ".join(run("--help").output.split())


def test_a_loaded_student_predicts_like_its_labels(tmp_path: Path) -> None:
    student = text_student(tmp_path / "student")
    texts, _ = reviews(5)
    assert load_student(tmp_path / "student").predict(texts).tolist() == [
        student.classes[c] for c in student.logits(texts).argmax(1)
    ]


def test_a_store_in_two_shares(tmp_path: Path) -> None:
    files = write_reviews(tmp_path / "data", 30, 50)
    text_student(tmp_path / "student")
    command = [tmp_path / "student", files / "pool.csv", "--out", tmp_path / "labels"]
    first = printed(*command, "--shard-size", 20, "--shard", "1/2")
    assert (first["share"], (tmp_path / "labels").exists()) == ("1/2", False)
    assert printed(*command, "--shard-size", 20, "--shard", "2/2")["rows"] == 50
    for more, words in (
        (["--shard", "two"], "--shard must have the form I/N, as in 1/4, not 'two'"),
        (["--shard", "3/2"], "not 3/2"),
        (["--shard", "1/2", "--ray", "local"], "choose one"),
        (["--workers", "2"], "--workers and --gpus-per-worker can only be used with --ray"),
    ):
        assert words in refused(*command, *more)
