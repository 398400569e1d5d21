"""``noisyteacher distill``: train a student from a gold file, a pool and a teacher's labels."""

from __future__ import annotations

import shutil
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from noisyteacher.cli.common import (
    FROM_0,
    FROM_1,
    METHOD,
    Device,
    Html,
    IdColumn,
    ImageSize,
    Json,
    LabelColumn,
    Minutes,
    Open,
    Seed,
    TextColumn,
    json_line,
    print_text,
    say_first,
    say_next,
    text_table,
    this_command,
    verb,
    warnings_as_lines,
    wide_console,
)
from noisyteacher.core.errors import InputError
from noisyteacher.core.locks import rank

if TYPE_CHECKING:
    from noisyteacher.pipeline import Distilled, Unfinished
    from noisyteacher.pipeline.task import Task

EPILOG = """
**Example:** `noisyteacher distill --gold gold.csv --pool pool.csv --labels labels --out runs/mine`

**Example:** `noisyteacher distill --gold gold/ --pool pool/ --labels labels --student resnet20
--compare --out runs/images`
"""


@verb
def distill(
    gold: Path,
    pool: Path,
    labels: Annotated[list[Path], {"metavar": "<path>"}],
    out: Path,
    test: Path | None = None,
    val: Path | None = None,
    selection: Path | None = None,
    teacher_saw_gold: bool = False,
    logits: bool = False,
    student: str = "auto",
    encoder: str | None = None,
    method: Annotated[list[str] | None, METHOD] = None,
    compare: bool = False,
    quick: bool = False,
    generations: Annotated[int, FROM_1] = 1,
    folds: Annotated[int | None, FROM_1] = None,
    metric: str = "accuracy",
    epochs: Annotated[int | None, FROM_1] = None,
    flip: bool = True,
    classes: str | None = None,
    id_column: IdColumn = None,
    text_column: TextColumn = None,
    label_column: LabelColumn = None,
    image_size: ImageSize = None,
    stream: bool | None = None,
    max_memory: Annotated[float | None, FROM_0] = None,
    device: Device = None,
    minutes: Minutes = None,
    seed: Seed = 0,
    html: Html = None,
    open_page: Open = False,
    json: Json = False,
) -> None:
    """Train a student on your gold labels and on the teacher's labels of the pool.

    Students that use the gold labels alone are always trained too, and the verdict says whether the
    teacher's labels were worth using. Linear students (the default for texts) are averaged with
    weights, and compared on all gold examples by cross-validation. Networks are compared on gold
    examples that are held out; one is chosen and trained again on all gold examples. The same
    command continues a run that was stopped.

    Files:
        gold: Examples with true labels: a .csv, .tsv, .jsonl or .parquet file with the columns id,
            label, and either text or numbers; or a folder with one subfolder of images per class.
        pool: Examples of the same kind without labels. A label column in it is ignored.
        labels: The teacher's labels of the pool and of the gold (or --val) examples: a label store
            made by `import` or `label`, a .csv, .tsv or .parquet file of probabilities with ids, or
            a .npy file whose rows are the gold examples followed by the pool. Can be given several
            times.
        test: Labeled examples that are only used to measure the finished students.
        val: Labeled examples that the teacher was not trained on. They are needed if the teacher
            was trained on the gold examples; then the teacher is measured on them alone.
        selection: Labeled examples that students are compared on and never trained on. By default
            the gold examples are used, by cross-validation; for networks, a fifth is held out.

    Output:
        out: The folder of the run. The student is saved in its subfolder student/.

    Teacher:
        teacher_saw_gold: The teacher was trained on the gold examples. This requires --val.
        logits: The numbers in the --labels files are logits, not probabilities.

    Students and methods:
        student: The model to train. For texts: linear, mlp, hashed, embeddings (with --encoder), or
            the name or folder of a Hugging Face encoder. For tables: linear or mlp. For images:
            resnet20, resnet56, mobilenet; resnet18 or resnet50 for photographs; embeddings (with
            --encoder). For a network of your own: package.module:name, which is imported and run.
        encoder: The folder or name of the frozen Transformers encoder of texts or images for
            --student embeddings. For texts, TF-IDF features are added to its embeddings.
        method: Train this method instead of the default ones, for example 'SLaM(hard=True)', or one
            of your own, 'my_losses:MyLoss(beta=2)'. Can be given several times.
        compare: Also train other methods for comparison: plain distillation, methods that need no
            teacher, and the strongest alternatives.
        quick: Train only two students: one on the gold labels alone, and one with SLaM (networks:
            with the method that the audit recommends).
        generations: With 2, the first students label the pool again and teach a second generation.
            This needs --val and --selection.

    Training:
        folds: The number of folds in which gold examples are held out to compare students. The
            default is 5 for linear students, and 1 for networks, which holds out a fifth of the
            gold examples once. Every fold trains each network once more.
        metric: The score by which students are compared: accuracy or macro_f1.
        epochs: How many epochs each network is trained for. The default depends on the data.
        flip: Whether images may be mirrored during training. Use --no-flip for digits, letters and
            anything else that has a left and a right.
        stream: Read the pool in shards from disk (only texts, without --encoder). By default this
            is done if the pool needs more than --max-memory.
        max_memory: How many GB the pool may take in memory, and for networks on the device
            (default: half of the machine's memory, or 60% of the GPU's).

    Columns, classes and images:
        classes: The class names of .npy probabilities, separated by commas, or a .json file with a
            list of them.
    """
    say_first("Reading the examples and the teacher's labels.", quiet=json)
    from noisyteacher.labels.importers import parse_classes
    from noisyteacher.methods import import_method
    from noisyteacher.pipeline import DistillSettings, FileOptions, Unfinished, gather, run_distill
    from noisyteacher.pipeline.defaults import named_student
    from noisyteacher.pipeline.streamed_pool import gather_streamed, why_stream

    if teacher_saw_gold and val is None:
        raise InputError(
            "A teacher that was trained on the gold examples cannot be measured on them. Use "
            "--val to give labeled examples that it was not trained on."
        )
    tell = partial(say_first, quiet=json or rank() > 0)
    settings = DistillSettings(
        student=named_student(student),
        methods=tuple(import_method(text) for text in method or ()),
        compare=compare,
        quick=quick,
        generations=generations,
        encoder=encoder,
        folds=folds,
        metric=metric,
        epochs=epochs,
        flip=flip,
        max_memory=max_memory,
        seed=seed,
    )
    files = FileOptions(id_column, text_column, label_column, image_size)
    labeled: dict[str, Any] = {"gold": gold, "val": val, "selection": selection, "test": test}
    told = why_stream(pool, labels, settings) if stream is None else None
    with warnings_as_lines() as notes, ExitStack() as stack:
        if stream or told is not None:
            tell(told or "The pool is read in shards.")
            # Each of torchrun's processes makes its own.
            shards = out.with_name(f"{out.name}.stream{rank() or ''}")
            stack.callback(shutil.rmtree, shards, ignore_errors=True)
            task, settings = gather_streamed(
                **labeled,
                pool=pool,
                labels=labels,
                files=files,
                settings=settings,
                folder=shards,
                say=tell,
            )
        else:
            named = None if classes is None else list(parse_classes(classes))
            task = gather(
                **labeled, pool=pool, labels=labels, classes=named, logits=logits, files=files
            )
        tell(_sizes_in_words(task))
        done = run_distill(
            task, settings, out, device=device, minutes=minutes, say=tell, quiet=json
        )
    if rank() > 0:
        return
    _show(done, out, notes, html, json)
    if open_page and not isinstance(done, Unfinished):
        typer.launch(str(html or out / "report.html"))


def _show(
    done: Distilled | Unfinished, out: Path, notes: list[str], html: Path | None, json: bool
) -> None:
    from noisyteacher.pipeline import Unfinished

    if isinstance(done, Unfinished):
        count = len(done.trained)
        text = f"Time ran out; {count} {'student is' if count == 1 else 'students are'} trained. "
        text += "Run the same command again to continue."
        typer.echo(json_line({"finished": False, "trained": done.trained}) if json else text)
        return
    page = _write_report(done, out, notes, html)
    if json:
        outcome = {"student": str(out / "student"), "report": str(page), "notes": notes}
        typer.echo(json_line(outcome | done.student.about))
        return
    console = wide_console()
    console.print(text_table(**done.student.about["table"]))
    print_text(console, done.verdict())
    typer.echo(f"Student: {out / 'student'}\nPage: {page}")
    say_next("noisyteacher", "predict", out / "student", "NEW", "--out", "predictions.csv")


def _write_report(done: Distilled, out: Path, notes: list[str], html: Path | None) -> Path:
    from noisyteacher.bench.figures import draw_alpha_curve
    from noisyteacher.report import write_run_page
    from noisyteacher.runs import record_command

    task, rows = done.task, done.measured_on
    if done.noise is not None:
        stem = out / "pictures" / "alpha"
        draw_alpha_curve(done.noise, task.labels.take(task.ids[rows]), task.y[rows], stem)
    record_command(out, this_command(), [_sizes_in_words(task), *notes])
    return write_run_page(out, html)


def _sizes_in_words(task: Task) -> str:
    from noisyteacher.pipeline.card import sizes_in_words

    measured = "V" if len(task.split.val) else "the gold examples"
    return (
        f"{sizes_in_words(task.sizes)}, {len(task.classes)} classes; the teacher is right on "
        f"{task.teacher_accuracy:.1f}% of {measured}."
    )
