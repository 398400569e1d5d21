"""``noisyteacher demo``: the whole way of the data on bundled digits, in about a minute."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from noisyteacher.cli.common import json_line, results_table, this_command, verdict, wide_console

EPILOG = "**Example:** `noisyteacher demo --trials 5 --out runs/demo`"


def demo(
    seed: Annotated[int, typer.Option(help="Seed of everything random.")] = 0,
    trials: Annotated[int, typer.Option(min=1, help="Splits of V, S and pool.")] = 5,
    out: Annotated[Path, typer.Option(help="Folder of the run.")] = Path("runs/demo"),
    json: Annotated[bool, typer.Option("--json", help="Print the results as JSON lines.")] = False,
) -> None:
    """Split digits, train a teacher, store its labels, fit its noise, train students, compare.

    No network is needed. A teacher that saw a few gold digits is wrong often; its stored labels
    train students with and without a model of that noise, beside a student of gold labels only.
    The table shows whatever comes out. The same seed gives the same numbers; started again in the
    same folder, the run goes on where it was.
    """
    import torch

    from noisyteacher.bench import run_recipe
    from noisyteacher.bench.recipes.digits import digits
    from noisyteacher.report import write_run_page
    from noisyteacher.runs import record_command

    torch.set_num_threads(1)  # these students are too small to share among cores
    recipe = digits(seed=seed, trials=trials)
    rows = run_recipe(recipe, out, device="cpu", quiet=json, picture_shape=(8, 8))
    rows = [row for row in rows if row.trial < trials]
    record_command(out, this_command())
    page = write_run_page(out)
    if json:
        for row in rows:
            typer.echo(json_line(row))
        return
    console = wide_console()
    console.print(results_table(rows))
    console.print(verdict(rows), highlight=False)
    console.print(f"Results, labels, the α(x) picture and the page: {page}", soft_wrap=True)
