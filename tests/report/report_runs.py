"""Small run folders as bench, distill and audit leave them, with names that try to break out."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import orjson
from scipy.special import softmax

import results_rows
from noisyteacher.auditing import audit
from noisyteacher.bench import Row
from noisyteacher.labels import TeacherLabels
from noisyteacher.runs import record_command
from noisyteacher.runs.comparison import (
    Comparison,
    Predictions,
    count_confusions,
    find_examples,
)

EVIL = "<script>window.hacked=1</script>"
CLASSES = (EVIL, "</script><b>bold", 'cat & dog\'s "tail"', "plain")
METHODS = ("GoldOnly()", "Vanilla()", "SLaM()")


def row(method: str, trial: int = 0, labeled: int = 30, **changes: Any) -> Row:
    """A finished student of three epochs."""
    last = 60.0 + 5 * METHODS.index(method) + trial + labeled / 100
    curve = [
        {"epoch": e, "loss": 2.0 / e, "selection": last - 4 + e, "test": last - 3 + e}
        for e in (1, 2, 3)
    ]
    values: dict[str, Any] = {
        "recipe": "small",
        "dataset": "made up",
        "labeled": labeled,
        "trial": trial,
        "epochs": 3,
        "teacher_accuracy": 55.0,
        "curve": curve,
    }
    accuracy = {"last": last, "selected": last - 1, "best_test": last + 1}
    return replace(results_rows.row(method, **values), **{"accuracy": accuracy} | changes)


def teacher(rows: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """(n, 4) probabilities, and the truth drawn from them."""
    rng = np.random.default_rng(seed)
    probs = softmax(2 * rng.normal(size=(rows, len(CLASSES))), axis=1)
    y = (rng.random(rows)[:, None] > probs.cumsum(1)).sum(1).clip(max=len(CLASSES) - 1)
    return probs, y


def make_audit(seed: int = 0) -> dict[str, Any]:
    """A real audit of made-up labels."""
    probs, y = teacher(420, seed)
    labels = TeacherLabels.from_probs(np.arange(420), probs, CLASSES, teacher=EVIL)
    return audit(labels, y[:120], np.arange(120), replicates=50).to_dict()


def make_comparison(pictures: bool = True, rows: int = 60) -> Comparison:
    """Teacher and student of made-up inputs; ids, texts and classes hold markup."""
    probs, truth = teacher(rows)
    said, answers = Predictions.of(probs), Predictions.of(teacher(rows, seed=1)[0])
    ids = np.array([f"row/{i}<i>" for i in range(rows)])
    inputs: Any = [f"text number {i} {EVIL}" for i in range(rows)]
    if pictures:
        inputs = np.random.default_rng(0).integers(0, 256, (rows, 8, 8, 3), dtype=np.uint8)
    apart, examples = find_examples(ids, inputs, said, answers, CLASSES, truth)
    confusions = [
        count_confusions(who, "the pool", truth, predicted.top)
        for who, predicted in (("teacher", said), ("student", answers))
    ]
    return Comparison("SLaM()", list(CLASSES), "the pool", rows, apart, confusions, examples)


def write_rows(folder: Path, rows: list[Row]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    lines = [orjson.dumps(asdict(one)) + b"\n" for one in rows]
    (folder / "results.jsonl").write_bytes(b"".join(lines))
    recipe = {"name": repr("small"), "dataset": repr(EVIL), "teacher": EVIL, "student": "Tiny()"}
    (folder / "recipe.json").write_bytes(orjson.dumps(recipe))


def write_run(folder: Path, sizes: tuple[int, ...] = (30,), pictures: bool = True) -> Path:
    """A run with everything in it."""
    write_rows(folder, [row(m, t, n) for n in sizes for m in METHODS for t in (0, 1)])
    (folder / "audits").mkdir()
    for size in sizes:
        (folder / "audits" / f"{size}.json").write_bytes(orjson.dumps(make_audit(size)))
    make_comparison(pictures).save(folder)
    record_command(folder, f"noisyteacher bench {EVIL}", [f"A note about {EVIL}"])
    return folder
