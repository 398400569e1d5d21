"""Speed and size of the label store: top 20 of 1 000 classes, the size of ImageNet.

    python benchmarks/store.py --csv benchmarks/store.csv

Labels are the softmax of Gaussian logits. "make" goes from dense logits to top-20 labels; "write"
includes the hashes and waits for the disk; "read" opens the store, checks its hashes and computes
the probabilities, with the files still in the system's cache; "take" picks all rows in random
order. Each figure is the best of three, in rows per second, but "make", which is timed once.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from timeit import repeat

import numpy as np

from measuring import parser_of, told, write_csv
from noisyteacher.labels import TeacherLabels

CLASSES = 1_000
TOP = 20
BLOCK = 20_000
REPEATS = 3


def make_labels(rows: int) -> tuple[TeacherLabels, float]:
    """Top-20 labels of ``rows`` examples, and the seconds spent on making them from logits."""
    rng = np.random.default_rng(0)
    blocks, seconds = [], 0.0
    for start in range(0, rows, BLOCK):
        ids = np.arange(start, min(start + BLOCK, rows))
        logits = 3 * rng.standard_normal((len(ids), CLASSES), dtype=np.float32)
        began = time.perf_counter()
        blocks.append(TeacherLabels.from_logits(ids, logits, k=TOP))
        seconds += time.perf_counter() - began
    labels = TeacherLabels.from_topk(
        np.arange(rows),
        np.concatenate([block.topk_index for block in blocks]),
        np.concatenate([block.topk_prob for block in blocks]),
        np.concatenate([block.tail for block in blocks]),
        blocks[0].classes,
    )
    return labels, seconds


def best_seconds(action: Callable[[], object]) -> float:
    """The shortest of a few runs."""
    return min(repeat(action, number=1, repeat=REPEATS))


def measure(labels: TeacherLabels, folder: Path) -> dict[str, float]:
    """Rows per second of each step, and bytes per example."""
    path = folder / "store"
    rows = len(labels)
    write = best_seconds(lambda: labels.save(path, overwrite=True))
    read = best_seconds(lambda: TeacherLabels.open(path).topk_prob)
    opened = TeacherLabels.open(path)
    wanted = np.random.default_rng(1).permutation(labels.ids)
    take = best_seconds(lambda: opened.take(wanted))
    size = sum(file.stat().st_size for file in path.iterdir())
    return {
        "write": round(rows / write),
        "read": round(rows / read),
        "take": round(rows / take),
        "bytes_per_example": round(size / rows, 1),
    }


def with_string_ids(labels: TeacherLabels) -> TeacherLabels:
    """The same labels under names as long as ImageNet's."""
    return TeacherLabels.from_topk(
        [f"n{row % CLASSES:08d}_{row}" for row in range(len(labels))],
        labels.topk_index,
        labels.topk_prob,
        labels.tail,
        labels.classes,
    )


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--rows", type=int, default=1_200_000)
    parser.add_argument("--folder", type=Path, help="where to write the store (default: temporary)")
    args = parser.parse_args()
    labels, seconds = make_labels(args.rows)
    make = round(args.rows / seconds)
    rows = []
    for ids in ("integer", "string"):
        stored = labels if ids == "integer" else with_string_ids(labels)
        with tempfile.TemporaryDirectory(dir=args.folder) as folder:
            figures = measure(stored, Path(folder))
        row = {"ids": ids, "rows": args.rows, "top": TOP, "classes": CLASSES, "make": make}
        rows.append(told(row | figures))
    write_csv(args.csv, rows)


if __name__ == "__main__":
    main()
