"""The store on disk: lossless, and refused in one sentence when it is damaged."""

from __future__ import annotations

import shutil

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from label_helpers import assert_identical, random_probs

from noisyteacher.core.errors import InputError
from noisyteacher.labels import TeacherLabels


def example(rows=20, k=3, **keywords):
    extras = {
        "embedding": np.random.default_rng(0).standard_normal((rows, 4)).astype(np.float32),
        "view_mean": np.full((rows, 2, 6), 0.25, np.float16),
        "view_std": torch.zeros(rows, 2, 6),
        "length": np.arange(rows, dtype=np.int32),
    }
    return TeacherLabels.from_probs(
        [f"row {n}" for n in range(rows)],
        random_probs(rows, 6),
        k=k,
        missing=np.linspace(0, 1, rows),
        extras=extras,
        **keywords,
    )


@pytest.fixture
def small_parts(monkeypatch):
    monkeypatch.setattr("noisyteacher.labels.store._PART_ROWS", 7)


@pytest.fixture
def stored(tmp_path, small_parts):
    """A store of three parts, and what is in it."""
    labels = example(teacher="big", revision="abc", temperature=2.0)
    labels.save(tmp_path / "store")
    return tmp_path / "store", labels


ID_LISTS = st.one_of(
    st.lists(st.integers(-(2**63), 2**63 - 1), max_size=12, unique=True),
    st.lists(
        st.text(st.characters(exclude_categories=["Cs"]), max_size=6).filter(
            lambda text: not text.endswith("\0")
        ),
        max_size=12,
        unique=True,
    ),
)


@settings(max_examples=60, deadline=None)
@given(ids=ID_LISTS, data=st.data())
def test_save_and_open_are_lossless(tmp_path_factory, ids, data):
    classes = data.draw(st.sampled_from([2, 5, 300]))
    k = data.draw(st.integers(1, min(classes, 6)))
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    probs = rng.dirichlet(np.full(classes, 0.05), len(ids)).reshape(len(ids), classes)
    extras = {}
    if data.draw(st.booleans()):
        kind = data.draw(st.sampled_from(["float16", "float32", "float64", "int64", "uint8"]))
        shape = data.draw(st.sampled_from([(), (1,), (3,), (2, 2)]))
        extras["more"] = (rng.random((len(ids), *shape)) * 100).astype(kind)
    labels = TeacherLabels.from_probs(
        ids,
        probs,
        classes=[f"class {n} é\n" for n in range(classes)],
        k=k,
        missing=rng.random(len(ids)),
        extras=extras,
        teacher=data.draw(st.sampled_from([None, "a/b"])),
        temperature=data.draw(st.sampled_from([None, 0.1, 3.0])),
    )
    path = tmp_path_factory.mktemp("stores") / "store"
    labels.save(path)
    if not ids:
        labels = labels.take([])  # the ids of an empty store are neither strings nor integers
    opened = TeacherLabels.open(path)
    assert_identical(opened, labels)
    opened.save(path, overwrite=True)
    assert_identical(TeacherLabels.open(str(path)), labels)


def test_parts_do_not_matter(stored, tmp_path):
    path, labels = stored
    assert_identical(TeacherLabels.open(path), labels)
    manifest = orjson.loads((path / "manifest.json").read_bytes())
    assert [part["rows"] for part in manifest["parts"]] == [7, 7, 6]
    labels.chunks(20).__next__().save(tmp_path / "again")
    again = orjson.loads((tmp_path / "again" / "manifest.json").read_bytes())
    assert again["ids_sha256"] == manifest["ids_sha256"]
    assert again["rows_sha256"] == manifest["rows_sha256"]
    assert again["extras"] == manifest["extras"]


def test_a_slice_can_be_saved(tmp_path):
    for number, chunk in enumerate(example().chunks(8)):
        chunk.save(tmp_path / f"{number}")
        assert_identical(TeacherLabels.open(tmp_path / f"{number}"), chunk)


def test_the_format_is_what_the_design_says(stored):
    path, labels = stored
    manifest = orjson.loads((path / "manifest.json").read_bytes())
    assert manifest["classes"] == list(labels.classes)
    assert (manifest["rows"], manifest["k"]) == (20, 3)
    assert manifest["teacher"] == "big"
    assert manifest["revision"] == "abc"
    assert manifest["temperature"] == 2.0
    assert manifest["extras"]["view_mean"]["shape"] == [2, 6]
    names = sorted(file.name for file in path.iterdir())
    assert names == ["manifest.json", *(part["file"] for part in manifest["parts"])]
    table = pq.read_table(path / manifest["parts"][0]["file"])
    assert table.schema.names[:5] == ["id", "topk_index", "topk_logprob", "tail", "missing"]
    assert table.schema.field("topk_index").type.value_type == pa.uint8()
    assert table.schema.field("topk_logprob").type.value_type == pa.float16()
    assert table.schema.field("topk_logprob").type.list_size == 3
    parquet = pq.ParquetFile(path / manifest["parts"][0]["file"])
    assert parquet.metadata.row_group(0).column(0).compression == "ZSTD"


def test_only_the_named_extras_are_read(stored):
    path, labels = stored
    opened = TeacherLabels.open(path, extras=["embedding"])
    assert list(opened.extras) == ["embedding"]
    assert opened.extras["embedding"].tobytes() == labels.extras["embedding"].tobytes()
    assert TeacherLabels.open(path, extras=()).extras == {}
    with pytest.raises(InputError, match="has no extra column 'other'"):
        TeacherLabels.open(path, extras=["other"])


def test_opening_nothing(tmp_path):
    with pytest.raises(InputError, match="There is no label store at"):
        TeacherLabels.open(tmp_path / "nowhere")
    with pytest.raises(InputError, match="There is no label store at"):
        TeacherLabels.open(tmp_path)


def test_a_truncated_part(stored):
    path, _ = stored
    part = sorted(path.glob("part-*"))[1]
    for size in (0, 3, part.stat().st_size // 2, part.stat().st_size - 1):
        part.write_bytes(part.read_bytes()[:size])
        with pytest.raises(InputError, match=rf"{part.name} is damaged"):
            TeacherLabels.open(path)


def test_a_missing_part(stored):
    path, _ = stored
    part = sorted(path.glob("part-*"))[2]
    part.unlink()
    with pytest.raises(InputError, match=rf"{part.name} is missing"):
        TeacherLabels.open(path)


def test_exchanged_parts(stored):
    path, _ = stored
    first, second, last = sorted(path.glob("part-*"))
    other = path / "other"
    first.rename(other)
    second.rename(first)
    other.rename(second)
    with pytest.raises(InputError, match=r"rows and ids of .* do not have the hash"):
        TeacherLabels.open(path)
    shutil.copy(last, first)
    with pytest.raises(InputError, match="6 rows instead of 7"):
        TeacherLabels.open(path)


@pytest.mark.parametrize(
    ("column", "values", "message"),
    [
        ("tail", pa.array(np.zeros(7, np.float32)), "the rows of"),
        ("missing", pa.array(np.ones(7, np.float32)), "the rows of"),
        ("id", pa.array([f"x{n}" for n in range(7)]), "the ids of"),
        ("id", pa.array(range(7)), "do not have the hash"),
        ("tail", pa.array(np.zeros(7)), "damaged: values of type float64 instead of float32"),
        ("tail", pa.array([None] * 7, pa.float32()), "is damaged"),
        ("length", pa.FixedSizeListArray.from_arrays(pa.array([1] * 7, pa.int32()), 1), "length"),
        ("length", pa.FixedSizeListArray.from_arrays(pa.array([1] * 14, pa.int32()), 2), "damaged"),
    ],
)
def test_a_part_written_anew_with_other_values(stored, column, values, message):
    path, _ = stored
    part = sorted(path.glob("part-*"))[0]
    table = pq.read_table(part)
    pq.write_table(table.set_column(table.schema.names.index(column), column, values), part)
    with pytest.raises(InputError, match=message):
        TeacherLabels.open(path)


def test_a_part_without_a_column(stored):
    path, _ = stored
    part = sorted(path.glob("part-*"))[0]
    pq.write_table(pq.read_table(part).drop_columns(["missing"]), part)
    with pytest.raises(InputError, match=r"damaged.*missing"):
        TeacherLabels.open(path)


def test_no_flipped_byte_goes_unnoticed(tmp_path):
    labels = example(rows=5)
    labels.save(tmp_path / "store")
    (part,) = (tmp_path / "store").glob("part-*")
    content = part.read_bytes()
    refused = 0
    for place in range(0, len(content), 5):
        damaged = bytearray(content)
        damaged[place] ^= 0x55
        part.write_bytes(damaged)
        try:
            # Some bytes say nothing about the rows, as the name of the writing program.
            assert_identical(TeacherLabels.open(tmp_path / "store"), labels)
        except InputError:
            refused += 1
    assert refused > 100


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (b'"temperature": 2.0', b'"temperature": 3.0', "was changed after it was written"),
        (b'"rows": 7', b'"rows": 6', "was changed after it was written"),
        (b'"k": 3', b'"k": 4', "was changed after it was written"),
        (b'"k": 3,', b"", "was changed after it was written"),
        (b'"1"', b'"2"', "was changed after it was written"),
        (b'"manifest_sha256": "', b'"manifest_sha256": "0', "was changed after it was written"),
        (b'"version": 1', b'"version": 2', "another version"),
        (b'"noisyteacher labels"', b'"x"', "is not the manifest of a label store"),
        (b"{", b"[", "not valid JSON"),
    ],
)
def test_an_edited_manifest(stored, old, new, message):
    path, _ = stored
    manifest = path / "manifest.json"
    content = manifest.read_bytes()
    assert old in content
    manifest.write_bytes(content.replace(old, new, 1))
    with pytest.raises(InputError, match=message):
        TeacherLabels.open(path)
    manifest.write_bytes(b"[]")
    with pytest.raises(InputError, match="is not the manifest"):
        TeacherLabels.open(path)
