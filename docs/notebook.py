"""Write ``docs/tutorial-llm.ipynb`` from the tutorial: ``python docs/notebook.py``."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

PAGE = Path(__file__).with_name("tutorial-llm.md")
NOTEBOOK = Path(__file__).with_name("tutorial-llm.ipynb")
_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```\n", re.MULTILINE | re.DOTALL)
_FILE_NAME = re.compile(r"# (\w+\.py)\n")
_KERNEL = {"display_name": "Python 3", "language": "python", "name": "python3"}


def render() -> str:
    """The notebook as JSON: text as Markdown, programs and commands as code, no outputs."""
    cells, text, end = [], PAGE.read_text(), 0
    for block in _BLOCK.finditer(text):
        cells += _markdown(text[end : block.start()])
        language, code = block.groups()
        if language != "text":  # what a command prints is made by running it
            cells.append(_code(language, code))
        end = block.end()
    cells += _markdown(text[end:])
    for number, cell in enumerate(cells):
        cell["id"] = f"cell-{number}"
    about = {"kernelspec": _KERNEL, "language_info": {"name": "python"}}
    made = {"cells": cells, "metadata": about, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(made, indent=1, ensure_ascii=False) + "\n"


def _markdown(text: str) -> list[dict[str, Any]]:
    if not text.strip():
        return []
    return [{"cell_type": "markdown", "metadata": {}, "source": _lines(text.strip())}]


def _code(language: str, code: str) -> dict[str, Any]:
    named = _FILE_NAME.match(code)
    if language == "bash":
        code = "\n".join(f"!{line}" for line in code.replace("\\\n", "").splitlines())
    elif named:
        code = f"%%writefile {named[1]}\n{code}"
    source = _lines(code.rstrip("\n"))
    return {
        "cell_type": "code",
        "execution_count": None,
        "metadata": {},
        "outputs": [],
        "source": source,
    }


def _lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)


if __name__ == "__main__":
    NOTEBOOK.write_text(render())
