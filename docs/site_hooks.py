"""What the site shows from outside ``docs/``: results and examples, with links that work."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File

ROOT = Path(__file__).parents[1]
SHOWN = ("results/**/*.md", "results/**/*.svg", "examples/*.py", "benchmarks/README.md")
OUTSIDE = re.compile(r"\]\((?:\.\./)+(docs/|results/|examples/|benchmarks/|README\.md)([^)]*)\)")


def on_files(files: Any, config: Any) -> Any:
    """Add the results, the examples and the benchmarks to the pages of ``docs/``."""
    for pattern in SHOWN:
        for path in sorted(ROOT.glob(pattern)):
            name = path.relative_to(ROOT).as_posix()
            files.append(File.generated(config, name, abs_src_path=str(path)))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Links that leave ``docs/`` in the repository lead to the same files of the site."""
    here = Path(page.file.src_uri)
    up = "../" * len(here.parent.parts)

    def inside(found: re.Match[str]) -> str:
        folder, rest = found.groups()
        place = "" if folder in ("docs/", "README.md") else folder
        target = "README.md" if folder == "README.md" else rest
        return f"]({up}{place}{target})"

    return OUTSIDE.sub(inside, markdown)
