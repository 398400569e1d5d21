"""A self-contained HTML page: tables and pictures, nothing fetched, everything escaped."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path

from noisyteacher.core.files import write_atomic

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


def write_page(
    path: str | Path,
    title: str,
    header: Sequence[str],
    table: Sequence[Sequence[str]],
    pictures: Mapping[str, Path],
    notes: Sequence[str] = (),
) -> None:
    """Write the page; ``pictures`` maps captions to PNG files, which are put inside it."""
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in header)
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(value)}</td>" for value in line) + "</tr>\n"
        for line in table
    )
    figures = "".join(_figure(caption, picture) for caption, picture in pictures.items())
    paragraphs = "".join(f'<p class="note">{escape(note)}</p>\n' for note in notes)
    html = (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8">\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title><style>{_STYLE}</style></head>\n"
        f"<body><main><h1>{escape(title)}</h1>\n{paragraphs}"
        f'<div class="scroll"><table><thead><tr>{head}</tr></thead>\n<tbody>{body}</tbody></table>'
        f"</div>\n{figures}</main></body></html>\n"
    )
    write_atomic(path, html.encode())


def data_address(kind: str, picture: bytes) -> str:
    """A picture, "png" or "jpeg", inside its own address."""
    return f"data:image/{kind};base64,{base64.b64encode(picture).decode()}"


def _figure(caption: str, picture: Path) -> str:
    address, text = data_address("png", picture.read_bytes()), escape(caption)
    return f'<figure><img alt="{text}" src="{address}"><figcaption>{text}</figcaption></figure>\n'
