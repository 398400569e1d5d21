"""The benchmark of embeddings keeps only what is whole, and reads what `distill` prints."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from noisyteacher import TeacherLabels

pytest.importorskip("transformers")
BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


def test_an_interrupted_write_is_not_taken_for_embeddings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(BENCHMARKS)
    import embedding_students as benchmark

    texts, y = [f"review {i}" for i in range(4)], np.array([0, 1, 0, 1])
    ids = np.arange(4)
    dataset = SimpleNamespace(
        inputs=texts, test_inputs=texts, y=y, test_y=y, ids=ids, test_ids=ids + 4
    )
    monkeypatch.setattr(benchmark, "ROWS", 4)
    monkeypatch.setattr(benchmark, "load_dataset", lambda name, data: dataset)
    monkeypatch.setattr(
        benchmark, "SentenceEncoder", lambda *settings: lambda texts: np.ones((len(texts), 3))
    )
    args = Namespace(out=tmp_path, data=tmp_path, encoder=tmp_path)
    savez = np.savez

    def interrupted(file: Any, **arrays: np.ndarray) -> None:
        savez(file, train=arrays["train"])
        raise KeyboardInterrupt

    monkeypatch.setattr(np, "savez", interrupted)
    with pytest.raises(KeyboardInterrupt):
        benchmark.embeddings(args)
    monkeypatch.setattr(np, "savez", savez)
    found = benchmark.embeddings(args)
    assert found["test"].shape == (4, 3)
    assert found["test_ids"].tolist() == [4, 5, 6, 7]
    assert [path.name for path in tmp_path.iterdir()] == ["embeddings.npz"]


def test_the_columns_of_a_row_are_in_what_distill_prints(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(BENCHMARKS)
    import embedding_students as benchmark

    monkeypatch.setattr(benchmark, "METHODS", ("Vanilla()",))
    y, ids = np.arange(160) % 2, np.arange(160)
    x = np.random.default_rng(0).normal(size=(160, 3)) + y[:, None]
    for name, start in (("gold", 0), ("val", 40), ("selection", 60), ("pool", 80), ("test", 120)):
        rows = slice(start, start + 40 if name in ("gold", "pool", "test") else start + 20)
        kept = None if name == "pool" else y[rows]
        benchmark.write_table(tmp_path / f"{name}.parquet", x[rows], ids[rows], kept)
    sure = np.where(y == 1, 0.8, 0.2)
    labels = TeacherLabels.from_probs(ids.astype(str), np.stack([1 - sure, sure], 1))
    labels.save(tmp_path / "labels")
    told = benchmark.distil(tmp_path, tmp_path / "test.parquet", tmp_path / "labels", "linear", 0)
    found = [benchmark.accuracies(one) for one in told["candidates"]]
    assert "Vanilla()" in [one["candidate"] for one in found]
    for one in found:
        assert 0 <= one["accuracy_on_S"] <= 100
        assert 0 <= one["accuracy_on_test"] <= 100
