"""``noisyteacher bench``: the paper's comparisons, run, planned, and made into tables."""

from __future__ import annotations

import math
import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from noisyteacher.cli.common import Device, json_line, results_table, this_command, wide_console
from noisyteacher.core.errors import InputError

if TYPE_CHECKING:
    from noisyteacher.bench import Recipe
    from noisyteacher.bench.plan import RunPlan

EPILOG = (
    "**Examples:** `noisyteacher bench digits --smoke` · "
    "`noisyteacher bench cifar100 --labeled 5000 --epochs 60 --trials 1 --data DIR` · "
    "`noisyteacher bench tables results/*.jsonl --out results`"
)

_TABLES = "tables"


def bench(
    recipe: Annotated[str, typer.Argument(help="A recipe's name, or `tables`.")],
    files: Annotated[
        list[Path] | None, typer.Argument(help="With `tables`: files of results rows.")
    ] = None,
    labeled: Annotated[str | None, typer.Option(help="Sizes of A, as in 5000,7500.")] = None,
    methods: Annotated[
        str | None,
        typer.Option(
            help='As in "SLaM();Vanilla(hard=True)"; or sets, as in "floor;rivals"; or your own, '
            'as in "my_losses:MyLoss(beta=2)".'
        ),
    ] = None,
    trials: Annotated[int | None, typer.Option(min=1, help="Splits to average over.")] = None,
    epochs: Annotated[
        int | None, typer.Option(min=1, help="Of the students; their schedule scales.")
    ] = None,
    teacher_epochs: Annotated[int | None, typer.Option(min=1, help="Of the teacher.")] = None,
    pretrain_epochs: Annotated[
        int | None, typer.Option(min=0, help="Of the student on A; 0: random weights.")
    ] = None,
    batch: Annotated[
        int | None, typer.Option(min=1, help="Batch of all; Adam's rate grows with its root.")
    ] = None,
    lr: Annotated[float | None, typer.Option(help="Peak rate of the students.")] = None,
    weight_decay: Annotated[
        float | None, typer.Option(min=0, help="Of the students; Adam's is decoupled.")
    ] = None,
    gold_weight_decay: Annotated[
        float | None,
        typer.Option(min=0, help="Of the teacher and of pre-training, in the same way."),
    ] = None,
    gold_repeat: Annotated[
        int | None,
        typer.Option(min=1, help="Gold rows come up so often for each time that pool rows do."),
    ] = None,
    student: Annotated[
        str | None,
        typer.Option(
            help='As in "ResNetCifar(depth=20)"; an encoder\'s folder; or package.module:name, a '
            "network of your own, which is imported and run."
        ),
    ] = None,
    teacher: Annotated[str | None, typer.Option(help="In the same way.")] = None,
    labels: Annotated[
        Path | None, typer.Option(help="A label store that stands in for the teacher.")
    ] = None,
    second_generation: Annotated[
        str | None, typer.Option(help="Methods that learn what finished students say.")
    ] = None,
    first: Annotated[
        str, typer.Option(help="The method of those finished students.")
    ] = "Consistency(SLaM())",
    first_students: Annotated[int, typer.Option(min=1, help="How many of them.")] = 2,
    smoke: Annotated[bool, typer.Option("--smoke", help="Everything tiny: seconds.")] = False,
    seed: Annotated[int | None, typer.Option(min=0, help="Seed of everything random.")] = None,
    data: Annotated[Path | None, typer.Option(help="Folder that holds the datasets.")] = None,
    cache: Annotated[Path | None, typer.Option(help="Folder for decoded images.")] = None,
    out: Annotated[Path | None, typer.Option(help="Folder of the run: runs/RECIPE.")] = None,
    device: Device = None,
    cohort: Annotated[int, typer.Option(min=1, help="Students that share a GPU at a time.")] = 8,
    minutes: Annotated[
        float | None, typer.Option(help="Stop cleanly after so many; start again to go on.")
    ] = None,
    track: Annotated[
        str | None, typer.Option(help="tensorboard, wandb or mlflow, divided by commas.")
    ] = None,
    allow_dirty: Annotated[
        bool,
        typer.Option(
            "--allow-dirty", help="Run even if the package's source has uncommitted changes."
        ),
    ] = False,
    plan: Annotated[
        bool, typer.Option("--plan", help="Say what would run and for how long; run nothing.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print the results as JSON lines.")] = False,
) -> None:
    """Run a recipe of the paper: teacher, stored labels, and one results row per student.

    Killed or stopped, it goes on where it was when started again with the same folder. Settings
    that a row does not tell, such as another student, join the recipe's name in the rows.
    `noisyteacher bench tables FILES --out DIR` makes tables and figures from rows alone.
    """
    if recipe == _TABLES:
        _make_tables(files or [], out or Path("results"), json)
        return
    if files:
        raise InputError(f"{str(files[0])!r} is one word too many; files belong to `bench tables`.")
    chosen = _models(recipe, teacher, student, smoke)
    chosen = _students(chosen, labeled, methods, trials).with_student(epochs, gold_repeat)
    chosen = _training(chosen, teacher_epochs, pretrain_epochs, batch, lr, seed)
    if weight_decay is not None:
        chosen = chosen.with_weight_decay(weight_decay)
    if gold_weight_decay is not None:
        chosen = chosen.with_gold_weight_decay(gold_weight_decay)
    if second_generation is not None:
        chosen = _second(chosen, second_generation, first, first_students)
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
    folder = out or Path("runs") / _folder_name(chosen.name)
    if plan:
        _show_plan(chosen, folder, options, json)
        return
    if not smoke and not allow_dirty:
        _refuse_uncommitted_source()
    _run(chosen, folder, options, json)


# -- the recipe -----------------------------------------------------------------------------------


def _models(name: str, teacher: str | None, student: str | None, smoke: bool) -> Recipe:
    from noisyteacher.bench.recipe import smoke as shrunk
    from noisyteacher.bench.recipes import find_recipe, parse_model

    models = [parse_model(text) if text else None for text in (teacher, student)]
    recipe = find_recipe(name, *models)
    for role, text in (("teacher", teacher), ("student", student)):
        if text:
            # Where an encoder lies is nobody's business but this machine's.
            told = text.strip() if "(" in text else Path(text).resolve().name
            recipe = recipe.variant(f"{role}={told}")
    return shrunk(recipe) if smoke else recipe


def _training(
    recipe: Recipe,
    teacher_epochs: int | None,
    pretrain_epochs: int | None,
    batch: int | None,
    lr: float | None,
    seed: int | None,
) -> Recipe:
    """Settings that join the recipe's name."""
    if teacher_epochs is not None:
        training = replace(recipe.teacher_training, epochs=teacher_epochs)
        recipe = recipe.variant(f"teacher_epochs={teacher_epochs}", teacher_training=training)
    if pretrain_epochs is not None:
        if recipe.pretraining is None and pretrain_epochs:
            raise InputError(f"The recipe {recipe.name!r} has no pre-training to lengthen.")
        pretraining = recipe.pretraining and replace(
            recipe.pretraining, epochs=max(pretrain_epochs, 1)
        )
        recipe = recipe.variant(
            f"pretrain_epochs={pretrain_epochs}",
            pretraining=pretraining if pretrain_epochs else None,
        )
    if batch is not None:
        recipe = recipe.with_batch(batch)
    if lr is not None:
        if not 0 < lr < math.inf:
            raise InputError(f"--lr must be a finite number above 0, not {lr}.")
        training = recipe.student_training
        optimizer = replace(training.optimizer, lr=lr)
        recipe = recipe.variant(
            f"lr={lr:g}", student_training=replace(training, optimizer=optimizer)
        )
    return recipe if seed in (None, recipe.seed) else recipe.variant(f"seed={seed}", seed=seed)


def _students(
    recipe: Recipe, labeled: str | None, methods: str | None, trials: int | None
) -> Recipe:
    """What every row tells by itself."""
    from noisyteacher.bench.method_sets import parse_methods

    changes: dict[str, Any] = {}
    if labeled is not None:
        changes["labeled"] = _sizes(labeled)
        if recipe.at_most is not None:
            # A smoke run has few rows: a real command tries out with --smoke put behind it.
            fits, small = recipe.at_most // 2, max(recipe.labeled)
            cut = (size if size <= fits else small for size in changes["labeled"])
            changes["labeled"] = tuple(dict.fromkeys(cut))
    if methods is not None:
        changes["methods"] = parse_methods(methods)
        # Arms of another weight decay are there for the methods that the recipe gives them.
        alike = (arm for arm in recipe.arms if arm.weight_decay is None)
        changes["arms"] = tuple(replace(arm, methods=None) for arm in alike)
    if trials is not None:
        changes["trials"] = trials
    return replace(recipe, **changes)


def _sizes(text: str) -> tuple[int, ...]:
    try:
        sizes = tuple(int(part.replace("_", "")) for part in text.split(",") if part.strip())
    except ValueError:
        sizes = ()
    if not sizes or min(sizes) < 1:
        raise InputError(
            f"--labeled takes sizes of A divided by commas, as 5000,7500, not {text!r}."
        )
    return tuple(dict.fromkeys(sizes))


def _second(recipe: Recipe, methods: str, first: str, students: int) -> Recipe:
    from noisyteacher.bench import Generation
    from noisyteacher.bench.method_sets import parse_methods
    from noisyteacher.methods import Consistency, SLaM, import_method

    generation = Generation(import_method(first), parse_methods(methods), students)
    usual = Generation(Consistency(SLaM()), generation.methods)
    if generation == usual:
        return replace(recipe, second=generation)
    return recipe.variant(f"first={students}x{generation.first!r}", second=generation)


def _folder_name(recipe: str) -> str:
    kept = "".join(sign if sign.isalnum() or sign in "-._=" else "-" for sign in recipe)
    return kept.strip("-")[:120]


# -- what it does ---------------------------------------------------------------------------------


def _refuse_uncommitted_source() -> None:
    from noisyteacher.core.machine import source_is_committed

    if not source_is_committed():
        raise InputError(
            "The source of noisyteacher has uncommitted changes, so that no commit could make its "
            "rows again; commit them, or add --allow-dirty."
        )


def _run(recipe: Recipe, folder: Path, options: dict[str, Any], json: bool) -> None:
    from noisyteacher.bench import run_recipe
    from noisyteacher.bench.plan import missing_students, stopped_students
    from noisyteacher.report import write_run_page
    from noisyteacher.runs import record_command

    rows = run_recipe(recipe, folder, **options)
    if not _speaks():
        return
    if rows:
        record_command(folder, this_command())
        write_run_page(folder)
    if json:
        for row in rows:
            typer.echo(json_line(row))
        return
    console = wide_console()
    if rows:
        console.print(results_table(rows))
    stopped = stopped_students(recipe, rows, folder)
    for name, reason in stopped.items():
        console.print(f"{name} gets no row: {reason}.", soft_wrap=True)
    missing = len(missing_students(recipe, rows)) - len(stopped)
    if missing:
        console.print(f"{missing} students have no row yet; the same command goes on with them.")
    console.print(f"Rows, labels, checkpoints and the page: {folder}", soft_wrap=True)


def _show_plan(recipe: Recipe, folder: Path, options: dict[str, Any], json: bool) -> None:
    from noisyteacher.bench.bench_run import RunOptions
    from noisyteacher.bench.plan import make_plan

    made = make_plan(recipe, folder, RunOptions(**options))
    if not _speaks():
        return
    if json:
        typer.echo(json_line(made.as_json()))
        return
    wide_console().print(_plan_table(made))
    typer.echo(f"About {_duration(made.seconds)} in all; {made.done} students are done already.")
    typer.echo(f"Estimated from {made.source}.")


def _speaks() -> bool:
    """Whether this process is the one of torchrun's that prints."""
    return int(os.environ.get("RANK", "0")) == 0


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


def _make_tables(files: list[Path], out: Path, json: bool) -> None:
    from noisyteacher.bench.publish import publish, read_files

    for path in publish(read_files(files), out):
        typer.echo(json_line({"file": str(path)}) if json else str(path))
