"""``noisyteacher audit``: how good a teacher's labels are, and which method suits them."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from noisyteacher.cli.common import (
    FILES,
    RUNNING,
    IdColumn,
    Json,
    LabelColumn,
    Seed,
    TextColumn,
    say_first,
    say_next,
    warnings_as_lines,
)
from noisyteacher.core.errors import InputError

if TYPE_CHECKING:
    import numpy as np

    from noisyteacher.auditing import Gold
    from noisyteacher.data import Dataset
    from noisyteacher.labels import TeacherLabels
    from noisyteacher.pipeline import FileOptions

EPILOG = """
**Example:** `noisyteacher audit labels --gold gold.csv`

**Example:** `noisyteacher audit val-labels --pool pool-labels --gold gold.csv --inputs texts.csv`
"""


def audit(
    store: Annotated[
        Path,
        typer.Argument(
            exists=True,
            file_okay=False,
            help="The label store that holds the teacher's labels of the gold examples. All other"
            " examples in it count as the pool.",
        ),
    ],
    gold: Annotated[
        Path,
        typer.Option(
            exists=True,
            dir_okay=False,
            help="Examples with true labels that the teacher was not trained on: a .csv, .tsv, "
            ".jsonl or .parquet file with the columns id and label.",
            rich_help_panel=FILES,
        ),
    ],
    pool: Annotated[
        Path | None,
        typer.Option(
            exists=True,
            file_okay=False,
            help="The label store of the pool, if it is separate.",
            rich_help_panel=FILES,
        ),
    ] = None,
    trained_on: Annotated[
        Path | None,
        typer.Option(
            exists=True,
            dir_okay=False,
            help="Examples that the teacher may have been trained on: a file like --gold, or one "
            "with ids alone.",
            rich_help_panel=FILES,
        ),
    ] = None,
    inputs: Annotated[
        str | None,
        typer.Option(
            help="The texts, numbers or images of the gold examples, so that a model trained on "
            "gold labels alone can be compared with the teacher: a file with an id column, or a "
            "folder of images.",
            rich_help_panel=FILES,
        ),
    ] = None,
    embeddings: Annotated[
        bool,
        typer.Option(
            "--embeddings",
            help="Use the embeddings in the label store in place of --inputs.",
            rich_help_panel=FILES,
        ),
    ] = False,
    id_column: IdColumn = None,
    label_column: LabelColumn = None,
    text_column: TextColumn = None,
    lower_bound: Annotated[
        float,
        typer.Option(
            min=0,
            max=1,
            help="The lowest value that alpha may take in training.",
            rich_help_panel=RUNNING,
        ),
    ] = 0.5,
    replicates: Annotated[
        int,
        typer.Option(
            min=50,
            help="The number of bootstrap samples behind the intervals.",
            rich_help_panel=RUNNING,
        ),
    ] = 1000,
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Measure a teacher on your gold labels, before you train anything.

    The audit reports how often the teacher is right and how well calibrated it is, where its labels
    can be trusted, whether the gold examples resemble the pool, and whether the teacher may have
    been trained on them. It ends with a recommended method and the reasons for it, or with the
    advice not to use these labels. With --inputs or --embeddings, it also compares the teacher with
    a model trained on the gold labels alone.
    """
    say_first(f"Auditing the labels in {store}.", quiet=json)
    import orjson
    from rich.console import Console

    from noisyteacher.auditing import audit as run_audit
    from noisyteacher.auditing import read_gold
    from noisyteacher.labels import TeacherLabels
    from noisyteacher.pipeline import FileOptions

    if embeddings and inputs is not None:
        raise InputError("Use either --inputs or --embeddings, not both.")
    labels = TeacherLabels.open(store, extras=("embedding",) if embeddings else ())
    read = partial(read_gold, labels=labels, id_column=id_column, label_column=label_column)
    options = FileOptions(id_column, text_column, label_column)
    status = Console(stderr=True).status(f"Auditing {len(labels)} labels")
    with warnings_as_lines(), status:
        val = _with_teacher_labels(read(gold), labels)
        known = None if trained_on is None else read(trained_on, needs_labels=False)
        result = run_audit(
            labels,
            _class_names(labels, val),
            val.ids,
            pool=None if pool is None else TeacherLabels.open(pool, extras=()),
            gold_ids=None if known is None else known.ids,
            **_probe_inputs(labels, val, known, inputs, embeddings, options),
            lower_bound=lower_bound,
            replicates=replicates,
            seed=seed,
        )
    if json:
        typer.echo(orjson.dumps(result.to_dict()).decode())
        return
    typer.echo(result.summary())
    files = ("--gold", gold, "--pool", "POOL", "--labels", store)
    say_next("noisyteacher", "distill", *files, "--out", "runs/student")


def _with_teacher_labels(gold: Gold, labels: TeacherLabels) -> Gold:
    from noisyteacher.auditing.teacher_audit import labeled_rows

    labeled = labeled_rows(gold.ids, labels)
    return gold._replace(ids=gold.ids[labeled], y=None if gold.y is None else gold.y[labeled])


def _class_names(labels: TeacherLabels, gold: Gold) -> list[str]:
    # Not numbers: those are refused where classes are called by other numbers, such as 5 stars.
    return [] if gold.y is None else [labels.classes[c] for c in gold.y]


def _probe_inputs(
    labels: TeacherLabels,
    val: Gold,
    trained_on: Gold | None,
    inputs: str | None,
    embeddings: bool,
    options: FileOptions,
) -> dict[str, Any]:
    if embeddings:
        # Not those of A: a teacher tells apart what it was trained on better than anything new.
        return {"inputs": labels.take(val.ids).extras["embedding"]}
    if inputs is None:
        return {}
    dataset = _load(inputs, options)
    given = {"inputs": _rows(dataset, val.ids)}
    if trained_on is not None and len(trained_on.known.ids):
        known = trained_on.known
        given |= {"gold_inputs": _rows(dataset, known.ids), "gold_y": _class_names(labels, known)}
    return given


def _load(place: str, options: FileOptions) -> Dataset:
    """A file as `distill` reads it; a folder, or a name in the data folder, as `bench` does."""
    from noisyteacher.data import load_dataset
    from noisyteacher.pipeline import read_examples

    if Path(place).is_file():
        return read_examples(place, options, labeled=False)
    # Inputs may well come without labels.
    return load_dataset(
        place,
        id_column=options.id_column,
        text_column=options.text_column,
        label_column=options.label_column,
        labeled=False,
    )


def _rows(dataset: Dataset, ids: np.ndarray) -> Any:
    from noisyteacher.data.dataset import positions_of
    from noisyteacher.io.ids import ids_like

    where = f"the inputs {dataset.name}"
    rows = positions_of(ids_like(dataset.ids, ids, where), ids, where)
    if isinstance(dataset.inputs, list):
        return [dataset.inputs[row] for row in rows]
    return dataset.inputs[rows]
