"""``noisyteacher halfspace``: the paper's theory, measured."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.box import SIMPLE_HEAD

from noisyteacher.cli.common import json_line, text_table, wide_console

if TYPE_CHECKING:
    from noisyteacher.halfspace.study import Study

EPILOG = "**Example:** `noisyteacher halfspace --smoke --out runs/halfspace-smoke`"

_DEFAULT_OUT = Path("runs/halfspace")


def halfspace(
    smoke: Annotated[bool, typer.Option("--smoke", help="Everything small: seconds.")] = False,
    out: Annotated[Path, typer.Option(help="Folder of the run.")] = _DEFAULT_OUT,
    shape: Annotated[
        list[str] | None,
        typer.Option(help="Where points lie: near-margin, ball, sphere, gaussian; repeatable."),
    ] = None,
    margin: Annotated[float | None, typer.Option(help="γ of the base point, in (0, 1].")] = None,
    epsilon: Annotated[
        float | None, typer.Option(help="ε of the base point: the error asked for.")
    ] = None,
    noise: Annotated[float | None, typer.Option(help="η of the base point, below ½.")] = None,
    runs: Annotated[int | None, typer.Option(help="Independent runs of each learner.")] = None,
    max_steps: Annotated[int | None, typer.Option(help="At most so many samples a run.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of everything random.")] = 0,
    device: Annotated[str, typer.Option(help="cpu or cuda.")] = "cpu",
    minutes: Annotated[
        float | None, typer.Option(help="Stop cleanly after so many minutes.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print the results as JSON lines.")] = False,
) -> None:
    """Measure samples to error ε against γ, ε and noise for SLaM and four rivals, and draw it.

    Fits the exponents beside the proved ones, tries the theorem's guarantee on a grid, checks when
    the population loss has the truth as its minimiser, and draws the landscape, the errors and the
    two claims of the proof. Started again in the same folder it goes on where it was.
    """
    from noisyteacher.halfspace.study import Study, smoke_study

    study = smoke_study() if smoke else Study()
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
        console.print(f"- {caveat}")
    missing = len(missing_cells(study, out))
    if missing:
        console.print(f"Stopped with {missing} cells to go: start again to go on.")
    console.print(f"Rows and pictures: {out} ({time.monotonic() - started:.0f} s)", soft_wrap=True)


def _follow(progress: Iterator[tuple[int, int, str]], quiet: bool) -> None:
    """Show each finished cell: a bar on a terminal, a line elsewhere, nothing for machines."""
    from noisyteacher.core.progress import ProgressDisplay

    with ProgressDisplay(quiet=quiet, every_line=True) as display:
        for done, total, what in progress:
            display.update("Cells", done, total, numbers=what, line=f"[{done}/{total}] {what}")
