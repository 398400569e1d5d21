"""The benchmark of embeddings keeps what it made, and only what is whole."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

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
