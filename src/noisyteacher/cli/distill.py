"""``noisyteacher distill``: your gold file, your pool and your teacher's labels to a student."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from noisyteacher.cli.common import (
    Device,
    IdColumn,
    ImageSize,
    LabelColumn,
    TextColumn,
    json_line,
    text_table,
    this_command,
    warnings_as_lines,
    wide_console,
)
from noisyteacher.core.errors import InputError

if TYPE_CHECKING:
    from rich.table import Table

    from noisyteacher.pipeline import CrossFitted, Distilled
    from noisyteacher.pipeline.task import Task

EPILOG = """
**Example:** `noisyteacher distill --gold gold.csv --pool pool.csv --labels labels --out runs/mine`

**Example:** `noisyteacher distill --gold gold/ --pool pool/ --labels labels --student resnet20
--compare --out runs/images`
"""


def distill(
    gold: Annotated[
        Path,
        typer.Option(
            help="Examples with true labels: a .csv, .jsonl or .parquet file with the columns id, "
            "text (or numbers: a table) and label; or a folder with one folder of images per class."
        ),
    ],
    pool: Annotated[
        Path, typer.Option(help="Examples without labels, of the same kind; labels are ignored.")
    ],
    labels: Annotated[
        list[Path],
        typer.Option(
            help="What the teacher said of the pool and of the gold (or --val) examples: a label "
            "store, or probabilities (.npy in the order gold, pool; .csv, .tsv or .parquet with "
            "ids). Repeatable."
        ),
    ],
    out: Annotated[Path, typer.Option(help="Folder of the run; the student comes into student/.")],
    val: Annotated[
        Path | None,
        typer.Option(
            help="V: labeled examples that the teacher never saw. Give it if the teacher was "
            "trained on gold examples; then only V measures it."
        ),
    ] = None,
    selection: Annotated[
        Path | None,
        typer.Option(
            help="S: labeled examples that judge students and are never trained on (default: folds "
            "of the gold examples; for networks, a part of them)."
        ),
    ] = None,
    teacher_saw_gold: Annotated[
        bool,
        typer.Option(
            "--teacher-saw-gold", help="The teacher was trained on gold examples; needs --val."
        ),
    ] = False,
    test: Annotated[
        Path | None, typer.Option(help="Labeled examples for a last word; they choose nothing.")
    ] = None,
    student: Annotated[
        str,
        typer.Option(
            help="auto; linear or mlp (text, tables); embeddings, with an encoder (text); "
            "resnet20, resnet56, ... (images), resnet18 or resnet50 (photographs), mobilenet; for "
            "text, a Hugging Face encoder's name or folder; or package.module:name, a network of "
            "your own, which is imported and run."
        ),
    ] = "auto",
    method: Annotated[
        list[str] | None,
        typer.Option(
            help="Try this method, such as 'SLaM(hard=True)', not the defaults; one of your own as "
            "'my_losses:MyLoss(beta=2)'."
        ),
    ] = None,
    compare: Annotated[
        bool, typer.Option("--compare", help="Also train vanilla, teacher-free and other rivals.")
    ] = False,
    quick: Annotated[
        bool, typer.Option("--quick", help="Only gold labels and the method the audit recommends.")
    ] = False,
    generations: Annotated[
        int, typer.Option(min=1, help="2: the students label the pool anew and teach once more.")
    ] = 1,
    encoder: Annotated[
        str | None,
        typer.Option(help="The frozen encoder of the student embeddings: a folder or a name."),
    ] = None,
    folds: Annotated[
        int, typer.Option(min=2, help="Folds of the gold examples that judge linear students.")
    ] = 5,
    metric: Annotated[
        str, typer.Option(help="What judges linear students: accuracy or macro_f1.")
    ] = "accuracy",
    epochs: Annotated[
        int | None, typer.Option(min=1, help="Epochs of each student (default: by kind of data).")
    ] = None,
    classes: Annotated[
        str | None,
        typer.Option(
            help="Class names of .npy probabilities, with commas between, or a .json file with a "
            "list of them."
        ),
    ] = None,
    logits: Annotated[
        bool, typer.Option("--logits", help="The numbers in a --labels file are logits.")
    ] = False,
    id_column: IdColumn = None,
    text_column: TextColumn = None,
    label_column: LabelColumn = None,
    image_size: ImageSize = None,
    flip: Annotated[
        bool, typer.Option(help="Whether images may be mirrored (not so for digits or letters).")
    ] = True,
    device: Device = None,
    minutes: Annotated[
        float | None, typer.Option(min=0, help="Stop cleanly after so many minutes.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of everything random.")] = 0,
    json: Annotated[bool, typer.Option("--json", help="Print the outcome as JSON.")] = False,
) -> None:
    """Train a student on your gold labels and your teacher's labels of the pool.

    Students of gold labels alone are always trained too, and the verdict says whether the teacher
    was worth it. Linear students (texts by default) are blended; all gold examples judge them in
    folds. Networks are judged on S, split off the gold examples unless given, and the best is
    kept. Started again with the same files, the run goes on where it was.
    """
    from noisyteacher.labels.importers import parse_classes
    from noisyteacher.methods import import_method
    from noisyteacher.pipeline import DistillSettings, FileOptions, gather, run_distill
    from noisyteacher.pipeline.defaults import named_student

    if teacher_saw_gold and val is None:
        raise InputError(
            "A teacher that was trained on the gold examples cannot be measured on them: give "
            "--val with labeled examples that it never saw."
        )
    say = _quiet if json else _say
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
        seed=seed,
    )
    with warnings_as_lines() as notes:
        task = gather(
            gold=gold,
            pool=pool,
            labels=list(labels),
            val=val,
            selection=selection,
            test=test,
            classes=None if classes is None else list(parse_classes(classes)),
            logits=logits,
            files=FileOptions(id_column, text_column, label_column, image_size),
            settings=settings,
        )
        say(_sizes_in_words(task))
        done = run_distill(task, settings, out, device=device, minutes=minutes, say=say, quiet=json)
    _show(done, out, notes, json)


def _show(done: Distilled | CrossFitted, out: Path, notes: list[str], json: bool) -> None:
    if not done.finished:
        names = [outcome.candidate.name for outcome in getattr(done, "outcomes", ())]
        text = f"Time is up: {len(names)} students are trained. "
        text += "Start the same command again to go on."
        typer.echo(json_line({"finished": False, "trained": names}) if json else text)
        return
    page = _write_report(done, out, notes)
    if json:
        outcome = {"student": str(out / "student"), "report": str(page), "notes": notes}
        typer.echo(json_line(outcome | done.student.about))
        return
    console = wide_console()
    console.print(_table(done))
    console.print(done.verdict(), soft_wrap=True, highlight=False, markup=False)
    console.print(
        f"Student: {out / 'student'}   Card: {out / 'student' / 'README.md'}   Report: {page}",
        soft_wrap=True,
        highlight=False,
        markup=False,
    )


def _write_report(done: Distilled | CrossFitted, out: Path, notes: list[str]) -> Path:
    from noisyteacher.bench.figures import draw_alpha_curve
    from noisyteacher.report import write_run_page
    from noisyteacher.runs import record_command

    task = done.task
    if done.noise is not None:
        rows = done.measured_on
        rows = rows[task.labels.has(task.ids[rows])]
        stem = out / "pictures" / "alpha"
        draw_alpha_curve(done.noise, task.labels.take(task.ids[rows]), task.y[rows], stem)
    record_command(out, this_command(), [_sizes_in_words(task), *notes])
    return write_run_page(out)


def _table(done: Distilled | CrossFitted) -> Table:
    told = done.student.about["table"]
    return text_table(told["title"], told["header"], told["rows"])


def _sizes_in_words(task: Task) -> str:
    from noisyteacher.pipeline.card import sizes_in_words

    measured = "V" if len(task.split.val) else "the gold examples"
    return (
        f"{sizes_in_words(task.sizes)}, {len(task.classes)} classes; the teacher is right on "
        f"{task.teacher_accuracy:.1f} % of {measured}."
    )


def _say(text: str) -> None:
    typer.echo(text, err=True)


def _quiet(text: str) -> None:
    pass
