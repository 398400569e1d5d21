"""``noisyteacher halfspace``: the theory of the paper, tested by experiment."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.box import SIMPLE_HEAD

from noisyteacher.cli.common import (
    Json,
    Minutes,
    Seed,
    json_line,
    print_text,
    say_first,
    text_table,
    verb,
    wide_console,
)

if TYPE_CHECKING:
    from noisyteacher.halfspace.study import Study

EPILOG = "**Example:** `noisyteacher halfspace --quick --out runs/halfspace-quick`"

_DEFAULT_OUT = Path("runs/halfspace")


@verb
def halfspace(
    quick: bool = False,
    out: Path = _DEFAULT_OUT,
    shape: Annotated[list[str] | None, {"metavar": "<shape>"}] = None,
    margin: float | None = None,
    epsilon: float | None = None,
    noise: float | None = None,
    runs: int | None = None,
    max_steps: int | None = None,
    seed: Seed = 0,
    device: str = "cpu",
    minutes: Minutes = None,
    json: Json = False,
) -> None:
    """Measure how many samples SLaM and four other learners need to learn a halfspace.

    The study varies the margin γ, the target error ε and the noise rate, and compares the fitted
    exponents with the proved ones. It also tests the theorem's guarantee on a grid, checks when the
    true halfspace minimizes the population loss, and draws the figures. The same command continues
    a run that was stopped.

    Running:
        quick: Run a small version that takes seconds, to try it out.
        device: Where to compute: cpu or cuda.

    Output:
        out: The folder of the run.

    Study:
        shape: How the points are distributed: near-margin, ball, sphere or gaussian. Can be given
            several times.
        margin: The margin γ from which each sweep starts, in (0, 1].
        epsilon: The target error ε from which each sweep starts.
        noise: The noise rate η from which each sweep starts, below ½.
        runs: The number of independent runs per learner.
        max_steps: The most samples that one run may use.
    """
    say_first("Starting the halfspace study.", quiet=json)
    from noisyteacher.halfspace.study import Study, smoke_study

    study = smoke_study() if quick else Study()
    given: dict[str, Any] = {
        "shapes": tuple(shape) if shape else None,
        "margin": margin,
        "epsilon": epsilon,
        "noise": noise,
        "runs": runs,
        "guarantee_runs": runs,
        "max_steps": max_steps,
        "seed": seed,
    }
    study = replace(study, **{name: value for name, value in given.items() if value is not None})
    _run(study, out, device, math.inf if minutes is None else minutes, json)


def _run(study: Study, out: Path, device: str, minutes: float, json: bool) -> None:
    from noisyteacher.halfspace.study import load_rows, missing_cells, run_study
    from noisyteacher.halfspace.study_report import draw_all, summarize_study

    started = time.monotonic()
    _follow(run_study(study, out, device=device, until=started + 60 * minutes), quiet=json)
    rows = load_rows(out)
    summary = summarize_study(study, rows)
    draw_all(study, rows, out / "figures", device)
    if json:
        for row in [*rows, *summary.rows()]:
            typer.echo(json_line(row))
        return
    console = wide_console()
    for title, (header, lines) in summary.tables().items():
        look = {"box": SIMPLE_HEAD, "title_justify": "left"}
        console.print(text_table(title, header, lines, texts=len(header), **look))
    for caveat in summary.caveats:
        print_text(console, f"- {caveat}")
    missing = len(missing_cells(study, out))
    if missing:
        console.print(f"{missing} cells are left. Run the same command again to continue.")
    took = f"({time.monotonic() - started:.0f} s)"
    typer.echo(f"Results: {out} {took}")
    typer.echo(f"Next: open the figures in {out / 'figures'}.")


def _follow(progress: Iterator[tuple[int, int, str]], quiet: bool) -> None:
    """Show each finished cell: a bar on a terminal, a line elsewhere, nothing if quiet."""
    from noisyteacher.core.progress import ProgressDisplay

    with ProgressDisplay(quiet=quiet, every_line=True) as display:
        for done, total, what in progress:
            display.update("Cells", done, total, numbers=what, line=f"[{done}/{total}] {what}")
