"""``noisyteacher audit``: is this teacher worth it, how noisy is it, and what to do about it."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from noisyteacher.cli.common import IdColumn, LabelColumn, TextColumn, warnings_as_lines
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
            exists=True, file_okay=False, help="Label store with V's rows; the others are the pool."
        ),
    ],
    gold: Annotated[
        Path,
        typer.Option(
            exists=True,
            dir_okay=False,
            help="V: a .csv, .tsv, .jsonl or .parquet table with the columns id and label.",
        ),
    ],
    pool: Annotated[
        Path | None,
        typer.Option(
            exists=True, file_okay=False, help="Label store of the pool, if it is kept apart."
        ),
    ] = None,
    trained_on: Annotated[
        Path | None,
        typer.Option(
            exists=True,
            dir_okay=False,
            help="A, which the teacher may have been trained on: a table like V's, or ids alone.",
        ),
    ] = None,
    inputs: Annotated[
        str | None,
        typer.Option(
            help="Inputs of V (and A), to compare the teacher with a model of the gold labels "
            "alone: a table with an id column and text or numbers, or a folder of images."
        ),
    ] = None,
    embeddings: Annotated[
        bool, typer.Option("--embeddings", help="Use the label store's embeddings as inputs.")
    ] = False,
    id_column: IdColumn = None,
    label_column: LabelColumn = None,
    text_column: TextColumn = None,
    lower_bound: Annotated[
        float, typer.Option(min=0, max=1, help="Lower bound of alpha in training.")
    ] = 0.5,
    replicates: Annotated[int, typer.Option(min=50, help="Bootstrap replicates.")] = 1000,
    seed: Annotated[int, typer.Option(help="Random seed.")] = 0,
    json: Annotated[bool, typer.Option("--json", help="Print the whole audit as JSON.")] = False,
) -> None:
    """Measure a teacher on a few gold labels, before anyone trains anything.

    Reports how good and how well calibrated the teacher is, how far its labels can be trusted and
    where, whether V is like the pool and unknown to the teacher, and a method with the reasons for
    it; also when the labels are better left alone. With inputs, or embeddings, a model of the gold
    labels alone is compared with the teacher.
    """
    import orjson
    from rich.console import Console

    from noisyteacher.auditing import audit as run_audit
    from noisyteacher.auditing import read_gold
    from noisyteacher.labels import TeacherLabels
    from noisyteacher.pipeline import FileOptions

    if embeddings and inputs is not None:
        raise InputError("--inputs and --embeddings exclude each other.")
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
    typer.echo(orjson.dumps(result.to_dict()).decode() if json else result.summary())


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
