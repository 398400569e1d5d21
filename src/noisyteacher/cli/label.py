"""``noisyteacher label``: bulk inference with a model of yours, into a label store."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from noisyteacher.cli.common import Device, IdColumn, ImageSize, TextColumn, json_line

if TYPE_CHECKING:
    from noisyteacher.labels import TeacherLabels
    from noisyteacher.pipeline.labeling import LabelingProgress

EPILOG = """
**Example:** `noisyteacher label runs/mine/student pool.csv --out labels --csv predictions.csv`

**Example:** `noisyteacher label my_teacher:logits gold.csv pool.csv --classes neg,pos --out labels`

where `my_teacher.py` in the current folder has `def logits(ids, inputs)` that returns logits, not
probabilities: an array (rows, classes); `numpy.log` of probabilities will do. This runs your own
code.
"""


def label(
    model: Annotated[
        str,
        typer.Argument(
            help="A saved student's folder, a Hugging Face text classifier's folder or name, or "
            "package.module:function, which is imported and run."
        ),
    ],
    sources: Annotated[
        list[Path],
        typer.Argument(
            help="Files or folders to label: .csv, .jsonl, .parquet, .npz, or image folders."
        ),
    ],
    out: Annotated[Path, typer.Option(help="Folder of the new label store.")],
    classes: Annotated[
        str | None,
        typer.Option(
            help="Class names with commas between, or a .json file with a list of them: for a "
            "function's logits, or new names for a model's classes."
        ),
    ] = None,
    csv: Annotated[
        Path | None,
        typer.Option(help="Also write a CSV file: id, label and its probability, a row each."),
    ] = None,
    k: Annotated[int | None, typer.Option(help="Classes to store per row (default: all).")] = None,
    embeddings: Annotated[
        bool, typer.Option("--embeddings", help="Store the penultimate layer too (for VID).")
    ] = False,
    view_passes: Annotated[
        int,
        typer.Option(min=0, help="Store mean and spread over so many random crops (UPS: 10)."),
    ] = 0,
    batch_size: Annotated[
        int, typer.Option(min=1, help="Examples at a time; halved where memory runs out.")
    ] = 256,
    shard_size: Annotated[
        int, typer.Option(min=1, help="Examples per shard: what a kill can cost.")
    ] = 8192,
    max_length: Annotated[
        int, typer.Option(min=1, help="Tokens per text, for Hugging Face classifiers.")
    ] = 256,
    student: Annotated[
        str | None,
        typer.Option(
            help="Where the folder holds a network of your own: package.module:name, which is "
            "imported and run."
        ),
    ] = None,
    id_column: IdColumn = None,
    text_column: TextColumn = None,
    label_column: Annotated[
        str | None,
        typer.Option(
            help="A column of true labels, which the model must not see (default: label)."
        ),
    ] = None,
    image_size: ImageSize = None,
    device: Device = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the random crops.")] = 0,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the store.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")] = False,
) -> None:
    """Label a dataset with a model, once, and store what it says.

    Finished shards wait in STORE.partial: started again after a kill, the command goes on where it
    was, and the store appears only when it is whole. Rows without ids are named after their file,
    pool/0, pool/1, ..., as `distill` names them.
    """
    from noisyteacher.core.machine import choose_device
    from noisyteacher.core.progress import ProgressDisplay
    from noisyteacher.labels.importers import parse_classes
    from noisyteacher.pipeline import FileOptions, read_examples
    from noisyteacher.pipeline.defaults import import_network
    from noisyteacher.pipeline.labeling import label_files, open_teacher

    teacher = open_teacher(
        model,
        device=choose_device(device),
        classes=None if classes is None else list(parse_classes(classes)),
        k=k,
        embeddings=embeddings,
        view_passes=view_passes,
        max_length=max_length,
        network=None if student is None else import_network(student),
    )
    options = FileOptions(id_column, text_column, label_column, image_size)
    parts = [read_examples(source, options, labeled=False) for source in sources]
    began = time.monotonic()
    with ProgressDisplay(quiet=json) as display:

        def on_progress(now: LabelingProgress) -> None:
            display.update(
                "Labeling",
                now.done,
                now.total,
                numbers=f"{now.rate:.0f}/s",
                line=f"{now.done} of {now.total} labeled, {now.rate:.0f} a second",
                seconds_left=now.seconds_left,
            )

        labels = label_files(
            teacher,
            parts,
            out,
            settings=repr((k, embeddings, view_passes, max_length)),
            batch_size=batch_size,
            shard_size=shard_size,
            seed=seed,
            overwrite=overwrite,
            on_progress=on_progress,
            say=lambda text: None if json else typer.echo(text, err=True),
        )
    if csv is not None:
        _write_csv(labels, csv)
    summary = {
        "store": str(out),
        "rows": len(labels),
        "classes": list(labels.classes),
        "extras": sorted(labels.extras),
        "teacher": labels.teacher,
        "seconds": round(time.monotonic() - began, 2),
    }
    text = f"{len(labels)} rows, {labels.num_classes} classes, in {summary['seconds']} s: {out}"
    typer.echo(json_line(summary) if json else text)


def _write_csv(labels: TeacherLabels, path: Path) -> None:
    import io

    import pyarrow as pa
    import pyarrow.csv as pa_csv

    from noisyteacher.core.files import write_atomic

    columns = {
        "id": labels.ids,
        "label": [labels.classes[number] for number in labels.hard],
        "probability": labels.topk_prob[:, 0],
    }
    content = io.BytesIO()
    pa_csv.write_csv(pa.table(columns), content)
    write_atomic(path, content.getvalue())
