"""The notebook is the tutorial, and runs from its first cell to its last."""

from __future__ import annotations

import os
import runpy
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
NOTEBOOK = DOCS / "tutorial-llm.ipynb"


def test_the_notebook_is_what_the_script_makes_of_the_tutorial() -> None:
    made = runpy.run_path(str(DOCS / "notebook.py"))["render"]()
    assert NOTEBOOK.read_text() == made, "run: python docs/notebook.py"


def test_every_cell_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nbformat = pytest.importorskip("nbformat")
    nbclient = pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    # Commands of the notebook find `noisyteacher` and `python` beside this interpreter.
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    nbformat.validate(notebook)
    client = nbclient.NotebookClient(
        notebook, timeout=300, kernel_name="python3", resources={"metadata": {"path": tmp_path}}
    )
    done = client.execute()
    printed = "".join(
        output.get("text", "")
        for cell in done.cells
        if cell.cell_type == "code"
        for output in cell.outputs
    )
    assert "The teacher's labels were worth it" in printed
    assert "Error" not in printed
    assert "right on" in printed
    assert (tmp_path / "runs" / "reviews" / "report.html").exists()
