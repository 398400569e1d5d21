"""Processor time and peak memory of each verb, by the number of pool rows.

    python benchmarks/scaling.py --rows 100000 1000000 --csv benchmarks/scaling.csv
    python benchmarks/scaling.py --ray --csv benchmarks/ray.csv

Made-up texts of 12 words in two classes and a teacher that is right on 80 % of them. Each command
runs in a process of its own with one thread: ``import`` of an id and probabilities per line,
``label`` with a function that costs nothing, ``audit`` of the store, and ``distill --stream
--student hashed`` with Taylor-CE. Seconds are processor seconds, so that a busy machine counts
little; the start of Python alone is measured apart and taken off.

``--ray``: rows per second (on the clock, after the first shard) of one process and of one and two
Ray workers of one core each, with a teacher that takes 1 ms of waiting a row.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from measuring import Measurement, report
from noisyteacher.data import read_examples
from noisyteacher.pipeline.labeling import label_files
from noisyteacher.pipeline.ray_labeling import RayWorkers
from noisyteacher.pipeline.teachers import open_teacher

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


def texts_of(rng: np.random.Generator, y: np.ndarray) -> list[str]:
    """Texts in which words of the first half are more frequent in class 0."""
    shift = np.where(rng.random((len(y), PER_TEXT)) < 0.65, y[:, None], 1 - y[:, None])
    words = rng.integers(0, WORDS // 2, (len(y), PER_TEXT)) + shift * (WORDS // 2)
    return [" ".join(f"w{word}" for word in row) for row in words.tolist()]


def make(folder: Path, rows: int) -> None:
    """A gold file, a pool file and the teacher's answers, written in blocks."""
    rng = np.random.default_rng(0)
    (folder / "made_up_teacher.py").write_text(TEACHER)
    with (folder / "answers.jsonl").open("wb") as answers:

        def block(prefix: str, start: int, count: int) -> pa.Table:
            y = rng.integers(0, 2, count)
            ids = [f"{prefix}{i}" for i in range(start, start + count)]
            first = np.where(rng.random(count) < 0.8, y, 1 - y)
            sure = rng.uniform(0.55, 0.95, count).round(3)
            of_a = np.where(first == 0, sure, 1 - sure).round(3)
            for key, p in zip(ids, of_a.tolist(), strict=True):
                answers.write(orjson.dumps({"id": key, "a": p, "b": round(1 - p, 3)}) + b"\n")
            return pa.table({"id": ids, "text": texts_of(rng, y), "label": np.array(["a", "b"])[y]})

        pq.write_table(block("g", 0, GOLD), folder / "gold.parquet")
        pool = None
        for start in range(0, rows, AT_ONCE):
            table = block("p", start, min(AT_ONCE, rows - start)).drop_columns(["label"])
            pool = pool or pq.ParquetWriter(folder / "pool.parquet", table.schema)
            pool.write_table(table)
        assert pool is not None
        pool.close()


def run(folder: Path, *words: str) -> tuple[float, float]:
    """Processor seconds and peak memory in GiB of one command."""
    threads = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "noisyteacher", *words]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            command, cwd=folder, env=os.environ | threads, stdout=log, stderr=log
        )
        _, status, used = os.wait4(process.pid, 0)
    if status:
        sys.exit(f"{' '.join(words)} failed:\n{(folder / 'log').read_text()[-2000:]}")
    return used.ru_utime + used.ru_stime, used.ru_maxrss / 2**20


def verbs(sizes: list[int], names: list[str]) -> list[Measurement]:
    """A measurement of each verb at each size."""
    found = []
    distill = "distill --gold gold.parquet --pool pool.parquet --labels labels --out run --stream"
    commands = {
        "import": "import answers.jsonl --out labels",
        "label": "label made_up_teacher:free pool.parquet --classes a,b --out labeled",
        "audit": "audit labels --gold gold.parquet",
        "distill": f"{distill} --student hashed --method TaylorCE(2)",
    }
    for rows in sizes:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            make(folder, rows)
            start, _ = run(folder, "label", "--help")
            for verb in ("import", *(verb for verb in names if verb != "import")):
                seconds, peak = run(folder, *commands[verb].split())
                own = max(seconds - start, 1e-3)
                note = f"{rows / own:,.0f} rows/s, {1e6 * own / rows:.1f} µs a row"
                found.append(Measurement(verb, rows, own, note, peak))
                print(verb, rows, f"{own:.1f} s", note, f"{peak:.2f} GiB", flush=True)
    return found


def throughput(rows: int) -> list[Measurement]:
    """Labeling by this process, and by one and two Ray workers."""
    found = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make(folder, rows)
        os.environ["PYTHONPATH"] = os.pathsep.join([name, os.environ.get("PYTHONPATH", "")])
        sys.path.insert(0, name)
        teacher = partial(open_teacher, "made_up_teacher:waits", classes=["a", "b"])
        sources = [read_examples(folder / "pool.parquet", labeled=False)]
        for workers in (0, 1, 2):
            at: list[tuple[float, int]] = []
            label_files(
                teacher(),
                sources,
                folder / f"store-{workers}",
                shard_size=500,
                runner=RayWorkers(teacher, "local", workers=workers) if workers else None,
                on_progress=lambda now, at=at: at.append((time.monotonic(), now.done)),  # type: ignore[misc]
            )
            (began, first), (ended, last) = at[0], at[-1]
            what = f"{workers} Ray workers" if workers else "one process"
            note = f"{(last - first) / (ended - began):,.0f} rows/s"
            found.append(Measurement(what, last - first, ended - began, note))
            print(what, note, flush=True)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", type=int, nargs="+", default=[100_000, 1_000_000])
    parser.add_argument("--verbs", nargs="+", default=["import", "label", "audit", "distill"])
    parser.add_argument("--ray", action="store_true", help="the throughput of Ray workers instead")
    parser.add_argument("--csv", type=Path)
    arguments = parser.parse_args()
    if arguments.ray:
        report(throughput(20_000), {"teacher": "1 ms a row"}, arguments.csv)
    else:
        found = verbs(arguments.rows, arguments.verbs)
        report(found, {"student": "hashed", "method": "TaylorCE(2)"}, arguments.csv)


if __name__ == "__main__":
    main()
