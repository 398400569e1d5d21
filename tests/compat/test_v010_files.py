"""Files that version 0.1.0 (commit 980e486) wrote open with this version, and mean the same.

``tests/fixtures/v0.1.0`` holds them, ``make.py`` there says how they came to be, and
``expected.json`` has the numbers that 0.1.0 read from them.
"""

from __future__ import annotations

import json
import re
import shutil
import warnings
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest

import noisyteacher as nt
from command_line import run, run_well
from noisyteacher.core.errors import NoisyTeacherWarning

ROOT = Path(__file__).parents[2]
FILES = ROOT / "tests" / "fixtures" / "v0.1.0"
EXPECTED: dict[str, Any] = json.loads((FILES / "expected.json").read_text())
RESULTS = sorted((ROOT / "results").glob("*.jsonl"))
# Trained on another processor, the last bits of a prepared column may differ, and a run that was
# begun here is refused there: one of these words names the way out.
REMEDIES = ("--out", "another folder", "delete it")


def no_checksum() -> AbstractContextManager[Any]:
    """Files of 0.1.0 have none, and a note says so."""
    return pytest.warns(NoisyTeacherWarning, match="without a checksum")


@pytest.fixture
def copies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The fixtures in a folder of their own, which is the current one."""
    shutil.copytree(FILES, tmp_path / "files")
    monkeypatch.chdir(tmp_path / "files")
    return tmp_path / "files"


# -- label stores ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", EXPECTED["stores"])
def test_label_stores(name: str) -> None:
    expected = EXPECTED["stores"][name]
    labels = nt.TeacherLabels.open(FILES / "stores" / name)
    assert repr(labels) == expected["repr"]
    for column in ("ids", "hard", "topk_index", "topk_logprob", "missing"):
        assert getattr(labels, column).tolist() == expected[column], column
    for column in ("probs", "tail"):
        np.testing.assert_allclose(getattr(labels, column), expected[column], rtol=1e-6, atol=1e-7)
    assert list(labels.classes) == expected["classes"]
    assert [labels.teacher, labels.revision, labels.temperature] == expected["teacher"]
    assert {n: column.tolist() for n, column in labels.extras.items()} == expected["extras"]


@pytest.mark.parametrize("name", EXPECTED["stores"])
def test_label_stores_are_written_as_before(name: str, tmp_path: Path) -> None:
    nt.TeacherLabels.open(FILES / "stores" / name).save(tmp_path / "again")
    old, new = (
        json.loads((folder / "manifest.json").read_text())
        for folder in (FILES / "stores" / name, tmp_path / "again")
    )
    differ = {field for field in old.keys() | new.keys() if old.get(field) != new.get(field)}
    assert differ <= {"created_at", "parts", "manifest_sha256"}


def test_the_extras_are_those_that_label_writes() -> None:
    assert set(EXPECTED["stores"]["extras"]["extras"]) == {"embedding", "view_mean", "view_std"}


# -- noise models and students --------------------------------------------------------------------


def test_noise_models(tmp_path: Path) -> None:
    expected = EXPECTED["noise"]
    with no_checksum():
        noise = nt.TeacherNoise.load(FILES / "noise.json")
    trust = noise.predict(np.array(expected["probs"]))
    np.testing.assert_allclose(trust.alpha, expected["alpha"], rtol=1e-6)
    assert trust.k.tolist() == expected["k"]
    noise.save(tmp_path / "again.json")
    saved = [
        orjson.loads(path.read_bytes()) for path in (FILES / "noise.json", tmp_path / "again.json")
    ]
    assert saved[0] == {name: saved[1][name] for name in saved[1] if name != "sha256"}


def test_the_noise_model_of_a_run() -> None:
    with no_checksum():
        noise = nt.TeacherNoise.load(FILES / "run-distill" / "noise.json")
    trust = noise.predict(nt.TeacherLabels.open(FILES / "data" / "labels"))
    assert trust.alpha.shape == (110,)


@pytest.mark.parametrize("kind", EXPECTED["students"])
def test_students(kind: str) -> None:
    if kind == "encoder":
        pytest.importorskip("transformers", reason="the extra [hf] is not installed")
    expected = EXPECTED["students"][kind]
    with no_checksum():
        student = nt.load_student(FILES / "students" / kind)
    assert repr(student) == expected["repr"]
    assert list(student.classes) == expected["classes"]
    assert student.about["kept"] == expected["kept"]
    dtypes = {"table": np.float32, "image": np.uint8}
    inputs = expected["inputs"]
    if kind in dtypes:
        inputs = np.array(inputs, dtypes[kind])
    np.testing.assert_allclose(student.logits(inputs), expected["logits"], rtol=1e-4, atol=1e-4)
    assert student.predict(inputs).tolist() == expected["said"]


def test_a_student_labels_a_file(copies: Path) -> None:
    with no_checksum():
        said = run("label", "students/text", "data/pool.csv", "--out", "said", "--device", "cpu")
    assert said.exit_code == 0, (said.output, said.exception)
    labels = nt.TeacherLabels.open("said")
    with no_checksum():
        student = nt.load_student("students/text")
    texts = [line.split(",")[1] for line in Path("data/pool.csv").read_text().splitlines()[1:]]
    np.testing.assert_allclose(labels.probs, student.predict_proba(texts), atol=2e-3)


# -- runs -----------------------------------------------------------------------------------------


def contents(folder: Path) -> dict[str, bytes]:
    """What training writes in a run's folder; pages and pictures are drawn from it."""
    files = [folder / "results.jsonl", folder / "curves.jsonl", *folder.glob("checkpoints/*")]
    files += folder.glob("labels/**/*")
    return {str(path): path.read_bytes() for path in files if path.is_file()}


def gone_on(verb: str, copies: Path) -> list[dict[str, Any]] | None:
    """What the command that made a run prints when it is started again, where it trains nothing.

    None where the run's folder is refused with a remedy.
    """
    folder = copies / f"run-{verb}"
    before = contents(folder)
    assert before
    with warnings.catch_warnings():
        # Notes say that 0.1.0 wrote no checksums, and that --smoke has another name.
        warnings.simplefilter("ignore", NoisyTeacherWarning)
        result = run(*EXPECTED["commands"][verb])
    assert contents(folder) == before, "something was trained again"
    if result.exit_code:
        assert isinstance(result.exception, nt.InputError), (result.output, result.exception)
        assert any(remedy in str(result.exception) for remedy in REMEDIES), result.exception
        return None
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_a_distillation_goes_on_without_training(copies: Path) -> None:
    found = gone_on("distill", copies)
    if found is None:
        return
    expected = EXPECTED["distill"]
    same = ("kept", "sizes", "teacher")
    assert {name: found[0][name] for name in same} == {name: expected[name] for name in same}
    told = ("candidate", "uses_teacher", "accuracy_on_S", "accuracy_on_test", "kept")
    assert [[line[name] for name in told] for line in found[0]["candidates"]] == [
        [line[name] for name in told] for line in expected["candidates"]
    ]
    assert (copies / "run-distill" / "report.html").exists()


def test_a_bench_goes_on_without_training(copies: Path) -> None:
    found = gone_on("bench", copies)
    if found is not None:
        assert found == EXPECTED["bench"]
        assert (copies / "run-bench" / "report.html").exists()


def test_a_study_of_halfspaces_goes_on_without_simulating(copies: Path) -> None:
    found = gone_on("halfspace", copies)
    if found is None:
        return
    stored = (FILES / "run-halfspace" / "results.jsonl").read_text().splitlines()
    assert found[: len(stored)] == [json.loads(line) for line in stored]
    for new, old in zip(found[len(stored) :], EXPECTED["halfspace"], strict=True):
        assert new.keys() == old.keys()
        for name, value in old.items():
            exact = not isinstance(value, float | dict)
            assert new[name] == (value if exact else pytest.approx(value, rel=1e-6)), name


@pytest.mark.parametrize("place", ["run-distill", "run-bench", "audit.json"])
def test_pages(place: str, tmp_path: Path) -> None:
    run_well("report", FILES / place, "--out", tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    if place == "audit.json":
        method = json.loads((FILES / place).read_text())["recommendation"]["method"]
        assert method in page
    else:
        rows = (FILES / place / "results.jsonl").read_text().splitlines()
        assert len(rows) > 1
        for row in map(json.loads, rows):
            assert row["method"] in page


# -- results rows ---------------------------------------------------------------------------------


def test_tables_of_rows(tmp_path: Path) -> None:
    run_well("bench", "tables", FILES / "rows.jsonl", "--out", tmp_path)
    for name, text in EXPECTED["tables"].items():
        assert (tmp_path / "tables" / name).read_text() == text


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("published")
    run_well("bench", "tables", *RESULTS, "--out", out)
    return out


def test_the_results_give_the_same_files(published: Path) -> None:
    for part in ("tables", "figures"):
        made = {path.name for path in (published / part).iterdir()}
        kept = {path.name for path in (ROOT / "results" / part).iterdir()}
        # α curves are drawn where the labels lie, not from rows.
        assert made == {name for name in kept if "-alpha-" not in name}


@pytest.mark.parametrize(
    "kept", sorted((ROOT / "results" / "tables").iterdir()), ids=lambda p: p.name
)
def test_the_results_give_the_same_tables(published: Path, kept: Path) -> None:
    made = (published / "tables" / kept.name).read_text()
    if kept.suffix == ".csv":
        assert made == kept.read_text()
    else:
        assert _numbers(made) == _numbers(kept.read_text())


def _numbers(text: str) -> list[str]:
    return re.findall(r"\d+(?:\.\d+)?", text)
