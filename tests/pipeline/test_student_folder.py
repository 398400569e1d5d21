"""Students saved and loaded: the same predictions on raw inputs, whatever their kind."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from noisyteacher.core.errors import InputError
from noisyteacher.data import HashedNgrams, Tfidf
from noisyteacher.data.dataset import rgb_images
from noisyteacher.data.input_format import fit_format
from noisyteacher.models import MLP, BagLinear, BagMLP, ResNetCifar
from noisyteacher.pipeline import Student, load_student, save_student
from noisyteacher.pipeline.defaults import featurizer_for
from user_files import digits, reviews


def text_student(featurizer: Tfidf | HashedNgrams) -> tuple[Student, list[str]]:
    texts, _ = reviews(40)
    inputs, _ = fit_format("text", texts, featurizer)
    torch.manual_seed(0)
    spec = BagMLP(inputs.features, 2, hidden=(8,))
    return Student(spec, spec.build().state_dict(), ("bad", "good"), inputs), texts


def image_student() -> tuple[Student, np.ndarray]:
    images, _ = digits(30)
    inputs, _ = fit_format("image", rgb_images(images), flip=False)
    torch.manual_seed(0)
    spec = ResNetCifar(8, 3)
    return Student(spec, spec.build().state_dict(), ("zero", "one", "two"), inputs), images


def table_student() -> tuple[Student, np.ndarray]:
    images, _ = digits(30)
    table = images.reshape(len(images), -1).astype(np.float32)
    inputs, _ = fit_format("table", table)
    torch.manual_seed(0)
    spec = MLP(inputs.features, 3, hidden=(8,))
    return Student(spec, spec.build().state_dict(), ("0", "1", "2"), inputs, {"kept": "x"}), table


@pytest.mark.parametrize("featurizer", [Tfidf(), HashedNgrams(buckets=64, max_entries=32)])
def test_text_students_read_texts_again(tmp_path: Path, featurizer: Tfidf | HashedNgrams) -> None:
    student, texts = text_student(featurizer)
    save_student(tmp_path / "s", student, "# card\n")
    loaded = load_student(tmp_path / "s")
    new = ["a great film", "words never seen", ""]
    np.testing.assert_array_equal(loaded.logits(texts + new), student.logits(texts + new))
    probs = loaded.predict_proba(texts)
    assert probs.shape == (40, 2)
    np.testing.assert_allclose(probs.sum(1), 1, rtol=1e-6)
    assert loaded.predict(texts).tolist() == [("bad", "good")[c] for c in probs.argmax(1)]
    assert (tmp_path / "s" / "README.md").read_text() == "# card\n"


def test_image_students_read_arrays_and_files(tmp_path: Path) -> None:
    student, images = image_student()
    save_student(tmp_path / "s", student)
    loaded = load_student(tmp_path / "s")
    expected = student.logits(images)
    np.testing.assert_array_equal(loaded.logits(images), expected)
    files = []
    for i, image in enumerate(images[:3]):
        files.append(tmp_path / f"{i}.png")
        Image.fromarray(image).save(files[-1])
    np.testing.assert_allclose(loaded.logits(files), expected[:3], atol=1e-5)
    assert loaded.logits(np.zeros((2, 16, 16), np.uint8)).shape == (2, 3)  # brought to 8 × 8


def test_table_students_keep_their_normalization_and_story(tmp_path: Path) -> None:
    student, table = table_student()
    save_student(tmp_path / "s", student)
    loaded = load_student(tmp_path / "s")
    np.testing.assert_array_equal(loaded.logits(table), student.logits(table))
    assert loaded.about == {"kept": "x"}
    assert loaded.predict(table[:0]).shape == (0,)


def test_wrong_inputs_are_refused() -> None:
    student, table = table_student()
    with pytest.raises(InputError, match="64 features"):
        student.predict(table[:, :5])
    with pytest.raises(InputError, match="NaN"):
        student.predict(np.full_like(table, np.nan))
    texts, _ = text_student(Tfidf())
    with pytest.raises(InputError, match="reads texts, not 3"):
        texts.predict([3])  # type: ignore[list-item]
    with pytest.raises(InputError, match="list of texts"):
        texts.predict("one text")
    images, _ = image_student()
    with pytest.raises(InputError, match="uint8"):
        images.predict(np.zeros((2, 8, 8)))
    with pytest.raises(InputError, match=r"nowhere\.png cannot be read"):
        images.predict(["nowhere.png"])
    with pytest.raises(InputError, match=r"not one: images\[None\]"):
        images.predict(np.zeros((8, 8, 3), np.uint8))
    with pytest.raises(InputError, match="list of paths"):
        images.predict("nowhere.png")


def test_a_student_is_found_from_home_and_from_its_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    student, table = table_student()
    save_student(tmp_path / "run" / "student", student)
    predicted = load_student("~/run/student").predict(table)
    np.testing.assert_array_equal(predicted, student.predict(table))
    with pytest.raises(
        InputError, match=r"no config\.json of one\. Its student is in .*run/student"
    ):
        load_student(tmp_path / "run")


def test_a_misspelled_student_is_no_encoder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(
        InputError, match=r"no student 'lineer' \(did you mean linear\?\)\. For texts"
    ):
        featurizer_for("text", "lineer")


def test_an_image_that_is_none_is_named(tmp_path: Path) -> None:
    broken = tmp_path / "broken.png"
    broken.write_bytes(b"no image")
    with pytest.raises(InputError, match=r"broken\.png cannot be decoded"):
        image_student()[0].predict([broken])


def test_a_folder_is_replaced_only_when_asked_and_only_a_students(tmp_path: Path) -> None:
    student, table = table_student()
    save_student(tmp_path / "s", student)
    with pytest.raises(InputError, match="exists already"):
        save_student(tmp_path / "s", student)
    spec = BagLinear(5, 2)
    save_student(tmp_path / "s", student, "second\n", overwrite=True)
    assert (tmp_path / "s" / "README.md").read_text() == "second\n"
    assert [p.name for p in tmp_path.iterdir()] == ["s"]  # nothing left behind
    other = tmp_path / "precious"
    other.mkdir()
    (other / "file").write_text("x")
    with pytest.raises(InputError, match="not a student's folder, so it is not overwritten"):
        save_student(other, student, overwrite=True)
    # A student that cannot be written leaves the old one as it was.
    wrong = Student(spec, {"x": "no tensor"}, ("a", "b"), student.inputs)  # type: ignore[dict-item]
    with pytest.raises(AttributeError):
        save_student(tmp_path / "s", wrong, overwrite=True)
    np.testing.assert_array_equal(load_student(tmp_path / "s").logits(table), student.logits(table))


def test_an_interrupt_while_replacing_leaves_the_old_student(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    student, table = table_student()
    save_student(tmp_path / "s", student, "first\n")
    rename = Path.rename

    def interrupted(self: Path, target: Path) -> Path:
        if ".tmp-" in self.name:
            raise KeyboardInterrupt
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", interrupted)
    with pytest.raises(KeyboardInterrupt):
        save_student(tmp_path / "s", student, "second\n", overwrite=True)
    assert [p.name for p in tmp_path.iterdir()] == ["s"]
    assert (tmp_path / "s" / "README.md").read_text() == "first\n"
    np.testing.assert_array_equal(load_student(tmp_path / "s").logits(table), student.logits(table))


def test_what_a_kill_while_replacing_leaves_is_found_again(tmp_path: Path) -> None:
    student, table = table_student()
    folder, aside = tmp_path / "s", tmp_path / ".s.old-0123abcd"
    save_student(folder, student, "first\n")
    folder.rename(aside)  # killed between the two renames
    np.testing.assert_array_equal(load_student(folder).logits(table), student.logits(table))
    with pytest.raises(InputError, match="exists already"):
        save_student(folder, student)
    assert (folder / "README.md").read_text() == "first\n"
    save_student(aside, student)  # killed before the old one was removed
    other = tmp_path / ".s.old-0123abcd.old-4567cdef"  # of another student
    save_student(other, student)
    save_student(folder, student, "second\n", overwrite=True)
    assert {p.name for p in tmp_path.iterdir()} == {"s", other.name}
    assert (folder / "README.md").read_text() == "second\n"


def test_damage_is_said_in_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no student folder"):
        load_student(tmp_path / "none")
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match=r"has no config\.json"):
        load_student(tmp_path / "empty")
    student, _ = table_student()
    save_student(tmp_path / "s", student)
    weights = tmp_path / "s" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-100])
    with pytest.raises(InputError, match="is damaged"):
        load_student(tmp_path / "s")
