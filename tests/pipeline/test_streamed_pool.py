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

from noisyteacher.choose import linear_choice
from noisyteacher.core.errors import InputError
from noisyteacher.data.text import HashedNgrams
from noisyteacher.labels import TeacherLabels
from noisyteacher.methods import CutStat, SLaM, TaylorCE
from noisyteacher.pipeline import DistillSettings, gather, run_distill, streamed_pool
from noisyteacher.pipeline.streamed_pool import gather_streamed, why_stream
from user_files import reviews

QUICK = DistillSettings(
    student="hashed", methods=(TaylorCE(2),), folds=2, featurizer=HashedNgrams(2**11)
)


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
        "solved on all."
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
    monkeypatch.setattr(streamed_pool, "POOL_FOR_COMPARISON", 50)
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
        gather_streamed(**files, **more, settings=replace(QUICK, epochs=1))
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
    assert why_stream(files["pool"], labels, replace(small, epochs=1)) is None
    data: tuple[Any, ...] = (["a"], ["text"])
    assert why_stream(data, labels, small) is None
