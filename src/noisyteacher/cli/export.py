"""``noisyteacher export``: a student as an ONNX file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from noisyteacher.cli.common import (
    Json,
    Overwrite,
    json_line,
    say_first,
    verb,
)
from noisyteacher.core.errors import InputError

EPILOG = "**Example:** `noisyteacher export runs/mine/student --onnx student.onnx`"


@verb
def export(
    folder: Annotated[Path, {"metavar": "student"}],
    onnx: Path,
    student: str | None = None,
    with_encoder: bool = False,
    overwrite: Overwrite = False,
    json: Json = False,
) -> None:
    """Export a student to one ONNX file, which gives the same outputs in ONNX Runtime.

    The file includes the normalization of the inputs. Its input is called `image` (uint8, rows ×
    height × width × 3) or `table` (float32, rows × features). For texts it is the output of the
    featurizer in the student's folder, and for a student on embeddings it is called `embedding`
    (float32, rows × dimensions). This needs `pip install 'noisyteacher[onnx]'`.

    Arguments:
        folder: The folder of a saved student.

    Output:
        onnx: The ONNX file to write.

    Students and methods:
        student: If the student is a network of your own: package.module:name, which is imported and
            run.
        with_encoder: If the student reads embeddings: write its encoder into the same file.
    """
    say_first(f"Exporting {folder}.", quiet=json)
    from noisyteacher.core.files import remove_leftovers
    from noisyteacher.pipeline import load_student
    from noisyteacher.pipeline.defaults import import_network
    from noisyteacher.pipeline.onnx_export import export_onnx, input_names

    remove_leftovers(onnx.parent, onnx.name)  # of an export that was killed when it was done
    if onnx.exists() and not overwrite:
        raise InputError(f"{onnx} exists already; add --overwrite to replace it.")
    loaded = load_student(folder, None if student is None else import_network(student))
    export_onnx(loaded, onnx, with_encoder=with_encoder)
    names = input_names(loaded, with_encoder=with_encoder)
    summary = {
        "file": str(onnx),
        "inputs": list(names),
        "classes": list(loaded.classes),
        "bytes": onnx.stat().st_size,
    }
    if json:
        typer.echo(json_line(summary))
        return
    typer.echo(
        f"{onnx}: {summary['bytes']:,} bytes. Its inputs are {', '.join(names)}; its "
        f"output is the logits of {len(loaded.classes)} classes.\n"
        f"Next: load it with onnxruntime.InferenceSession({str(onnx)!r})."
    )
