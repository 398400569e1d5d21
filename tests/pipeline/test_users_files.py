"""Files as users have them: what they name is matched by name, and nothing is guessed."""

from __future__ import annotations

import gzip
import json
import runpy
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from PIL import Image

from noisyteacher.auditing import read_gold
from noisyteacher.core.errors import InputError, NoisyTeacherWarning
from noisyteacher.core.integrity import read_json, sealed_json
from noisyteacher.data.dataset import rgb_images
from noisyteacher.data.input_format import fit_format
from noisyteacher.io.images import decode_image
from noisyteacher.labels import TeacherLabels
from noisyteacher.pipeline import DistillSettings, FileOptions, gather, read_examples, run_distill
from noisyteacher.pipeline.matching import with_classes
from noisyteacher.pipeline.task import Task
from noisyteacher.pipeline.teachers import FunctionTeacher
from user_files import write_digit_folders


@pytest.fixture(autouse=True)
def image_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOISYTEACHER_CACHE", str(tmp_path_factory.mktemp("cache")))


def write(path: Path, *lines: str, encoding: str = "utf-8") -> Path:
    path.write_bytes("\n".join(lines).encode(encoding))
    return path


def table_task(folder: Path, pool_columns: str) -> Task:
    """40 gold rows and 60 of the pool, whose feature "a" tells the class."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 100)
    values = {"id": np.arange(100), "a": y + rng.normal(0, 0.1, 100), "b": rng.normal(size=100)}
    for name, part, columns in (
        ("gold", slice(0, 40), "id,a,b,label"),
        ("pool", slice(40, None), pool_columns),
    ):
        values["label"] = np.array(["no", "yes"])[y]
        names = columns.split(",")
        lines = [",".join(str(values[n][part][i]) for n in names) for i in range(len(y[part]))]
        write(folder / f"{name}.csv", columns, *lines)
    probs = np.where(y[:, None] == [0, 1], 0.8, 0.2)
    labels = TeacherLabels.from_probs(np.arange(100), probs, ["no", "yes"])
    return gather(gold=folder / "gold.csv", pool=folder / "pool.csv", labels=labels)


def test_columns_of_tables_are_matched_by_name(tmp_path: Path) -> None:
    usual, swapped = (table_task(tmp_path, columns) for columns in ("id,a,b", "id,b,a"))
    np.testing.assert_array_equal(usual.inputs, swapped.inputs)
    assert swapped.features == ("a", "b")
    write(tmp_path / "pool.csv", "id,a,c", "99,1,1")
    with pytest.raises(InputError, match="lacks 'b' and has 'c' besides, unlike the gold set"):
        gather(gold=tmp_path / "gold.csv", pool=tmp_path / "pool.csv", labels=usual.labels)


def test_a_feature_may_be_called_like_a_label(tmp_path: Path) -> None:
    """Gold says which column is the label; the pool's column of another usual name is no label."""
    usual = table_task(tmp_path, "id,a,b")
    for name in ("gold", "pool"):
        path = tmp_path / f"{name}.csv"
        path.write_text(path.read_text().replace("id,a,b", "id,a,y"))
    with pytest.warns(NoisyTeacherWarning, match="'y'"):
        task = gather(gold=tmp_path / "gold.csv", pool=tmp_path / "pool.csv", labels=usual.labels)
    assert task.features == ("a", "y")
    np.testing.assert_array_equal(task.inputs, usual.inputs)


def test_a_student_of_tables_reads_columns_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from noisyteacher.pipeline.labeling import label_files
    from noisyteacher.pipeline.teachers import open_teacher

    task = table_task(tmp_path, "id,a,b")
    settings = DistillSettings(quick=True, epochs=1, student="linear")
    run_distill(task, settings, tmp_path / "run", device="cpu", quiet=True)
    monkeypatch.setenv("HOME", str(tmp_path))
    teacher = open_teacher("~/run/student", device="cpu")  # as in --model=~/run/student
    write(tmp_path / "one.csv", "id,a,b", "0,0.9,-2", "1,0.1,3")
    write(tmp_path / "two.csv", "id,b,a", "0,-2,0.9", "1,3,0.1")
    said = []
    for name in ("one", "two"):
        source = read_examples(tmp_path / f"{name}.csv", labeled=False)
        label_files(teacher, [source], tmp_path / f"labels-{name}")
        said.append(TeacherLabels.open(tmp_path / f"labels-{name}"))
    np.testing.assert_array_equal(said[0].probs, said[1].probs)


@pytest.mark.parametrize(
    ("names", "classes", "expected"),
    [
        (["dog", "cat"], ("cat", "dog"), [1, 0]),
        (["dog", "cat"], ("Dog", "cat"), [0, 1]),
        (["dog", "cat"], ("0", "1"), [0, 1]),
        (["2", "1"], ("1", "2"), [1, 0]),
        (["1", "2"], ("dog", "cat"), [0, 1]),
    ],
)
@pytest.mark.filterwarnings("ignore:The labels of")
def test_numbers_of_a_class_label_are_its_names(
    tmp_path: Path, names: list[str], classes: tuple[str, ...], expected: list[int]
) -> None:
    """The order of the teacher's classes is another one, or it calls its classes otherwise."""
    about = {"info": {"features": {"label": {"names": names, "_type": "ClassLabel"}}}}
    table = pa.table({"id": [1, 2, 3], "text": ["a", "b", "c"], "label": [0, 1, -1]})
    path = tmp_path / "gold.parquet"
    pq.write_table(table.replace_schema_metadata({"huggingface": json.dumps(about)}), path)
    labels = TeacherLabels.from_probs(np.array([1, 2, 3]), np.eye(2)[[0, 1, 0]], classes)
    with pytest.warns(NoisyTeacherWarning, match="1 row"):
        assert read_gold(path, labels).y.tolist() == expected
    assert with_classes(read_examples(path), classes).y.tolist() == [*expected, -1]


def test_ids_and_classes_of_a_csv_stay_as_written(tmp_path: Path) -> None:
    padded = read_examples(write(tmp_path / "a.csv", "id,text,label", "007,x,01", "7,y,true"))
    assert padded.ids.tolist() == ["007", "7"]
    assert padded.classes == ("01", "true")
    whole = read_examples(write(tmp_path / "b.csv", "id,text,label", "12,x,0", "7,y,"))
    assert whole.ids.tolist() == [12, 7]
    assert whole.y.tolist() == [0, -1]
    named = FileOptions(id_column="key", label_column="kind")
    other = write(tmp_path / "c.csv", "key,text,kind,label", "08,x,1,z", "09,y,2,z")
    assert read_examples(other, named).ids.tolist() == ["08", "09"]
    with pytest.raises(InputError, match="1 empty values"):
        read_examples(write(tmp_path / "d.csv", "id,text,label", ",x,0", "7,y,1"))


def test_labels_are_names_before_they_are_places(tmp_path: Path) -> None:
    path = tmp_path / "gold.parquet"

    def numbers(labels: list[object], classes: tuple[str, ...]) -> list[int]:
        rows = len(labels)
        table = {"id": list(range(rows)), "text": ["x"] * rows, "label": labels}
        pq.write_table(pa.table(table), path)
        return with_classes(read_examples(path), classes).y.tolist()

    assert numbers([True, False], ("true", "false")) == [0, 1]
    assert numbers([True, False], ("False", "True")) == [1, 0]
    assert numbers([True, False], ("1", "0")) == [0, 1]
    assert numbers([0, 2], ("2", "1", "0")) == [2, 0]
    with pytest.warns(NoisyTeacherWarning, match="numbers: 0 is taken for 'cat', 2 for 'owl'"):
        assert numbers(["0", "2"], ("cat", "dog", "owl")) == [0, 2]
    with pytest.warns(NoisyTeacherWarning, match="none is 0: 1 is taken for 'dog', 2 for 'owl'"):
        assert numbers([1, 2], ("cat", "dog", "owl")) == [1, 2]
    with (
        pytest.raises(InputError, match="labels '3', which are not among"),
        pytest.warns(NoisyTeacherWarning, match="none is 0"),
    ):
        numbers([1, 3], ("cat", "dog", "owl"))
    with pytest.raises(InputError, match="'01'"):
        numbers(["01", "02"], ("cat", "dog", "owl"))


def test_gold_of_an_audit_means_the_same_in_both_formats(tmp_path: Path) -> None:
    labels = TeacherLabels.from_probs([1, 2], [[0.5, 0.3, 0.2]] * 2, ["2", "1", "0"])
    table = pa.table({"id": [1, 2], "label": [2, 0]})
    pq.write_table(table, tmp_path / "gold.parquet")
    write(tmp_path / "gold.csv", "id,label", "1,2", "2,0")
    for name in ("gold.csv", "gold.parquet"):
        found = read_gold(tmp_path / name, labels)
        assert found.y is not None
        assert found.y.tolist() == [0, 2]


def test_gold_of_an_audit_may_have_long_texts_with_new_lines(tmp_path: Path) -> None:
    labels = TeacherLabels.from_probs(np.arange(3000), np.full((3000, 2), 0.5), ["a", "b"])
    text = "many words\n" * 60
    rows = [f'{i},"{text}",a' for i in range(3000)]
    found = read_gold(write(tmp_path / "gold.csv", "id,text,label", *rows), labels)
    assert len(found.ids) == 3000


def test_a_key_that_the_first_line_lacks_is_still_read(tmp_path: Path) -> None:
    path = write(
        tmp_path / "gold.jsonl",
        '{"id": 0, "b": 1, "label": "x"}',
        '{"id": 1, "a": 2, "b": 1, "label": "y"}',
    )
    with pytest.raises(InputError, match="the column 'a' has 1 empty values"):
        read_examples(path)


def test_a_file_that_is_not_utf8_is_one_sentence(tmp_path: Path) -> None:
    path = write(tmp_path / "gold.csv", "id,text,label", "0,café,x", encoding="latin-1")
    with pytest.raises(InputError, match="is not UTF-8"):
        read_examples(path)


def test_images_beside_folders_of_images_are_not_forgotten(tmp_path: Path) -> None:
    (tmp_path / "more").mkdir()
    for place in (tmp_path / "a.png", tmp_path / "more" / "b.png"):
        Image.new("RGB", (4, 4)).save(place)
    for labeled in (True, False):
        with pytest.raises(InputError, match="1 images beside folders of images"):
            read_examples(tmp_path, labeled=labeled)


def test_a_folder_with_a_test_part_is_not_halved(tmp_path: Path) -> None:
    write_digit_folders(tmp_path / "files")
    both = tmp_path / "both"
    for part in ("train", "test"):
        shutil.copytree(tmp_path / "files" / "gold", both / part)
    with pytest.raises(InputError, match="training part of 60 rows and a test part of 60: name"):
        read_examples(both)
    assert len(read_examples(both / "train")) == 60


def test_greys_of_16_bits_are_scaled(tmp_path: Path) -> None:
    ramp = np.arange(0, 65536, 256, dtype=np.uint16).reshape(16, 16)
    Image.fromarray(ramp).save(tmp_path / "grey.png")
    shown = decode_image("grey", (tmp_path / "grey.png").read_bytes(), 16, 16)
    np.testing.assert_array_equal(shown[..., 0], ramp >> 8)


def test_a_run_with_flips_is_not_continued_without(tmp_path: Path) -> None:
    task = table_task(tmp_path, "id,a,b")
    run_distill(task, DistillSettings(quick=True, epochs=1), tmp_path / "run", quiet=True)
    recipe = read_json(tmp_path / "run" / "recipe.json", "")
    assert recipe["flip"] is True
    (tmp_path / "run" / "recipe.json").write_bytes(sealed_json(recipe | {"flip": False}))
    with pytest.raises(InputError, match="another flip"):
        run_distill(task, DistillSettings(quick=True, epochs=1), tmp_path / "run", quiet=True)


@pytest.mark.parametrize("side", [32, 160])
@pytest.mark.parametrize("flip", [False, True])
def test_images_of_every_size_are_mirrored_only_when_allowed(side: int, flip: bool) -> None:
    brighter_to_the_right = np.tile(np.linspace(0, 255, side).astype(np.uint8), (64, side, 1))
    inputs, tensors = fit_format("image", rgb_images(brighter_to_the_right), flip=flip)
    shown = inputs.views().weak(tensors, torch.Generator().manual_seed(0))
    mirrored = shown[..., 0].mean((1, 2)) > shown[..., -1].mean((1, 2))
    assert mirrored.any() == flip


def test_an_edited_function_is_another_teacher(tmp_path: Path) -> None:
    def fingerprint(name: str, body: str) -> str:
        module = write(tmp_path / f"{name}.py", "def logits(ids, inputs):", f"    return {body}")
        function = runpy.run_path(str(module))["logits"]
        return FunctionTeacher(function, "mine:logits", None).fingerprint()

    assert fingerprint("mine", "1") == fingerprint("mine", "1")
    assert fingerprint("mine", "1") != fingerprint("mine", "2")


def test_numbers_mean_what_the_teacher_calls_its_classes(tmp_path: Path) -> None:
    def numbers(classes: tuple[str, ...], *labels: str) -> list[int]:
        lines = [f"{i},x,{label}" for i, label in enumerate(labels)]
        path = write(tmp_path / "gold.csv", "id,text,label", *lines)
        return with_classes(read_examples(path), classes).y.tolist()

    assert numbers(("true", "false"), "1", "0") == [0, 1]
    assert numbers(("0", "1"), "1", "-1", "0") == [1, -1, 0]
    assert numbers(("-1", "1"), "1", "-1") == [1, 0]
    for classes in (("1.0", "0.0"), ("10", "20")):
        with pytest.raises(InputError, match="not among the teacher's classes"):
            numbers(classes, "0", "1")


def test_only_whole_numbers_are_ids_of_a_store_with_numbers(tmp_path: Path) -> None:
    labels = TeacherLabels.from_probs(np.arange(100), np.full((100, 2), 0.5), ["a", "b"])
    gold = write(
        tmp_path / "gold.csv", "id,text,label", *(f"{i},x{i},{'ab'[i % 2]}" for i in range(40))
    )
    for key in ("4_0", "040", "99999999999999999999"):
        pool = write(tmp_path / "pool.csv", "id,text", f"{key},y", "41,z")
        with pytest.raises(InputError, match="ids of pool are text"):
            gather(gold=gold, pool=pool, labels=labels)


def test_texts_of_a_csv_stay_as_written(tmp_path: Path) -> None:
    path = write(tmp_path / "pool.csv", "id,text", "1,007", "2,1e3", "3,NA")
    assert read_examples(path, labeled=False).inputs == ["007", "1e3", "NA"]


def test_a_folder_of_parquet_files_keeps_its_columns_names(tmp_path: Path) -> None:
    pq.write_table(pa.table({"id": [1], "b": [2.0], "a": [3.0]}), tmp_path / "part-0.parquet")
    assert read_examples(tmp_path, labeled=False).features == ("b", "a")
    with pytest.raises(InputError, match="is a folder"):
        read_examples(tmp_path, FileOptions(text_column="a"), labeled=False)


def test_repeated_columns_are_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="several columns named 'a'"):
        read_examples(write(tmp_path / "x.csv", "id,a,a,label", "1,2,3,b"))


def test_labels_mean_what_they_mean_to_the_audit(tmp_path: Path) -> None:
    labels = TeacherLabels.from_probs([0, 1], [[0.5, 0.5]] * 2, ["1", "0"])
    gold = write(tmp_path / "gold.csv", "id,text,label", "0,x,true", "1,y,true")
    assert with_classes(read_examples(gold), labels.classes).y.tolist() == [0, 0]
    found = read_gold(gold, labels)
    assert found.y is not None
    assert found.y.tolist() == [0, 0]


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet", "folder", "images", "npz"])
def test_minus_one_is_a_class_where_the_teacher_has_one(tmp_path: Path, kind: str) -> None:
    said = [1, -1, 1, -1]
    columns: dict[str, list[Any]] = {"id": [0, 1, 2, 3], "text": list("abcd"), "label": said}
    path = tmp_path / f"gold.{kind}"
    if kind == "csv":
        rows = zip(*columns.values(), strict=True)
        write(path, ",".join(columns), *(",".join(map(str, row)) for row in rows))
    elif kind == "jsonl":
        write(path, *(json.dumps(row) for row in pa.table(columns).to_pylist()))
    elif kind == "npz":
        np.savez(path, inputs=np.zeros((4, 2)), labels=np.array(said))
    elif kind == "images":
        (tmp_path / "gold").mkdir()
        path = tmp_path / "gold" / "gold.parquet"
        Image.new("RGB", (4, 4)).save(tmp_path / "one.png")
        columns["image"] = [(tmp_path / "one.png").read_bytes()] * 4
        pq.write_table(pa.table(columns), path)
    else:
        path = tmp_path / "gold.parquet"
        pq.write_table(pa.table(columns), path)
    examples = read_examples(tmp_path if kind == "folder" else path)
    assert with_classes(examples, ("-1", "1")).y.tolist() == [1, 0, 1, 0]
    assert with_classes(examples, ("0", "1")).y.tolist() == [1, -1, 1, -1]


def test_an_empty_label_is_unknown_also_beside_a_class_called_minus_one(tmp_path: Path) -> None:
    table = pa.table({"id": [0, 1, 2], "text": list("abc"), "label": [-1, None, 1]})
    pq.write_table(table, tmp_path / "gold.parquet")
    examples = read_examples(tmp_path / "gold.parquet")
    assert with_classes(examples, ("-1", "1")).y.tolist() == [0, -1, 1]


def test_rows_of_packed_files_are_named_as_those_of_plain_ones(tmp_path: Path) -> None:
    plain = write(tmp_path / "pool.csv", "text", "x", "y")
    packed = tmp_path / "pool.csv.gz"
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    found = read_examples(packed, labeled=False)
    assert (found.name, found.ids.tolist()) == ("pool", ["pool/0", "pool/1"])
    with pytest.raises(InputError, match="is compressed; decompress it first"):
        read_examples(write(tmp_path / "pool.csv.zip", "x"))


def test_columns_beside_texts_are_left_out_with_a_word(tmp_path: Path) -> None:
    path = tmp_path / "pool.parquet"
    columns = {"id": [4, 9], "text": ["x", "y"], "where": ["a", "b"], "label": [0, 1]}
    index = {"__index_level_0__": [1, 0]}
    pq.write_table(pa.table(columns | index), path)
    with pytest.warns(NoisyTeacherWarning, match="the column 'where' is left out"):
        assert read_examples(path, labeled=False).kind == "text"
    numbers = {"stars": [5, 1], "embedding": [[0.5, 1.0], [1.0, 0.5]]}
    pq.write_table(pa.table(columns | index | numbers), path)
    with pytest.warns(NoisyTeacherWarning, match="'where', 'stars', 'embedding' are left out"):
        assert read_examples(path, labeled=False).inputs == ["x", "y"]


def test_networks_for_images_are_refused_for_texts() -> None:
    from noisyteacher.pipeline.defaults import featurizer_for

    for name in ("resnet20", "resnet18", "mobilenet"):
        with pytest.raises(InputError, match=f"'{name}' is a network for images"):
            featurizer_for("text", name)
