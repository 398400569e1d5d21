"""Any number of short texts, and a made-up teacher's answers: the files of ``scaling.py``.

Texts are made up of words without meaning, or spliced from real ones: the beginning of one text
and the end of another of the same set and label, both cut at random, so that hardly two are equal.
There are two classes; of each set of real texts, one has the first half of the labels.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.parquet as pq

WORDS, PER_TEXT, GOLD, AT_ONCE = 5_000, 12, 200, 100_000
TEACHER = """
import time
import numpy as np

def free(ids, texts):
    return np.zeros((len(ids), 2)) + [0.5, 0.1]

def waits(ids, texts):
    time.sleep(0.001 * len(ids))
    return free(ids, texts)
"""

# Classes (n,) of 0 and 1, and n texts.
TextMaker = Callable[[np.random.Generator, int], tuple[np.ndarray, list[str]]]


def made_up_texts(rng: np.random.Generator, count: int) -> tuple[np.ndarray, list[str]]:
    """Texts of 12 words, of which those of the first half are more frequent in class 0."""
    y = rng.integers(0, 2, count)
    shift = np.where(rng.random((count, PER_TEXT)) < 0.65, y[:, None], 1 - y[:, None])
    words = rng.integers(0, WORDS // 2, (count, PER_TEXT)) + shift * (WORDS // 2)
    return y, [" ".join(f"w{word}" for word in row) for row in words.tolist()]


class SplicedTexts:
    """Texts of the sets in a folder, ``<set>/train.parquet`` with columns text and label."""

    def __init__(self, folder: Path) -> None:
        self._words: list[list[str]] = []
        groups: list[np.ndarray] = []  # for each text, those of its set and label
        classes: list[np.ndarray] = []
        for file in sorted(folder.glob("*/train.parquet")):
            table = pq.read_table(file, columns=["text", "label"])
            labels, number = np.unique(table["label"].to_numpy(), return_inverse=True)
            alike = [len(self._words) + np.flatnonzero(number == i) for i in range(len(labels))]
            groups += [alike[i] for i in number.tolist()]
            classes.append((number >= len(labels) / 2).astype(np.int64))
            self._words += [text.split() for text in table["text"].to_pylist()]
        self._classes = np.concatenate(classes)
        self._sizes = np.array([len(group) for group in groups])
        self._firsts = np.cumsum(self._sizes) - self._sizes
        self._alike = np.concatenate(groups)

    def __call__(self, rng: np.random.Generator, count: int) -> tuple[np.ndarray, list[str]]:
        begins = rng.integers(0, len(self._words), count)
        ends = self._alike[self._firsts[begins] + rng.integers(0, self._sizes[begins])]
        texts = [
            " ".join(self._words[i][: round(p * len(self._words[i]))])
            + " "
            + " ".join(self._words[j][round(q * len(self._words[j])) :])
            for i, j, p, q in zip(
                begins.tolist(),
                ends.tolist(),
                rng.uniform(0.2, 0.8, count).tolist(),
                rng.uniform(0.2, 0.8, count).tolist(),
                strict=True,
            )
        ]
        return self._classes[begins], texts


def make_files(folder: Path, rows: int, texts: TextMaker) -> None:
    """A gold file, a pool file and answers that are right on 80 % of it, written in blocks."""
    rng = np.random.default_rng(0)
    (folder / "made_up_teacher.py").write_text(TEACHER)
    with (folder / "answers.jsonl").open("wb") as answers:

        def block(prefix: str, start: int, count: int) -> pa.Table:
            y, made = texts(rng, count)
            ids = [f"{prefix}{i}" for i in range(start, start + count)]
            first = np.where(rng.random(count) < 0.8, y, 1 - y)
            sure = rng.uniform(0.55, 0.95, count).round(3)
            of_a = np.where(first == 0, sure, 1 - sure).round(3)
            for key, p in zip(ids, of_a.tolist(), strict=True):
                answers.write(orjson.dumps({"id": key, "a": p, "b": round(1 - p, 3)}) + b"\n")
            return pa.table({"id": ids, "text": made, "label": np.array(["a", "b"])[y]})

        pq.write_table(block("g", 0, GOLD), folder / "gold.parquet")
        pool = None
        for start in range(0, rows, AT_ONCE):
            table = block("p", start, min(AT_ONCE, rows - start)).drop_columns(["label"])
            pool = pool or pq.ParquetWriter(folder / "pool.parquet", table.schema)
            pool.write_table(table)
        assert pool is not None
        pool.close()
