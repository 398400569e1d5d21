"""Whatever command reads a file, columns, labels and ids follow the same rules."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from noisyteacher.auditing import read_gold
from noisyteacher.core.errors import InputError, NoisyTeacherWarning
from noisyteacher.data import load_dataset, read_examples
from noisyteacher.io.user_tables import FileOptions
from noisyteacher.labels import TeacherLabels
from noisyteacher.labels.importers import import_table, parse_classes
from noisyteacher.pipeline.matching import with_classes, without_unlabeled
from noisyteacher.pipeline.sources import as_labels

CLASSES = ("cat", "dog")
STORE = TeacherLabels.from_probs([1, 2, 3, 4], [[0.5, 0.5]] * 4, CLASSES)


def write(path: Path, columns: dict[str, list[Any]]) -> Path:
    rows = list(zip(*columns.values(), strict=True))
    if path.suffix == ".parquet":
        pq.write_table(pa.table(columns), path)
    elif path.suffix == ".jsonl":
        path.write_text("\n".join(json.dumps(dict(zip(columns, r, strict=True))) for r in rows))
    else:
        between = "\t" if path.suffix == ".tsv" else ","
        lines = [between.join("" if v is None else str(v) for v in row) for row in rows]
        path.write_text("\n".join([between.join(columns), *lines]))
    return path


def imported(path: Path, **options: Any) -> TeacherLabels:
    return import_table([path], classes=parse_classes("cat,dog"), **options)


def examples(path: Path, **options: Any) -> Any:
    return read_examples(path, FileOptions(**options))


def gold(path: Path, **options: Any) -> Any:
    return read_gold(path, STORE, **options)


READERS: dict[str, Callable[..., Any]] = {
    "import": imported,
    "audit": gold,
    "distill": examples,
    "bench": load_dataset,
}


@pytest.mark.parametrize("reader", READERS.values(), ids=READERS)
@pytest.mark.parametrize("what", ["label", "id"])
def test_a_column_that_is_not_there_is_the_same_error(
    tmp_path: Path, reader: Callable[..., Any], what: str
) -> None:
    path = write(tmp_path / "t.csv", {"id": [1, 2], "text": ["x", "y"], "label": ["cat", "dog"]})
    with pytest.raises(InputError) as raised:
        reader(path, **{f"{what}_column": "mood"})
    assert str(raised.value) == (
        f"{path} has no {what} column: looked for 'mood' among 'id', 'text', 'label'; name it with "
        f"{what}_column= (--{what}-column)."
    )


@pytest.mark.parametrize("reader", [gold, examples, load_dataset])
def test_no_label_column_is_the_same_error(tmp_path: Path, reader: Callable[..., Any]) -> None:
    path = write(tmp_path / "t.csv", {"id": [1, 2], "text": ["x", "y"]})
    with pytest.raises(InputError) as raised:
        reader(path)
    assert str(raised.value) == (
        f"{path} has no label column: looked for 'label', 'fine_label', 'target', 'class', 'y' "
        "among 'id', 'text'; name it with label_column= (--label-column)."
    )


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
@pytest.mark.parametrize("names", [("Id", "Text", "Label"), ("ID", "TEXT", "LABEL")])
def test_the_usual_columns_may_have_capitals(
    tmp_path: Path, kind: str, names: tuple[str, ...]
) -> None:
    columns = ([1, 2, 3], ["x", "y", "z"], ["cat", "dog", "cat"])
    path = write(tmp_path / f"t.{kind}", dict(zip(names, columns, strict=True)))
    with pytest.warns(NoisyTeacherWarning, match="Hard labels"):
        by_import = imported(path)
    assert (by_import.ids.tolist(), by_import.hard.tolist()) == (columns[0], [0, 1, 0])
    by_audit, by_distill = gold(path), examples(path)
    assert (by_audit.ids.tolist(), by_audit.y.tolist()) == (columns[0], [0, 1, 0])
    assert (by_distill.inputs, by_distill.y.tolist()) == (columns[1], [0, 1, 0])
    assert load_dataset(path).classes == ("cat", "dog")


def test_a_coordinate_called_y_is_no_label(tmp_path: Path) -> None:
    numbers: dict[str, list[Any]] = {"X": [0.5, 1.5], "Y": [2.5, 3.5], "LABEL": ["cat", "dog"]}
    found = examples(write(tmp_path / "t.csv", numbers))
    assert (found.inputs.tolist(), found.y.tolist()) == ([[0.5, 2.5], [1.5, 3.5]], [0, 1])


@pytest.mark.parametrize("kind", ["csv", "tsv", "jsonl", "parquet"])
@pytest.mark.parametrize("nothing", [None, "", "  ", "-1"])
def test_rows_without_a_label_are_left_out_alike(
    tmp_path: Path, kind: str, nothing: str | None
) -> None:
    said = [" cat", "dog ", nothing, "cat"]
    columns: dict[str, list[Any]] = {"id": [1, 2, 3, 4], "text": list("abcd"), "label": said}
    path = write(tmp_path / f"t.{kind}", columns)
    left_out = r"1 rows of .*t.* have no label and are left out: 3\."
    hard = pytest.warns(NoisyTeacherWarning, match="Hard labels")
    with hard, pytest.warns(NoisyTeacherWarning, match=left_out):
        by_import = imported(path, label_column="label")
    assert (by_import.ids.tolist(), by_import.hard.tolist()) == ([1, 2, 4], [0, 1, 0])
    with pytest.warns(NoisyTeacherWarning, match=left_out):
        by_audit = gold(path)
    assert (by_audit.ids.tolist(), by_audit.y.tolist()) == ([1, 2, 4], [0, 1, 0])
    with pytest.warns(NoisyTeacherWarning, match=left_out):
        by_distill = without_unlabeled(with_classes(examples(path), CLASSES))
    assert (by_distill.ids.tolist(), by_distill.y.tolist()) == ([1, 2, 4], [0, 1, 0])
    if nothing != "-1":  # without a teacher nobody knows whether a class is called so
        by_bench = load_dataset(path)
        assert (by_bench.classes, by_bench.y.tolist()) == (CLASSES, [0, 1, -1, 0])


@pytest.mark.parametrize("kind", ["csv", "tsv", "jsonl", "parquet"])
def test_a_strange_label_is_the_same_error(tmp_path: Path, kind: str) -> None:
    columns: dict[str, list[Any]] = {"id": [1, 2], "text": ["x", "y"], "label": ["cat", "yak"]}
    path = write(tmp_path / f"t.{kind}", columns)
    said = r"t.* has the labels 'yak', which are not among the teacher's classes 'cat', 'dog'\.$"
    for read in (
        lambda: imported(path, label_column="label"),
        lambda: gold(path),
        lambda: with_classes(examples(path), CLASSES),
    ):
        with pytest.raises(InputError, match=said):
            read()


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
def test_class_numbers_written_as_text_are_numbers_to_the_bench(tmp_path: Path, kind: str) -> None:
    said = [str(c) for c in range(12)]
    path = write(tmp_path / f"t.{kind}", {"text": [f"text {c}" for c in said], "label": said})
    data = load_dataset(path)
    assert (data.y.tolist(), data.classes) == (list(range(12)), tuple(said))


def test_a_column_that_is_text_in_one_file_is_text_in_all(tmp_path: Path) -> None:
    paths = [
        write(tmp_path / "1.csv", {"id": [1], "label": [1]}),
        write(tmp_path / "2.parquet", {"id": [2], "label": [0]}),
        write(tmp_path / "3.jsonl", {"id": [3], "label": ["x"]}),
    ]
    with pytest.warns(NoisyTeacherWarning, match="Hard labels"):
        labels = import_table(paths, label_column="label", classes=parse_classes("0,1,x"))
    assert (labels.ids.tolist(), labels.hard.tolist()) == ([1, 2, 3], [1, 0, 2])


def test_ids_of_several_files_are_of_one_kind(tmp_path: Path) -> None:
    paths = [
        write(tmp_path / "1.csv", {"id": ["007"], "label": ["a"]}),
        write(tmp_path / "2.parquet", {"id": [8], "label": ["b"]}),
    ]
    with pytest.raises(InputError, match=r"The columns of .*1\.csv', .*2\.parquet' differ"):
        import_table(paths, label_column="label")


def test_labels_of_a_distillation_may_be_a_table_of_json_lines(tmp_path: Path) -> None:
    path = write(tmp_path / "t.jsonl", {"id": [7, 8], "label": ["cat", "dog"]})
    with pytest.warns(NoisyTeacherWarning, match="Hard labels"):
        labels = as_labels(path, [], CLASSES)
    assert (labels.ids.tolist(), labels.hard.tolist()) == ([7, 8], [0, 1])
    path.write_text('{"custom_id": "a", "response": {"body": {}}}')
    with pytest.raises(InputError, match="for an LLM's answers run `noisyteacher import` first"):
        as_labels(path, [], CLASSES)


def test_ids_in_an_archive_come_before_the_order_of_the_examples(tmp_path: Path) -> None:
    np.savez(tmp_path / "t.npz", probs=[[0.5, 0.5]], ids=["x"])
    assert as_labels(tmp_path / "t.npz", []).ids.tolist() == ["x"]
    np.savez(tmp_path / "t.npz", probs=[[0.5, 0.5]])
    with pytest.raises(InputError, match="need one row for each example"):
        as_labels(tmp_path / "t.npz", [])
