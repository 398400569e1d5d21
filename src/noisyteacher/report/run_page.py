"""The page of a run folder: its recipe, its table and its pictures."""

from __future__ import annotations

from pathlib import Path

import orjson

from noisyteacher.bench.results import read_rows
from noisyteacher.bench.tables import HEADER, cells, lines
from noisyteacher.errors import InputError
from noisyteacher.report.page import write_page

_CAPTIONS = {"alpha": "α(x): how likely the teacher's label is right, {} gold labels"}


def write_run_page(folder: str | Path) -> Path:
    """Write ``report.html`` into a run's folder and return its path."""
    folder = Path(folder)
    rows = read_rows(folder / "results.jsonl")
    if not rows:
        raise InputError(f"{folder} has no results yet.")
    recipe = orjson.loads((folder / "recipe.json").read_bytes())
    table = lines(rows)
    teacher = next((x.teacher_accuracy for x in table if x.teacher_accuracy is not None), None)
    notes = [
        f"Teacher: {recipe['teacher']}"
        + (f", {teacher:.1f} % right on the test part." if teacher is not None else "."),
        f"Student: {recipe['student']}, the same for every method.",
        "Test accuracy in percent, mean ± standard deviation over n trials: after the last epoch, "
        "at the epoch chosen on the selection set S, and at the best test epoch (the paper's "
        "protocol, which looks at the test part).",
        f"Measured on {rows[0].hardware}.",
    ]
    page = folder / "report.html"
    pictures = {_caption(path): path for path in sorted((folder / "pictures").glob("*.png"))}
    title = f"noisyteacher: {rows[0].recipe}"
    write_page(page, title, HEADER, [cells(line) for line in table], pictures, notes)
    return page


def _caption(path: Path) -> str:
    kind, _, size = path.stem.partition("-")
    return _CAPTIONS.get(kind, "{}").format(size or path.stem)
