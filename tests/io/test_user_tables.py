"""Users' tables of every format, and labels as they write them."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from noisyteacher.core.errors import InputError, NoisyTeacherWarning
from noisyteacher.io import formats, user_tables
from noisyteacher.io.classes import is_unknown, places_of
from noisyteacher.io.columns import ids_in, texts_in
from noisyteacher.io.formats import is_untyped, kind_of, stem_of
from noisyteacher.io.ids import ids_like
from noisyteacher.io.user_tables import read_table, table_blocks
from noisyteacher.labels.importers import import_table

COLUMNS = {"key": ["007", "12"], "note": ["1e3", "true"], "size": [1, 2]}


def write(folder: Path, kind: str, columns: dict[str, list[object]] = COLUMNS) -> Path:
    path = folder / f"t.{kind}"
    rows = list(zip(*columns.values(), strict=True))
    if kind.lower() == "parquet":
        pq.write_table(pa.table(columns), path)
    elif kind.lower() in ("jsonl", "ndjson"):
        path.write_text("\n".join(json.dumps(dict(zip(columns, r, strict=True))) for r in rows))
    else:
        between = "\t" if kind.lower() == "tsv" else ","
        path.write_text("\n".join(between.join(map(str, row)) for row in [tuple(columns), *rows]))
    return path


@pytest.mark.parametrize("kind", ["csv", "CSV", "tsv", "jsonl", "ndjson", "parquet", "PARQUET"])
def test_every_format_gives_the_same_table(tmp_path: Path, kind: str) -> None:
    table = read_table(write(tmp_path, kind), ("id", "key"), ("text", "note"), ("none",))
    assert table.to_pydict() == COLUMNS
    assert ids_in(table, "key", "t").tolist() == ["007", "12"]


@pytest.mark.parametrize("kind", ["csv", "tsv", "jsonl", "ndjson"])
def test_packed_text_is_read(tmp_path: Path, kind: str) -> None:
    path = tmp_path / f"t.{kind}.GZ"
    path.write_bytes(gzip.compress(write(tmp_path, kind).read_bytes()))
    assert read_table(path, ("id", "key"), ("text", "note")).to_pydict() == COLUMNS
    assert (stem_of(path), kind_of(path), is_untyped(path)) == ("t", f".{kind}", "sv" in kind)


@pytest.mark.parametrize("mark", [";", "\t"])
def test_a_csv_may_have_other_marks_between_its_columns(tmp_path: Path, mark: str) -> None:
    path = tmp_path / "t.csv"
    path.write_text(
        mark.join(("\ufeffid", '"a, b"', "text")) + "\n" + mark.join(("x", "1", "y, z"))
    )
    wanted = {"id": ["x"], "a, b": [1], "text": ["y, z"]}
    assert read_table(path, ("id",), ("text",)).to_pydict() == wanted
    (block,) = table_blocks(path, ("id",), ("text",))
    assert block.to_pydict() == wanted
    path.write_text(f"id,text\nx,y{mark} z\n")
    assert read_table(path, ("id",)).to_pydict() == {"id": ["x"], "text": [f"y{mark} z"]}


def test_ids_of_a_csv_are_numbers_where_all_are_written_so(tmp_path: Path) -> None:
    path = write(tmp_path, "csv", {"id": ["7", "12"], "x": [1, 2]})
    assert ids_in(read_table(path, ("id",)), "id", "t").tolist() == [7, 12]
    other = tmp_path / "other.csv"
    other.write_text("id,x\n007,3\n")
    both = read_table([path, other], ("id",))
    assert ids_in(both, "id", "t").tolist() == ["7", "12", "007"]


def test_a_folder_called_like_a_partition_adds_no_column(tmp_path: Path) -> None:
    (tmp_path / "seed=3").mkdir()
    assert read_table(write(tmp_path / "seed=3", "parquet"), ()).column_names == list(COLUMNS)


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("t.csv", b"", "t.csv is empty"),
        ("t.jsonl", b"\n \n", "t.jsonl is empty"),
        ("t.csv", b"id,a,a\n1,2,3\n", "several columns named 'a'"),
        ("t.csv", "id,a\n1,caf\xe9\n".encode("latin-1"), "'a' is not UTF-8"),
        ("t.csv", "id\ncaf\xe9\n".encode("latin-1"), "is not UTF-8"),
        ("t.csv", "id,caf\xe9\n1,2\n".encode("latin-1"), "is not UTF-8"),
        ("t.csv", b"id,a\n1\n", r"cannot be read as a table: .*[^.]\.$"),
        ("t.csv", b"id,a\n,1\n", "1 empty values"),
        (
            "t.jsonl",
            b'{"id": 1}\n{"id": "1"}\n',
            "the column 'id' holds numbers and text; ids are all text or all whole numbers",
        ),
        ("t.jsonl", b'{"a": true}\n{"a": [1]}\n', r"'a' holds true or false and lists\.$"),
        ("t.jsonl", b'{"a": 18446744073709551615}\n', "'a' cannot be read: .* too large"),
        ("t.parquet.gz", b"x", "t.parquet.gz is compressed; decompress it first"),
        ("t.csv.zip", b"x", "t.csv.zip is compressed; decompress it first"),
        ("t.csv.gz", b"id,a\n1,2\n", "cannot be read as a table"),
        ("t.jsonl.gz", b'{"id": 1}\n', "is not a complete gzip file"),
        # Without a time, or each worker would collect a test of another name.
        (
            "t.jsonl.gz",
            gzip.compress(b'{"id": 1}\n' * 99, mtime=0)[:-9],
            "is not a complete gzip file",
        ),
        ("t.jsonl", b'{"id": 1}\n{"id": \n', "line 2, is not JSON"),
        ("t.jsonl", b"[1]\n", "line 1, is not a JSON object"),
        ("t.parquet", b"PAR1", "cannot be read as a table"),
        ("t.txt", b"id,a\n1,2\n", r"must end in \.csv, \.tsv, \.jsonl, \.ndjson, \.parquet"),
    ],
)
def test_bad_tables_are_one_sentence(
    tmp_path: Path, name: str, content: bytes, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=said):
        read_table(tmp_path / name, ("id",))
    one_line_at_a_time(monkeypatch)
    with pytest.raises(InputError, match=said):
        read_table(tmp_path / name, ("id",))


def one_line_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(formats, "_BLOCK_BYTES", 2)
    monkeypatch.setattr(user_tables, "_ROWS_AT_ONCE", 0)


@pytest.mark.parametrize(
    "values",
    [
        [1, 0.5, None],
        [None, None, "a"],
        [[1, 0], [0.25, 0.75], [1e-300, 1]],
        [[1, 0], [1, 2, 3], []],
        [[1, None], [0.5, 0.5]],
        [["a", "b"], ["c"]],
        [{"a": 1, "b": 0}, {"b": 0.25, "a": 0.75}],
        [{"a": 1, "b": 0}, {"a": 1, "c": 0.25}],
        [{"a": 1, "b": 0}, {"a": 0.5}, None],
        [{"a": None, "b": 0.5}, {"a": 0.5, "b": None}],
        [{"a": {"b": 1.5, "c": 2}}, {"a": {"b": 1, "c": 2}}],
        [True, None, False],
    ],
)
def test_columns_of_json_lines_are_what_arrow_makes_of_them(
    tmp_path: Path, values: list[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path, "jsonl", {"id": list(range(len(values))), "v": values})
    expected = pa.array(values).to_pylist()
    assert read_table(path, ("id",))["v"].to_pylist() == expected
    one_line_at_a_time(monkeypatch)
    assert read_table(path, ("id",))["v"].to_pylist() == expected


def test_keys_that_come_late_or_go_are_columns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text('{"a": 1}\n\n{"a": 2, "b": "x"}\n{"c": [1, 2]}\n')
    expected = {"a": [1, 2, None], "b": [None, "x", None], "c": [None, None, [1, 2]]}
    assert read_table(path, ()).to_pydict() == expected
    one_line_at_a_time(monkeypatch)
    assert read_table(path, ()).to_pydict() == expected


def test_probabilities_in_json_lines_are_a_table(tmp_path: Path) -> None:
    path = write(tmp_path, "jsonl", {"id": ["007", "8"], "cat": [0.25, 0.5], "dog": [0.75, 0.5]})
    labels = import_table([path])
    assert (labels.ids.tolist(), labels.classes) == (["007", "8"], ("cat", "dog"))


def test_the_usual_names_of_the_id_column_are_found(tmp_path: Path) -> None:
    path = write(tmp_path, "csv", {"ID": ["007", "8"], "cat": [0.25, 0.5], "dog": [0.75, 0.5]})
    assert import_table([path]).ids.tolist() == ["007", "8"]
    with pytest.raises(
        InputError, match=r"no id column: looked for 'key' among .* id_column= \(--id-column\)"
    ):
        import_table([path], id_column="key")


def test_ids_take_the_kind_of_the_store() -> None:
    text, numbers = np.array(["7", "-12"]), np.array([7, -12])
    assert ids_like(text, numbers, "t").tolist() == [7, -12]
    assert ids_like(numbers, text, "t").tolist() == ["7", "-12"]
    assert ids_like(text, text, "t") is text
    for odd in ("007", "4_0", "-0", " 7", "7.0", "9223372036854775808", "99999999999999999999"):
        with pytest.raises(InputError, match="The ids of t are text"):
            ids_like(np.array([odd]), numbers, "t")
    assert ids_like(np.array(["9223372036854775807"]), numbers, "t").tolist() == [2**63 - 1]


def test_names_come_before_places() -> None:
    def places(classes: tuple[str, ...], *used: str) -> list[int | None]:
        found = places_of(used, classes, "t")
        return [found.get(name) for name in used]

    assert places(("2", "1", "0"), "0", "2") == [2, 0]
    assert places(("cat", "dog"), "cat", "1") == [0, None]
    assert places(("cat", "dog"), "01") == [None]
    assert places(("10", "20"), "0", "1") == [None, None]
    assert places(("True", "False"), "true", "false") == [0, 1]
    assert places(("True", "False"), "0", "1") == [1, 0]
    assert places(("1", "0"), "true", "false") == [0, 1]
    with pytest.warns(NoisyTeacherWarning, match="of t are numbers, and none is 0: 2 is taken"):
        assert places(("a", "b", "c"), "10", "2") == [None, 2]


def test_numbers_that_are_taken_for_places_are_always_told() -> None:
    told = "of t are numbers: 0 is taken for 'positive', 1 for 'negative', counted from 0"
    with pytest.warns(NoisyTeacherWarning, match=told):
        assert places_of(("1", "0"), ("positive", "negative"), "t")["0"] == 0
    with pytest.warns(
        NoisyTeacherWarning, match=r"0 is taken for 'a', 2 for '\{c\}', 3 for 'd', \.\.\."
    ):
        places_of(("4", "3", "2", "0"), ("a", "b", "{c}", "d", "e"), "t")


def test_minus_one_is_unknown_unless_a_class_is_called_so() -> None:
    assert is_unknown("-1", ("0", "1"))
    assert not is_unknown("-1", ("-1", "1"))
    assert is_unknown("", ("a", "b"))
    assert is_unknown(None, ("a", "b"))


def test_blocks_of_rows_have_the_keys_of_all_of_them(tmp_path: Path) -> None:
    path = tmp_path / "pool.jsonl"
    path.write_text('{"id": 1, "note": [1]}\n{"id": 2, "text": "a"}\n')
    (table,) = table_blocks(path, ("id",), ("text",))
    assert table.to_pylist() == [
        {"id": 1, "note": [1], "text": None},
        {"id": 2, "note": None, "text": "a"},
    ]


def test_rows_without_a_text_are_named(tmp_path: Path) -> None:
    path = write(tmp_path, "parquet", {"text": ["a", None, "b", None]})
    with pytest.raises(
        InputError, match=r"'text' has 2 empty texts, in the rows 1, 3 \(counted fr"
    ):
        texts_in(read_table(path, ("id",)), "text", str(path))
