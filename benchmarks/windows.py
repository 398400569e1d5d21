"""Networks trained in windows against the same with everything on the device.

    python benchmarks/windows.py accuracy --texts DATA/sst2 --csv benchmarks/windows.csv
    python benchmarks/windows.py speed --gb 20 --max-memory 8     # on a GPU

``accuracy`` trains an MLP on TF-IDF of the texts (train.parquet, test.parquet; the columns text
and label). Of 1 200 gold rows the first 1 000 train the teacher, a logistic regression. The pool is
sorted by class, the hardest order for windows. ``speed`` trains a ResNet-20 on random images.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import torch
from sklearn.linear_model import LogisticRegression

from measuring import parser_of, told, write_csv
from noisyteacher.data import Tfidf
from noisyteacher.data.image_views import ImageViews
from noisyteacher.data.splits import Split
from noisyteacher.data.tensors import feature_matrix, image_tensor
from noisyteacher.labels import TeacherLabels
from noisyteacher.methods import SLaM, Vanilla
from noisyteacher.models import BagMLP, ResNetCifar
from noisyteacher.train import Adam, Cosine, Problem, TrainConfig, TrainData, train

GOLD, VAL = 1000, 200


def read(folder: Path, part: str, rows: int) -> tuple[list[str], np.ndarray]:
    table = pq.read_table(folder / f"{part}.parquet").slice(0, rows)
    return table["text"].to_pylist(), np.unique(table["label"].to_numpy(), return_inverse=True)[1]


def accuracy(arguments: argparse.Namespace) -> list[dict[str, object]]:
    """Test accuracy by the size of the window, the same seeds for all."""
    texts, y = read(arguments.texts, "train", arguments.rows)
    test, test_y = read(arguments.texts, "test", arguments.rows)
    first = GOLD + VAL
    order = np.concatenate([np.arange(first), first + np.argsort(y[first:], kind="stable")])
    texts, y = [texts[i] for i in order], y[order]
    words = Tfidf(max_features=5000)
    inputs = words.fit_transform(texts)
    classes = int(y.max()) + 1
    data = TrainData(inputs, words.views(), classes, words.transform(test), test_y)
    x = feature_matrix(inputs, words.features)
    teacher = LogisticRegression(max_iter=1000).fit(x[:GOLD], y[:GOLD])
    ids, none = np.arange(len(y)), np.empty(0, np.int64)
    labels = TeacherLabels.from_probs(ids, teacher.predict_proba(x).astype(np.float32))
    split = Split(ids[:GOLD], ids[GOLD:first], none, ids[first:])
    problem = Problem(data, ids, y, split, BagMLP(words.features, classes))
    config = TrainConfig(4, 128, Adam(0.002), Cosine(warmup=0.3), gold_repeat=2)
    found: list[dict[str, object]] = []
    for method in (Vanilla(hard=True), SLaM()):
        scores = {}
        for share in (None, 10, 30):
            row_bytes = data.row_bytes + problem.job("s", method, labels).prepared.columns.row_bytes
            limit = None if share is None else 4 * row_bytes * len(y) / share / 1e9
            jobs = [problem.job(f"s{i}", method, labels, seed=i) for i in range(arguments.seeds)]
            done = train(jobs, data, config, device="cpu", quiet=True, max_memory=limit)
            scores[share] = np.array([student.accuracy.last for student in done])
            gap = scores[share] - scores[None]
            row = {
                "method": repr(method),
                "window": "all" if share is None else f"1/{share}",
                "rows": len(y),
                "seeds": len(jobs),
                "accuracy": round(float(scores[share].mean()), 2),
                "against_all": round(float(gap.mean()), 2),
                "standard_error": round(float(gap.std(ddof=1) / len(gap) ** 0.5), 2),
            }
            found.append(told(row))
    return found


def speed(arguments: argparse.Namespace) -> list[dict[str, object]]:
    """Images per second with everything on the device, and in windows."""
    rows, classes = int(arguments.gb * 1e9 / 3072), 10
    rng = np.random.default_rng(0)
    images = np.empty((rows, 32, 32, 3), np.uint8)
    for start in range(0, rows, 100_000):
        part = images[start : start + 100_000]
        part[:] = rng.integers(0, 256, part.shape, np.uint8)
    ids, y = np.arange(rows), rng.integers(0, classes, rows)
    labels = TeacherLabels.from_probs(ids, rng.dirichlet(np.ones(classes), rows).astype("f4"))
    none = np.empty(0, np.int64)
    split = Split(ids[:GOLD], ids[GOLD : GOLD + VAL], none, ids[GOLD + VAL :])
    data = TrainData(image_tensor(images), ImageViews((0.5,) * 3, (0.25,) * 3), classes)
    problem = Problem(data, ids, y, split, ResNetCifar(depth=20, classes=classes))
    config = TrainConfig(arguments.epochs, 512, Adam(1e-3))
    found: list[dict[str, object]] = []
    whole = 0
    for limit in (2 * arguments.gb, arguments.max_memory):
        if torch.cuda.is_available():
            torch.cuda.reset_peak_memory_stats()
        job = replace(problem.job("s", Vanilla(), labels), name=f"{limit} GB")
        (done,) = train(job, data, config, max_memory=limit)
        peak = torch.cuda.max_memory_allocated() if torch.cuda.is_available() else 0
        rate = done.examples_per_second
        whole = whole or round(rate)
        row = {
            "limit_gb": limit,
            "rows": rows,
            "images_per_second": round(rate),
            "ratio": round(rate / whole, 3),
            "device_peak_gb": round(peak / 1e9, 2),
        }
        found.append(told(row))
    return found


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("what", choices=("accuracy", "speed"))
    parser.add_argument("--texts", type=Path, help="the folder of train.parquet and test.parquet")
    parser.add_argument("--rows", type=int, default=8_000)
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument("--gb", type=float, default=20, help="the size of the images in all")
    parser.add_argument("--max-memory", type=float, default=8, help="windows take half of it")
    parser.add_argument("--epochs", type=int, default=2)
    arguments = parser.parse_args()
    found = accuracy(arguments) if arguments.what == "accuracy" else speed(arguments)
    device = "cuda" if arguments.what == "speed" and torch.cuda.is_available() else "cpu"
    write_csv(arguments.csv, found, device)


if __name__ == "__main__":
    main()
