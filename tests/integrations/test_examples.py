"""Every script in ``examples/`` runs, is short, and its student has learned something."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "examples"
# What each script must print about its accuracies, and what it needs beyond the core.
SCRIPTS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "pytorch_loop.py": (("teacher", "student"), ()),
    "sklearn_classifier.py": (("gold only", "student"), ()),
    "llm_logprobs.py": (("teacher",), ()),
    "huggingface_trainer.py": (("teacher", "student"), ("transformers", "accelerate")),
    "lightning_module.py": (("teacher", "student"), ("lightning",)),
}


def test_every_example_is_listed_and_short() -> None:
    scripts = {path.name: len(path.read_text().splitlines()) for path in FOLDER.glob("*.py")}
    assert scripts.keys() == SCRIPTS.keys()
    assert max(scripts.values()) < 60, scripts


@pytest.mark.parametrize("script", SCRIPTS)
def test_examples_run(script: str, tmp_path: Path) -> None:
    names, needed = SCRIPTS[script]
    missing = [module for module in needed if importlib.util.find_spec(module) is None]
    if missing:
        pytest.skip(f"{script} needs {' and '.join(missing)}")
    run = subprocess.run(
        [sys.executable, FOLDER / script],
        cwd=tmp_path,
        env=os.environ | {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    printed = dict(re.findall(r"^(.+) accuracy (\d\.\d+)", run.stdout, re.MULTILINE))
    accuracies = [float(printed[name]) for name in names]
    assert accuracies == sorted(accuracies), "the student is no better than what it is compared to"
    assert min(accuracies) > 0.5
    assert "NoisyTeacherWarning" not in run.stderr
    assert list(tmp_path.iterdir()) == []
