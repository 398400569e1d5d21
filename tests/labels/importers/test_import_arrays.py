"""NumPy files and files of ids to labels."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from noisyteacher.core.errors import InputError
from noisyteacher.labels.importers import ImportSettings, import_array, read_ids

PROBS = np.array([[0.7, 0.2, 0.1], [0.1, 0.3, 0.6]], np.float32)
IDS = np.array(["a", "b"])


def saved(folder: Path, **arrays: np.ndarray) -> Path:
    path = folder / "teacher.npz"
    np.savez(path, **arrays)
    return path


def test_npy_of_probabilities(tmp_path: Path) -> None:
    np.save(tmp_path / "probs.npy", PROBS)
    labels = import_array(tmp_path / "probs.npy", ids=IDS, classes=["x", "y", "z"])
    assert labels.ids.tolist() == ["a", "b"]
    assert labels.classes == ("x", "y", "z")
    np.testing.assert_allclose(labels.probs, PROBS, atol=5e-4)


def test_npy_of_logits(tmp_path: Path) -> None:
    np.save(tmp_path / "logits.npy", np.log(PROBS) * 2 + 5)
    settings = ImportSettings(logits=True, temperature=2.0, k=2)
    labels = import_array(tmp_path / "logits.npy", ids=IDS, settings=settings)
    np.testing.assert_allclose(labels.topk_prob, [[0.7, 0.2], [0.6, 0.3]], atol=5e-4)
    assert labels.temperature == 2.0
    assert labels.classes == ("0", "1", "2")


def test_npz_brings_ids_and_classes(tmp_path: Path) -> None:
    path = saved(tmp_path, probs=PROBS, ids=np.array([3, 4]), classes=np.array(["x", "y", "z"]))
    labels = import_array(path)
    assert (labels.ids.tolist(), labels.classes) == ([3, 4], ("x", "y", "z"))
    assert import_array(path, ids=IDS, classes=list("uvw")).classes == ("u", "v", "w")


def test_npz_says_which_numbers_it_holds(tmp_path: Path) -> None:
    path = saved(tmp_path, logits=np.log(PROBS), ids=IDS)
    np.testing.assert_allclose(import_array(path).probs, PROBS, atol=5e-4)
    path = saved(tmp_path, logits=np.log(PROBS[:, ::-1]), probs=PROBS, ids=IDS)
    with pytest.raises(InputError, match="has both 'probs' and 'logits'"):
        import_array(path)
    flipped = import_array(path, settings=ImportSettings(logits=True))
    np.testing.assert_allclose(flipped.probs, PROBS[:, ::-1], atol=5e-4)


def test_logits_taken_for_probabilities(tmp_path: Path) -> None:
    np.save(tmp_path / "teacher.npy", np.array([[3.0, -1.0], [0.5, 2.0]]))
    with pytest.raises(InputError, match=r"teacher.npy: probs row 0 \(id 'a'\).*--logits"):
        import_array(tmp_path / "teacher.npy", ids=IDS)
    np.save(tmp_path / "teacher.npy", np.array([[0.5, 0.4], [0.5, 0.5]]))
    with pytest.raises(InputError, match=r"sums to 0.9") as raised:
        import_array(tmp_path / "teacher.npy", ids=IDS)
    assert "--logits" not in str(raised.value)


def test_wrong_arrays(tmp_path: Path) -> None:
    np.save(tmp_path / "one.npy", PROBS[0])
    with pytest.raises(InputError, match=r"\(rows, classes\), got shape \(3,\)"):
        import_array(tmp_path / "one.npy", ids=IDS)
    np.save(tmp_path / "probs.npy", PROBS)
    with pytest.raises(InputError, match="has no ids"):
        import_array(tmp_path / "probs.npy")
    with pytest.raises(InputError, match=r"3 ids were given for the 2 rows of .*probs.npy"):
        import_array(tmp_path / "probs.npy", ids=np.arange(3))
    with pytest.raises(InputError, match="2 classes were named for 3 columns"):
        import_array(tmp_path / "probs.npy", ids=IDS, classes=["x", "y"])
    with pytest.raises(InputError, match="neither 'probs' nor 'logits', only 'scores'"):
        import_array(saved(tmp_path, scores=PROBS), ids=IDS)


@pytest.mark.parametrize("content", [b"", b"not an array"])
def test_files_that_are_no_arrays(tmp_path: Path, content: bytes) -> None:
    for name in ("x.npy", "x.npz"):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(InputError, match="not a readable NumPy file"):
            import_array(tmp_path / name, ids=IDS)
    (tmp_path / "ids.npy").write_bytes(content)
    with pytest.raises(InputError, match=r"ids.npy is not a readable NumPy file"):
        read_ids(tmp_path / "ids.npy")


def test_objects_are_never_unpickled(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.array([{"a": 1}], object), allow_pickle=True)
    with pytest.raises(InputError):
        import_array(tmp_path / "x.npy", ids=IDS)
    with pytest.raises(InputError):
        read_ids(tmp_path / "x.npy")


@pytest.mark.parametrize("content", ["a\nb c\n", "\ufeffa\r\nb c", "a\rb c\r"])
def test_ids_as_text(tmp_path: Path, content: str) -> None:
    (tmp_path / "ids.txt").write_bytes(content.encode())
    assert read_ids(tmp_path / "ids.txt").tolist() == ["a", "b c"]


def test_ids_as_array(tmp_path: Path) -> None:
    np.save(tmp_path / "ids.npy", np.array([5, 6]))
    assert read_ids(tmp_path / "ids.npy").tolist() == [5, 6]


def test_wrong_ids(tmp_path: Path) -> None:
    path = tmp_path / "ids.txt"
    path.write_text("a\n\nb\n")
    with pytest.raises(InputError, match="no id on lines 2"):
        read_ids(path)
    path.write_text("")
    with pytest.raises(InputError, match=r"ids.txt is empty\."):
        read_ids(path)
    path.write_bytes(b"\xe9\n")
    with pytest.raises(InputError, match="not UTF-8"):
        read_ids(path)
    np.save(tmp_path / "probs.npy", PROBS)
    with pytest.raises(InputError, match=r"probs.npy: ids must be unique; repeated: 'a'"):
        import_array(tmp_path / "probs.npy", ids=np.array(["a", "a"]))


def test_classes_of_an_npz_are_put_in_order_by_name(tmp_path: Path) -> None:
    path = tmp_path / "teacher.npz"
    np.savez(path, probs=[[0.9, 0.1]], ids=[1], classes=np.array([b"dog", b"cat"]))
    assert import_array(path).classes == ("dog", "cat")
    labels = import_array(path, classes=["cat", "dog"])
    np.testing.assert_allclose(labels.probs, [[0.1, 0.9]], atol=1e-3)
    with pytest.raises(InputError, match="has the classes 'dog', 'cat', not 'cat', 'owl'"):
        import_array(path, classes=["cat", "owl"])
