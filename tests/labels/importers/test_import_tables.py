"""CSV and Parquet tables to labels."""

from __future__ import annotations

import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from noisyteacher.core.errors import InputError, NoisyTeacherWarning
from noisyteacher.labels import TeacherLabels
from noisyteacher.labels.importers import (
    ImportSettings,
    import_table,
    parse_classes,
    with_synonyms,
)

PROBS = np.array([[0.7, 0.3], [0.1, 0.9]])
CSV = "id,text,cat,dog\na,meow,0.7,0.3\nb,woof,0.1,0.9\n"


def csv(folder: Path, content: str, name: str = "teacher.csv") -> list[Path]:
    (folder / name).write_bytes(content.encode())
    return [folder / name]


def parquet(folder: Path, **columns: Any) -> list[Path]:
    pq.write_table(pa.table(columns), folder / "teacher.parquet")
    return [folder / "teacher.parquet"]


@pytest.mark.parametrize("content", [CSV, "\ufeff" + CSV.replace("\n", "\r\n")])
def test_csv_with_a_column_per_class(tmp_path: Path, content: str) -> None:
    labels = import_table(csv(tmp_path, content))
    assert (labels.ids.tolist(), labels.classes) == (["a", "b"], ("cat", "dog"))
    np.testing.assert_allclose(labels.probs, PROBS, atol=5e-4)


def test_classes_choose_and_order_the_columns(tmp_path: Path) -> None:
    content = CSV.replace("dog", "p_dog").replace("0.3\n", "0.3,5\n").replace("0.9\n", "0.9,5\n")
    paths = csv(tmp_path, content.replace("p_dog\n", "p_dog,score\n"))
    labels = import_table(paths, classes=with_synonyms({"dog": ("p_dog",), "cat": ()}))
    assert labels.classes == ("dog", "cat")
    np.testing.assert_allclose(labels.probs, PROBS[:, ::-1], atol=5e-4)


def test_tab_separated(tmp_path: Path) -> None:
    labels = import_table(csv(tmp_path, CSV.replace(",", "\t"), "teacher.tsv"))
    np.testing.assert_allclose(labels.probs, PROBS, atol=5e-4)


def test_several_tables_are_one(tmp_path: Path) -> None:
    paths = csv(tmp_path, CSV, "1.csv") + csv(
        tmp_path, CSV.replace("\na", "\nc").replace("\nb", "\nd"), "2.csv"
    )
    assert import_table(paths).ids.tolist() == ["a", "b", "c", "d"]


def test_list_column_of_a_parquet_file(tmp_path: Path) -> None:
    paths = parquet(tmp_path, id=[1, 2], probs=PROBS.tolist())
    labels = import_table(paths, classes=parse_classes("cat,dog"), list_column="probs")
    assert (labels.ids.tolist(), labels.classes) == ([1, 2], ("cat", "dog"))
    np.testing.assert_allclose(labels.probs, PROBS, atol=5e-4)
    assert import_table(paths).classes == ("0", "1")


def test_fixed_size_lists_over_several_chunks(tmp_path: Path) -> None:
    column = pa.array(PROBS.astype(np.float32).tolist(), pa.list_(pa.float32(), 2))
    pq.write_table(
        pa.table({"id": ["a", "b"], "probs": column}), tmp_path / "x.parquet", row_group_size=1
    )
    labels = import_table(
        [tmp_path / "x.parquet", *parquet(tmp_path, id=["c"], probs=[[0.5, 0.5]])]
    )
    np.testing.assert_allclose(labels.probs, [*PROBS, [0.5, 0.5]], atol=5e-4)


def test_lists_in_csv_are_json(tmp_path: Path) -> None:
    paths = csv(tmp_path, 'id,probs\n1,"[0.7, 0.3]"\n2,"[0.1, 0.9]"\n')
    np.testing.assert_allclose(import_table(paths, list_column="probs").probs, PROBS, atol=5e-4)
    paths = csv(tmp_path, 'id,probs\n1,"[0.7, 0.3]"\n2,often\n')
    with pytest.raises(InputError, match="'probs' does not hold only JSON lists"):
        import_table(paths, list_column="probs")


def test_logits_and_ids_from_elsewhere(tmp_path: Path) -> None:
    paths = parquet(tmp_path, row=["1", "2"], cat=np.log(PROBS[:, 0]), dog=np.log(PROBS[:, 1]))
    labels = import_table(paths, ids=np.array(["x", "y"]), settings=ImportSettings(logits=True))
    assert labels.ids.tolist() == ["x", "y"]
    np.testing.assert_allclose(labels.probs, PROBS, atol=5e-4)
    settings = ImportSettings(logits=True, int_ids=True)
    assert import_table(paths, id_column="row", settings=settings).ids.tolist() == [1, 2]
    with pytest.raises(InputError, match=r"logits=True \(--logits\)"):
        import_table(paths, id_column="row")
    with pytest.raises(InputError, match="3 ids were given for the 2 rows"):
        import_table(paths, ids=np.arange(3))


def test_whole_numbers_are_probabilities_too(tmp_path: Path) -> None:
    labels = import_table(csv(tmp_path, "id,cat,dog\na,1,0\n"), classes=parse_classes("cat,dog"))
    np.testing.assert_allclose(labels.probs, [[1, 0]])


WRONG = {
    "no id column": (
        CSV.replace("id,", "key,"),
        None,
        "no id column: looked for 'id' among 'key', 'te",
    ),
    "no such class": (
        CSV,
        "cat,bird",
        r"no column for the classes 'bird'; its columns are 'text', 'c",
    ),
    "empty cell": (CSV.replace("0.7", ""), None, "column 'cat' has 1 empty values"),
    "text": (CSV, "cat,text", "'text' holds string, not numbers"),
    "one column": (
        "id,cat\na,0.5\n",
        None,
        r"fewer than two columns .* classes= \(--classes\), .* list_column= \(--list-column\)",
    ),
    "not 1": (
        CSV.replace("0.7", "0.5"),
        None,
        r"probs row 0 \(id 'a'\) sums to 0.8 instead of 1\.$",
    ),
    "repeated id": (CSV.replace("\nb", "\na"), None, "ids must be unique; repeated: 'a'"),
    "no rows": ("id,cat,dog\n", None, "has no rows"),
    "empty": ("", None, "teacher.csv is empty"),
    "ragged": (CSV + "c,d\n", None, "cannot be read as a table: CSV parse error"),
}


@pytest.mark.parametrize(("content", "classes", "problem"), WRONG.values(), ids=WRONG)
def test_wrong_tables(tmp_path: Path, content: str, classes: str | None, problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        import_table(csv(tmp_path, content), classes=classes and parse_classes(classes))


def test_wrong_lists(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="a list of 2 values in row 0 and one of 1 in row 1"):
        import_table(parquet(tmp_path, id=[1, 2], probs=[[0.5, 0.5], [1.0]]))
    with pytest.raises(InputError, match="'probs' has 1 empty values"):
        import_table(parquet(tmp_path, id=[1, 2], probs=[[0.5, 0.5], None]))
    with pytest.raises(InputError, match="not lists of numbers"):
        import_table(parquet(tmp_path, id=[1], probs=[0.5]), list_column="probs")
    with pytest.raises(InputError, match="several columns for the classes 'cat'"):
        import_table(
            parquet(tmp_path, id=[1], cat=[0.5], p=[0.5], dog=[0.5]),
            classes=with_synonyms({"cat": ("p",), "dog": ()}),
        )
    (tmp_path / "x.parquet").write_bytes(b"PAR1")
    with pytest.raises(InputError, match=r"x.parquet cannot be read as a table"):
        import_table([tmp_path / "x.parquet"])


def test_classes_in_a_json_file(tmp_path: Path) -> None:
    path = tmp_path / "classes.json"
    path.write_text('\ufeff{"cat": ["kitty", "cat"], "dog": "hound"}')
    assert parse_classes(str(path)) == {"cat": ("cat", "kitty"), "dog": ("dog", "hound")}
    path.write_text('["cat", "dog"]')
    assert (
        parse_classes(str(path)) == parse_classes("cat, dog") == {"cat": ("cat",), "dog": ("dog",)}
    )


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("{", "is not JSON"),
        ("3", "must hold a list of class names, or an object"),
        ('{"cat": 3, "dog": []}', "the answers of 'cat' must be strings, got 3"),
        ('["cat", "cat"]', "classes must be unique; repeated: 'cat'"),
        ('["cat"]', "At least 2 classes"),
    ],
)
def test_wrong_classes_file(tmp_path: Path, content: str, problem: str) -> None:
    path = tmp_path / "classes.json"
    path.write_text(content)
    with pytest.raises(InputError, match=problem):
        parse_classes(str(path))


def test_wrong_class_lists(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="'cat,,dog' has an empty class name"):
        parse_classes("cat,,dog")
    with pytest.raises(InputError, match="repeated: 'cat'"):
        parse_classes("cat,cat")
    with pytest.raises(InputError, match=r"none.json cannot be read: No such file"):
        parse_classes(str(tmp_path / "none.json"))


def test_ids_of_a_csv_are_numbers_only_where_they_are_written_so(tmp_path: Path) -> None:
    path = tmp_path / "teacher.csv"
    for ids, kept in (
        (("7", "12"), [7, 12]),
        (("007", "12"), ["007", "12"]),
        (("12345678901234567890", "1.10"), ["12345678901234567890", "1.10"]),
    ):
        path.write_text("id,a,b\n" + "\n".join(f"{key},0.5,0.5" for key in ids))
        assert import_table([path]).ids.tolist() == kept


def test_columns_of_whole_numbers_are_not_dropped_in_silence(tmp_path: Path) -> None:
    path = tmp_path / "teacher.csv"
    path.write_text("id,a,b,c\n1,0.4,0.6,0\n2,0.7,0.3,0\n")
    with pytest.warns(NoisyTeacherWarning, match="'c' do not hold decimals"):
        assert import_table([path]).classes == ("a", "b")
    path.write_text("id,a,b,c\n1,0.4,1.2,2\n2,0.7,-0.3,-1\n")
    with pytest.raises(InputError, match=r"name the classes: classes= \(--classes\)"):
        import_table([path], settings=ImportSettings(logits=True))


def test_ids_of_several_csv_files_are_all_numbers_or_all_text(tmp_path: Path) -> None:
    paths = [tmp_path / "one.csv", tmp_path / "two.csv"]
    paths[0].write_text("id,a,b\n7,0.5,0.5\n")
    paths[1].write_text("id,a,b\n007,0.5,0.5\n")
    assert import_table(paths).ids.tolist() == ["7", "007"]
    paths[1] = tmp_path / "two.parquet"
    pq.write_table(pa.table({"id": [8], "a": [0.5], "b": [0.5]}), paths[1])
    assert import_table(paths).ids.tolist() == [7, 8]


def test_one_long_id_costs_no_more_than_its_own_length(tmp_path):
    names = [f"row-{number}" for number in range(2000)]
    names[1000] = "x" * 100_000
    path = tmp_path / "probs.csv"
    path.write_text("id,cat,dog\n" + "".join(f"{name},0.25,0.75\n" for name in names))
    tracemalloc.start()
    try:
        labels = import_table([path])
        labels.save(tmp_path / "labels")
        again = TeacherLabels.open(tmp_path / "labels")
        assert again.take([names[1000], names[0]]).ids.tolist() == [names[1000], names[0]]
        assert again.ids.tolist() == names
        assert tracemalloc.get_traced_memory()[1] < 20e6  # of one width they would take 800 MB
    finally:
        tracemalloc.stop()
