"""The package's names come when asked for, and its help without the libraries it does not need."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.version import Version

import noisyteacher


def run(code: str) -> str:
    """In a process of its own, where nothing has been imported yet."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_every_public_name_is_there() -> None:
    told = run(
        "import noisyteacher as nt; before = set(nt.__all__) - set(dir(nt)); "
        "print(before, all(getattr(nt, name) is not None for name in nt.__all__))"
    )
    assert told == "set() True"


def test_distill_is_the_function_whatever_was_imported_before() -> None:
    told = run(
        "import noisyteacher.pipeline.sources, noisyteacher.auditing, noisyteacher as nt; "
        "from noisyteacher import distill; "
        "print(callable(nt.distill), nt.distill is distill, callable(nt.audit))"
    )
    assert told == "True True True"


def test_rooms_are_there_whatever_was_imported_before() -> None:
    told = run("import noisyteacher as nt; print(nt.InputError, nt.integrations.__name__)")
    assert told == "<class 'noisyteacher.core.errors.InputError'> noisyteacher.integrations"


def test_unknown_names_are_refused() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        noisyteacher.nothing  # type: ignore[attr-defined]  # noqa: B018


@pytest.mark.parametrize("verb", ["", "audit", "bench", "distill", "import", "label"])
def test_help_needs_no_heavy_library(verb: str) -> None:
    told = run(
        "import sys; from noisyteacher.cli import main; "
        f"sys.argv = ['noisyteacher', *'{verb} --help'.split()]\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "print({'torch', 'sklearn', 'scipy', 'pyarrow'} & set(sys.modules))"
    )
    assert told.endswith("set()")


def test_the_oldest_constraints_are_the_minimums() -> None:
    root = Path(__file__).parents[1]
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    minimums = dict(line.split(">=") for line in project["dependencies"])
    del minimums["torch"]
    lines = (root / "constraints-oldest.txt").read_text().splitlines()
    pinned = dict(line.split("==") for line in lines if not line.startswith("#"))
    assert pinned.keys() == minimums.keys()
    for name, minimum in minimums.items():
        assert Version(pinned[name]) == Version(minimum), name
