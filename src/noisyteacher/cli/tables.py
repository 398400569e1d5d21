"""Results on the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from rich.table import Table

from noisyteacher.bench.results import Row
from noisyteacher.bench.tables import HEADER, Line, cells, lines, teachers


def results_table(rows: Sequence[Row]) -> Table:
    """Test accuracy three ways, one line per method; what all lines share stands in the title."""
    table_lines = lines(rows)
    texts = [cells(line) for line in table_lines]
    shared = {
        i: texts[0][i]
        for i in range(1, len(HEADER))
        if texts and HEADER[i] in ("labelled", "epochs", "n") and len({t[i] for t in texts}) == 1
    }
    table = Table(title=_title(table_lines, shared))
    for i, name in enumerate(HEADER):
        if i not in shared:
            # Names fold before numbers do.
            method = i == 0
            justify: Literal["left", "right"] = "left" if method else "right"
            table.add_column(name, justify=justify, overflow="fold", no_wrap=not method)
    for text in texts:
        table.add_row(*(value for i, value in enumerate(text) if i not in shared))
    return table


def _title(found: Sequence[Line], shared: dict[int, str]) -> str:
    parts = ["Test accuracy in percent, mean ± std"]
    parts += [f"{HEADER[i]} {value}" for i, value in shared.items()]
    known = teachers(found)
    if known:
        parts.append("teacher " + ", ".join(f"{accuracy:.2f}" for accuracy in known))
    return ", ".join(parts)


def verdict(rows: Sequence[Row]) -> str:
    """One plain sentence: how the best student with a teacher compares with gold only."""
    found = lines(rows)
    with_teacher = [line for line in found if line.distillation is not None]
    gold = [line for line in found if line.method.startswith("GoldOnly")]
    if not with_teacher or not gold:
        return ""
    best, floor = max(with_teacher, key=_last), max(gold, key=_last)
    gap = _last(best) - _last(floor)
    if gap < 0:
        return (
            f"Gold labels alone do better: {_last(floor):.2f} against {_last(best):.2f} for "
            f"{best.name}. With this many gold labels the teacher is not worth its noise."
        )
    return f"{best.name} is {gap:.2f} points above gold labels alone ({_last(floor):.2f})."


def _last(line: Line) -> float:
    cell = line.accuracy["last"]
    return cell.mean if cell is not None else float("-inf")
