"""``noisyteacher bench``: the paper's comparisons, run, planned, and made into tables."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from noisyteacher.cli.bench_recipe import (
    folder_name,
    with_models,
    with_second_generation,
    with_students,
    with_training,
)
from noisyteacher.cli.common import (
    FROM_0,
    FROM_1,
    METHOD,
    Device,
    Html,
    Json,
    Minutes,
    Open,
    json_line,
    print_text,
    results_table,
    say_first,
    say_next,
    this_command,
    verb,
    wide_console,
)
from noisyteacher.core.errors import InputError
from noisyteacher.core.locks import rank

if TYPE_CHECKING:
    from noisyteacher.bench import Recipe
    from noisyteacher.bench.plan import RunPlan

EPILOG = """
**Example:** `noisyteacher bench digits --quick`

**Example:** `noisyteacher bench cifar100 --labeled 5000 --epochs 60 --trials 1 --data DIR`

**Example:** `noisyteacher bench tables results/*.jsonl --out results`
"""

_TABLES = "tables"


@verb
def bench(
    recipe: str,
    files: list[Path] | None = None,
    labeled: str | None = None,
    method: Annotated[list[str] | None, METHOD] = None,
    trials: Annotated[int | None, FROM_1] = None,
    tune: Annotated[int | None, {"min": 1, "metavar": "<labeled>"}] = None,
    student: str | None = None,
    second_generation: str | None = None,
    first: str = "Consistency(SLaM())",
    first_students: Annotated[int, FROM_1] = 2,
    teacher: str | None = None,
    labels: Path | None = None,
    teacher_epochs: Annotated[int | None, FROM_1] = None,
    gold_weight_decay: Annotated[float | None, FROM_0] = None,
    epochs: Annotated[int | None, FROM_1] = None,
    pretrain_epochs: Annotated[int | None, FROM_0] = None,
    batch_size: Annotated[int | None, FROM_1] = None,
    lr: float | None = None,
    weight_decay: Annotated[float | None, FROM_0] = None,
    gold_repeat: Annotated[int | None, FROM_1] = None,
    data: Path | None = None,
    cache: Path | None = None,
    quick: bool = False,
    plan: bool = False,
    minutes: Minutes = None,
    device: Device = None,
    cohort: Annotated[int, FROM_1] = 8,
    seed: Annotated[int | None, FROM_0] = None,
    track: str | None = None,
    allow_dirty: bool = False,
    out: Path | None = None,
    html: Html = None,
    open_page: Open = False,
    json: Json = False,
) -> None:
    """Run one of the paper's experiments: train a teacher, store its labels, and train students.

    Each finished student is one row of the results. Settings that have no column there, such as
    another student, become part of the recipe's name. The same command continues a run that was
    stopped. `noisyteacher bench tables FILES --out DIR` makes tables and figures from results
    files.

    Arguments:
        recipe: The name of a recipe, or `tables` to make tables from results.
        files: With `tables`: the results.jsonl files to read.

    Students and methods:
        labeled: The numbers of labeled examples to run, separated by commas, for example 5000,7500.
        method: A method to train, for example 'SLaM()' or 'my_losses:MyLoss(beta=2)'; the name of a
            set of methods, for example rivals; or several of these separated by semicolons. Can be
            given several times.
        trials: The number of random splits to average over.
        tune: Choose the settings of every method that has a grid on the selection set, with this
            number of labeled examples and at most four settings each, and use the best ones for all
            numbers of labeled examples and all trials.
        student: The model to train, for example 'ResNetCifar(depth=20)', the folder of an encoder,
            or package.module:name for a network of your own, which is imported and run.
        second_generation: Methods that are trained on the labels of finished students, separated by
            semicolons.
        first: With --second-generation: the method of the students that provide the labels.
        first_students: With --second-generation: how many students provide the labels.

    Teacher:
        teacher: The model of the teacher, in the same form as --student.
        labels: A label store to use in place of the labels of a trained teacher.
        teacher_epochs: How many epochs the teacher is trained for.
        gold_weight_decay: The weight decay of the teacher and of pre-training (decoupled for Adam).

    Training:
        epochs: How many epochs the students are trained for. The learning-rate schedule is scaled
            to match.
        pretrain_epochs: How many epochs the student is pre-trained on the labeled examples. With 0,
            students start from random weights.
        batch_size: The batch size of all models. For Adam, the learning rate is scaled with its
            square root.
        lr: The peak learning rate of the students.
        weight_decay: The weight decay of the students (decoupled for Adam).
        gold_repeat: How often each gold example is shown for every time that a pool example is
            shown.

    Files:
        data: The folder of the data set, or the folder that holds it (default: NOISYTEACHER_DATA).
        cache: The folder in which decoded images are kept.

    Running:
        quick: Run a tiny version that takes seconds, to test the set-up. Its numbers mean nothing.
        plan: Show what would run and for how long, and run nothing.
        cohort: How many students share a GPU at a time.
        seed: The random seed (default: the one of the recipe).
        track: Where to log the training curves: tensorboard, wandb or mlflow, separated by commas.
        allow_dirty: Run even if the source of this package has uncommitted changes.

    Output:
        out: The folder of the run (default: runs/RECIPE).
    """
    say_first(f"Preparing {recipe}.", quiet=json or rank() > 0)
    if recipe == _TABLES:
        from noisyteacher.bench.publish import publish, read_files

        for path in publish(read_files(files or []), out or Path("results")):
            typer.echo(json_line({"file": str(path)}) if json else str(path))
        return
    if files:
        raise InputError(f"Unexpected argument {str(files[0])!r}: only `bench tables` takes files.")
    chosen = with_models(recipe, teacher, student, quick)
    chosen = with_students(chosen, labeled, ";".join(method or ()), trials).with_student(
        epochs, gold_repeat
    )
    chosen = with_training(chosen, teacher_epochs, pretrain_epochs, batch_size, lr, seed)
    if weight_decay is not None:
        chosen = chosen.with_weight_decay(weight_decay)
    if gold_weight_decay is not None:
        chosen = chosen.with_gold_weight_decay(gold_weight_decay)
    if second_generation is not None:
        chosen = with_second_generation(chosen, second_generation, first, first_students)
    if labels is not None:
        chosen = chosen.variant(f"labels={labels.resolve().name}")
    options: dict[str, Any] = {
        "data": data,
        "cache": cache,
        "labels": labels,
        "device": device,
        "minutes": minutes,
        "cohort": cohort,
        "trackers": tuple(track.split(",")) if track else (),
        "quiet": json,
    }
    folder = out or Path("runs") / folder_name(chosen.name)
    if plan:
        _show_plan(chosen, tune, folder, options, json)
        return
    if not quick and not allow_dirty:
        _refuse_uncommitted_source()
    _run(chosen, tune, folder, options, html, open_page, json)


def _refuse_uncommitted_source() -> None:
    from noisyteacher.core.machine import source_is_committed

    if not source_is_committed():
        raise InputError(
            "The source of noisyteacher has uncommitted changes, so the results could not be "
            "reproduced from a commit. Commit the changes, or add --allow-dirty."
        )


def _run(
    recipe: Recipe,
    tune: int | None,
    folder: Path,
    options: dict[str, Any],
    html: Path | None,
    open_page: bool,
    json: bool,
) -> None:
    from noisyteacher.bench import run_recipe
    from noisyteacher.bench.bench_verdict import bench_verdict
    from noisyteacher.bench.plan import missing_students, stopped_students
    from noisyteacher.bench.result_lines import lines
    from noisyteacher.bench.tuning import tune_recipe
    from noisyteacher.report import write_run_page
    from noisyteacher.runs import record_command

    notes: list[str] = []
    if tune is not None:
        began = time.monotonic()
        tuning = tune_recipe(recipe, tune, folder, **options)
        if tuning.recipe is None:
            if rank() == 0 and not json:
                typer.echo(
                    "Not all settings have been tried yet. Run the same command to continue."
                )
            return
        recipe, notes = tuning.recipe, [str(method) for method in tuning.methods]
        if options["minutes"] is not None:
            left = options["minutes"] - (time.monotonic() - began) / 60
            options["minutes"] = max(left, 1e-6)
    rows = run_recipe(recipe, folder, **options)
    if rank() > 0:
        return
    if rows:
        record_command(folder, this_command(), notes)
        page = write_run_page(folder, html)
        if open_page:
            typer.launch(str(page))
    if json:
        for row in rows:
            typer.echo(json_line(row))
        return
    console = wide_console()
    for note in notes:
        print_text(console, note)
    if rows:
        console.print(results_table(rows))
        print_text(console, bench_verdict(lines(rows)))
    stopped = stopped_students(recipe, rows, folder)
    for name, reason in stopped.items():
        print_text(console, f"{name} has no result, because {reason}.")
    missing = len(missing_students(recipe, rows)) - len(stopped)
    if missing:
        console.print(f"{missing} students are not finished. Run the same command to continue.")
    typer.echo(f"Results: {folder}")
    if rows:
        typer.echo(f"Page: {page}")
        rows_file = folder / "results.jsonl"
        say_next("noisyteacher", "bench", "tables", rows_file, "--out", folder / "tables")


def _show_plan(
    recipe: Recipe, tune: int | None, folder: Path, options: dict[str, Any], json: bool
) -> None:
    from noisyteacher.bench.bench_run import RunOptions
    from noisyteacher.bench.plan import make_plan
    from noisyteacher.bench.tuning import read_tuning, recipe_of_grids

    if tune is not None:
        recipe = read_tuning(recipe, tune, folder).recipe or recipe_of_grids(recipe, tune) or recipe
    made = make_plan(recipe, folder, RunOptions(**options))
    if rank() > 0:
        return
    if json:
        typer.echo(json_line(made.as_json()))
        return
    wide_console().print(_plan_table(made))
    typer.echo(f"About {_duration(made.seconds)} in all; {made.done} students are finished.")
    typer.echo(f"Estimated from {made.source}.")
    typer.echo("Next: run the same command without --plan.")


def _plan_table(plan: RunPlan) -> Any:
    from rich.table import Table

    table = Table(title=f"{plan.recipe}: what would run")
    for name in ("labeled", "what", "students", "steps each", "passes", "about"):
        table.add_column(name, justify="left" if name == "what" else "right")
    for stage in plan.stages:
        numbers = [str(stage.students), f"{stage.steps:,}", str(stage.passes)]
        table.add_row(str(stage.labeled), stage.what, *numbers, _duration(stage.seconds))
    return table


def _duration(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
