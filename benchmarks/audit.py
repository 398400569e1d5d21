"""How fast the audit is, at 1 000 classes, 10 000 rows of V and 1.2 million pool rows.

    python benchmarks/audit.py [--csv PATH] [--small]

The labels are read from a top-20 store on disk, in a process of its own that then audits them with
1 000 bootstrap replicates. The bar: 20 s on 2 cores, everything after the imports counted.

`--small` runs it at a twentieth of the size, to see that it runs.
"""

from __future__ import annotations

import csv
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from multiprocessing import get_context
from pathlib import Path

from measuring import Measurement, parser_of, peak_gib, report
from noise import simulated_labels
from noisyteacher.auditing import audit, read_gold
from noisyteacher.labels import TeacherLabels


@dataclass(frozen=True)
class Size:
    classes: int
    val: int
    pool: int
    stored: int = 20
    replicates: int = 1_000


FULL = Size(classes=1_000, val=10_000, pool=1_200_000)
SMALL = Size(classes=200, val=1_000, pool=60_000)


def write_files(folder: Path, size: Size) -> None:
    """One store of V and pool, and V's gold labels."""
    classes = [f"class {label}" for label in range(size.classes)]
    ids = [f"image/{number}" for number in range(size.val + size.pool)]
    labels, truth = simulated_labels(ids, classes, size.stored, seed=0)
    labels.save(folder / "labels")
    with (folder / "gold.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["id", "label"])
        writer.writerows((ids[row], classes[truth[row]]) for row in range(size.val))


def run_audit(folder: Path, replicates: int) -> tuple[float, float, float, str]:
    """Seconds to open and to audit, peak memory in GiB, and the recommendation."""
    started = time.perf_counter()
    labels = TeacherLabels.open(folder / "labels", extras=())
    gold = read_gold(folder / "gold.csv", labels)
    opened = time.perf_counter()
    result = audit(labels, gold.y, gold.ids, replicates=replicates)
    result.to_dict()
    ended = time.perf_counter()
    return opened - started, ended - opened, peak_gib(), repr(result.recommendation.method)


def measure(size: Size) -> list[Measurement]:
    with tempfile.TemporaryDirectory() as name:
        write_files(Path(name), size)
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
            done = pool.submit(run_audit, Path(name), size.replicates).result()
    opened, audited, peak, method = done
    rows = size.val + size.pool
    return [
        Measurement(f"open the top-{size.stored} store and gold.csv", rows, opened, ""),
        Measurement("audit", rows, audited, f"{size.replicates} replicates, {method}"),
        Measurement("all", rows, opened + audited, f"|V| = {size.val}", peak),
    ]


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--small", action="store_true", help="a twentieth of the size")
    arguments = parser.parse_args()
    size = SMALL if arguments.small else FULL
    report(measure(size), asdict(size), arguments.csv)


if __name__ == "__main__":
    main()
