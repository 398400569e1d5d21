"""``noisyteacher demo``: the whole way of the data on bundled digits, in about a minute."""

from __future__ import annotations

from pathlib import Path

import typer

EPILOG = """
**Example**

`noisyteacher demo --trials 5 --out runs/demo`
"""


def demo(
    seed: int = typer.Option(0, help="Seed of everything random; the same seed, the same numbers."),
    trials: int = typer.Option(5, min=1, help="Fresh splits of V, S and pool to average over."),
    out: Path = typer.Option(Path("runs/demo"), help="Folder of the run; started again, it goes on."),
    json: bool = typer.Option(False, "--json", help="Print the results rows as JSON lines."),
) -> None:
    """Split digits, train a teacher, store its labels, fit its noise, train students, compare.

    No network is needed. A small teacher is trained on a few gold digits and is wrong often; its
    stored labels train students with and without a model of that noise. The table shows whatever
    came out, with gold only beside it.
    """
    from noisyteacher.bench.demo import run_demo

    run_demo(out, seed=seed, trials=trials, as_json=json)
