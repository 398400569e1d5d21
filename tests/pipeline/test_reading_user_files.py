"""Gold and pool files as people have them, and what is wrong with some of them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from noisyteacher.core.errors import InputError, NoisyTeacherWarning
from noisyteacher.pipeline import FileOptions, read_examples
from user_files import write_digit_folders, write_digit_parquet

ROWS = [("a", "fine, really", "good"), ("b", 'so "so"', "bad"), ("c", "fine", "good")]
CSV = 'id,text,label\na,"fine, really",good\nb,"so ""so""",bad\nc,fine,good\n'


@pytest.fixture(autouse=True)
def image_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOISYTEACHER_CACHE", str(tmp_path / "cache"))


def write(folder: Path, kind: str) -> Path:
    file = folder / f"gold.{kind.partition('-')[0]}"
    if kind == "csv":
        file.write_bytes(CSV.encode())
    elif kind == "csv-windows":
        file.write_bytes(b"\xef\xbb\xbf" + CSV.replace("\n", "\r\n").encode())
    elif kind == "tsv":
        file.write_text(
            'id\ttext\tlabel\na\tfine, really\tgood\nb\t"so ""so"""\tbad\nc\tfine\tgood\n'
        )
    elif kind == "parquet":
        columns = dict(
            zip(("id", "text", "label"), map(list, zip(*ROWS, strict=True)), strict=True)
        )
        pq.write_table(pa.table(columns), file)
    else:
        lines = [json.dumps(dict(zip(("id", "text", "label"), row, strict=True))) for row in ROWS]
        end = "\r\n" if kind == "jsonl-windows" else "\n"
        mark = b"\xef\xbb\xbf" if kind == "jsonl-windows" else b""
        file.write_bytes(mark + (end.join(lines) + end).encode())
    return file


@pytest.mark.parametrize("kind", ["csv", "csv-windows", "tsv", "parquet", "jsonl", "jsonl-windows"])
def test_text_files(tmp_path: Path, kind: str) -> None:
    found = read_examples(write(tmp_path, kind))
    assert found.kind == "text"
    assert found.ids.tolist() == ["a", "b", "c"]
    assert found.inputs == ["fine, really", 'so "so"', "fine"]
    assert [found.classes[c] for c in found.y] == ["good", "bad", "good"]


def test_a_pools_labels_are_not_read_and_are_no_feature(tmp_path: Path) -> None:
    file = tmp_path / "pool.csv"
    file.write_text("f1,f2,label\n1,2,0\n3,4,1\n")
    pool = read_examples(file, labeled=False)
    assert pool.kind == "table"
    np.testing.assert_array_equal(pool.inputs, [[1, 2], [3, 4]])
    assert pool.y.tolist() == [-1, -1]
    assert pool.ids.tolist() == ["pool/0", "pool/1"]


def test_other_column_names(tmp_path: Path) -> None:
    file = tmp_path / "mine.csv"
    file.write_text("key,review,stars,mood\n7,fine,5,good\n8,poor,1,bad\n")
    options = FileOptions(id_column="key", text_column="review", label_column="mood")
    with pytest.warns(NoisyTeacherWarning, match="the column 'stars' is left out"):
        found = read_examples(file, options)
    assert found.ids.tolist() == [7, 8]
    assert found.inputs == ["fine", "poor"]
    assert found.classes == ("bad", "good")


def test_images_in_folders_and_in_parquet_are_the_same(tmp_path: Path) -> None:
    folders = write_digit_folders(tmp_path / "a", 6, 4)
    parquet = write_digit_parquet(tmp_path / "b", 6, 4)
    gold, pool = read_examples(folders / "gold"), read_examples(folders / "pool", labeled=False)
    assert gold.ids[0] == "0/g0.png"
    assert pool.ids.tolist() == ["p6.png", "p7.png", "p8.png", "p9.png"]
    assert pool.y.tolist() == [-1] * 4
    stored = read_examples(parquet / "pool.parquet", labeled=False)
    assert stored.ids.tolist() == [6, 7, 8, 9]
    np.testing.assert_array_equal(pool.inputs, stored.inputs)
    again = read_examples(folders / "pool", labeled=False)  # from the cache
    np.testing.assert_array_equal(again.inputs, pool.inputs)


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("gold.csv", "", "is empty"),
        ("gold.jsonl", "", "is empty"),
        ("gold.csv", "id,text,label\n", "has no rows"),
        ("gold.csv", "id,text\n1,x\n", "no label column.*label_column=.*--label-column"),
        (
            "gold.csv",
            "id,review,label\n1,x,y\n",
            "'review' holds strings.*text_column=.*--text-column.*, or remove or encode",
        ),
        (
            "gold.csv",
            "file,label\na/1.PNG,x\nb/2.jpg,y\n",
            "'file' holds paths of images, such as 'a/1.PNG'.*folder.* 'image' of a Parquet file",
        ),
        ("gold.csv", "id,text,label\n1,a,x\n1,b,y\n", "gold: ids must be unique; repeated: 1"),
        ("gold.csv", "f,label\n1,0\nnan,1\n", "the column 'f' has 1 empty values"),
        ("gold.jsonl", '{"text": "a", "label": "x"}\n{"text": \n', "line 2, is not JSON"),
        ("gold.jsonl", '{"text": "a"}\n[1]\n', "line 2, is not a JSON object"),
        ("gold.parquet", "no parquet", "Parquet"),
        ("gold.xyz", "x", "not a dataset in a known layout"),
    ],
)
def test_bad_files_are_one_sentence(tmp_path: Path, name: str, content: str, words: str) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(InputError, match=words):
        read_examples(tmp_path / name)


def test_bad_images_and_folders(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no file or folder"):
        read_examples(tmp_path / "none")
    flat = tmp_path / "flat"
    flat.mkdir()
    Image.new("RGB", (8, 8)).save(flat / "a.png")
    with pytest.raises(InputError, match="no class folders"):
        read_examples(flat)
    (flat / "b.png").write_bytes(b"cut off")
    with pytest.raises(InputError, match=r"b\.png cannot be decoded"):
        read_examples(flat, labeled=False)
