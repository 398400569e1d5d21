"""The page of a run: with charts where the extra ``[report]`` is installed, plain elsewhere.

Either is one HTML file: nothing is fetched, and every text is escaped.
"""

from __future__ import annotations

from html import escape
from importlib.util import find_spec
from pathlib import Path

from noisyteacher.bench.result_lines import HEADER, cells
from noisyteacher.core.errors import InputError
from noisyteacher.core.files import write_atomic
from noisyteacher.report.page_source import (
    ACCURACIES_IN_WORDS,
    PageSource,
    caption,
    facts,
    read_source,
)
from noisyteacher.runs.comparison import data_address

_EXTRA = ("altair", "vl_convert", "jinja2")
_STYLE = """
:root { color-scheme: light dark; --line: #8884; --dim: #888; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { text-align: right; padding: .35rem .6rem; border-bottom: 1px solid var(--line); }
th:first-child, td:first-child { text-align: left; }
figure { margin: 2rem 0; background: #fff; border-radius: 6px; padding: .5rem; }
img { max-width: 100%; height: auto; }
figcaption { color: #444; font-size: .9rem; }
.scroll { overflow-x: auto; }
p.note { color: var(--dim); }
"""


def has_extra() -> bool:
    """Whether all that the page with charts needs is installed."""
    return all(find_spec(name) is not None for name in _EXTRA)


def render_page(path: str | Path, live: bool = False) -> str:
    """The page with charts of a run's folder, or of an audit's JSON file.

    A ``live`` page may be of a run without any result, and looks for a newer self.
    """
    if not has_extra():
        raise InputError("Charts need more: `pip install noisyteacher[report]` brings it.")
    from noisyteacher.report.chart_page import make_page, render

    source = read_source(path)
    if not live and not source.rows and not source.audits:
        raise InputError(f"{path} has no results yet.")
    return render(make_page(source, live))


def write_run_page(path: str | Path, out: str | Path | None = None) -> Path:
    """Write the page of a run's folder (``report.html`` in it) or of an audit (beside it)."""
    path = Path(path)
    default = path / "report.html" if path.is_dir() else path.with_suffix(".html")
    page = default if out is None else Path(out)
    charts = has_extra() or path.is_file()
    html = render_page(path) if charts else _render_plain(read_source(path), path)
    write_atomic(page, html.encode())
    return page


def _render_plain(source: PageSource, path: Path) -> str:
    """Tables and pictures only."""
    if not source.rows:
        raise InputError(f"{path} has no results yet.")
    verdict = [str(source.about["verdict"])] if "verdict" in source.about else []
    notes = [*source.log.commands, *verdict, *source.log.notes]
    notes += [f"{name}: {value}" for name, value in facts(source)]
    title = escape(f"noisyteacher: {source.title}")
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in HEADER)
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(value)}</td>" for value in cells(line)) + "</tr>\n"
        for line in source.lines
    )
    figures = "".join(_figure(picture) for picture in source.pictures)
    paragraphs = "".join(
        f'<p class="note">{escape(note)}</p>\n' for note in [*notes, ACCURACIES_IN_WORDS]
    )
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8">\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{title}</title><style>{_STYLE}</style></head>\n"
        f"<body><main><h1>{title}</h1>\n{paragraphs}"
        f'<div class="scroll"><table><thead><tr>{head}</tr></thead>\n<tbody>{body}</tbody></table>'
        f"</div>\n{figures}</main></body></html>\n"
    )


def _figure(picture: Path) -> str:
    address, text = data_address("png", picture.read_bytes()), escape(caption(picture))
    return f'<figure><img alt="{text}" src="{address}"><figcaption>{text}</figcaption></figure>\n'
