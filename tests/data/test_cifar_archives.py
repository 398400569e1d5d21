"""CIFAR as its authors pack it: archives of pickles, read without running any of them."""

from __future__ import annotations

import io
import pickle
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from noisyteacher.core.errors import InputError
from noisyteacher.data import load_dataset
from noisyteacher.data.downloads import load_batch


def batch(rows: int, seed: int, labels: str = "labels") -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    return {
        "data": rng.integers(0, 256, (rows, 3072), dtype=np.uint8),
        labels: [int(v) for v in rng.integers(0, 3, rows)],
        "batch_label": b"some batch",
    }


def cifar10_files() -> dict[str, dict[str, Any]]:
    files = {f"data_batch_{i}": batch(2, i) for i in range(1, 6)}
    files["test_batch"] = batch(3, 9)
    files["batches.meta"] = {"label_names": ["plane", "car", "bird"]}
    return files


def write_archive(path: Path, folder: str, files: dict[str, dict[str, Any]]) -> None:
    with tarfile.open(path, "w:gz") as tar:
        for name, content in files.items():
            data = pickle.dumps(content, protocol=2)
            member = tarfile.TarInfo(f"{folder}/{name}")
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))


@pytest.mark.usefixtures("cache")
@pytest.mark.parametrize("packed", [True, False])
def test_cifar10_archive(tmp_path: Path, packed: bool) -> None:
    files = cifar10_files()
    if packed:
        write_archive(tmp_path / "cifar-10-python.tar.gz", "cifar-10-batches-py", files)
    else:
        (tmp_path / "cifar-10-batches-py").mkdir()
        for name, content in files.items():
            data = pickle.dumps(content, protocol=2)
            (tmp_path / "cifar-10-batches-py" / name).write_bytes(data)
    data = load_dataset("cifar10", data=tmp_path)
    assert data.classes == ("plane", "car", "bird")
    assert data.inputs.shape == (10, 32, 32, 3)
    # A row holds the red plane, then the green, then the blue, each row by row.
    third = files["data_batch_2"]["data"][0]
    assert data.inputs[2, 5, 7].tolist() == [third[c * 1024 + 5 * 32 + 7] for c in range(3)]
    assert data.y[2:4].tolist() == files["data_batch_2"]["labels"]
    assert data.test_y.tolist() == files["test_batch"]["labels"]
    assert data.ids[2] == "train/2"


@pytest.mark.usefixtures("cache")
def test_cifar100_archive_takes_fine_labels(tmp_path: Path) -> None:
    files = {
        "train": batch(4, 0, "fine_labels"),
        "test": batch(2, 1, "fine_labels"),
        "meta": {"fine_label_names": ["apple", "bear", "cup"], "coarse_label_names": ["x"]},
    }
    write_archive(tmp_path / "cifar-100-python.tar.gz", "cifar-100-python", files)
    data = load_dataset(tmp_path / "cifar-100-python.tar.gz")
    assert data.name == "cifar-100-python"
    assert data.y.tolist() == files["train"]["fine_labels"]
    assert data.classes == ("apple", "bear", "cup")


def test_python_2_batches_are_read() -> None:
    # As the official files have it: byte strings as keys, NumPy's old module name, protocol 2.
    data = pickle.dumps({b"data": np.arange(4, dtype=np.uint8)}, protocol=2)
    old = data.replace(b"numpy._core.multiarray", b"numpy.core.multiarray")
    assert load_batch("old", old)["data"].tolist() == [0, 1, 2, 3]


class Harmful:
    def __reduce__(self) -> tuple[Any, ...]:
        return (print, ("this must never run",))


@pytest.mark.parametrize(
    ("content", "named"),
    [
        (Harmful(), "print"),
        ({"data": np.float64}, "float64"),
        ({"data": Path("x")}, "pathlib"),
        ({"data": np.random.default_rng(0)}, "numpy.random"),
    ],
)
def test_cifar_batches_run_no_code(
    content: object, named: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(InputError, match=rf"evil is not a CIFAR batch.*{named}"):
        load_batch("evil", pickle.dumps(content, protocol=2))
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    "attack",
    [
        b"cos\nsystem\n(S'echo harm'\ntR.",
        b"cbuiltins\neval\n(S'1+1'\ntR.",
        b"c_codecs\nencode\n(Vx\nVrot13\ntR.",
        b"cnumpy\nload\n(S'x'\ntR.",
        b"Pid\n.",
        b"cnumpy.core.multiarray\nscalar\n.",
    ],
)
def test_hand_written_pickles_are_refused(attack: bytes) -> None:
    with pytest.raises(InputError, match="not a"):
        load_batch("evil", attack)


@pytest.mark.parametrize("damaged", [b"", b"\x80\x02}q", pickle.dumps([1])])
def test_damaged_batches_are_named(damaged: bytes) -> None:
    with pytest.raises(InputError, match="data_batch_9 is not a CIFAR batch"):
        load_batch("data_batch_9", damaged)


@pytest.mark.usefixtures("cache")
def test_incomplete_and_broken_cifar_archives(tmp_path: Path) -> None:
    files = cifar10_files()
    del files["data_batch_4"]
    archive = tmp_path / "cifar-10-python.tar.gz"
    write_archive(archive, "cifar-10-batches-py", files)
    with pytest.raises(InputError, match="no member cifar-10-batches-py/data_batch_4"):
        load_dataset(archive)
    files["data_batch_4"] = {"data": np.zeros((2, 10), np.uint8), "labels": [0, 0]}
    write_archive(archive, "cifar-10-batches-py", files)
    with pytest.raises(InputError, match="3072"):
        load_dataset(archive)
    archive.write_bytes(archive.read_bytes()[:200])
    with pytest.raises(InputError, match="not a readable archive"):
        load_dataset(archive)
