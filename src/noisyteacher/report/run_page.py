"""The page of a run: with charts where the extra ``[report]`` is installed, plain elsewhere."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from noisyteacher.bench.result_lines import HEADER, cells
from noisyteacher.core.errors import InputError
from noisyteacher.core.files import write_atomic
from noisyteacher.report.page import write_page
from noisyteacher.report.source import Source, read_source
from noisyteacher.report.words import ACCURACIES_IN_WORDS, caption, facts

_EXTRA = ("altair", "vl_convert", "jinja2")


def has_extra() -> bool:
    """Whether all that the page with charts needs is installed."""
    return all(find_spec(name) is not None for name in _EXTRA)


def render_page(path: str | Path, live: bool = False) -> str:
    """The page with charts of a run's folder, or of an audit's JSON file.

    A ``live`` page may be of a run without any result, and looks for a newer self.
    """
    if not has_extra():
        raise InputError("Charts need more: `pip install noisyteacher[report]` brings it.")
    from noisyteacher.report.rich_page import render
    from noisyteacher.report.sections import make_page

    source = read_source(path)
    if not live and not source.rows and not source.audits:
        raise InputError(f"{path} has no results yet.")
    return render(make_page(source, live))


def write_run_page(path: str | Path, out: str | Path | None = None) -> Path:
    """Write the page of a run's folder (``report.html`` in it) or of an audit (beside it)."""
    path = Path(path)
    default = path / "report.html" if path.is_dir() else path.with_suffix(".html")
    page = default if out is None else Path(out)
    if has_extra() or path.is_file():
        write_atomic(page, render_page(path).encode())
    else:
        _write_plain(page, read_source(path), path)
    return page


def _write_plain(page: Path, source: Source, path: Path) -> None:
    if not source.rows:
        raise InputError(f"{path} has no results yet.")
    notes = [f"{name}: {value}" for name, value in facts(source)]
    verdict = [str(source.about["verdict"])] if "verdict" in source.about else []
    write_page(
        page,
        f"noisyteacher: {source.title}",
        HEADER,
        [cells(line) for line in source.lines],
        {caption(picture): picture for picture in source.pictures},
        [*source.story.commands, *verdict, *source.story.notes, *notes, ACCURACIES_IN_WORDS],
    )
