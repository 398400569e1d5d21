"""Bad input to the audit is refused in one sentence that names it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from audit_teachers import calibrated
from scipy.sparse import csr_matrix

from noisyteacher.auditing import audit, read_gold
from noisyteacher.core.errors import InputError, MissingIdsError, NoisyTeacherWarning
from noisyteacher.labels import TeacherLabels

NAMES = ("cat", "dog", "eel", "fox", "gnu")


@pytest.fixture(scope="module")
def planted():
    return calibrated(n=120)


@pytest.fixture(scope="module")
def labels(planted):
    return TeacherLabels.from_probs([f"x{i}" for i in range(120)], planted.val, NAMES)


def test_names_numbers_and_tensors_mean_the_same(labels, planted):
    by_number = audit(labels, planted.y, replicates=50)
    assert audit(labels, [NAMES[c] for c in planted.y], replicates=50) == by_number
    with pytest.warns(NoisyTeacherWarning, match="y are numbers: 0 is taken for 'cat', 1 for"):
        assert audit(labels, [str(c) for c in planted.y], replicates=50) == by_number
    assert audit(labels, torch.from_numpy(planted.y), replicates=50) == by_number
    assert audit(labels, planted.y.tolist(), labels.ids.tolist(), replicates=50) == by_number


def test_the_path_of_a_store_stands_for_its_labels(labels, planted, tmp_path):
    labels.take(labels.ids[:100]).save(tmp_path / "val")
    labels.take(labels.ids[100:]).save(tmp_path / "pool")
    expected = audit(labels, planted.y[:100], labels.ids[:100], replicates=50)
    for of in (str, Path):
        pool = of(tmp_path / "pool")
        assert audit(of(tmp_path / "val"), planted.y[:100], pool=pool, replicates=50) == expected
    with pytest.raises(InputError, match=r"no label store at .*nowhere"):
        audit(str(tmp_path / "nowhere"), planted.y)


def test_sparse_inputs_are_taken(labels, planted):
    # No two rows are alike: those would share a fold.
    x = np.hstack([5 * np.eye(5)[planted.y], np.arange(1, 121)[:, None] / 1000])
    found = audit(labels, planted.y, inputs=csr_matrix(x), replicates=50).numbers.comparison
    assert found.gold_only.value == 1.0


@pytest.mark.parametrize(
    ("y", "said"),
    [
        (["cat"] * 119 + ["yak"], "'yak'"),
        (["cat"] * 119 + ["3"], "y has the labels '3', which are not among the teacher's classes"),
        ([0.5] * 120, "float64"),
        ([[0]] * 120, "shape"),
        ([[0], [0, 1]] * 60, "differ"),
        ([0] * 119, "119"),
        ([0, 5] * 60, "row 1 is 5"),
        ([0, -1] * 60, "row 1 is -1"),
    ],
)
def test_bad_truth(labels, y, said):
    with pytest.raises(InputError, match=said):
        audit(labels, y)


def test_nothing_to_learn_from(labels):
    with pytest.raises(InputError, match="V is empty"):
        audit(labels, [], ids=[])


def test_unknown_and_repeated_ids(labels, planted):
    with pytest.raises(MissingIdsError, match=r"None of the 2 gold ids .* 'y0', 'y1', .* 'x0'"):
        audit(labels, [0, 1], ids=["y0", "y1"])
    with pytest.raises(InputError, match="repeated: 'x1'"):
        audit(labels, [0, 1], ids=["x1", "x1"])
    with pytest.raises(InputError, match="repeated: 'a'"):
        audit(labels, planted.y, gold_ids=["a", "a"])


@pytest.mark.parametrize("kind", ["numbers", "sparse", "texts"])
def test_gold_rows_without_a_teacher_label_do_not_measure_it(labels, planted, kind):
    make = {
        "numbers": lambda y: np.eye(5)[y],
        "sparse": lambda y: csr_matrix(np.eye(5)[y]),
        "texts": lambda y: [f"word{c} film" for c in y],
    }[kind]
    y, kept = planted.y, np.arange(120) % 6 > 0
    fewer = labels.take(labels.ids[kept])
    expected = audit(fewer, y[kept], inputs=make(y[kept]), replicates=50)
    said = r"^20 of 120 gold ids .* are not used to measure the teacher: 'x0', 'x6'"
    with pytest.warns(NoisyTeacherWarning, match=said):
        found = audit(fewer, y, labels.ids, inputs=make(y), replicates=50)
    # They still are gold rows: students are judged on all of them, as in distill.
    assert replace(found.numbers, comparison=None) == replace(expected.numbers, comparison=None)
    assert found.recommendation == expected.recommendation
    assert found.numbers.val_rows == 100
    assert found.numbers.comparison.rows == 120
    assert expected.numbers.comparison.rows == 100


def test_a_v_of_one_class_is_a_warning(labels, planted):
    with pytest.warns(NoisyTeacherWarning, match="are of class 'fox', so"):
        result = audit(labels, [3] * 120, replicates=50)
    assert result.numbers.quality.accuracy.value == (labels.hard == 3).mean()
    with pytest.warns(NoisyTeacherWarning, match="are of class 'cat', so"):
        one = audit(labels, ["cat"], ids=["x0"], replicates=50)
    assert one.numbers.val_rows == 1
    assert not one.recommendation.slam_helps
    assert "Recommendation: " in one.summary()


def test_very_few_rows_are_not_compared(labels, planted):
    few = [int(row) for c in range(5) for row in np.flatnonzero(planted.y == c)[:2]]
    # No two rows are alike: those would share a fold.
    x = 5 * np.eye(5)[planted.y] + np.arange(120)[:, None] / 1000
    y, ids = planted.y[few], labels.ids[few]
    found = audit(labels, y, ids, inputs=x[few], replicates=50).numbers.comparison
    assert (found.rows, found.gold_only.value) == (10, 1.0)
    with pytest.raises(InputError, match=r"9 gold rows are too few to compare .* at least 10"):
        audit(labels, y[1:], ids[1:], inputs=x[few[1:]], gold_inputs=x, gold_y=planted.y)


def test_bad_settings(labels, planted):
    with pytest.raises(InputError, match="lower_bound"):
        audit(labels, planted.y, lower_bound=1.5)
    with pytest.raises(InputError, match="lower_bound must be a number, not '1/k'"):
        audit(labels, planted.y, lower_bound="1/k")
    with pytest.raises(InputError, match="replicates must be at least 50, not 3"):
        audit(labels, planted.y, replicates=3)


def test_bad_labels_and_pools(labels, planted):
    with pytest.raises(InputError, match="shape"):
        audit(planted.val[0], planted.y)
    with pytest.raises(InputError, match="both"):
        audit(labels, planted.y, pool=planted.pool)
    other = TeacherLabels.from_probs(np.arange(len(planted.pool)), planted.pool)
    with pytest.raises(InputError, match="other classes"):
        audit(labels, planted.y, pool=other)
    one = TeacherLabels.from_probs(np.arange(120), planted.val, k=1)
    with pytest.raises(InputError, match="at least 2"):
        audit(one, planted.y)


def test_bad_inputs(labels, planted):
    good = np.zeros((120, 2))
    with pytest.raises(InputError, match="inputs must have 120 rows"):
        audit(labels, planted.y, inputs=good[:5])
    with pytest.raises(InputError, match="120 rows"):
        audit(labels, planted.y, inputs=["a", "b"])
    with pytest.raises(InputError, match="no words"):
        audit(labels, planted.y, inputs=["a"] * 120, replicates=50)
    with pytest.raises(InputError, match="NaN"):
        audit(labels, planted.y, inputs=good + np.nan)
    with pytest.raises(InputError, match=r"\(n, \.\.\.\)"):
        audit(labels, planted.y, inputs=good[:, 0])
    with pytest.raises(InputError, match="pool_inputs require inputs"):
        audit(labels, planted.y, gold_inputs=good, gold_y=planted.y)
    with pytest.raises(InputError, match="pool_inputs require inputs"):
        audit(labels, planted.y, pool_inputs=good)
    with pytest.raises(InputError, match="must be given together"):
        audit(labels, planted.y, inputs=good, gold_y=planted.y)
    with pytest.raises(InputError, match="one kind"):
        audit(labels, planted.y, inputs=good, gold_inputs=good[:, :1], gold_y=planted.y)
    with pytest.raises(InputError, match="pool_inputs must have 80 rows"):
        audit(labels, planted.y[:40], labels.ids[:40], inputs=good[:40], pool_inputs=good[:79])


def write(path, text):
    path.write_text(text)
    return path


def test_gold_tables(labels, tmp_path):
    csv = write(tmp_path / "v.csv", "label,id,more\neel,x7,1\ncat,x0,2\n")
    gold = read_gold(csv, labels)
    assert gold.ids.tolist() == ["x7", "x0"]
    assert gold.y.tolist() == [2, 0]
    parquet = tmp_path / "v.parquet"
    pq.write_table(pa.table({"id": ["x7", "x0"], "label": [2, 0]}), parquet)
    with pytest.warns(NoisyTeacherWarning, match="numbers: 0 is taken for 'cat', 2 for 'eel'"):
        assert read_gold(parquet, labels).y.tolist() == [2, 0]
    ids_only = write(tmp_path / "a.csv", "id\nx1\n")
    assert read_gold(ids_only, labels, needs_labels=False).y is None


def test_ids_keep_their_kind(planted, tmp_path):
    csv = write(tmp_path / "v.csv", "id,label\n007,1\n")
    text = TeacherLabels.from_probs(["007"], planted.val[:1])
    assert read_gold(csv, text).ids.tolist() == ["007"]
    number = TeacherLabels.from_probs([7], planted.val[:1])
    assert read_gold(write(tmp_path / "w.csv", "id,label\n7,1\n"), number).ids.tolist() == [7]
    for key in ("x7", "007", "7.0"):
        with pytest.raises(InputError, match=r"ids of .*w\.csv are text .* are numbers \(7\)"):
            read_gold(write(tmp_path / "w.csv", f"id,label\n{key},1\n"), number)
    long = [1_800_000_000_000_000_001, -4]
    both = TeacherLabels.from_probs(long, planted.val[:2])
    lines = write(tmp_path / "w.csv", f"id,label\n{long[0]},1\n{long[1]},0\n")
    assert read_gold(lines, both).ids.tolist() == long


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("id,label\n", "no rows"),
        ("id,kind\nx1,cat\n", r"no label column: looked for 'label', .*\(--label-column\)"),
        ("name,label\nx1,cat\n", r"no column 'id' among 'name', .* called 'v/0'; .*--id-column"),
        ("id,label\nx1,yak\n", "'yak'"),
        ("id,label\nx1,\n", "has no labels"),
        ("id,label\n,cat\n", "1 empty"),
        ("id,label,label\nx1,cat,dog\n", "several columns named 'label'"),
        ("id,label\nx1,cat\nx2,3\n", "labels '3', which are not among the teacher's classes"),
        ("id,label\nx1,cat\nx1,dog\n", "repeated: 'x1'"),
        ("id,label\nx1\n", "cannot be read"),
    ],
)
def test_bad_gold_tables(labels, tmp_path, text, said):
    with pytest.raises(InputError, match=said):
        read_gold(write(tmp_path / "v.csv", text), labels)


def test_a_parquet_table_of_the_wrong_kind(labels, tmp_path):
    path = tmp_path / "v.parquet"
    pq.write_table(pa.table({"id": ["x7"], "label": [0.5]}), path)
    with pytest.raises(InputError, match="double"):
        read_gold(path, labels)
    pq.write_table(pa.table({"id": ["x7", None], "label": [0, 1]}), path)
    with pytest.raises(InputError, match="1 empty"):
        read_gold(path, labels)
    with pytest.raises(InputError, match="cannot be read"):
        read_gold(tmp_path / "absent.csv", labels)


def test_numbers_for_classes_that_are_called_by_other_numbers_are_refused() -> None:
    labels = TeacherLabels.from_probs([1, 2], [[0.5, 0.3, 0.2]] * 2, ["2", "1", "0"])
    with pytest.raises(InputError, match="give y as class names"):
        audit(labels, np.array([2, 0]))


def test_gold_is_the_same_in_every_format(tmp_path):
    ids = ["000", "007", "7", "1e3"]
    names = ["NA", "true", "01"]
    labels = TeacherLabels.from_probs(ids, np.full((4, 3), 1 / 3), names)
    said = ["true", "NA", "01", "true"]
    rows = [f"{key},{name}" for key, name in zip(ids, said, strict=True)]
    write(tmp_path / "v.csv", "\n".join(["id,label", *rows]))
    write(tmp_path / "v.tsv", "\n".join(["id,label", *rows]).replace(",", "\t"))
    lines = [json.dumps({"id": key, "label": name}) for key, name in zip(ids, said, strict=True)]
    write(tmp_path / "v.jsonl", "\n".join(lines))
    pq.write_table(pa.table({"id": ids, "label": said}), tmp_path / "v.parquet")
    for kind in ("csv", "tsv", "jsonl", "parquet"):
        gold = read_gold(tmp_path / f"v.{kind}", labels)
        assert gold.ids.tolist() == ids
        assert gold.y.tolist() == [1, 0, 2, 1]
    with pytest.raises(InputError, match=r"v\.txt is not a table: its name must end in \.csv"):
        read_gold(tmp_path / "v.txt", labels)


def test_other_columns_and_rows_without_ids(labels, planted, tmp_path):
    csv = write(tmp_path / "v.csv", "label,key,kind\n0,x7,eel\n2,x0,cat\n")
    gold = read_gold(csv, labels, id_column="key", label_column="kind")
    assert gold.ids.tolist() == ["x7", "x0"]
    assert gold.y.tolist() == [2, 0]
    with pytest.raises(InputError, match="no id column: looked for 'name' among 'label', 'key'"):
        read_gold(csv, labels, id_column="name")
    with pytest.raises(InputError, match="looked for 'mood' among 'label', 'key'"):
        read_gold(csv, labels, id_column="key", label_column="mood")
    unnamed = TeacherLabels.from_probs(["v/0", "v/1", "pool/0"], planted.val[:3], NAMES)
    with pytest.warns(NoisyTeacherWarning, match="numbers: 0 is taken for 'cat', 2 for 'eel'"):
        assert read_gold(csv, unnamed).ids.tolist() == ["v/0", "v/1"]


def test_booleans_are_classes(tmp_path):
    pq.write_table(pa.table({"id": [1, 2], "label": [True, False]}), tmp_path / "v.parquet")
    write(tmp_path / "v.jsonl", '{"id": 1, "label": true}\n{"id": 2, "label": false}')
    for classes, y in ((("False", "True"), [1, 0]), (("1", "0"), [0, 1])):
        labels = TeacherLabels.from_probs([1, 2], [[0.5, 0.5]] * 2, classes)
        for kind in ("parquet", "jsonl"):
            assert read_gold(tmp_path / f"v.{kind}", labels).y.tolist() == y


def test_numbers_are_no_places_where_classes_are_called_by_numbers(tmp_path):
    labels = TeacherLabels.from_probs([1, 2], [[0.5, 0.5]] * 2, ("10", "20"))
    with pytest.raises(
        InputError, match="labels '0', '1', which are not among the teacher's classes"
    ):
        read_gold(write(tmp_path / "v.csv", "id,label\n1,0\n2,1\n"), labels)


def test_rows_without_a_label(labels, tmp_path):
    path = tmp_path / "v.parquet"
    pq.write_table(pa.table({"id": ["x1", "x2", "x3"], "label": ["cat", None, "-1"]}), path)
    with pytest.warns(NoisyTeacherWarning, match="2 rows .* have no label .*'x2', 'x3'"):
        gold = read_gold(path, labels)
    assert (gold.ids.tolist(), gold.y.tolist()) == (["x1"], [0])
    every = read_gold(path, labels, needs_labels=False)
    assert every.y.tolist() == [0, -1, -1]
    assert every.known.ids.tolist() == ["x1"]


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
def test_minus_one_is_a_class_where_one_is_called_so(tmp_path, kind):
    path = tmp_path / f"v.{kind}"
    if kind == "csv":
        write(path, "id,label\n1,-1\n2,1\n")
    elif kind == "jsonl":
        write(path, '{"id": 1, "label": -1}\n{"id": 2, "label": 1}')
    else:
        pq.write_table(pa.table({"id": [1, 2], "label": [-1, 1]}), path)
    probs = [[0.5, 0.5]] * 2
    named = TeacherLabels.from_probs([1, 2], probs, ("1", "-1"))
    assert read_gold(path, named).y.tolist() == [1, 0]
    with pytest.raises(InputError, match="give y as class names"):
        audit(named, np.array([-1, 1]))
    with pytest.raises(InputError, match="called '-1', which are not their positions"):
        audit(TeacherLabels.from_probs([1, 2], probs, ("bad", "-1")), np.array([-1, 0]))
    with pytest.warns(NoisyTeacherWarning, match="1 rows .* have no label"):
        other = read_gold(path, TeacherLabels.from_probs([1, 2], probs, ("0", "1")))
    assert (other.ids.tolist(), other.y.tolist()) == ([2], [1])
