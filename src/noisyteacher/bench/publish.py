"""All tables and figures of some rows files, by one call."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from matplotlib.figure import Figure

from noisyteacher.bench import figures
from noisyteacher.bench.paper_tables import PaperTable, by_kind, csv_text, detail_table, size_table
from noisyteacher.bench.result_lines import Line, in_reading_order, lines
from noisyteacher.core.errors import InputError
from noisyteacher.core.files import plain_name, write_atomic
from noisyteacher.runs import Row, merge, read_rows


def read_files(paths: Sequence[str | Path]) -> list[Row]:
    """The rows of several files, of several machines, as one; duplicates dropped."""
    if not paths:
        raise InputError("Name at least one file of results rows.")
    missing = [str(path) for path in paths if not Path(path).is_file()]
    if missing:
        raise InputError(f"There is no file {missing[0]}.")
    return merge(row for path in paths for row in read_rows(path))


def publish(rows: Sequence[Row], out: str | Path) -> list[Path]:
    """Write ``tables/RECIPE.{md,tex,csv}`` and ``figures/RECIPE-*.{svg,png}``."""
    if not rows:
        raise InputError("There are no results rows to make tables of.")
    out, found = Path(out), lines(rows)
    written = []
    for recipe in dict.fromkeys(line.table for line in found):
        mine = in_reading_order(x for x in found if x.table == recipe)
        stem = plain_name(recipe)
        tables = list(tables_of(recipe, mine))
        texts = {
            "md": f"## {recipe}\n\n" + "\n".join(table.markdown() for table in tables),
            "tex": "\n".join(table.latex() for table in tables),
            "csv": csv_text(mine),
        }
        for ending, text in texts.items():
            path = out / "tables" / f"{stem}.{ending}"
            write_atomic(path, text.encode())
            written.append(path)
        for name, figure in figures_of(recipe, mine):
            figures.save_figure(figure, out / "figures" / f"{stem}-{name}")
    return written


def tables_of(recipe: str, found: Sequence[Line]) -> Iterator[PaperTable]:
    """Methods × sizes first, last epoch and the paper's protocol; then each size in detail."""
    for kind, mine in by_kind(found):
        yield size_table(recipe, kind, mine, "last")
        yield size_table(recipe, kind, mine, "best_test")
    for size in sorted({x.labeled for x in found}):
        yield detail_table(recipe, [x for x in found if x.labeled == size])


def figures_of(recipe: str, found: Sequence[Line]) -> Iterator[tuple[str, Figure]]:
    """Every figure that these lines have points for; lengths and mixing ratios stay apart."""
    for epochs, repeat in sorted({(x.epochs, x.gold_repeat) for x in found}):
        alike = [x for x in found if (x.epochs, x.gold_repeat) == (epochs, repeat)]
        title = f"{recipe}, {epochs} epochs" + (f", gold ×{repeat}" if repeat > 1 else "")
        length = f"{epochs}epochs" + (f"-gold{repeat}" if repeat > 1 else "")
        drawn = {}
        for kind, mine in by_kind(alike):
            drawn[f"{kind or 'free'}-{length}"] = figures.draw_sizes(
                f"{title}, {kind or 'no teacher'}", kind, mine
            )
        for size in sorted({x.labeled for x in alike}):
            for kind, mine in by_kind([x for x in alike if x.labeled == size]):
                drawn[f"{kind or 'free'}-{length}-{size}labels"] = figures.draw_ranking(
                    f"{title}, {kind or 'no teacher'}", kind, mine
                )
        # An ablation's arm or a second generation is not what these compare.
        plain = [x for x in alike if x.recipe == x.table and x.generation == 1]
        drawn |= {
            f"other-losses-{length}": figures.draw_other_losses(title, plain),
            f"fidelity-{length}": figures.draw_fidelity(title, plain),
            f"temperature-{length}": figures.draw_temperature(title, plain),
            f"gain-{length}": figures.draw_gain(title, plain),
        }
        yield from ((name, figure) for name, figure in drawn.items() if figure is not None)
