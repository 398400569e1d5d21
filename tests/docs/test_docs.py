"""Every Python snippet of README and docs runs as it stands."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest
import typer

from noisyteacher.cli import app

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
# These need files, or run as a whole: they have tests of their own.
TESTED_ELSEWHERE = {"importing.md", "distilling.md", "tutorial-llm.md", "tutorial-images.md"}
SHOWN_ONLY = {"text", "json", "bibtex"}
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
SNIPPET = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


def snippets() -> list[tuple[str, str]]:
    return [
        (f"{page.name}-{i}", code)
        for page in PAGES
        if page.name not in TESTED_ELSEWHERE
        for i, code in enumerate(SNIPPET.findall(page.read_text()))
    ]


@pytest.mark.parametrize(("name", "code"), snippets(), ids=[name for name, _ in snippets()])
@pytest.mark.filterwarnings("error::UserWarning")
def test_snippet_runs(
    name: str, code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / f"{name}.py"
    path.write_text(code)
    runpy.run_path(str(path), run_name="__main__")


def test_no_command_stands_in_a_page_that_nobody_runs() -> None:
    targets = re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    for page in PAGES:
        if page.name in TESTED_ELSEWHERE:
            continue
        for language, code in BLOCK.findall(page.read_text()):
            if language in SHOWN_ONLY | {"python"}:
                continue
            for line in code.splitlines():
                words = line.split("#")[0].split()
                known = words[0] == "make" and words[1] in targets
                assert known or words == ["pip", "install", "."] or run_by_the_tutorial(words), line


def run_by_the_tutorial(words: list[str]) -> bool:
    """Whether the tutorial, which a test runs, has this command, maybe with more options."""
    tutorial = (ROOT / "docs" / "tutorial-llm.md").read_text()
    commands = [line.split() for line in tutorial.splitlines() if line.startswith("noisyteacher ")]
    plain = {word.rstrip("/") for word in words}
    return any(plain <= set(command) for command in commands)


COMMAND = re.compile(r"\bnoisyteacher ([a-z]+)((?:[^`\n]|\\\n)*)")


@pytest.mark.parametrize("page", [*PAGES, ROOT / "results" / "RESULTS.md"], ids=lambda p: p.name)
def test_every_option_in_a_page_is_one_that_the_command_has(page: Path) -> None:
    """Also in text that no test runs, such as commands that need a GPU or a data set."""
    verbs = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    for verb, rest in COMMAND.findall(page.read_text()):
        if verb not in verbs:
            continue
        known = {name for parameter in verbs[verb].params for name in parameter.opts}
        known |= {name for parameter in verbs[verb].params for name in parameter.secondary_opts}
        options = set(re.findall(r"(?<!\S)--[a-z][a-z-]*", rest))
        assert options <= known | {"--help"}, (verb, options - known)


def test_links_between_pages_lead_somewhere() -> None:
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#:]+?)(?:#[^)]*)?\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"
