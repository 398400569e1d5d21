"""One store labeled by several processes, or by Ray; rows at which a teacher fails."""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
import sys
import time
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import label_teachers
import orjson
import pytest

from noisyteacher.core.errors import InputError
from noisyteacher.core.locks import hold_lock
from noisyteacher.data import Dataset
from noisyteacher.labels import TeacherLabels
from noisyteacher.labels.manifest import Manifest
from noisyteacher.pipeline import labeling, read_examples
from noisyteacher.pipeline.labeling import LabeledShard, Shard, label_files, label_here
from noisyteacher.pipeline.ray_labeling import RayWorkers
from noisyteacher.pipeline.teachers import FunctionTeacher, open_teacher

CLASSES = ("a", "b", "c")


def teacher(function: Any = label_teachers.logits) -> FunctionTeacher:
    return FunctionTeacher(function, "mine", CLASSES)


@pytest.fixture
def pool(tmp_path: Path) -> Dataset:
    path = label_teachers.write_texts(tmp_path / "pool.csv", 95)
    return read_examples(path, labeled=False)


def same_store(one: Path, two: Path) -> bool:
    """Whether two stores agree in every bit of every row, and in their parts."""
    first, second = Manifest.load(one), Manifest.load(two)
    for store in (one, two):
        TeacherLabels.open(store)  # checks the hashes
    names = ("rows", "k", "ids_sha256", "rows_sha256", "classes", "teacher", "extras")
    agree = all(getattr(first, name) == getattr(second, name) for name in names)
    return agree and [
        (one / a.file).read_bytes() == (two / b.file).read_bytes()
        for a, b in zip(first.parts, second.parts, strict=True)
    ] == [True] * len(first.parts)


def test_shares_make_the_store_of_one_process(tmp_path: Path, pool: Dataset) -> None:
    options: dict[str, Any] = {"shard_size": 10}
    whole = label_files(teacher(), [pool], tmp_path / "one", **options)
    lines: list[str] = []
    out, options = tmp_path / "many", options | {"say": lines.append}
    asked: list[int] = []

    def run(shards: Iterable[Shard], size: int) -> Iterator[LabeledShard]:
        for result in label_here(teacher(), shards, size, lines.append):
            asked.append(result.shard)
            yield result

    made = [
        label_files(teacher(), [pool], out, share=(i, 3), runner=run, **options) for i in (2, 3)
    ]
    assert made == [None, None]
    assert asked == [1, 4, 7, 2, 5, 8]
    assert "4 shards of other processes are missing" in lines[-1]
    assert not out.exists()
    made.append(label_files(teacher(), [pool], out, share=(1, 3), **options))
    assert whole is not None
    assert made[-1] is not None
    assert made[-1].rows == whole.rows == 95
    assert same_store(tmp_path / "one", out)
    assert not out.with_name("many.partial").exists()
    # A process that a scheduler starts again when all is done has nothing to do.
    again = label_files(teacher(), [pool], out, share=(2, 3), runner=run, **options)
    assert again == made[-1]
    assert asked[6:] == []


def test_shards_that_a_kill_left_beside_their_store_are_removed(
    tmp_path: Path, pool: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed after the store was written and before its shards were gone."""
    out, left = tmp_path / "labels", tmp_path / "labels.partial"
    with monkeypatch.context() as patch:
        patch.setattr(labeling, "shutil", SimpleNamespace(rmtree=lambda *_, **options: None))
        label_files(teacher(), [pool], out, shard_size=10)
    assert any(left.glob("shard-*"))
    (left / "plan.json").unlink()  # the first to be removed, sometimes
    (tmp_path / "labels.lock").touch()
    with pytest.raises(InputError, match="exists already"):
        label_files(teacher(), [pool], out, shard_size=10)
    assert [path.name for path in tmp_path.glob("*labels*")] == ["labels"]
    # Those of another labeling stay.
    (left / "shard-000000-0badcafe").mkdir(parents=True)
    with pytest.raises(InputError, match="exists already"):
        label_files(teacher(), [pool], out, shard_size=10)
    assert left.exists()


def test_only_one_of_two_last_processes_writes_the_store(tmp_path: Path, pool: Dataset) -> None:
    lines: list[str] = []
    with hold_lock(tmp_path / "labels.lock", "it", "wait"):
        made = label_files(teacher(), [pool], tmp_path / "labels", share=(1, 1), say=lines.append)
    assert made is None
    assert lines == ["Share 1 of 1 is done; another process writes the store."]
    assert label_files(teacher(), [pool], tmp_path / "labels", share=(1, 1)) is not None


def test_shares_of_different_labelings_do_not_mix(tmp_path: Path, pool: Dataset) -> None:
    label_files(teacher(), [pool], tmp_path / "labels", share=(1, 2), shard_size=10)
    with pytest.raises(InputError, match="belong to a labeling with another model"):
        label_files(teacher(), [pool], tmp_path / "labels", share=(2, 2), shard_size=20)
    label_files(teacher(), [pool], tmp_path / "labels", share=(2, 2), shard_size=10)
    with pytest.raises(InputError, match="exists already and comes from another labeling"):
        label_files(teacher(), [pool], tmp_path / "labels", share=(2, 2), shard_size=20)
    for share, words in (((0, 2), "not 0/2"), ((3, 2), "not 3/2")):
        with pytest.raises(InputError, match=words):
            label_files(teacher(), [pool], tmp_path / "other", share=share)
    with pytest.raises(InputError, match="cannot overwrite"):
        label_files(teacher(), [pool], tmp_path / "labels", share=(1, 2), overwrite=True)


def test_killed_shares_make_the_same_store(
    tmp_path: Path, pool: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    label_files(teacher(), [pool], tmp_path / "one", shard_size=5)
    monkeypatch.setenv("SECONDS_PER_BATCH", "0.02")
    processes = multiprocessing.get_context("forkserver")
    processes.set_forkserver_preload(["noisyteacher.pipeline.labeling"])  # once for all
    dice, kills, shares = random.Random(0), 0, [1, 2]
    while shares:
        share, ready = shares.pop(0), processes.Event()
        work = (ready, tmp_path / "pool.csv", tmp_path / "many", (share, 2))
        process = processes.Process(target=label_teachers.label_share, args=work)
        process.start()
        assert ready.wait(120)
        if kills < 4:
            time.sleep(dice.uniform(0.0, 0.15))
            process.kill()
        process.join()
        if process.exitcode:
            assert process.exitcode == -signal.SIGKILL
            shares.append(share)
            kills += 1
    assert kills >= 4
    assert same_store(tmp_path / "one", tmp_path / "many")


def test_rows_at_which_the_teacher_fails_are_listed(tmp_path: Path, pool: Dataset) -> None:
    bad = [3, 40, 41, 94]
    texts = [f"!{t}" if row in bad else t for row, t in enumerate(pool.inputs)]
    loud = Dataset(
        pool.name, "text", pool.ids, texts, pool.y, pool.test_ids, [], pool.test_y, pool.classes
    )
    made = label_files(teacher(label_teachers.choosy), [loud], tmp_path / "labels", shard_size=50)
    assert made is not None
    assert made.rows == 91
    labels, usual = TeacherLabels.open(tmp_path / "labels"), tmp_path / "usual"
    label_files(teacher(), [pool], usual, shard_size=50)
    kept = [key for row, key in enumerate(pool.ids) if row not in bad]
    assert labels.ids.tolist() == kept
    assert (labels.topk_logprob == TeacherLabels.open(usual).take(kept).topk_logprob).all()
    lines = (tmp_path / "labels.rejected.jsonl").read_bytes().splitlines()
    entries = [orjson.loads(line) for line in lines]
    assert [entry["line"] for entry in entries] == [row + 1 for row in bad]
    assert {entry["reason"] for entry in entries} == {"OverflowError: too loud"}
    assert {entry["id"] for entry in entries} == {f"r{row}" for row in bad}


def test_a_teacher_that_fails_often_is_an_error(tmp_path: Path, pool: Dataset) -> None:
    asked: list[int] = []

    def broken(ids: list[str], texts: list[str]) -> Any:
        asked.append(len(ids))
        raise OverflowError(f"cannot label {len(ids)} texts")

    with pytest.raises(OverflowError, match="cannot label 95 texts"):
        label_files(teacher(broken), [pool], tmp_path / "labels")
    # After eleven rows without any success it gives up.
    assert asked.count(1) == 11
    few = [text if row % 4 else f"!{text}" for row, text in enumerate(pool.inputs)]
    loud = Dataset(
        pool.name, "text", pool.ids, few, pool.y, pool.test_ids, [], pool.test_y, pool.classes
    )
    with pytest.raises(OverflowError, match="too loud"):
        label_files(teacher(label_teachers.choosy), [loud], tmp_path / "labels")


def test_ray_workers_that_die_leave_the_same_store(
    tmp_path: Path, pool: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    ray = pytest.importorskip("ray")
    from ray.cluster_utils import Cluster

    label_files(teacher(), [pool], tmp_path / "one", shard_size=5)
    monkeypatch.setenv("SECONDS_PER_BATCH", "0.1")
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))  # so that workers find the teacher
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0})
    nodes = [cluster.add_node(num_cpus=1) for _ in range(2)]
    ray.init(address=cluster.address, log_to_driver=False)
    kills = []

    def on_progress(now: Any) -> None:
        if now.done >= 20 and not kills:
            kills.append(now.done)
            cluster.remove_node(nodes[0], allow_graceful=False)
            cluster.add_node(num_cpus=1)

    try:
        open_model = partial(open_teacher, "label_teachers:logits", device="cpu", classes=CLASSES)
        runner = RayWorkers(open_model, cluster.address)
        options: dict[str, Any] = {"shard_size": 5, "on_progress": on_progress}
        made = label_files(teacher(), [pool], tmp_path / "many", runner=runner, **options)
    finally:
        ray.shutdown()
        cluster.shutdown()
    assert kills
    assert made is not None
    many = TeacherLabels.open(tmp_path / "many")
    assert made.rows_sha256 == Manifest.load(tmp_path / "one").rows_sha256
    assert many.ids.tolist() == pool.ids.tolist()


def test_without_ray_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(InputError, match=r"pip install 'noisyteacher\[ray\]'"):
        RayWorkers(lambda: teacher())
