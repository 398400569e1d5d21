"""Results on the terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table

from noisyteacher.bench.results import Row
from noisyteacher.bench.tables import HEADER, cells, lines


def results_table(rows: Sequence[Row]) -> Table:
    """Test accuracy three ways, one line per method."""
    known = [row.teacher_accuracy for row in rows if row.teacher_accuracy is not None]
    teacher = f"; the teacher: {known[0]:.2f} %" if known else ""
    table = Table(title=f"Test accuracy in percent, mean ± std over n trials{teacher}")
    for i, name in enumerate(HEADER):
        table.add_column(name, justify="left" if i == 0 else "right", no_wrap=i > 0)
    for line in lines(rows):
        table.add_row(*cells(line))
    return table
