"""``noisyteacher label``: label many examples with a model, and store its predictions."""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from noisyteacher.cli.common import (
    A_FILE,
    FROM_0,
    FROM_1,
    Device,
    IdColumn,
    ImageSize,
    Json,
    Overwrite,
    TextColumn,
    TopClasses,
    json_line,
    say_first,
    say_next,
    verb,
)
from noisyteacher.core.errors import InputError, warn

if TYPE_CHECKING:
    from noisyteacher.data import Dataset
    from noisyteacher.io.classes import ClassAnswers
    from noisyteacher.labels import TeacherLabels
    from noisyteacher.pipeline.endpoint import CostEstimate, Endpoint
    from noisyteacher.pipeline.labeling import LabelingProgress


EPILOG = """
**Example:** `noisyteacher label runs/mine/student pool.csv --out labels --csv predictions.csv`

**Example:** `noisyteacher label openai:gpt-4o-mini pool.csv --classes neg,pos --out labels`

**Example:** `noisyteacher label my_teacher:logits gold.csv pool.csv --classes neg,pos --out labels`

Here `my_teacher.py` is a file in the current folder with a function `logits(ids, inputs)` that
returns an array of shape (rows, classes). It must return logits, not probabilities; `numpy.log` of
probabilities is fine. This runs your own code.
"""


@verb
def label(
    model: str,
    sources: list[Path],
    out: Path,
    csv: Path | None = None,
    k: TopClasses = None,
    embeddings: bool = False,
    view_passes: Annotated[int, FROM_0] = 0,
    classes: str | None = None,
    id_column: IdColumn = None,
    text_column: TextColumn = None,
    label_column: str | None = None,
    image_size: ImageSize = None,
    student: str | None = None,
    max_length: Annotated[int, FROM_1] = 256,
    batch_size: Annotated[int, FROM_1] = 256,
    shard_size: Annotated[int | None, FROM_1] = None,
    device: Device = None,
    seed: Annotated[int, FROM_0] = 0,
    base_url: str | None = None,
    key_variable: str = "OPENAI_API_KEY",
    prompt: Annotated[Path | None, A_FILE] = None,
    examples: Path | None = None,
    shots: Annotated[int, FROM_1] = 2,
    concurrency: Annotated[int, FROM_1] = 8,
    requests_per_minute: Annotated[float | None, {"min": 0.001}] = None,
    retries: Annotated[int, FROM_0] = 6,
    max_tokens: Annotated[int, FROM_1] = 32,
    price: str | None = None,
    estimate: bool = False,
    allow_rejected: bool = False,
    shard: Annotated[str | None, {"metavar": "I/N"}] = None,
    ray: Annotated[str | None, {"metavar": "ADDRESS"}] = None,
    workers: Annotated[int | None, FROM_1] = None,
    gpus_per_worker: Annotated[float | None, FROM_0] = None,
    overwrite: Overwrite = False,
    json: Json = False,
) -> None:
    """Label examples with a model and store its predictions.

    Finished shards are kept in STORE.partial, so that the same command continues after an
    interruption. The store is written when all shards are finished. Rows without ids are named
    after their file, pool/0, pool/1 and so on, as `distill` names them too.

    Arguments:
        model: The folder of a saved student; the folder or name of a Hugging Face text classifier;
            openai:MODEL at an OpenAI-compatible endpoint; or package.module:function, which is
            imported and run.
        sources: The files or folders to label: .csv, .jsonl, .parquet, .npz, or image folders.

    Output:
        out: The folder of the new label store.
        csv: Also write a CSV file with the columns id, label and probability.
        embeddings: Also store the activations of the penultimate layer, which VID needs.
        view_passes: Also store the mean and the deviation of the predictions over this many random
            crops. UPS and Fidelity need them; 10 is usual.

    Columns, classes and images:
        classes: The class names, separated by commas, or a .json file with a list of them. They
            name the columns of a function's logits, or rename the classes of a model.
        label_column: A column of true labels, which is hidden from the model (default: label).

    Running:
        student: If the folder holds a network of your own: package.module:name, which is imported
            and run.
        max_length: The most tokens per text that a Hugging Face classifier reads.
        batch_size: How many examples are labeled at a time. It is halved if memory runs out.
        shard_size: How many examples are saved at a time, and can be lost if the command is killed
            (default: 8192; for openai: 256).
        seed: The random seed of the crops.

    LLM at an endpoint (openai:MODEL):
        base_url: The address of the endpoint, up to /v1 (default: OPENAI_BASE_URL, or OpenAI).
        key_variable: The environment variable that holds the API key.
        prompt: A text file with the prompt, in which {text}, {classes} and {examples} are replaced.
        examples: A file of labeled examples, some of which are shown in the prompt.
        shots: How many labeled examples of each class are shown in the prompt.
        concurrency: How many requests are sent at a time.
        requests_per_minute: The most requests that are sent per minute (default: no limit).
        retries: How often a request that failed is sent again.
        max_tokens: The most tokens in an answer. Reasoning models need many.
        price: The prices of a million input tokens and of a million output tokens, for example
            0.15,0.60.
        estimate: Estimate the tokens, the time and the cost from one request, and stop.
        allow_rejected: Continue even if more than a tenth of the answers name no class.

    Many machines:
        shard: Label only the I-th of N shares, with I from 1 to N. Start N processes, on any
            machines that share the folder of the store; the last one to end writes the store.
        ray: Label with the workers of a Ray cluster: its address, auto for the cluster that this
            machine belongs to, or local to start one on this machine.
        workers: How many Ray workers to start (default: as many as the cluster has room for).
        gpus_per_worker: How many GPUs each Ray worker has, for example 0.5 (default: 1, or none in
            a cluster without GPUs).
    """
    say_first(f"Loading {model}.", quiet=json)
    from noisyteacher.core.progress import ProgressDisplay
    from noisyteacher.labels import TeacherLabels
    from noisyteacher.labels.importers import parse_classes, rejected_path
    from noisyteacher.pipeline import FileOptions, read_examples
    from noisyteacher.pipeline.defaults import import_network
    from noisyteacher.pipeline.endpoint import PREFIX, PROMPT, Endpoint, EndpointTeacher
    from noisyteacher.pipeline.labeling import label_files
    from noisyteacher.pipeline.ray_labeling import RayWorkers
    from noisyteacher.pipeline.teachers import Teacher, open_teacher

    if ray is None and (workers is not None or gpus_per_worker is not None):
        raise InputError("--workers and --gpus-per-worker can only be used with --ray.")
    if ray is not None and shard is not None:
        raise InputError("--ray and --shard are two ways to label with many machines; choose one.")
    share = None if shard is None else _share(shard)
    options = FileOptions(id_column, text_column, label_column, image_size)
    names = None if classes is None else parse_classes(classes)
    llm = runner = None
    teacher: Teacher
    if model.startswith(PREFIX):
        if ray is not None:
            raise InputError(
                f"--ray cannot be used with {model}; use --concurrency to send several requests "
                "at a time."
            )
        endpoint = Endpoint(
            base_url, key_variable, concurrency, requests_per_minute, retries, max_tokens=max_tokens
        )
        if names is None:
            raise InputError(f"{model} needs --classes, which names the answers to ask for.")
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
        open_model = partial(
            open_teacher,
            model,
            classes=None if names is None else list(names),
            k=k,
            embeddings=embeddings,
            view_passes=view_passes,
            max_length=max_length,
            network=None if student is None else import_network(student),
        )
        # With Ray, this process only takes the model's fingerprint.
        teacher = open_model(device=device if ray is None else "cpu")
        if estimate or price is not None:
            raise InputError("--estimate and --price can only be used with openai:MODEL.")
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

        def say(text: str) -> None:
            if not json:
                typer.echo(text, err=True)

        if ray is not None:
            in_worker = partial(open_model, device=device)
            runner = RayWorkers(in_worker, ray, workers=workers, gpus=gpus_per_worker, say=say)
        made = label_files(
            teacher,
            parts,
            out,
            settings=repr((k, embeddings, view_passes, max_length)),
            batch_size=batch_size,
            shard_size=shard_size or (8192 if llm is None else 256),
            seed=seed,
            overwrite=overwrite,
            share=share,
            runner=runner,
            on_progress=on_progress,
            say=say,
        )
    seconds = round(time.monotonic() - began, 2)
    if made is None:
        if json:
            typer.echo(json_line({"store": str(out), "share": shard, "seconds": seconds}))
        return
    without_label = sum(map(len, parts)) - made.rows
    if without_label:
        warn(f"{without_label} rows have no label; {rejected_path(out)} lists the reasons.")
    if csv is not None:
        _write_csv(TeacherLabels.open(out, extras=()), csv)
    if json:
        summary = {"store": str(out), "rows": made.rows, "classes": list(made.classes)}
        summary |= {"extras": sorted(made.extras), "teacher": made.teacher, "seconds": seconds}
        typer.echo(json_line(summary))
        return
    typer.echo(f"{made.rows} rows, {len(made.classes)} classes, in {seconds} s: {out}")
    say_next("noisyteacher", "audit", out, "--gold", "GOLD")


def _share(text: str) -> tuple[int, int]:
    index, _, count = text.partition("/")
    try:
        return int(index), int(count)
    except ValueError:
        raise InputError(f"--shard must have the form I/N, as in 1/4, not {text!r}.") from None


def _shown(gold: Dataset, classes: ClassAnswers, shots: int) -> list[tuple[str, str]]:
    """The first few gold rows of each class, with the classes in alternation."""
    from noisyteacher.io.classes import by_class_label, label_numbers

    labels = [gold.classes[label] if label >= 0 else None for label in gold.y.tolist()]
    labels = by_class_label(labels, gold.class_label, tuple(classes))
    numbers = label_numbers(labels, tuple(classes), "the examples")
    rows = [(numbers == label).nonzero()[0].tolist() for label in range(len(classes))]
    return [
        (str(gold.inputs[of_class[turn]]), name)
        for turn in range(shots)
        for name, of_class in zip(classes, rows, strict=True)
        if turn < len(of_class)
    ]


def _estimate_in_words(estimate: CostEstimate, endpoint: Endpoint, price: str | None) -> str:
    told = (
        f"{estimate.texts} texts: about {estimate.tokens_in} tokens in and {estimate.tokens_out} "
        f"out, about {estimate.seconds / 60:.1f} minutes with {endpoint.concurrency} requests at "
        "a time"
    )
    if price is None:
        return f"{told}."
    try:
        price_in, price_out = map(float, price.split(","))
    except ValueError:
        raise InputError(
            f"--price takes two numbers, for example 0.15,0.60, not {price!r}."
        ) from None
    return f"{told}, about {estimate.cost(price_in, price_out):.2f} at these prices."


def _write_csv(labels: TeacherLabels, path: Path) -> None:
    from noisyteacher.core.files import write_atomic
    from noisyteacher.io.user_tables import csv_bytes

    columns = {
        "id": labels.ids.tolist(),
        "label": [labels.classes[number] for number in labels.hard],
        "probability": labels.topk_prob[:, 0],
    }
    write_atomic(path, csv_bytes(columns))
