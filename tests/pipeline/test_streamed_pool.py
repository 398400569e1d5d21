"""``distill --stream``: a pool of texts that stays on disk."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest
import torch

from noisyteacher.choose import linear_choice
from noisyteacher.choose.anchored import AnchoredEvidence
from noisyteacher.choose.evidence import DecisionRows
from noisyteacher.core.errors import InputError
from noisyteacher.data.text import HashedNgrams
from noisyteacher.labels import TeacherLabels, store
from noisyteacher.labels.manifest import LABEL_COLUMNS
from noisyteacher.methods import CutStat, SLaM, TaylorCE
from noisyteacher.pipeline import DistillSettings, gather, network_run, run_distill, streamed_pool
from noisyteacher.pipeline.streamed_pool import gather_streamed, why_stream
from noisyteacher.train import TrainConfig, engine
from noisyteacher.train.solver import LinearFit
from user_files import reviews

QUICK = DistillSettings(
    student="hashed", methods=(TaylorCE(2),), folds=2, featurizer=HashedNgrams(2**11)
)

SHORT = TrainConfig(1, 16, steps_per_epoch=20)


def write_files(folder: Path, kind: str = "csv") -> dict[str, Any]:
    """60 gold rows, 400 pool rows (one without label, one a copy of a gold row), and a store."""
    texts, y = reviews(460)
    texts = [f"{text} number {i}" for i, text in enumerate(texts)]
    texts[100] = texts[0]
    ids = [f"g{i}" for i in range(60)] + [f"p{i}" for i in range(400)]
    rng = np.random.default_rng(0)
    names = np.array(["bad", "good"])
    gold = pa.table({"id": ids[:60], "text": texts[:60], "label": names[y[:60]]})
    pa_csv.write_csv(gold, folder / "gold.csv")
    pool = pa.table({"id": ids[60:], "text": texts[60:]})
    path = folder / f"pool.{kind}"
    if kind == "csv":
        pa_csv.write_csv(pool, path)
    elif kind == "parquet":
        pq.write_table(pool, path)
    else:
        path.write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in pool.to_pylist()))
    right = np.where(rng.random(460) < 0.8, y, 1 - y)
    sure = rng.uniform(0.6, 0.95, 460).astype(np.float32)
    probs = np.stack([np.where(right == c, sure, 1 - sure) for c in (0, 1)], axis=1)
    order = rng.permutation(459)  # the last pool row has no label
    shuffled = [ids[i] for i in order]
    TeacherLabels.from_probs(shuffled, probs[order], ["bad", "good"]).save(folder / "labels")
    return {"gold": folder / "gold.csv", "pool": path, "labels": [folder / "labels"]}


@pytest.mark.filterwarnings("ignore::noisyteacher.core.errors.NoisyTeacherWarning")
@pytest.mark.parametrize("kind", ["csv", "parquet", "jsonl"])
def test_a_streamed_student_equals_the_usual_one(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(linear_choice, "SMALLEST_STREAMED_WEIGHT", linear_choice.SMALLEST_WEIGHT)
    monkeypatch.setattr(streamed_pool, "SHARD_ROWS", 70)
    files = write_files(tmp_path, kind)
    usual = run_distill(gather(**files), QUICK, quiet=True)
    lines: list[str] = []
    task, settings = gather_streamed(
        **files, settings=QUICK, folder=tmp_path / "shards", say=lines.append
    )
    assert lines == [
        "398 pool rows in 6 shards; candidates are compared on 398 of them, and the student is "
        "trained on all."
    ]
    assert task.rest is not None
    assert task.sizes["pool"] == task.rest.rows == 398
    streamed = run_distill(task, settings, quiet=True)
    texts = ["a wonderful film", "bad bad plot number 3", *(f"film number {i}" for i in range(50))]
    # Both stop within the solver's tolerance, in products of float32; tests/train has the digits.
    np.testing.assert_allclose(
        streamed.student.predict_proba(texts), usual.student.predict_proba(texts), atol=1e-3
    )


@pytest.mark.filterwarnings("ignore::noisyteacher.core.errors.NoisyTeacherWarning")
def test_candidates_see_a_part_and_the_student_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streamed_pool, "STREAMED_FOR_COMPARISON", 50)
    files = write_files(tmp_path)
    settings = replace(QUICK, student="linear", methods=(SLaM(),), featurizer=None)
    task, settings = gather_streamed(**files, settings=settings, folder=tmp_path / "shards")
    assert (len(task.split.pool), task.sizes["pool"]) == (50, 398)
    again, _ = gather_streamed(**files, settings=settings, folder=tmp_path / "shards")
    assert again.ids.tolist() == task.ids.tolist()
    ids = set(task.ids[task.split.pool].tolist())
    assert not ids & {"p40", "p399"}  # the copy of a gold row, and the row without label
    done = run_distill(task, settings, tmp_path / "run", quiet=True)
    alone = run_distill(replace(task, rest=None), settings, quiet=True)
    texts = [f"film number {i}" for i in range(20)]
    gap = done.student.predict_proba(texts) - alone.student.predict_proba(texts)
    assert np.abs(gap).max() > 1e-3
    assert done.student.about["sizes"]["pool"] == 398


def test_what_cannot_be_streamed_is_refused(tmp_path: Path) -> None:
    files = write_files(tmp_path)
    more: dict[str, Any] = {"folder": tmp_path / "shards"}
    with pytest.raises(InputError, match="Only a pool of texts in one"):
        gather_streamed(**files, **more, settings=replace(QUICK, generations=2))
    with pytest.raises(InputError, match="needs the whole pool in memory"):
        gather_streamed(**files, **more, settings=replace(QUICK, methods=(CutStat(),)))


def test_large_pools_are_streamed_and_it_says_why(tmp_path: Path) -> None:
    files = write_files(tmp_path)
    labels = files["labels"]
    assert why_stream(files["pool"], labels, replace(QUICK, max_memory=1.0)) is None
    small = replace(QUICK, max_memory=0.001)
    told = why_stream(files["pool"], labels, small)
    assert told == (
        "The pool has about 401 rows, which would take about 0.0 GB in memory (limit: 0.0 GB), so "
        "it is read in shards."
    )
    assert why_stream(files["pool"], labels, replace(small, epochs=1)) == told
    assert why_stream(files["pool"], labels, replace(small, generations=2)) is None
    data: tuple[Any, ...] = (["a"], ["text"])
    assert why_stream(data, labels, small) is None


@pytest.fixture
def slam_is_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    """The last of the networks, whatever held-out rows say; the logistic regression is empty."""

    def last(evidence: AnchoredEvidence, counts: np.ndarray, _: object) -> np.ndarray:
        return np.full(len(counts), len(evidence.said) - 1)

    def empty(rows: DecisionRows, seed: int) -> LinearFit:
        return LinearFit(np.zeros((2, rows.features.shape[1])), np.zeros(2))

    monkeypatch.setattr(AnchoredEvidence, "choose", last)
    monkeypatch.setattr(network_run, "fit_gold_only", empty)


@pytest.mark.usefixtures("slam_is_chosen")
@pytest.mark.filterwarnings("ignore::noisyteacher.core.errors.NoisyTeacherWarning")
def test_a_streamed_network_equals_the_usual_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Candidates see the pool in another order; the refit sees the same rows in the same one."""
    monkeypatch.setattr(streamed_pool, "SHARD_ROWS", 70)
    files = write_files(tmp_path)
    settings = DistillSettings("mlp", (SLaM(),), training=SHORT)
    lines: list[str] = []
    usual = run_distill(gather(**files), settings, device="cpu", say=lines.append, quiet=True)
    assert lines[-1].endswith("; the chosen one is then trained again on all gold rows.")
    task, settings = gather_streamed(
        **files, settings=settings, folder=tmp_path / "shards", say=lines.append
    )
    assert lines[-1].endswith("compared on 398 of them, and the student is trained on all.")
    done = run_distill(task, settings, device="cpu", say=lines.append, quiet=True)
    assert lines[-1].endswith(
        "; the chosen one is then trained again on all gold rows and the whole pool."
    )
    for name, value in usual.student.state.items():
        assert torch.equal(value, done.student.state[name]), name


@pytest.mark.usefixtures("slam_is_chosen")
@pytest.mark.filterwarnings("ignore::noisyteacher.core.errors.NoisyTeacherWarning")
def test_a_streamed_network_is_trained_in_windows_and_resumed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(streamed_pool, "STREAMED_FOR_COMPARISON", 50)
    monkeypatch.setattr(engine, "SAVE_SECONDS", 0.0)
    files = write_files(tmp_path)
    settings = DistillSettings("mlp", (SLaM(),), training=SHORT, max_memory=1e-4)
    where = {"folder": tmp_path / "shards"}
    task, settings = gather_streamed(**files, settings=settings, **where)
    whole = run_distill(task, settings, device="cpu")
    assert capsys.readouterr().err.count("so they are read in windows of") == 1  # not for parts
    one_window = engine._one_window

    def until_the_third(runners: list[Any], epoch: int, window: int) -> None:
        if window == 2:
            raise KeyboardInterrupt
        one_window(runners, epoch, window)

    monkeypatch.setattr(engine, "_one_window", until_the_third)
    with pytest.raises(KeyboardInterrupt):
        run_distill(task, settings, tmp_path / "run", device="cpu", quiet=True)
    monkeypatch.setattr(engine, "_one_window", one_window)
    task, settings = gather_streamed(**files, settings=settings, **where)
    again = run_distill(task, settings, tmp_path / "run", device="cpu", quiet=True)
    for name, value in whole.student.state.items():
        assert torch.equal(value, again.student.state[name]), name


def test_labels_may_stand_in_several_stores_of_the_same_classes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = write_files(tmp_path)
    labels = TeacherLabels.open(tmp_path / "labels")
    monkeypatch.setattr(store, "_PART_ROWS", 64)
    for name, rows in (("first", slice(0, 150)), ("second", slice(150, None))):
        labels.at(rows).save(tmp_path / name)
    several = [tmp_path / "first", tmp_path / "second"]
    known = streamed_pool._LabelRows(several)
    assert len(known) == len(labels)
    wanted = [*labels.ids[::-7].tolist(), "p399"]  # the last has no label
    found, expected = known.take(wanted), labels.take(wanted[:-1])
    assert found.ids.tolist() == wanted[:-1]
    for column in LABEL_COLUMNS:
        np.testing.assert_array_equal(getattr(found, column), getattr(expected, column))
    with pytest.raises(InputError, match="share ids"):
        streamed_pool._LabelRows([tmp_path / "labels", tmp_path / "first"])
    other = TeacherLabels.from_probs(["q0"], [[0.3, 0.7]], ["good", "bad"])
    other.save(tmp_path / "other")
    with pytest.raises(InputError, match="must have the same classes"):
        gather_streamed(
            **{**files, "labels": [tmp_path / "labels", tmp_path / "other"]},
            settings=QUICK,
            folder=tmp_path / "shards",
        )


def test_ids_that_name_two_rows_are_refused(tmp_path: Path) -> None:
    """As in memory."""
    files = write_files(tmp_path)
    text = files["pool"].read_text()
    for end, match in (
        ('"p7","another text"\n', "ids must be unique; repeated: p7"),
        ('"g3","another text"\n', "1 ids name different examples in the pool and .*: g3"),
    ):
        files["pool"].write_text(text + end)
        with pytest.raises(InputError, match=match.replace("p7", "'?p7'?").replace("g3", "'?g3'?")):
            gather_streamed(**files, settings=QUICK, folder=tmp_path / "shards")
        with pytest.raises(InputError, match="unique"):
            gather(**files)


@pytest.mark.filterwarnings("ignore::noisyteacher.core.errors.NoisyTeacherWarning")
@pytest.mark.parametrize("student", ["hashed", "mlp"])
@pytest.mark.parametrize("changed", ["texts", "labels"])
def test_another_pool_beyond_the_compared_part_is_another_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, student: str, changed: str
) -> None:
    """Nothing but the digest would tell: the rows that are compared are the same."""
    monkeypatch.setattr(streamed_pool, "STREAMED_FOR_COMPARISON", 50)
    files = write_files(tmp_path)
    settings = replace(QUICK, student=student)

    def digest() -> tuple[list[str], str]:
        task, _ = gather_streamed(**files, settings=settings, folder=tmp_path / "shards")
        return task.ids.tolist(), task.digest()

    ids, before = digest()
    assert digest() == (ids, before)
    row = next(f"p{i}" for i in range(1, 399) if f"p{i}" not in ids)
    if changed == "texts":
        lines = files["pool"].read_text().replace(f'"{row}","', f'"{row}","wonderful ')
        files["pool"].write_text(lines)
    else:
        labels = TeacherLabels.open(tmp_path / "labels")
        index = labels.topk_index.copy()
        index[labels.ids == row] = index[labels.ids == row, ::-1]
        replace(labels, topk_index=index).save(tmp_path / "labels", overwrite=True)
    again, after = digest()
    assert again == ids
    assert after != before


@pytest.mark.filterwarnings("ignore::noisyteacher.core.errors.NoisyTeacherWarning")
@pytest.mark.parametrize("name", ["val", "selection", "test"])
def test_copies_of_other_sets_are_in_no_shard(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Also beyond the part of the pool that candidates are compared on."""
    monkeypatch.setattr(streamed_pool, "STREAMED_FOR_COMPARISON", 50)
    files = write_files(tmp_path)
    pool = pa_csv.read_csv(files["pool"])
    ids = [f"g{i}" for i in range(40, 60)]  # the teacher labeled them
    texts = [*pool["text"].to_pylist()[:12], *(f"nothing like it {i}" for i in range(8))]
    gold = pa_csv.read_csv(files["gold"])
    pa_csv.write_csv(gold.slice(0, 40), files["gold"])
    more = {name: (ids, texts, ["bad", "good"] * 10)}
    task, _ = gather_streamed(**files, **more, settings=QUICK, folder=tmp_path / "shards")
    assert task.sizes["pool"] == 398 - 12
