"""The files that ``benchmarks/scaling.py`` measures on."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
TEXTS = {"a": ["a1 a2 a3 a4", "A1 A2 A3 A4"], "b": ["b1 b2 b3 b4 b5"], "c": ["c1 c2", "C1 C2"]}


@pytest.fixture
def made_texts(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(BENCHMARKS)
    return importlib.import_module("made_texts")


def write_sets(folder: Path) -> None:
    for name in ("one", "two"):
        (folder / name).mkdir()
        rows = [{"text": f"{name} {text}", "label": k} for k, ts in TEXTS.items() for text in ts]
        pq.write_table(pa.Table.from_pylist(rows), folder / name / "train.parquet")


def test_texts_are_spliced_within_a_set_and_a_label(tmp_path: Path, made_texts: ModuleType) -> None:
    write_sets(tmp_path)
    y, texts = made_texts.SplicedTexts(tmp_path)(np.random.default_rng(0), 500)
    assert len(texts) == len(y) == 500
    assert len(set(texts)) > 20
    for text, label in zip(texts, y.tolist(), strict=True):
        letters = {word[0].lower() for word in text.split() if word not in ("one", "two")}
        assert len(letters) == 1, text
        assert label == int(letters == {"c"})  # the classes are halves of the labels
        assert not {"one", "two"} <= set(text.split())


def test_files_have_the_rows_asked_for(tmp_path: Path, made_texts: ModuleType) -> None:
    made_texts.make_files(tmp_path, 30, made_texts.made_up_texts)
    assert pq.read_table(tmp_path / "gold.parquet").num_rows == made_texts.GOLD
    pool = pq.read_table(tmp_path / "pool.parquet")
    assert pool.column_names == ["id", "text"]
    lines = (tmp_path / "answers.jsonl").read_bytes().splitlines()
    answers = [orjson.loads(line) for line in lines]
    assert [a["id"] for a in answers[made_texts.GOLD :]] == pool["id"].to_pylist()
    assert all(abs(a["a"] + a["b"] - 1) < 1e-9 for a in answers)
