"""Where datasets are looked for, and the cache of decoded images."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from sample_images import encoded

from noisyteacher.core.errors import InputError
from noisyteacher.data import cache as cache_module
from noisyteacher.data import load_dataset, to_tensors


def write_parquet(path: Path, pictures: np.ndarray) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    labels = [i % 2 for i in range(len(pictures))]
    pq.write_table(pa.table({"img": [encoded(p) for p in pictures], "label": labels}), path)


def caches(folder: Path) -> list[str]:
    return sorted(p.name for p in folder.iterdir() if not p.name.startswith("."))


def test_decoding_happens_once(
    tmp_path: Path, cache: Path, pictures: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_parquet(tmp_path / "set" / "train.parquet", pictures)
    first = load_dataset(tmp_path / "set")
    monkeypatch.setattr(cache_module, "decoded", None)  # a second decoding would fail
    second = load_dataset(tmp_path / "set")
    np.testing.assert_array_equal(first.inputs, second.inputs)
    np.testing.assert_array_equal(first.y, second.y)
    assert first.mean == second.mean
    assert len(caches(cache)) == 1


def test_a_changed_source_makes_a_new_cache(
    tmp_path: Path, cache: Path, pictures: np.ndarray
) -> None:
    file = tmp_path / "set" / "train.parquet"
    write_parquet(file, pictures)
    load_dataset(tmp_path / "set")
    before = file.stat()
    write_parquet(file, pictures[::-1])
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns + 1))
    np.testing.assert_array_equal(load_dataset(tmp_path / "set").inputs, pictures[::-1])
    write_parquet(tmp_path / "set" / "test.parquet", pictures[:2])
    assert len(load_dataset(tmp_path / "set").test_ids) == 2
    load_dataset(tmp_path / "set", image_size=4)
    assert len(caches(cache)) == 4


def test_the_cache_can_be_given(tmp_path: Path, cache: Path, pictures: np.ndarray) -> None:
    write_parquet(tmp_path / "set" / "train.parquet", pictures)
    load_dataset(tmp_path / "set", cache=tmp_path / "elsewhere")
    assert len(caches(tmp_path / "elsewhere")) == 1
    assert not cache.exists()


@pytest.mark.usefixtures("cache")
@pytest.mark.filterwarnings("error")
def test_mapped_images_are_read_only_and_become_tensors_quietly(
    tmp_path: Path, pictures: np.ndarray
) -> None:
    write_parquet(tmp_path / "set" / "train.parquet", pictures)
    data = load_dataset(tmp_path / "set")
    with pytest.raises(ValueError, match="read-only"):
        np.asarray(data.inputs)[:] = 0
    made = to_tensors(data).inputs
    assert isinstance(made, torch.Tensor)
    assert made.data_ptr() == data.inputs.ctypes.data  # type: ignore[union-attr]
    np.testing.assert_array_equal(made.permute(0, 2, 3, 1), pictures)


def test_a_failed_decoding_leaves_nothing(
    tmp_path: Path, cache: Path, pictures: np.ndarray
) -> None:
    table = pa.table({"img": [encoded(pictures[0]), b"broken"], "label": [0, 1]})
    (tmp_path / "set").mkdir()
    pq.write_table(table, tmp_path / "set" / "train.parquet")
    with pytest.raises(InputError, match=r"train\.parquet, row 1"):
        load_dataset(tmp_path / "set")
    assert caches(cache) == []
    assert not list(cache.glob(".*.tmp-*"))


def test_a_killed_decoding_is_done_again(tmp_path: Path, cache: Path, pictures: np.ndarray) -> None:
    write_parquet(tmp_path / "set" / "train.parquet", pictures)
    program = (
        "import os, signal, sys\n"
        "from noisyteacher.data import cache, load_dataset\n"
        "cache.write_atomic = lambda *a: os.kill(os.getpid(), signal.SIGKILL)\n"
        "load_dataset(sys.argv[1])\n"
    )
    killed = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "set")], capture_output=True, check=False
    )
    assert killed.returncode == -signal.SIGKILL
    assert caches(cache) == []
    assert list(cache.glob(".*.tmp-*"))
    np.testing.assert_array_equal(load_dataset(tmp_path / "set").inputs, pictures)
    assert not list(cache.glob(".*.tmp-*"))


def test_a_damaged_cache_is_named(tmp_path: Path, cache: Path, pictures: np.ndarray) -> None:
    write_parquet(tmp_path / "set" / "train.parquet", pictures)
    load_dataset(tmp_path / "set")
    images = next(cache.glob("*/train_images.npy"))
    images.write_bytes(images.read_bytes()[:-100])
    told = rf"{images} is damaged: .*; delete the folder {images.parent} and run again\.$"
    with pytest.raises(InputError, match=told):
        load_dataset(tmp_path / "set")
    (images.parent / "images.json").write_text("{}")
    with pytest.raises(InputError, match=told):
        load_dataset(tmp_path / "set")


def test_a_full_disk_is_noticed_before_decoding(
    tmp_path: Path, cache: Path, pictures: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_parquet(tmp_path / "set" / "train.parquet", pictures)

    class Usage:
        free = 100

    monkeypatch.setattr(cache_module.shutil, "disk_usage", lambda _: Usage)
    with pytest.raises(InputError, match=r"0\.0 GB are free"):
        load_dataset(tmp_path / "set")


@pytest.mark.usefixtures("cache")
def test_a_missing_dataset_says_where_it_was_looked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(InputError, match="NOISYTEACHER_DATA"):
        load_dataset("cifar10")
    with pytest.raises(InputError) as caught:
        load_dataset("cifar10", data=tmp_path)
    for place in ("cifar10", "cifar-10-batches-py", "cifar-10-python.tar.gz"):
        assert str(tmp_path / place) in str(caught.value)
    monkeypatch.setenv("NOISYTEACHER_DATA", str(tmp_path / "from_env"))
    with pytest.raises(InputError, match="from_env/toys"):
        load_dataset("toys")


@pytest.mark.usefixtures("cache")
def test_the_data_folder_comes_from_the_environment(
    tmp_path: Path, pictures: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_parquet(tmp_path / "toys" / "train.parquet", pictures)
    monkeypatch.setenv("NOISYTEACHER_DATA", str(tmp_path))
    assert len(load_dataset("toys")) == 12


@pytest.mark.usefixtures("cache")
def test_an_unknown_layout_says_what_is_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="it is empty"):
        load_dataset(tmp_path)
    (tmp_path / "readme.md").write_text("hello")
    with pytest.raises(InputError, match=r"it holds 'readme\.md'"):
        load_dataset(tmp_path)
    with pytest.raises(InputError, match=r"ends in '\.md'"):
        load_dataset(tmp_path / "readme.md")
    with pytest.raises(InputError, match="image_size must be at least 1, not 0"):
        load_dataset(tmp_path, image_size=0)
