"""``noisyteacher predict``: classify a file of examples with a saved student."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from noisyteacher.cli.common import (
    SHARE,
    IdColumn,
    Json,
    Overwrite,
    TextColumn,
    json_line,
    say_first,
    say_next,
    verb,
)
from noisyteacher.core.errors import InputError

EPILOG = """
**Example:** `noisyteacher predict runs/mine/student new.csv --out predictions.csv --abstain-below
0.8`
"""


@verb
def predict(
    student: Path,
    file: Path,
    out: Path,
    abstain_below: Annotated[float, SHARE] = 0.0,
    id_column: IdColumn = None,
    text_column: TextColumn = None,
    overwrite: Overwrite = False,
    json: Json = False,
) -> None:
    """Write the most likely class of every example in a file, and its probability.

    With `--abstain-below`, the summary also says how many held-out gold examples would have been
    left empty and how many of the others would have been right, if the student was compared by
    cross-validation.

    Arguments:
        student: The folder of a saved student.
        file: The examples to classify, of the kind the student was trained on.

    Output:
        out: The .csv, .jsonl or .parquet file to write.
        abstain_below: Leave the class empty where its probability is lower than this.
    """
    say_first(f"Loading the student {student}.", quiet=json)
    from noisyteacher.data import read_examples
    from noisyteacher.io.user_tables import FileOptions
    from noisyteacher.pipeline import load_student
    from noisyteacher.pipeline.predict import held_out_effect, predict_classes, write_predictions

    if out.exists() and not overwrite:
        raise InputError(f"{out} exists already; add --overwrite to replace it.")
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
    if json:
        typer.echo(json_line(summary))
        return
    typer.echo(_in_words(summary, abstain_below))
    say_next("noisyteacher", "export", student, "--onnx", "student.onnx")


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
        f"{effect['left_out']}%, and {effect['accuracy']}% of the rest are right."
    )
