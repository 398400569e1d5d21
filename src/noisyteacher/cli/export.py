"""``noisyteacher export``: a student as an ONNX file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from noisyteacher.cli.common import json_line
from noisyteacher.core.errors import InputError

EPILOG = "**Example:** `noisyteacher export runs/mine/student --onnx student.onnx`"


def export(
    folder: Annotated[Path, typer.Argument(metavar="STUDENT", help="A saved student's folder.")],
    onnx: Annotated[Path, typer.Option(help="The ONNX file to write.")],
    student: Annotated[
        str | None,
        typer.Option(
            help="A student that is a network of your own: package.module:name, which is imported "
            "and run."
        ),
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the file.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")] = False,
) -> None:
    """Write a student as one ONNX file that ONNX Runtime runs with the same outputs.

    Normalization is inside the file. Its input is `image` (uint8, rows × height × width × 3),
    `table` (float32, rows × features), or for texts what the featurizer beside the student makes
    of them. Needs `pip install 'noisyteacher[onnx]'`.
    """
    from noisyteacher.pipeline import load_student
    from noisyteacher.pipeline.defaults import import_network
    from noisyteacher.pipeline.onnx_export import export_onnx, input_names

    if onnx.exists() and not overwrite:
        raise InputError(f"{onnx} exists already; --overwrite would replace it.")
    loaded = load_student(folder, None if student is None else import_network(student))
    export_onnx(loaded, onnx)
    summary = {
        "file": str(onnx),
        "inputs": list(input_names(loaded)),
        "classes": list(loaded.classes),
        "bytes": onnx.stat().st_size,
    }
    text = (
        f"{onnx}: {summary['bytes']:,} bytes, from {', '.join(input_names(loaded))} to logits "
        f"of {len(loaded.classes)} classes."
    )
    typer.echo(json_line(summary) if json else text)
