"""Options that several commands have, each described once."""

from __future__ import annotations

from typing import Annotated

import typer

IdColumn = Annotated[
    str | None, typer.Option(help="The column of ids (default: id; without one, row numbers).")
]
LabelColumn = Annotated[
    str | None, typer.Option(help="The column of true labels (default: label).")
]
TextColumn = Annotated[str | None, typer.Option(help="The column of texts (default: text).")]
ImageSize = Annotated[int | None, typer.Option(min=1, help="Side to which images are brought.")]
Device = Annotated[str | None, typer.Option(help="cpu or cuda (default: cuda if any).")]
