"""Processor time and peak memory of each verb, by the number of pool rows.

    python benchmarks/scaling.py --texts DIR --csv benchmarks/scaling.csv
    python benchmarks/scaling.py --ray --csv benchmarks/ray.csv

Short texts in two classes (``made_texts.py``) and a teacher that is right on 80 % of them. Each
command runs in a process of its own with one thread: ``import`` of an id and probabilities per
line, ``label`` with a function that costs nothing, ``audit`` of the store, and ``distill --stream
--student hashed`` with Taylor-CE, of which the passes over the pool are also measured one by one
(``measured_run.py``). Seconds are processor seconds, so that a busy machine counts little, without
the start of Python and its imports.

``--ray``: rows per second (on the clock, in the second half, when all workers have started) of one
process and of one and two Ray workers of one core each, with a teacher that takes 1 ms of waiting a
row.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

import orjson

from made_texts import SplicedTexts, TextMaker, made_up_texts, make_files
from measured_run import Measured
from measuring import Measurement, parser_of, report
from noisyteacher.data import read_examples
from noisyteacher.pipeline.labeling import label_files
from noisyteacher.pipeline.ray_labeling import RayWorkers
from noisyteacher.pipeline.teachers import open_teacher

THREADS = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


def run(folder: Path, *words: str) -> Measured:
    """What one command measured of itself."""
    script = Path(__file__).with_name("measured_run.py")
    command = [sys.executable, str(script), "measured.json", *words]
    environment = os.environ | THREADS
    with (folder / "log").open("wb") as log:
        done = subprocess.run(command, cwd=folder, env=environment, stdout=log, stderr=log)
    if done.returncode:
        sys.exit(f"{' '.join(words)} failed:\n{(folder / 'log').read_text()[-2000:]}")
    return Measured(**orjson.loads((folder / "measured.json").read_bytes()))


def verbs(sizes: list[int], names: list[str], texts: TextMaker) -> list[Measurement]:
    """A measurement of each verb at each size, and of the passes of ``distill``."""
    found: list[Measurement] = []
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
            make_files(folder, rows, texts)
            for verb in ("import", *(verb for verb in names if verb != "import")):
                measured = run(folder, *commands[verb].split())
                own = measured.seconds
                note = (
                    f"{rows / own:,.0f} rows/s, {1e6 * own / rows:.1f} µs a row; "
                    f"{measured.clock:.0f} s on the clock"
                )
                new = [Measurement(verb, rows, own, note, measured.peak_gib)]
                new += [_passes(measured)] if measured.passes else []
                print(*new, sep="\n", flush=True)
                found += new
    return found


def _passes(measured: Measured) -> Measurement:
    visits = measured.pass_rows * measured.passes
    note = (
        f"{measured.passes} passes, {1e6 * measured.pass_seconds / visits:.3f} µs a row and pass, "
        f"{1e6 * measured.pass_clock / visits:.3f} µs on the clock"
    )
    return Measurement("passes of distill", measured.pass_rows, measured.pass_seconds, note)


def throughput(rows: int) -> list[Measurement]:
    """Labeling by this process, and by one and two Ray workers."""
    found = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make_files(folder, rows, made_up_texts)
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
            (began, first), (ended, last) = at[len(at) // 2], at[-1]
            what = f"{workers} Ray workers" if workers else "one process"
            note = f"{(last - first) / (ended - began):,.0f} rows/s"
            found.append(Measurement(what, last - first, ended - began, note))
            print(what, note, flush=True)
    return found


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--rows", type=int, nargs="+", default=[10**5, 10**6, 10**7])
    parser.add_argument("--verbs", nargs="+", default=["import", "label", "audit", "distill"])
    parser.add_argument(
        "--texts", type=Path, help="a folder of sets, from whose texts those of the pool are made"
    )
    parser.add_argument("--ray", action="store_true", help="the throughput of Ray workers instead")
    arguments = parser.parse_args()
    if arguments.ray:
        report(throughput(60_000), {"teacher": "1 ms a row"}, arguments.csv)
    else:
        texts = made_up_texts if arguments.texts is None else SplicedTexts(arguments.texts)
        found = verbs(arguments.rows, arguments.verbs, texts)
        made = "made up" if arguments.texts is None else "spliced"
        settings = {"texts": made, "student": "hashed", "method": "TaylorCE(2)"}
        report(found, settings, arguments.csv)


if __name__ == "__main__":
    main()
