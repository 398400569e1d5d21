"""The other layouts: class folders, CelebA, aclImdb, npz, CSV, digits."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from sample_images import encoded

from noisyteacher.core.errors import InputError, NoisyTeacherWarning
from noisyteacher.data import load_dataset

# -- class folders -------------------------------------------------------------------------------


def write_class_folders(root: Path, pictures: np.ndarray, parts: tuple[str, ...]) -> None:
    for part in parts:
        for i, picture in enumerate(pictures[:4]):
            file = root / part / ("ant", "bee")[i % 2] / f"{part}{i}.png"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(encoded(picture))


@pytest.mark.usefixtures("cache")
def test_class_folders(tmp_path: Path, pictures: np.ndarray) -> None:
    write_class_folders(tmp_path / "net", pictures, ("train", "val"))
    (tmp_path / "net" / "train" / "ant" / "notes.txt").write_text("not an image")
    data = load_dataset(tmp_path / "net")
    assert data.classes == ("ant", "bee")
    assert data.ids.tolist() == [
        "train/ant/train0.png",
        "train/ant/train2.png",
        "train/bee/train1.png",
        "train/bee/train3.png",
    ]
    assert data.y.tolist() == [0, 0, 1, 1]
    np.testing.assert_array_equal(data.inputs, pictures[[0, 2, 1, 3]])
    assert data.test_ids[0] == "val/ant/val0.png"


@pytest.mark.usefixtures("cache")
def test_class_folders_without_parts_are_all_training(tmp_path: Path, pictures: np.ndarray) -> None:
    write_class_folders(tmp_path, pictures, ("digits",))
    data = load_dataset(tmp_path / "digits")
    assert len(data) == 4
    assert data.ids[0] == "ant/digits0.png"
    assert len(data.test_ids) == 0


@pytest.mark.usefixtures("cache")
def test_images_in_deeper_folders_and_a_class_called_train(
    tmp_path: Path, pictures: np.ndarray
) -> None:
    for name, picture in zip(("bus/0", "bus/b/1", "train/2", "train/3"), pictures, strict=False):
        file = tmp_path / f"{name}.png"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(encoded(picture))
    data = load_dataset(tmp_path)
    assert data.classes == ("bus", "train")
    assert data.ids.tolist() == ["bus/0.png", "bus/b/1.png", "train/2.png", "train/3.png"]
    assert data.y.tolist() == [0, 0, 1, 1]


@pytest.mark.usefixtures("cache")
def test_bad_class_folders(tmp_path: Path, pictures: np.ndarray) -> None:
    write_class_folders(tmp_path, pictures, ("train", "val"))
    broken = tmp_path / "train" / "bee" / "train1.png"
    whole = broken.read_bytes()
    broken.write_bytes(b"")
    with pytest.raises(InputError, match=r"train1\.png cannot be decoded: it is empty"):
        load_dataset(tmp_path)
    broken.write_bytes(whole)
    (tmp_path / "val" / "ant").rename(tmp_path / "val" / "antelope")
    with pytest.raises(InputError, match="classes that train/ lacks: 'antelope'"):
        load_dataset(tmp_path)
    for folder in ("antelope", "bee"):
        for file in (tmp_path / "val" / folder).iterdir():
            file.rename(tmp_path / "val" / file.name)
        (tmp_path / "val" / folder).rmdir()
    with pytest.raises(InputError, match="not class folders"):
        load_dataset(tmp_path)


@pytest.mark.usefixtures("cache")
def test_large_jpegs_shrink_well(tmp_path: Path) -> None:
    ramp = np.broadcast_to(np.linspace(0, 255, 640).astype(np.uint8)[None, :, None], (640, 640, 3))
    (tmp_path / "a").mkdir()
    Image.fromarray(ramp).save(tmp_path / "a" / "ramp.jpg", quality=95)
    data = load_dataset(tmp_path, image_size=32)
    expected = np.linspace(0, 255, 640).reshape(32, 20).mean(1)
    error = np.abs(data.inputs[0].astype(float) - expected[None, :, None])
    assert error.max() < 5


# -- CelebA --------------------------------------------------------------------------------------

NAMES = [f"{i:06d}.jpg" for i in range(1, 7)]
MALE = [1, -1, -1, 1, 1, -1]
YOUNG = [1, 1, 1, -1, -1, -1]
PARTITION = [0, 0, 0, 1, 2, 2]


def write_celeba(root: Path, form: str, nested: bool = False) -> None:
    images = root / "img_align_celeba"
    images = images / "img_align_celeba" if nested else images
    images.mkdir(parents=True)
    for i, name in enumerate(NAMES):
        Image.new("RGB", (178, 218), (40 * i, 0, 0)).save(images / name, quality=95)
    rows = list(zip(NAMES, MALE, YOUNG, strict=True))
    if form == "txt":
        lines = ["6", "Male Young", *(f"{n} {m:2d} {y:2d}" for n, m, y in rows)]
        parts = [f"{n} {p}" for n, p in zip(NAMES, PARTITION, strict=True)]
    else:
        lines = ["image_id,Male,Young", *(f"{n},{m},{y}" for n, m, y in rows)]
        parts = ["image_id,partition"]
        parts += [f"{n},{p}" for n, p in zip(NAMES, PARTITION, strict=True)]
    (root / f"list_attr_celeba.{form}").write_text("\n".join(lines) + "\n")
    (root / f"list_eval_partition.{form}").write_text("\n".join(parts) + "\n")


@pytest.mark.usefixtures("cache")
@pytest.mark.parametrize(("form", "nested"), [("txt", False), ("csv", True)])
def test_celeba(tmp_path: Path, form: str, nested: bool) -> None:
    write_celeba(tmp_path, form, nested)
    data = load_dataset(tmp_path)
    assert data.classes == ("not Male", "Male")
    assert data.y.tolist() == [1, 0, 0]
    assert data.test_y.tolist() == [1, 0]
    assert data.ids.tolist() == NAMES[:3]
    assert data.inputs.shape == (3, 64, 64, 3)
    assert abs(int(data.test_inputs[1, 30, 30, 0]) - 200) < 4
    young = load_dataset(tmp_path, attribute="Young", image_size=32)
    assert young.y.tolist() == [1, 1, 1]
    assert young.inputs.shape == (3, 32, 32, 3)


@pytest.mark.usefixtures("cache")
def test_bad_celeba(tmp_path: Path) -> None:
    write_celeba(tmp_path, "txt")
    with pytest.raises(InputError, match="no attribute 'Smiling'; it has 'Male', 'Young'"):
        load_dataset(tmp_path, attribute="Smiling")
    (tmp_path / "img_align_celeba" / NAMES[1]).unlink()
    with pytest.raises(InputError, match=NAMES[1]):
        load_dataset(tmp_path)
    (tmp_path / "list_eval_partition.txt").unlink()
    with pytest.raises(InputError, match="no list_eval_partition"):
        load_dataset(tmp_path)


# -- aclImdb, npz, CSV, digits -------------------------------------------------------------------


@pytest.mark.usefixtures("cache")
def test_acl_imdb(tmp_path: Path) -> None:
    for part in ("train", "test"):
        for name, text in (("pos", "great, très bien"), ("neg", "awful"), ("unsup", "who knows")):
            folder = tmp_path / "aclImdb" / part / name
            folder.mkdir(parents=True)
            (folder / "0_9.txt").write_text(f"{part} {text}", encoding="utf-8")
    data = load_dataset("imdb", data=tmp_path)
    own = load_dataset("imdb", data=tmp_path / "aclImdb")
    assert own.ids.tolist() == data.ids.tolist()
    with pytest.raises(InputError, match=r"No dataset 'cifar10': .* or the one above it"):
        load_dataset("cifar10", data=tmp_path / "aclImdb")
    assert data.classes == ("neg", "pos")
    assert data.inputs == ["train awful", "train great, très bien"]
    assert data.y.tolist() == [0, 1]
    assert data.test_ids.tolist() == ["test/neg/0_9", "test/pos/0_9"]
    (tmp_path / "aclImdb" / "train" / "neg" / "0_9.txt").write_bytes(b"\xff\xfe\xff")
    with pytest.raises(InputError, match=r"neg/0_9\.txt cannot be read as text"):
        load_dataset("imdb", data=tmp_path)


@pytest.mark.usefixtures("cache")
def test_npz_images_tables_and_texts(tmp_path: Path, pictures: np.ndarray) -> None:
    file = tmp_path / "some.npz"
    np.savez(
        file, x_train=pictures[:8], y_train=np.arange(8) % 3, x_test=pictures[8:], y_test=[0] * 4
    )
    data = load_dataset(file)
    assert (data.name, data.kind) == ("some", "image")
    np.testing.assert_array_equal(data.inputs, pictures[:8])
    np.savez(file, x_train=pictures[..., 0], y_train=np.zeros((12, 1), np.int64))
    grey = load_dataset(file)
    np.testing.assert_array_equal(grey.inputs[..., 2], pictures[..., 0])
    np.savez(
        file,
        inputs=np.eye(3),
        labels=np.array(["b", "a", "b"]),
        ids=[7, 8, 9],
        test_inputs=np.eye(3)[:1],
    )
    table = load_dataset(file)
    assert table.classes == ("a", "b")
    assert table.y.tolist() == [1, 0, 1]
    assert table.ids.tolist() == [7, 8, 9]
    assert table.test_y.tolist() == [-1]
    np.savez(file, inputs=np.array(["x y", "z"]), labels=[0, 1], classes=["no", "yes"])
    text = load_dataset(file)
    assert (text.kind, text.classes, text.inputs) == ("text", ("no", "yes"), ["x y", "z"])


@pytest.mark.usefixtures("cache")
def test_bad_npz(tmp_path: Path) -> None:
    file = tmp_path / "bad.npz"
    np.savez(file, a=np.eye(2))
    with pytest.raises(InputError, match="neither 'x_train' nor 'inputs'; it has 'a'"):
        load_dataset(file)
    np.savez(file, inputs=np.zeros((2, 3, 4, 5, 6)), labels=[0, 1])
    with pytest.raises(
        InputError,
        match=r"bad\.npz, 'inputs': Inputs must be texts, uint8 images .* not float64 of shape",
    ):
        load_dataset(file)
    np.savez(file, inputs=np.array([{}, {}], dtype=object), labels=[0, 1])
    with pytest.raises(InputError, match="not a readable NumPy file"):
        load_dataset(file)
    np.savez(file, inputs=np.eye(2), labels=[0.5, 1])
    with pytest.raises(InputError, match="class names or whole numbers"):
        load_dataset(file)
    np.savez(file, inputs=np.eye(2), labels=[0, 1, 1])
    with pytest.raises(InputError, match="2 inputs and 3 labels"):
        load_dataset(file)
    np.savez(file, inputs=np.eye(2), labels=[0, 5], classes=["a", "b"])
    with pytest.raises(InputError, match="not 5"):
        load_dataset(file)


@pytest.mark.usefixtures("cache")
def test_csv_tables(tmp_path: Path) -> None:
    (tmp_path / "train.csv").write_text("id,height,old,label\na,1.5,0,yes\nb,2.5,1,no\nc,0,1,\n")
    (tmp_path / "test.csv").write_text("id,height,old,label\nq,3,1,no\n")
    data = load_dataset(tmp_path)
    assert data.kind == "table"
    assert data.ids.tolist() == ["a", "b", "c"]
    assert data.classes == ("no", "yes")
    assert data.y.tolist() == [1, 0, -1]
    np.testing.assert_array_equal(data.inputs, np.array([[1.5, 0], [2.5, 1], [0, 1]], np.float32))
    assert data.test_ids.tolist() == ["q"]
    assert data.test_y.tolist() == [0]
    (tmp_path / "other.csv").write_text("number,weight,kind\n7,1.5,0\n8,2,1\n")
    other = load_dataset(tmp_path / "other.csv", label_column="kind", id_column="number")
    assert other.y.tolist() == [0, 1]
    assert other.ids.tolist() == [7, 8]
    assert np.asarray(other.inputs).tolist() == [[1.5], [2]]


@pytest.mark.usefixtures("cache")
def test_ids_labels_and_texts_of_text_files_stay_as_written(tmp_path: Path) -> None:
    rows = [("007", "01", "1e3"), ("7", "true", "NA")]
    lines = [",".join(row) for row in (("id", "label", "text"), *rows)]
    (tmp_path / "a.csv").write_text("\n".join(lines))
    (tmp_path / "a.tsv").write_text("\n".join(lines).replace(",", "\t"))
    objects = [dict(zip(("id", "label", "text"), row, strict=True)) for row in rows]
    (tmp_path / "a.jsonl").write_text("\n".join(json.dumps(found) for found in objects))
    for kind in ("csv", "tsv", "jsonl"):
        data = load_dataset(tmp_path / f"a.{kind}")
        assert data.ids.tolist() == ["007", "7"]
        assert data.classes == ("01", "true")
        assert data.inputs == ["1e3", "NA"]


@pytest.mark.usefixtures("cache")
def test_class_numbers_of_a_csv_are_numbers(tmp_path: Path) -> None:
    labels = [*range(12), "", -1]
    lines = [f"{i},{label}" for i, label in enumerate(labels)]
    (tmp_path / "a.csv").write_text("\n".join(["a,label", *lines]))
    with pytest.warns(NoisyTeacherWarning, match="'a' numbers the rows"):
        data = load_dataset(tmp_path / "a.csv")
    assert data.y.tolist() == [*range(12), -1, -1]
    assert data.classes == tuple(str(c) for c in range(12))


@pytest.mark.usefixtures("cache")
def test_csv_text_may_hold_line_breaks(tmp_path: Path) -> None:
    (tmp_path / "reviews.csv").write_text('text,label\n"two\nlines, one cell",1\nshort,0\n')
    data = load_dataset(tmp_path / "reviews.csv")
    assert data.inputs == ["two\nlines, one cell", "short"]
    assert data.y.tolist() == [1, 0]


@pytest.mark.usefixtures("cache")
@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("a,b\n1,2\n", "no label column"),
        ("a,label\nred,0\nblue,1\n", "'a' holds strings; name the text column with text_column="),
        ("a,label\n1,0\n,1\n", "the column 'a' has 1 empty values"),
        ("a,label\n1,0.5\n2,1\n", "class names or whole numbers"),
        ("a,label\n1,-4\n2,1\n", "at least 0"),
        ("label\n1\n", "no feature columns"),
        ("id,a,label\nx,1,0\nx,2,1\n", "unique; repeated: 'x'"),
        ("a,label\n1,0,7\n", "cannot be read as a table"),
        ("a,label\n", "has no rows"),
        ("a,label\nnan,1\n2,0\n", "infinite or NaN|1 empty"),
    ],
)
def test_bad_tables(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "table.csv").write_text(content)
    with pytest.raises(InputError, match=message):
        load_dataset(tmp_path / "table.csv")


@pytest.mark.usefixtures("cache")
def test_a_strange_class_in_the_test_part(tmp_path: Path) -> None:
    (tmp_path / "train.csv").write_text("a,label\n1,yes\n2,no\n")
    (tmp_path / "test.csv").write_text("a,label\n1,maybe\n")
    with pytest.raises(InputError, match="'maybe'"):
        load_dataset(tmp_path)


def test_digits() -> None:
    data = load_dataset("digits")
    assert (len(data), len(data.test_ids)) == (1300, 497)
    assert data.kind == "table"
    assert data.inputs.shape == (1300, 64)
    assert (data.inputs.min(), data.inputs.max()) == (0, 1)
    assert len(data.classes) == 10
    assert not set(data.ids) & set(data.test_ids)
    assert min(data.std) > 0  # some pixels are always empty
    again = load_dataset("digits")
    np.testing.assert_array_equal(data.ids, again.ids)
