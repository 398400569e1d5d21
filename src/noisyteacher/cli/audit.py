"""``noisyteacher audit``: how good a teacher's labels are, and which method suits them."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from noisyteacher.cli.common import (
    A_FILE,
    SHARE,
    IdColumn,
    Json,
    LabelColumn,
    Open,
    Seed,
    TextColumn,
    json_line,
    say_first,
    say_next,
    verb,
    warnings_as_lines,
)
from noisyteacher.core.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np

    from noisyteacher.auditing import Gold
    from noisyteacher.data import Dataset
    from noisyteacher.labels import TeacherLabels
    from noisyteacher.pipeline import FileOptions

EPILOG = """
**Example:** `noisyteacher audit labels --gold gold.csv`

**Example:** `noisyteacher audit labels --gold gold.csv --inputs gold.csv --inputs pool.csv`
"""


@verb
def audit(
    store: Path,
    gold: Annotated[Path, A_FILE],
    pool: Path | None = None,
    trained_on: Annotated[Path | None, A_FILE] = None,
    inputs: list[str] | None = None,
    embeddings: bool = False,
    id_column: IdColumn = None,
    label_column: LabelColumn = None,
    text_column: TextColumn = None,
    lower_bound: Annotated[float, SHARE] = 0.5,
    replicates: Annotated[int, {"min": 50}] = 1000,
    seed: Seed = 0,
    html: Path | None = None,
    open_page: Open = False,
    json: Json = False,
) -> None:
    """Measure a teacher on your gold labels, before you train anything.

    The audit reports how often the teacher is right and how well calibrated it is, where its labels
    can be trusted, whether the gold examples resemble the pool, and whether the teacher may have
    been trained on them. It ends with a recommended method and the reasons for it. With --inputs or
    --embeddings, it also compares linear students with and without the teacher's labels, and gives
    the same verdict as `distill` on these files.

    Arguments:
        store: The label store that holds the teacher's labels of the gold examples. All other
            examples in it count as the pool.

    Files:
        gold: Examples with true labels that the teacher was not trained on: a .csv, .tsv, .jsonl or
            .parquet file with the columns id and label.
        pool: The label store of the pool, if it is separate.
        trained_on: Examples that the teacher may have been trained on: a file like --gold, or one
            with ids alone.
        inputs: The texts, numbers or images of the gold examples and, if you have them, of the
            pool, so that students with and without the teacher's labels can be compared as distill
            does: a file with an id column, or a folder of images. Can be given several times.
        embeddings: Use the embeddings in the label store in place of --inputs.

    Running:
        lower_bound: The lowest value that alpha may take in training.
        replicates: The number of bootstrap samples behind the intervals.

    Output:
        html: Write the audit as a page to this file.
    """
    say_first(f"Auditing the labels in {store}.", quiet=json)
    from rich.console import Console

    from noisyteacher.auditing import audit as run_audit
    from noisyteacher.auditing import read_gold
    from noisyteacher.labels import TeacherLabels
    from noisyteacher.pipeline import FileOptions
    from noisyteacher.report import write_audit_page

    if open_page and html is None:
        raise InputError("--open can only be used with --html, which names the page.")
    if embeddings and inputs:
        raise InputError("Use either --inputs or --embeddings, not both.")
    extras = ("embedding",) if embeddings else ()
    labels = TeacherLabels.open(store, extras=extras)
    read = partial(read_gold, labels=labels, id_column=id_column, label_column=label_column)
    options = FileOptions(id_column, text_column, label_column)
    status = Console(stderr=True).status(f"Auditing {len(labels)} labels")
    with warnings_as_lines(), status:
        val = read(gold)
        known = None if trained_on is None else read(trained_on, needs_labels=False)
        apart = None if pool is None else TeacherLabels.open(pool, extras=extras)
        given: dict[str, Any] = {}
        if embeddings:
            val = _usable(val, labels, labels.ids)
            given = _embeddings(labels, val, known, apart)
        elif inputs:
            found = _read_inputs(inputs, labels, options)
            val = _usable(val, labels, found[0])
            given = _inputs(labels, val, known, apart, *found)
        result = run_audit(
            labels,
            _class_names(labels, val),
            val.ids,
            pool=apart,
            gold_ids=None if known is None else known.ids,
            **given,
            lower_bound=lower_bound,
            replicates=replicates,
            seed=seed,
        )
    if html is not None:
        write_audit_page(result.to_dict(), html)
    if json:
        typer.echo(json_line(result.to_dict()))
    else:
        typer.echo(result.summary())
        if html is not None:
            typer.echo(f"Page: {html}")
        files = ("--gold", gold, "--pool", "POOL", "--labels", store)
        say_next("noisyteacher", "distill", *files, "--out", "runs/student")
    if open_page:
        typer.launch(str(html))


def _usable(gold: Gold, labels: TeacherLabels, with_inputs: np.ndarray) -> Gold:
    """Without the rows that have neither a teacher label nor an input; warns of them."""
    from noisyteacher.auditing.teacher_audit import have_teacher_label
    from noisyteacher.io.ids import are_among

    labeled = labels.has(gold.ids)
    usable = labeled | are_among(gold.ids, with_inputs)
    if usable.all():
        return gold
    have_teacher_label(gold.ids[labeled | ~usable], labels)
    return gold._replace(ids=gold.ids[usable], y=None if gold.y is None else gold.y[usable])


def _class_names(labels: TeacherLabels, gold: Gold) -> list[str]:
    # Not numbers: those are refused where classes are called by other numbers, such as 5 stars.
    return [] if gold.y is None else [labels.classes[c] for c in gold.y]


def _embeddings(
    labels: TeacherLabels, val: Gold, trained_on: Gold | None, apart: TeacherLabels | None
) -> dict[str, Any]:
    # Not those of A: a teacher tells apart what it was trained on better than anything new.
    given: dict[str, Any] = {"inputs": labels.take(val.ids).extras["embedding"]}
    pool = labels if apart is None else apart
    if "embedding" in pool.extras:
        rest = _not_gold(pool.ids, val, trained_on)
        given["pool_inputs"] = (rest, pool.take(rest).extras["embedding"])
    return given


def _read_inputs(
    places: Sequence[str], labels: TeacherLabels, options: FileOptions
) -> tuple[np.ndarray, Any, str]:
    """Ids and inputs of all files together, and what to call them."""
    import numpy as np

    from noisyteacher.io.ids import ids_like

    first = _load(places[0], options, ())
    sets = [first, *(_load(place, options, first.features) for place in places[1:])]
    where = f"the inputs {' and '.join(part.name for part in sets)}"
    if any(part.kind != first.kind for part in sets):
        kinds = ", ".join(f"{part.kind}s in {part.name}" for part in sets)
        raise InputError(f"All inputs must be of one kind, not {kinds}.")
    ids = np.concatenate([ids_like(part.ids, labels.ids, part.name) for part in sets])
    rows: Any = [row for part in sets for row in part.inputs]
    if not isinstance(first.inputs, list):
        rows = np.concatenate([np.asarray(part.inputs) for part in sets])
    return ids, rows, where


def _inputs(
    labels: TeacherLabels,
    val: Gold,
    trained_on: Gold | None,
    apart: TeacherLabels | None,
    ids: np.ndarray,
    rows: Any,
    where: str,
) -> dict[str, Any]:
    from noisyteacher.data.dataset import positions_of, take_rows

    def of(wanted: np.ndarray) -> Any:
        return take_rows(rows, positions_of(ids, wanted, where))

    rest = _not_gold(ids, val, trained_on)
    rest = rest[(labels if apart is None else apart).has(rest)]
    given = {"inputs": of(val.ids)}
    if len(rest):
        given["pool_inputs"] = (rest, of(rest))
    if trained_on is not None and len(trained_on.known.ids):
        known = trained_on.known
        given |= {"gold_inputs": of(known.ids), "gold_y": _class_names(labels, known)}
    return given


def _not_gold(ids: np.ndarray, val: Gold, trained_on: Gold | None) -> np.ndarray:
    from noisyteacher.io.ids import are_among

    gold = [val.ids] if trained_on is None else [val.ids, trained_on.ids]
    for part in gold:
        ids = ids[~are_among(ids, part)]
    return ids


def _load(place: str, options: FileOptions, features: Sequence[str]) -> Dataset:
    """A file as `distill` reads it; a folder, or a name in the data folder, as `bench` does."""
    from noisyteacher.data import load_dataset
    from noisyteacher.pipeline import read_examples

    if Path(place).is_file():
        return read_examples(place, options, labeled=False, features=features)
    # Inputs may well come without labels.
    return load_dataset(
        place,
        id_column=options.id_column,
        text_column=options.text_column,
        label_column=options.label_column,
        labeled=False,
    )
