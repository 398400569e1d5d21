"""The verb ``distill``, as a user types it, on texts, images and tables."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import typer
from typer.testing import CliRunner, Result

from noisyteacher.cli.distill import EPILOG, distill
from noisyteacher.core.errors import InputError
from noisyteacher.pipeline import load_student
from noisyteacher.runs import RunFolder, read_rows
from user_files import (
    digits,
    write_digit_folders,
    write_digit_parquet,
    write_digit_tables,
    write_reviews,
)

FAST = ["--epochs", "1", "--device", "cpu"]


@pytest.fixture(autouse=True)
def image_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOISYTEACHER_CACHE", str(tmp_path / "cache"))


def run(*arguments: object) -> Result:
    app = typer.Typer()
    app.command(epilog=EPILOG)(distill)
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def on(folder: Path, kind: str = "csv", labels: str = "labels") -> list[object]:
    ending = f".{kind}" if kind else ""
    gold, pool = folder / f"gold{ending}", folder / f"pool{ending}"
    return ["--gold", gold, "--pool", pool, "--labels", folder / labels]


def printed(*arguments: object) -> dict[str, Any]:
    result = run(*arguments, "--json")
    assert result.exit_code == 0, (result.output, result.exception)
    return json.loads(result.stdout)  # type: ignore[no-any-return]


def refused(*arguments: object) -> str:
    result = run(*arguments)
    assert isinstance(result.exception, InputError), result.output
    return str(result.exception)


def test_texts(tmp_path: Path) -> None:
    folder, out = write_reviews(tmp_path), tmp_path / "run"
    found = printed(*on(folder), "--out", out, *FAST, "--compare")
    assert found["sizes"] == {"gold": 100, "V": 0, "S": 0, "pool": 150, "test": 0}
    *names, returned = [candidate["candidate"] for candidate in found["candidates"]]
    assert {"logistic regression", "GoldOnly()", "Vanilla()"} <= set(names)
    assert returned == "the returned student"
    kept = [candidate for candidate in found["candidates"] if candidate["weight"]]
    assert [candidate["candidate"] for candidate in kept] == [found["kept"]]
    student = load_student(out / "student")
    assert student.predict(["great lovely film", "awful dull film"]).tolist() == ["good", "bad"]
    assert len(read_rows(out / "results.jsonl")) == len(names)
    page = (out / "report.html").read_text()
    assert "Calibrated(inner=TaylorCE(2))" in page
    assert "α(x)" in page
    assert "planted" in (out / "student" / "README.md").read_text()


def test_people_get_words_and_a_second_start_changes_nothing(tmp_path: Path) -> None:
    folder, out = write_reviews(tmp_path), tmp_path / "run"
    first = run(*on(folder), "--out", out, *FAST, "--quick")
    assert first.exit_code == 0, (first.output, first.exception)
    told = "100 gold and 150 pool examples, 2 classes"
    assert told in first.stderr
    cost = "2 students are trained for 1 epochs each and compared on 20 held-out gold rows"
    assert f"{cost}; the chosen one is then trained again on all gold rows." in first.stderr
    assert "logistic regression" in first.stdout
    assert "With only 20 gold rows, the accuracy is known to within" in first.stdout
    rows = (out / "results.jsonl").read_bytes()
    again = run(*on(folder), "--out", out, *FAST, "--quick")
    assert again.exit_code == 0, again.output
    assert (out / "results.jsonl").read_bytes() == rows


def test_minutes_stop_it_and_it_goes_on(tmp_path: Path) -> None:
    folder, out = write_reviews(tmp_path), tmp_path / "run"
    cut = run(*on(folder), "--out", out, *FAST, "--minutes", 0)
    assert cut.exit_code == 0, cut.output
    assert "Time ran out; " in cut.stdout
    assert not (out / "student").exists()
    assert printed(*on(folder), "--out", out, *FAST)["kept"]
    assert (out / "student").exists()


def test_a_folder_in_which_another_process_is_at_work(tmp_path: Path) -> None:
    folder, out = write_reviews(tmp_path), tmp_path / "run"
    with RunFolder(out).lock():
        assert "is in use by another process" in refused(*on(folder), "--out", out, *FAST)
    assert not (out / "results.jsonl").exists()


def test_images_in_folders(tmp_path: Path) -> None:
    folder, out = write_digit_folders(tmp_path / "data"), tmp_path / "run"
    found = printed(
        *on(folder, ""), "--out", out, *FAST, "--student", "resnet8", "--no-flip", "--quick"
    )
    assert "GoldOnly()" in [candidate["candidate"] for candidate in found["candidates"]]
    student = load_student(out / "student")
    assert student.classes == ("0", "1", "2")
    assert student.predict([folder / "pool" / "p60.png"]).tolist()[0] in student.classes


def test_images_in_parquet(tmp_path: Path) -> None:
    folder, out = write_digit_parquet(tmp_path / "data"), tmp_path / "run"
    options = ["--student", "resnet8", "--method", "SLaM()"]
    found = printed(*on(folder, "parquet"), "--out", out, *FAST, *options)
    tried = [c["candidate"] for c in found["candidates"]]
    assert tried == ["GoldOnly()", "SLaM()", "the returned student"]
    assert load_student(out / "student").predict(digits(5)[0]).shape == (5,)


def test_tables_with_plain_probabilities(tmp_path: Path) -> None:
    folder, out = write_digit_tables(tmp_path / "data"), tmp_path / "run"
    test = folder / "test.parquet"
    pq.write_table(pq.read_table(folder / "pool.parquet").slice(0, 20), test)
    options = ["--out", out, *FAST, "--test", test, "--quick"]
    found = printed(*on(folder, "parquet", "probs.npy"), *options)
    assert found["sizes"] == {"gold": 80, "V": 0, "S": 0, "pool": 100, "test": 20}
    assert any("the test set has the same inputs: 20 examples" in note for note in found["notes"])
    assert found["candidates"][0]["accuracy_on_test"] is not None


def test_tables(tmp_path: Path) -> None:
    folder, out = write_digit_tables(tmp_path / "data"), tmp_path / "run"
    found = printed(*on(folder, "parquet", "probs.npy"), "--out", out, *FAST)
    assert found["candidates"][0]["candidate"] == "logistic regression"
    assert max(c["accuracy"] for c in found["candidates"]) > 80
    table = digits(7)[0].reshape(7, -1).astype(np.float32)
    assert load_student(out / "student").predict(table).shape == (7,)


def test_classes_may_stand_in_a_json_file(tmp_path: Path) -> None:
    folder, out = write_digit_tables(tmp_path / "data"), tmp_path / "run"
    names = tmp_path / "names.json"
    names.write_text('["none, or zero", "one", "two"]')
    options = ["--out", out, *FAST, "--quick", "--classes", names]
    found = printed(*on(folder, "parquet", "probs.npy"), *options)
    assert any("0 is taken for 'none, or zero', 1 for 'one'" in note for note in found["notes"])
    assert load_student(out / "student").classes == ("none, or zero", "one", "two")


def test_bad_input_is_one_sentence(tmp_path: Path) -> None:
    folder = write_reviews(tmp_path / "data")
    out = ["--out", tmp_path / "run", *FAST]
    good = on(folder)
    assert "no file or folder" in refused(*on(tmp_path), *out)
    assert "is not a method" in refused(*good, *out, "--method", "SLaM(")
    odd = folder / "odd.csv"
    odd.write_text((folder / "gold.csv").read_text().replace('"good"', '"fair"'))
    assert "labels 'fair', which are not among the teacher's classes 'bad', 'good'" in refused(
        "--gold", odd, *good[2:], *out
    )
    strange = folder / "strange.csv"
    strange.write_text("id,text\nq1,fine film\nq2,poor film\n")
    assert "None of the 2 ids of strange has a teacher label" in refused(
        *good[:2], "--pool", strange, *good[4:], *out
    )
    assert "no model folder" in refused(*good, *out, "--student", str(tmp_path / "none"))
    assert not (tmp_path / "run").exists()  # nothing that could be taken for a result


def test_help_has_an_example() -> None:
    shown = run("--help").output
    assert "noisyteacher distill --gold gold.csv" in " ".join(shown.split())
