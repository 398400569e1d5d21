"""``noisyteacher demo``: bundled digits, one distillation, and when a teacher pays off."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from noisyteacher.cli.common import (
    FROM_1,
    Html,
    Json,
    Open,
    Seed,
    json_line,
    print_text,
    say_first,
    say_next,
    text_table,
    this_command,
    verb,
    wide_console,
)

if TYPE_CHECKING:
    from noisyteacher.pipeline import Distilled
    from noisyteacher.runs import Row

EPILOG = "**Example:** `noisyteacher demo --out runs/demo`"
GOLD_ROWS = 50  # of the distillation


@verb
def demo(
    out: Path = Path("runs/demo"),
    splits: Annotated[int, FROM_1] = 10,
    seed: Seed = 0,
    html: Html = None,
    open_page: Open = False,
    json: Json = False,
) -> None:
    """Run a complete example on handwritten digits, with a naive Bayes teacher.

    The data is bundled with scikit-learn; no network is needed. The demo first runs `distill`
    with 50 gold labels and the teacher's labels of 797 other digits. Then it compares students with
    20 to 400 gold labels, on ten random splits, to show when the teacher's labels help. The page
    shows both. The same seed gives the same numbers; an interrupted demo continues when it is
    started again.

    Output:
        out: The folder for the results.

    Running:
        splits: The number of random splits behind the chart.
    """
    say_first("Training students on handwritten digits.", quiet=json)
    from noisyteacher.bench.gold_sizes import draw_gold_sizes, run_sizes
    from noisyteacher.core.machine import one_thread
    from noisyteacher.core.progress import ProgressDisplay
    from noisyteacher.report import write_run_page
    from noisyteacher.runs import RunFolder, record_command
    from noisyteacher.runs.folder import SIZES

    sizes = RunFolder(out / SIZES)
    with sizes.lock(), one_thread():
        sizes.claim({"name": "digits", "dataset": "gold rows", "seed": seed})
        done = _distill(out, seed, quiet=json)
        with ProgressDisplay(quiet=json) as display:
            rows = run_sizes(
                sizes, seed, splits, lambda done, total: display.update("Splits", done, total)
            )
        draw_gold_sizes(rows, out / "pictures" / "gold-rows")
        record_command(out, this_command())
        page = write_run_page(out, html)
    _show(done, rows, page, json)
    if open_page:
        typer.launch(str(page))


def _distill(out: Path, seed: int, quiet: bool) -> Distilled:
    """One real distillation, on the first split."""
    from noisyteacher.bench.gold_sizes import split_digits
    from noisyteacher.pipeline import Distilled, DistillSettings, gather, run_distill

    parts = split_digits(seed, 0)
    gold, test = parts.gold[:GOLD_ROWS], parts.test
    settings = DistillSettings(student="linear", seed=seed)
    task = gather(
        gold=(gold, parts.x[gold], parts.y[gold]),
        pool=(parts.pool, parts.x[parts.pool]),
        labels=parts.labels,
        test=(test, parts.x[test], parts.y[test]),
    )
    done = run_distill(task, settings, out, device="cpu", quiet=quiet)
    assert isinstance(done, Distilled)
    # Again, with digits as pictures, and with their truth, which a demo knows.
    done.comparison(truth=dict(enumerate(parts.y.tolist())), picture_shape=(8, 8)).save(out)
    return done


def _show(done: Distilled, rows: list[Row], page: Path, json: bool) -> None:
    from noisyteacher.bench.gold_sizes import sizes_table, sizes_title, sizes_verdict

    header, lines = sizes_table(rows)
    if json:
        outcome = {
            "report": str(page),
            "distill": done.student.about,
            "verdict": sizes_verdict(rows),
            "table": {"header": header, "rows": lines},
            "rows": rows,
        }
        typer.echo(json_line(outcome))
        return
    console = wide_console()
    console.print(text_table(**done.student.about["table"]))
    print_text(console, done.verdict())
    narrow = [name.replace(" ", "\n") for name in header]  # else it takes more than 80 columns
    console.print(text_table(sizes_title(rows), narrow, lines))
    print_text(console, sizes_verdict(rows))
    typer.echo(f"Page: {page}")
    say_next("noisyteacher", "distill", "--help")
