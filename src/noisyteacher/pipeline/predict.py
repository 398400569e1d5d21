"""Predictions of a saved student: classes, probabilities, and when to abstain."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from noisyteacher.core.errors import InputError
from noisyteacher.core.files import write_atomic
from noisyteacher.data import Dataset
from noisyteacher.io.user_tables import csv_bytes
from noisyteacher.pipeline.student import Student


def predict_classes(
    student: Student, examples: Dataset, abstain_below: float = 0.0
) -> tuple[list[str | None], np.ndarray]:
    """The class of each example, None below the probability, and (n,) the probabilities."""
    probs = student.predict_proba(examples.inputs)
    sure, best = probs.max(1), probs.argmax(1)
    names = [
        student.classes[c] if p >= abstain_below else None for c, p in zip(best, sure, strict=True)
    ]
    return names, sure


def held_out_effect(student: Student, abstain_below: float) -> dict[str, Any] | None:
    """What abstaining at the nearest threshold not below did on held-out gold rows, if known."""
    if abstain_below == 0:
        return None
    known = [one for one in student.about.get("abstention", ()) if one["below"] >= abstain_below]
    return known[0] if known else None


def write_predictions(
    path: str | Path, ids: np.ndarray, names: Sequence[str | None], sure: np.ndarray
) -> None:
    """Rows of ``id``, ``class`` (empty where the student abstains) and ``probability``."""
    columns = {
        "id": ids.tolist(),
        "class": pa.array(list(names), pa.string()),
        "probability": np.round(sure.astype(np.float64), 6),
    }
    write_columns(Path(path), columns)


def write_columns(path: Path, columns: dict[str, Any]) -> None:
    """Write a table as the ending of its file says."""
    table = pa.table(columns)
    sink = pa.BufferOutputStream()
    if path.suffix == ".csv":
        sink.write(csv_bytes({name: table[name].combine_chunks() for name in table.column_names}))
    elif path.suffix == ".parquet":
        pq.write_table(table, sink)
    elif path.suffix == ".jsonl":
        sink.write(b"".join(orjson.dumps(row) + b"\n" for row in table.to_pylist()))
    else:
        raise InputError(f"Predictions are written to .csv, .jsonl or .parquet, not {path.name}.")
    write_atomic(path, sink.getvalue().to_pybytes())
