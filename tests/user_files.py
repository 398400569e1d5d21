"""Small real data as users have it: generated reviews, digits as images and as tables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
from PIL import Image
from sklearn.datasets import load_digits

from noisyteacher.labels import TeacherLabels

GOOD = ["great", "wonderful", "superb", "lovely", "charming", "brilliant", "moving", "delightful"]
BAD = ["awful", "boring", "terrible", "dull", "poor", "weak", "tedious", "dreadful"]
FILLER = [
    "the",
    "a",
    "film",
    "story",
    "actor",
    "scene",
    "plot",
    "camera",
    "music",
    "end",
    "start",
    "time",
    "one",
    "two",
]
MOODS = ("bad", "good")


def reviews(count: int, seed: int = 0) -> tuple[list[str], np.ndarray]:
    """Short reviews, and 1 where they praise; no two are alike."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, count)
    texts = []
    for i, good in enumerate(y):
        words = [*rng.choice(FILLER, 8), *rng.choice(GOOD if good else BAD, 2), f"take{i}"]
        texts.append(" ".join(rng.permutation(words)))
    return texts, y


def noisy_probs(y: np.ndarray, classes: int, right: float = 0.75, seed: int = 1) -> np.ndarray:
    """A teacher that is right so often, and surer where it is right."""
    rng = np.random.default_rng(seed)
    correct = rng.random(len(y)) < right
    said = np.where(correct, y, (y + rng.integers(1, classes, len(y))) % classes)
    sure = np.where(correct, rng.uniform(0.5, 1, len(y)), rng.uniform(0.52, 0.8, len(y)))
    probs = np.repeat(((1 - sure) / (classes - 1))[:, None], classes, axis=1)
    probs[np.arange(len(y)), said] = sure
    return np.asarray(probs / probs.sum(1, keepdims=True))


def review_sets(gold: int = 60, count: int = 300, right: float = 0.8) -> dict[str, Any]:
    """What ``gather`` takes: gold rows, a pool, 40 test examples, and labels of all of them."""
    texts, y = reviews(count)
    ids = np.array([f"r{i}" for i in range(count)])
    names = np.array(MOODS)[y]
    labels = TeacherLabels.from_probs(ids, noisy_probs(y, 2, right), MOODS, teacher="planted")
    return {
        "gold": (ids[:gold], texts[:gold], names[:gold]),
        "pool": (ids[gold:-40], texts[gold:-40]),
        "test": (ids[-40:], texts[-40:], names[-40:]),
        "labels": labels,
    }


def write_reviews(folder: Path, gold: int = 100, pool: int = 150, right: float = 0.8) -> Path:
    """``gold.csv``, ``pool.csv`` and the label store ``labels`` of both."""
    texts, y = reviews(gold + pool)
    ids = [f"r{i}" for i in range(len(y))]
    names = [MOODS[c] for c in y]
    folder.mkdir(parents=True, exist_ok=True)
    labeled = {"id": ids[:gold], "text": texts[:gold], "label": names[:gold]}
    pa_csv.write_csv(pa.table(labeled), folder / "gold.csv")
    pa_csv.write_csv(pa.table({"id": ids[gold:], "text": texts[gold:]}), folder / "pool.csv")
    TeacherLabels.from_probs(ids, noisy_probs(y, 2, right), MOODS, teacher="planted").save(
        folder / "labels"
    )
    return folder


def digits(count: int) -> tuple[np.ndarray, np.ndarray]:
    """(count, 8, 8) uint8 images and their digits, cut down to 0, 1 and 2."""
    images, y = load_digits(return_X_y=True)
    few = np.flatnonzero(y < 3)[:count]
    return (images[few].reshape(-1, 8, 8) * 15).astype(np.uint8), y[few]


def write_digit_folders(folder: Path, gold: int = 60, pool: int = 80) -> Path:
    """``gold/<digit>/*.png``, ``pool/*.png`` side by side, and the store ``labels``."""
    images, y = digits(gold + pool)
    ids = []
    for i, (image, digit) in enumerate(zip(images, y, strict=True)):
        place = f"gold/{digit}/g{i}.png" if i < gold else f"pool/p{i}.png"
        (folder / place).parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image).save(folder / place)
        ids.append(place.split("/", 1)[1])
    TeacherLabels.from_probs(ids, noisy_probs(y, 3), ["0", "1", "2"]).save(folder / "labels")
    return folder


def write_digit_parquet(folder: Path, gold: int = 60, pool: int = 80) -> Path:
    """The same digits as ``gold.parquet`` and ``pool.parquet``, with encoded images."""
    images, y = digits(gold + pool)
    folder.mkdir(parents=True, exist_ok=True)
    encoded = []
    for i, image in enumerate(images):
        file = folder / f"{i}.png"
        Image.fromarray(image).save(file)
        encoded.append({"bytes": file.read_bytes(), "path": None})
        file.unlink()
    ids = np.arange(len(y))
    for name, rows in (("gold", slice(gold)), ("pool", slice(gold, None))):
        columns = {"id": ids[rows], "image": encoded[rows], "label": y[rows]}
        pq.write_table(pa.table(columns), folder / f"{name}.parquet")
    TeacherLabels.from_probs(ids, noisy_probs(y, 3), ["0", "1", "2"]).save(folder / "labels")
    return folder


def write_digit_tables(folder: Path, gold: int = 80, pool: int = 120) -> Path:
    """Digits as rows of numbers without ids, and ``probs.npy`` in the order gold, pool."""
    images, y = digits(gold + pool)
    folder.mkdir(parents=True, exist_ok=True)
    table = images.reshape(len(images), -1).astype(np.float32)
    for name, rows in (("gold", slice(gold)), ("pool", slice(gold, None))):
        columns = {f"f{i}": table[rows, i] for i in range(table.shape[1])}
        pq.write_table(pa.table(columns | {"label": y[rows]}), folder / f"{name}.parquet")
    np.save(folder / "probs.npy", noisy_probs(y, 3))
    return folder
