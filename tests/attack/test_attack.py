"""A small part of each attack; ``make attack`` runs all of it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import bad_inputs
import flips
import kills
import malicious
import pytest
import workplace


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("stored")
    bad_inputs.make_files(folder)
    return folder


@pytest.mark.parametrize("name", flips.KINDS)
def test_no_flipped_bit_changes_a_result_silently(stored: Path, name: str) -> None:
    found = flips.campaign(stored, 12, seed=1, jobs=1, kinds=[name])
    assert found[name].total() == 12
    assert flips.failures(found) == []


def test_a_change_that_is_read_counts_as_a_failure(stored: Path, monkeypatch) -> None:
    blind = flips.Kind("noise.json", lambda folder: (folder / "noise.json").read_bytes().hex())
    monkeypatch.setitem(flips.KINDS, "noise model", blind)
    assert len(flips.failures(flips.campaign(stored, 8, 1, 1, ["noise model"]))) == 8


def test_bad_inputs_get_their_sentence(stored: Path) -> None:
    every = list(bad_inputs.cases())
    assert len(every) >= 150
    assert len({case.name for case in every}) == len(every)
    assert bad_inputs.compare(every[::12], stored) == []


def test_code_in_folders_does_not_run(tmp_path: Path) -> None:
    pytest.importorskip("transformers", reason="the extra [hf] is not installed")
    malicious.make_files(tmp_path)
    for name, call in malicious.calls(tmp_path).items():
        malicious.run_call(call)
        assert not (tmp_path / "ran").exists(), name


def test_the_payload_would_be_seen(tmp_path: Path) -> None:
    pytest.importorskip("transformers", reason="the extra [hf] is not installed")
    malicious.make_files(tmp_path)
    code: Callable[..., object] = compile(
        (tmp_path / "model" / "payload.py").read_text(), "payload", "exec"
    )
    exec(code)
    assert (tmp_path / "ran").exists()


def test_times_and_random_names_are_all_that_kills_ignore(tmp_path: Path) -> None:
    for name, seconds, loss in (("a", 1, 5), ("b", 2, 5), ("c", 1, 6)):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "results.jsonl").write_text(f'{{"seconds": {seconds}, "loss": {loss}}}\n')
        (folder / f"part-{name * 8}-00000.parquet").write_bytes(b"x")
    a, b, c = (kills.snapshot(tmp_path / name) for name in "abc")
    assert a == b
    reference = kills.Reference(1.0, 1, a, frozenset())
    assert kills._differences(reference, c) == ["different: results.jsonl"]
    assert kills._differences(reference, {**a, ".left": "x"}) == ["left over: .left"]
    assert kills._differences(reference, {}) == [f"lost: {name}" for name in sorted(a)]


def test_a_killed_import_ends_as_an_undisturbed_one(tmp_path: Path) -> None:
    """In a process of its own: this one has threads, and cannot be forked safely."""
    out = tmp_path / "kills.jsonl"
    options = ("--verbs", "import", "--count", "2", "--seed", "5", "--jobs", "1", "--out", str(out))
    done = subprocess.run(
        [sys.executable, kills.__file__, *options],
        env=workplace.environment() | {"TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=600,
    )
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    assert [row["problems"] for row in rows] == [[], []], done.stdout
    assert "killed" in {kill[2] for row in rows for kill in row["kills"]}
    assert done.returncode == 0, done.stderr
    assert not list(tmp_path.glob("kills-*"))
