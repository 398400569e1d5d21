"""``noisyteacher predict``: a student's classes and probabilities for a file of examples."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from noisyteacher.cli.common import IdColumn, TextColumn, json_line
from noisyteacher.core.errors import InputError

EPILOG = """
**Example:** `noisyteacher predict runs/mine/student new.csv --out predictions.csv --abstain-below
0.8`
"""


def predict(
    student: Annotated[Path, typer.Argument(help="A saved student's folder.")],
    file: Annotated[Path, typer.Argument(help="Examples of the kind that it was trained on.")],
    out: Annotated[Path, typer.Option(help="The .csv, .jsonl or .parquet file to write.")],
    abstain_below: Annotated[
        float,
        typer.Option(min=0, max=1, help="Leave the class empty where its probability is lower."),
    ] = 0.0,
    id_column: IdColumn = None,
    text_column: TextColumn = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the file.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")] = False,
) -> None:
    """Write the class of every example in a file, and its probability.

    With `--abstain-below` the summary says what that would have done on held-out gold examples, if
    the student was cross-fitted.
    """
    from noisyteacher.data import read_examples
    from noisyteacher.io.user_tables import FileOptions
    from noisyteacher.pipeline import load_student
    from noisyteacher.pipeline.predict import (
        held_out_effect,
        predict_classes,
        write_predictions,
    )

    if out.exists() and not overwrite:
        raise InputError(f"{out} exists already; --overwrite would replace it.")
    loaded = load_student(student)
    columns = loaded.inputs.columns
    files = FileOptions(id_column=id_column, text_column=text_column)
    examples = read_examples(file, files, labeled=False, features=columns)
    names, sure = predict_classes(loaded, examples, abstain_below)
    write_predictions(out, examples.ids, names, sure)
    left_out = sum(name is None for name in names)
    summary: dict[str, Any] = {
        "file": str(out),
        "rows": len(names),
        "left_out": left_out,
        "on_held_out_gold_rows": held_out_effect(loaded, abstain_below),
    }
    typer.echo(json_line(summary) if json else _in_words(summary, abstain_below))


def _in_words(summary: dict[str, Any], threshold: float) -> str:
    told = f"{summary['file']}: {summary['rows']} predictions."
    if threshold == 0:
        return told
    told += (
        f" {summary['left_out']} are left empty, because their probability is below {threshold}."
    )
    effect = summary["on_held_out_gold_rows"]
    if effect is None:
        return told
    return (
        f"{told} On held-out gold examples a threshold of {effect['below']} leaves out "
        f"{effect['left_out']} %, and {effect['accuracy']} % of the rest are right."
    )
