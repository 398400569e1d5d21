"""Rows per second and peak memory of a streamed distillation, by the number of pool rows.

    python benchmarks/scaling.py --rows 100000 1000000

Made-up texts of 12 words in two classes, a teacher that is right on 80 % of them, the student
``hashed`` with Taylor-CE. Every size runs in a process of its own, so that the peak is its own.
"""

from __future__ import annotations

import argparse
import multiprocessing
import resource
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from measuring import Measurement, report
from noisyteacher.labels import TeacherLabels
from noisyteacher.labels.store import write
from noisyteacher.methods import TaylorCE
from noisyteacher.pipeline import DistillSettings, run_distill
from noisyteacher.pipeline.streamed_pool import gather_streamed

WORDS, PER_TEXT, GOLD, AT_ONCE = 5_000, 12, 200, 100_000


def texts_of(rng: np.random.Generator, y: np.ndarray) -> list[str]:
    """Texts in which words of the first half are more frequent in class 0."""
    shift = np.where(rng.random((len(y), PER_TEXT)) < 0.65, y[:, None], 1 - y[:, None])
    words = rng.integers(0, WORDS // 2, (len(y), PER_TEXT)) + shift * (WORDS // 2)
    return [" ".join(f"w{word}" for word in row) for row in words.tolist()]


def make(folder: Path, rows: int) -> None:
    """A gold file, a pool file and a label store, written in blocks."""
    rng = np.random.default_rng(0)
    records: list[Any] = []

    def block(prefix: str, start: int, count: int) -> Any:
        y = rng.integers(0, 2, count)
        ids = [f"{prefix}{i}" for i in range(start, start + count)]
        right = rng.random(count) < 0.8
        sure = rng.uniform(0.55, 0.95, count)
        first = np.where(right, y, 1 - y)
        probs = np.where(np.arange(2) == first[:, None], sure[:, None], 1 - sure[:, None])
        records.append(TeacherLabels.from_probs(ids, probs.astype(np.float32), ["a", "b"]))
        names = np.array(["a", "b"])[y]
        return pa.table({"id": ids, "text": texts_of(rng, y), "label": names})

    pq.write_table(block("g", 0, GOLD), folder / "gold.parquet")
    pool = None
    for start in range(0, rows, AT_ONCE):
        table = block("p", start, min(AT_ONCE, rows - start)).drop_columns(["label"])
        pool = pool or pq.ParquetWriter(folder / "pool.parquet", table.schema)
        pool.write_table(table)
    assert pool is not None
    pool.close()
    write(records, folder / "labels", overwrite=False)


def distill(folder: Path, results: Any) -> None:
    """Both phases, timed, and the peak of this process."""
    settings = DistillSettings(student="hashed", methods=(TaylorCE(2),))
    began = time.monotonic()
    task, settings = gather_streamed(
        gold=folder / "gold.parquet",
        pool=folder / "pool.parquet",
        labels=[folder / "labels"],
        settings=settings,
        folder=folder / "shards",
    )
    read = time.monotonic() - began
    run_distill(task, settings, quiet=True)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    results.put((read, time.monotonic() - began - read, peak))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", type=int, nargs="+", default=[100_000, 1_000_000])
    parser.add_argument("--csv", type=Path)
    arguments = parser.parse_args()
    processes = multiprocessing.get_context("spawn")
    found = []
    for rows in arguments.rows:
        with tempfile.TemporaryDirectory() as name:
            folder, results = Path(name), processes.Queue()
            maker = processes.Process(target=make, args=(folder, rows))
            maker.start()
            maker.join()
            process = processes.Process(target=distill, args=(folder, results))
            process.start()
            read, solve, peak = results.get()
            process.join()
        note = f"{rows / read:,.0f} rows/s"
        found.append(Measurement("read, hash, join labels", rows, read, note, peak))
        note = f"{1e6 * solve / rows:.1f} µs per row in all"
        found.append(Measurement("compare on 5 000, solve on all", rows, solve, note, peak))
    report(found, {"student": "hashed", "method": "TaylorCE(2)"}, arguments.csv)


if __name__ == "__main__":
    main()
