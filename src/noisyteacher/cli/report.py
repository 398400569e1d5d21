"""``noisyteacher report``: a run, a distillation or an audit as one HTML page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from noisyteacher.cli.common import (
    OUTPUT,
    Json,
    Open,
    json_line,
    option,
    say_first,
    say_next,
    verb,
)
from noisyteacher.core.errors import InputError

EPILOG = """
**Example:** `noisyteacher report runs/demo --open`

**Example:** `noisyteacher report runs/demo --watch`
"""


@verb
def report(
    run: Path,
    watch: bool = False,
    html: Annotated[
        Path | None,
        option(
            OUTPUT,
            "Write the page to this file (default: report.html in the folder of the run).",
            "--html",
            "--out",
        ),
    ] = None,
    open_page: Open = False,
    port: Annotated[int, {"min": 0, "max": 65535}] = 0,
    json: Json = False,
) -> None:
    """Write the page of a run or an audit: one HTML file that needs no network.

    Interactive charts need `pip install noisyteacher[report]`; without it the page has tables and
    pictures. With --watch, the page is served on this machine only, until you press Ctrl-C.

    Arguments:
        run: The folder of a demo, bench or distill run, or a file with the JSON of an audit.

    Running:
        watch: Serve the page and update it while the run continues.
        port: The port for --watch; 0 picks a free one.
    """
    if watch:
        from noisyteacher.report.watch import watch as serve

        if html is not None or json:
            raise InputError("--watch writes no file: leave out --html and --json.")
        serve(run, port, typer.echo, open_page=open_page)
        return
    say_first(f"Writing the page of {run}.", quiet=json)
    from noisyteacher.report import write_run_page

    page = write_run_page(run, html)
    if json:
        typer.echo(json_line({"report": str(page)}))
    else:
        typer.echo(f"Page: {page}")
        if not open_page:
            say_next("noisyteacher", "report", run, "--open")
    if open_page:
        typer.launch(str(page))
