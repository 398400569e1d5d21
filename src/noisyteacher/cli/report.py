"""``noisyteacher report``: a run, a distillation or an audit as one HTML page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from noisyteacher.cli.common import OUTPUT, Json, Open, json_line, option
from noisyteacher.core.errors import InputError

EPILOG = "**Examples:** `noisyteacher report runs/demo` · `noisyteacher report runs/demo --watch`"


def report(
    run: Annotated[
        Path,
        typer.Argument(
            help="Folder of a demo, bench or distill run, or a file with the JSON of an audit."
        ),
    ],
    watch: Annotated[
        bool,
        typer.Option("--watch", help="Serve the page and update it while the run continues."),
    ] = False,
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
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="The port for --watch; 0 picks a free one.")
    ] = 0,
    json: Json = False,
) -> None:
    """Write the page of a run or an audit: one HTML file that needs no network.

    Interactive charts need `pip install noisyteacher[report]`; without it the page has tables and
    pictures. With --watch the page is served to this machine's browser only, until Ctrl-C.
    """
    if watch:
        from noisyteacher.report.watch import watch as serve

        if html is not None or json:
            raise InputError("--watch writes no file: leave out --html and --json.")
        serve(run, port, typer.echo, open_page=open_page)
        return
    from noisyteacher.report import write_run_page

    page = write_run_page(run, html)
    typer.echo(json_line({"report": str(page)}) if json else f"Page: {page}")
    if open_page:
        typer.launch(str(page))
