"""A folder imports only from the folders above it in the pipeline."""

from __future__ import annotations

import ast
from pathlib import Path

import noisyteacher

ROOT = Path(noisyteacher.__file__).parent
ORDER = (
    "core",
    "io",
    "labels",
    "noise",
    "losses",
    "methods",
    "models",
    "data",
    "train",
    "runs",
    "choose",
    "auditing",
    "pipeline",
    "bench",
    "report",
    "halfspace",
    "integrations",
    "cli",
)


def imported_rooms(path: Path) -> set[str]:
    """The folders of this package that a source file imports, absolute or relative."""
    found: set[str] = set()
    package = ("noisyteacher", *path.relative_to(ROOT).parent.parts)
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = list(package[: len(package) - node.level + 1]) if node.level else []
            module = ".".join(base + ([node.module] if node.module else []))
            names = [f"{module}.{alias.name}" for alias in node.names]
        else:
            continue
        found |= {n.split(".")[1] for n in names if n.startswith("noisyteacher.")}
    return found


def test_folders_import_only_from_above() -> None:
    wrong = []
    for path in sorted(ROOT.rglob("*.py")):
        parts = path.relative_to(ROOT).parts
        if len(parts) == 1:
            continue
        allowed = set(ORDER[: ORDER.index(parts[0]) + 1]) | {"__version__"}
        wrong += [f"{'/'.join(parts)} imports {room}" for room in imported_rooms(path) - allowed]
    assert not wrong


def test_every_folder_has_a_place() -> None:
    folders = {p.parent.relative_to(ROOT).parts[0] for p in ROOT.glob("*/**/*.py")}
    assert folders <= set(ORDER)
