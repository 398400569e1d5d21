"""``noisyteacher label``: bulk inference with a model of yours, into a label store."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from noisyteacher.cli.common import Device, IdColumn, ImageSize, TextColumn, json_line
from noisyteacher.core.errors import InputError, warn

if TYPE_CHECKING:
    from noisyteacher.data import Dataset
    from noisyteacher.io.classes import ClassAnswers
    from noisyteacher.labels import TeacherLabels
    from noisyteacher.pipeline.endpoint import Endpoint, EndpointTeacher, Estimate
    from noisyteacher.pipeline.labeling import LabelingProgress

EPILOG = """
**Example:** `noisyteacher label runs/mine/student pool.csv --out labels --csv predictions.csv`

**Example:** `noisyteacher label openai:gpt-4o-mini pool.csv --classes neg,pos --out labels`

**Example:** `noisyteacher label my_teacher:logits gold.csv pool.csv --classes neg,pos --out labels`

where `my_teacher.py` in the current folder has `def logits(ids, inputs)` that returns logits, not
probabilities: an array (rows, classes); `numpy.log` of probabilities will do. This runs your own
code.
"""


def label(
    model: Annotated[
        str,
        typer.Argument(
            help="A saved student's folder, a Hugging Face text classifier's folder or name, "
            "openai:MODEL at an OpenAI-compatible endpoint, or package.module:function, which is "
            "imported and run."
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
        int | None,
        typer.Option(
            min=1, help="Examples per shard: what a kill can cost (default: 8192; openai: 256)."
        ),
    ] = None,
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
    base_url: Annotated[
        str | None,
        typer.Option(
            help="openai: the endpoint up to /v1 (default: OPENAI_BASE_URL, or OpenAI's own)."
        ),
    ] = None,
    key_variable: Annotated[
        str, typer.Option(help="openai: the environment variable that holds the key.")
    ] = "OPENAI_API_KEY",
    prompt: Annotated[
        Path | None,
        typer.Option(
            exists=True,
            dir_okay=False,
            help="openai: a file with the prompt; {text}, {classes} and {examples} are filled in.",
        ),
    ] = None,
    examples: Annotated[
        Path | None,
        typer.Option(help="openai: a file of gold rows, some of which the prompt shows."),
    ] = None,
    shots: Annotated[
        int, typer.Option(min=1, help="openai: how many gold rows per class the prompt shows.")
    ] = 2,
    concurrency: Annotated[int, typer.Option(min=1, help="openai: requests at a time.")] = 8,
    requests_per_minute: Annotated[
        float | None, typer.Option(min=0.001, help="openai: at most so many (default: no limit).")
    ] = None,
    retries: Annotated[
        int, typer.Option(min=0, help="openai: how often to send a failing request again.")
    ] = 6,
    max_tokens: Annotated[
        int, typer.Option(min=1, help="openai: tokens of an answer; reasoning needs many.")
    ] = 32,
    price: Annotated[
        str | None,
        typer.Option(help="openai: prices of a million tokens in and out, as 0.15,0.60."),
    ] = None,
    estimate: Annotated[
        bool, typer.Option("--estimate", help="openai: only tell what it would take.")
    ] = False,
    allow_rejected: Annotated[
        bool,
        typer.Option(
            "--allow-rejected",
            help="openai: go on if more than a tenth of the answers name no class.",
        ),
    ] = False,
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
    from noisyteacher.pipeline.endpoint import PREFIX, PROMPT, Endpoint, EndpointTeacher
    from noisyteacher.pipeline.labeling import Teacher, label_files, open_teacher

    options = FileOptions(id_column, text_column, label_column, image_size)
    names = None if classes is None else parse_classes(classes)
    llm = None
    teacher: Teacher
    if model.startswith(PREFIX):
        endpoint = Endpoint(
            base_url=base_url,
            key_variable=key_variable,
            concurrency=concurrency,
            requests_per_minute=requests_per_minute,
            retries=retries,
            max_tokens=max_tokens,
        )
        if names is None:
            raise InputError(f"{model} needs --classes, to know what to ask for.")
        shown = [] if examples is None else _shown(read_examples(examples, options), names, shots)
        teacher = llm = EndpointTeacher(
            model.removeprefix(PREFIX),
            names,
            endpoint,
            prompt=PROMPT if prompt is None else prompt.read_text(encoding="utf-8"),
            examples=shown,
            k=k,
            allow_rejected=allow_rejected,
        )
    else:
        teacher = open_teacher(
            model,
            device=choose_device(device),
            classes=None if names is None else list(names),
            k=k,
            embeddings=embeddings,
            view_passes=view_passes,
            max_length=max_length,
            network=None if student is None else import_network(student),
        )
        if estimate or price is not None:
            raise InputError("--estimate and --price are for openai:MODEL.")
    parts = [read_examples(source, options, labeled=False) for source in sources]
    if llm is not None:
        texts = [str(text) for part in parts for text in llm.arrange(part).inputs]
        told = _estimate_in_words(llm.estimate(texts), endpoint, price)
        typer.echo(told, err=not estimate)
        if estimate:
            return
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
            shard_size=shard_size or (8192 if llm is None else 256),
            seed=seed,
            overwrite=overwrite,
            on_progress=on_progress,
            say=lambda text: None if json else typer.echo(text, err=True),
        )
    if csv is not None:
        _write_csv(labels, csv)
    if llm is not None:
        _list_rejected(llm, sum(map(len, parts)) - len(labels), out)
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


def _shown(gold: Dataset, classes: ClassAnswers, shots: int) -> list[tuple[str, str]]:
    """The first few gold rows of each class, the classes by turns."""
    from noisyteacher.io.classes import label_numbers

    numbers = label_numbers(
        [gold.classes[label] if label >= 0 else None for label in gold.y.tolist()],
        tuple(classes),
        "the examples",
    )
    names, found = tuple(classes), []
    for label, name in enumerate(names):
        rows = (numbers == label).nonzero()[0][:shots].tolist()
        found += [(turn, label, str(gold.inputs[row]), name) for turn, row in enumerate(rows)]
    return [(text, name) for _, _, text, name in sorted(found, key=lambda one: one[:2])]


def _estimate_in_words(estimate: Estimate, endpoint: Endpoint, price: str | None) -> str:
    minutes = estimate.seconds / 60
    told = (
        f"{estimate.texts} texts: about {estimate.tokens_in} tokens in and {estimate.tokens_out} "
        f"out, about {minutes:.1f} minutes with {endpoint.concurrency} requests at a time"
    )
    if price is None:
        return f"{told}."
    try:
        price_in, price_out = map(float, price.split(","))
    except ValueError:
        raise InputError(f"--price is two numbers, as in 0.15,0.60, not {price!r}.") from None
    return f"{told}, about {estimate.cost(price_in, price_out):.2f} at these prices."


def _list_rejected(llm: EndpointTeacher, without_label: int, out: Path) -> None:
    from noisyteacher.labels.importers import rejected_path
    from noisyteacher.labels.importers.llm_rows import RejectedList

    with RejectedList(rejected_path(out)) as listed:
        for number, (key, (reason, answer)) in enumerate(llm.rejected.items(), 1):
            listed.add(key, out, number, reason, answer)
        listed.commit()
    if without_label:
        warn(f"{without_label} texts have no label; {rejected_path(out)} lists those of this call.")


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
