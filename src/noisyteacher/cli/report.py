"""``noisyteacher report``: a run, a distillation or an audit as one HTML page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from noisyteacher.cli.common import json_line
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
        bool, typer.Option("--watch", help="Serve the page here, and refresh it as the run goes.")
    ] = False,
    out: Annotated[
        Path | None, typer.Option(help="The page: report.html in the folder, unless given.")
    ] = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="With --watch; 0: any free one.")] = 0,
    json: Annotated[bool, typer.Option("--json", help="Print the page's place as JSON.")] = False,
) -> None:
    """Write one HTML file that needs no network: tables, charts, and a search of disagreements.

    Charts need `pip install noisyteacher[report]`; without it a run's page has tables and pictures.
    With --watch the page is served to this machine's browser alone, until Ctrl-C.
    """
    if watch:
        from noisyteacher.report.watch import watch as serve

        if out is not None or json:
            raise InputError("--watch writes no file; leave out --out and --json.")
        serve(run, port, typer.echo)
        return
    from noisyteacher.report import write_run_page

    page = write_run_page(run, out)
    typer.echo(json_line({"report": str(page)}) if json else f"Page: {page}")
