"""Hugging Face-style Parquet: images, text, tables."""

from __future__ import annotations

import json
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sample_images import encoded

from noisyteacher.core.errors import InputError
from noisyteacher.data import load_dataset

CLASS_NAMES = ["cat", "dog", "owl"]


def image_table(
    pictures: np.ndarray, labels: list[int], column: str = "img", label: str = "label"
) -> pa.Table:
    rows = [{"bytes": encoded(p), "path": f"{i}.png"} for i, p in enumerate(pictures)]
    return pa.table({column: rows, label: pa.array(labels, pa.int64())})


def write_images(folder: Path, pictures: np.ndarray) -> Path:
    folder.mkdir(parents=True)
    labels = [0, 1, 2, 0, 1, 2]
    pq.write_table(image_table(pictures[4:8], labels[:4]), folder / "train-00001-of-00002.parquet")
    pq.write_table(image_table(pictures[:4], labels[2:]), folder / "train-00000-of-00002.parquet")
    pq.write_table(image_table(pictures[8:], labels[:4]), folder / "test-00000-of-00001.parquet")
    return folder


@pytest.mark.usefixtures("cache")
def test_image_shards_are_read_in_order_of_their_names(
    tmp_path: Path, pictures: np.ndarray
) -> None:
    data = load_dataset(write_images(tmp_path / "tiny", pictures))
    assert (data.name, data.kind) == ("tiny", "image")
    np.testing.assert_array_equal(data.inputs, pictures[:8])
    np.testing.assert_array_equal(data.test_inputs, pictures[8:])
    assert isinstance(data.inputs, np.memmap)
    assert data.y.tolist() == [2, 0, 1, 2, 0, 1, 2, 0]
    assert data.y.dtype == np.int64
    assert data.ids[:2].tolist() == ["train/0", "train/1"]
    assert data.test_ids[-1] == "test/3"
    assert data.classes == ("0", "1", "2")
    scaled = pictures[:8].reshape(-1, 3) / 255
    np.testing.assert_allclose(data.mean, scaled.mean(0), rtol=1e-12)
    np.testing.assert_allclose(data.std, scaled.std(0), rtol=1e-9)


@pytest.mark.usefixtures("cache")
def test_plain_bytes_fine_labels_ids_and_class_names(tmp_path: Path, pictures: np.ndarray) -> None:
    table = pa.table(
        {
            "image": [encoded(p, "WEBP") if i else encoded(p) for i, p in enumerate(pictures)],
            "fine_label": pa.array([0, 1, 2] * 4),
            "id": [100 + i for i in range(12)],
        }
    )
    info = {"info": {"features": {"fine_label": {"names": CLASS_NAMES, "_type": "ClassLabel"}}}}
    table = table.replace_schema_metadata({b"huggingface": json.dumps(info).encode()})
    pq.write_table(table, tmp_path / "data.parquet")
    data = load_dataset(tmp_path / "data.parquet")
    assert data.classes == tuple(CLASS_NAMES)
    assert data.ids.tolist() == list(range(100, 112))
    assert len(data.test_ids) == len(data.test_y) == len(data.test_inputs) == 0
    np.testing.assert_array_equal(data.inputs[0], pictures[0])
    assert data.positions(np.array([103, 100])).tolist() == [3, 0]
    with pytest.raises(InputError, match="99"):
        data.positions(np.array([99]))


@pytest.mark.usefixtures("cache")
def test_a_corrupt_image_is_named(tmp_path: Path, pictures: np.ndarray) -> None:
    rows = [{"bytes": encoded(p), "path": f"{i}.png"} for i, p in enumerate(pictures)]
    rows[7]["bytes"] = rows[7]["bytes"][:60]
    pq.write_table(pa.table({"img": rows, "label": [0] * 12}), tmp_path / "train.parquet")
    with pytest.raises(InputError, match=r"7\.png \(train\.parquet, row 7\)"):
        load_dataset(tmp_path)
    rows[7]["bytes"] = b"no image at all"
    pq.write_table(pa.table({"img": rows, "label": [0] * 12}), tmp_path / "train.parquet")
    with pytest.raises(InputError, match=r"7\.png"):
        load_dataset(tmp_path)
    rows[7]["bytes"] = None
    pq.write_table(pa.table({"img": rows, "label": [0] * 12}), tmp_path / "train.parquet")
    with pytest.raises(InputError, match=r"7\.png.*no bytes"):
        load_dataset(tmp_path)


@pytest.mark.usefixtures("cache")
def test_a_test_part_without_labels_gives_way_to_validation(
    tmp_path: Path, pictures: np.ndarray
) -> None:
    pq.write_table(image_table(pictures[:6], [0, 1] * 3), tmp_path / "train-0.parquet")
    pq.write_table(image_table(pictures[6:9], [-1] * 3), tmp_path / "test-0.parquet")
    pq.write_table(image_table(pictures[9:], [1, 0, 1]), tmp_path / "validation-0.parquet")
    data = load_dataset(tmp_path)
    assert data.test_y.tolist() == [1, 0, 1]
    np.testing.assert_array_equal(data.test_inputs, pictures[9:])


@pytest.mark.usefixtures("cache")
def test_images_of_many_sizes_are_stored_at_one(tmp_path: Path) -> None:
    tall = np.zeros((20, 10, 3), np.uint8)
    tall[5:15] = 200  # the middle square
    wide = np.full((8, 16, 3), 50, np.uint8)
    rows = [encoded(tall), encoded(wide)]
    pq.write_table(pa.table({"image": rows, "label": [0, 1]}), tmp_path / "train.parquet")
    data = load_dataset(tmp_path, image_size=10)
    assert data.inputs.shape == (2, 10, 10, 3)
    assert (data.inputs[0] == 200).all()
    assert (data.inputs[1] == 50).all()


@pytest.mark.usefixtures("cache")
def test_grey_images_become_three_channels(tmp_path: Path) -> None:
    grey = np.arange(64, dtype=np.uint8).reshape(8, 8)
    pq.write_table(pa.table({"img": [encoded(grey)], "label": [0]}), tmp_path / "a.parquet")
    data = load_dataset(tmp_path / "a.parquet")
    np.testing.assert_array_equal(data.inputs[0], np.stack([grey] * 3, axis=-1))


@pytest.mark.usefixtures("cache")
def test_images_without_labels(tmp_path: Path, pictures: np.ndarray) -> None:
    pq.write_table(pa.table({"img": [encoded(p) for p in pictures]}), tmp_path / "pool.parquet")
    with pytest.raises(InputError, match="no label column"):
        load_dataset(tmp_path / "pool.parquet")
    data = load_dataset(tmp_path / "pool.parquet", labeled=False)
    assert data.y.tolist() == [-1] * 12
    assert data.classes == ()
    assert data.ids[-1] == "train/11"


@pytest.mark.usefixtures("cache")
def test_text_and_what_is_left_out(tmp_path: Path) -> None:
    folder = tmp_path / "imdb" / "plain_text"
    folder.mkdir(parents=True)
    train = pa.table({"text": ["good", "bad", "so so"], "label": [1, 0, 1]})
    pq.write_table(train, folder / "train-00000-of-00001.parquet")
    pq.write_table(train.slice(0, 1), folder / "test-00000-of-00001.parquet")
    pq.write_table(train, folder / "unsupervised-00000-of-00001.parquet")
    data = load_dataset("imdb", data=tmp_path)
    assert data.kind == "text"
    assert data.inputs == ["good", "bad", "so so"]
    assert data.test_inputs == ["good"]
    assert data.y.tolist() == [1, 0, 1]
    assert data.mean == ()


@pytest.mark.usefixtures("cache")
def test_tables_and_embeddings(tmp_path: Path) -> None:
    table = pa.table(
        {
            "embedding": pa.array([[1.0, 2.0], [3.0, 4.0]], pa.list_(pa.float64())),
            "age": pa.array([5, 6], pa.int32()),
            "class": ["b", "a"],
        }
    )
    pq.write_table(table, tmp_path / "table.parquet")
    data = load_dataset(tmp_path / "table.parquet")
    assert data.kind == "table"
    np.testing.assert_array_equal(data.inputs, np.array([[1, 2, 5], [3, 4, 6]], np.float32))
    assert data.inputs.dtype == np.float32
    assert data.classes == ("a", "b")
    assert data.y.tolist() == [1, 0]
    assert data.mean == (2, 3, 5.5)


@contextmanager
def few_open_files(more: int) -> Iterator[None]:
    """Let this process open only so many more files."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    taken = {int(path.name) for path in Path("/dev/fd").iterdir()}
    free = [number for number in range(len(taken) + more + 1) if number not in taken]
    resource.setrlimit(resource.RLIMIT_NOFILE, (free[more], before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


@pytest.mark.usefixtures("cache")
@pytest.mark.parametrize("kind", ["table", "image", "image without labels"])
def test_there_may_be_more_shards_than_open_files(
    tmp_path: Path, pictures: np.ndarray, kind: str
) -> None:
    for i in range(60):
        row = {"age": [2 * i]} if kind == "table" else {"img": [encoded(pictures[i % 12])]}
        row |= {} if kind == "image without labels" else {"label": [i % 2]}
        pq.write_table(pa.table(row), tmp_path / f"train-{i:02d}.parquet")
    labeled = kind != "image without labels"
    with few_open_files(40):
        data = load_dataset(tmp_path, labeled=labeled)
    assert len(data) == 60
    assert data.y.tolist() == ([0, 1] * 30 if labeled else [-1] * 60)
    expected = 2 * np.arange(60)[:, None] if kind == "table" else np.tile(pictures, (5, 1, 1, 1))
    np.testing.assert_array_equal(data.inputs, expected)


@pytest.mark.usefixtures("cache")
def test_broken_parquet_and_missing_training_files(tmp_path: Path) -> None:
    (tmp_path / "broken.parquet").write_bytes(b"PAR1 but not really")
    with pytest.raises(InputError, match=r"broken\.parquet cannot be read as a table: Parquet"):
        load_dataset(tmp_path / "broken.parquet")
    (tmp_path / "only_test").mkdir()
    (tmp_path / "broken.parquet").rename(tmp_path / "only_test" / "test-0.parquet")
    with pytest.raises(InputError, match="no training files"):
        load_dataset(tmp_path / "only_test")
