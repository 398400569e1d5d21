"""Checksums inside files, paths that stay inside, and what killed writers leave behind."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import numpy as np
import orjson
import pytest
from safetensors.numpy import load, save

from noisyteacher.core.errors import InputError, NoisyTeacherWarning
from noisyteacher.core.files import temporary_sibling, write_atomic
from noisyteacher.core.integrity import (
    check_tensors,
    path_inside,
    read_json,
    seal,
    seal_tensors,
    sealed_json,
    unseal,
)

TENSORS = {"a": np.arange(12, dtype=np.float32).reshape(3, 4), "b": np.array(True)}


def _refusal(call: Callable[[], object]) -> str | None:
    """The sentence of the error, or of the note, which is an error in tests."""
    try:
        call()
    except (InputError, NoisyTeacherWarning) as error:
        return str(error)
    return None


def test_sealed_fields_come_back_as_json_has_them() -> None:
    fields = {"b": (1, 2.5), "a": None, "deep": {"x": np.float32(0.1)}}
    assert unseal(seal(fields), "x", "y") == {"b": [1, 2.5], "a": None, "deep": {"x": 0.1}}
    assert seal({"a": 1, "b": 2})["sha256"] == seal({"b": 2, "a": 1})["sha256"]


def test_every_flipped_bit_of_a_json_file_is_noticed_or_changes_nothing(tmp_path: Path) -> None:
    path, fields = tmp_path / "f.json", {"n": 12, "x": [0.5, 1e-9], "name": "é", "none": None}
    content = sealed_json(fields)
    accepted = 0
    for bit in range(8 * len(content)):
        flipped = bytearray(content)
        flipped[bit // 8] ^= 1 << bit % 8
        path.write_bytes(flipped)
        told = _refusal(lambda: read_json(path, "make it again"))
        if told is not None:
            assert told.startswith(str(path))
            assert told.endswith("; make it again.")
            continue
        accepted += 1
        # All that may pass is white space.
        assert read_json(path, "make it again") == fields
    assert accepted < 50


def test_files_without_a_checksum_are_read(tmp_path: Path) -> None:
    path = tmp_path / "f.json"
    for fields in ({}, {"a": 1}, {"a": 1, "rows_sha256": "0" * 64}):
        path.write_bytes(orjson.dumps(fields))
        assert read_json(path, "make it again") == fields


def test_every_flipped_bit_of_a_safetensors_file_is_noticed_or_changes_nothing(
    tmp_path: Path,
) -> None:
    path = tmp_path / "t.safetensors"
    content = seal_tensors(save(TENSORS, metadata={"history": "{}"}))
    path.write_bytes(content)
    check_tensors(path, "delete it")
    for name, value in load(content).items():
        assert value.dtype == TENSORS[name].dtype
        np.testing.assert_array_equal(value, TENSORS[name])
    for bit in range(8 * len(content)):
        flipped = bytearray(content)
        flipped[bit // 8] ^= 1 << bit % 8
        path.write_bytes(flipped)
        told = _refusal(lambda: check_tensors(path, "delete it"))
        if told is None:
            for name, value in load(bytes(flipped)).items():
                np.testing.assert_array_equal(value, TENSORS[name])
        elif "without a checksum" in told:
            assert any(name not in flipped for name in (b'"sha256"', b'"__metadata__"'))
        else:
            assert told == f"{path} is damaged: it does not match its checksum; delete it."


def test_a_header_that_claims_more_than_the_file_has_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "t.safetensors"
    path.write_bytes((2**40).to_bytes(8, "little") + b"{}")
    with pytest.raises(InputError, match="is damaged"):
        check_tensors(path, "delete it")


def test_a_tensor_file_without_a_checksum_opens_with_a_note(tmp_path: Path) -> None:
    path = tmp_path / "t.safetensors"
    path.write_bytes(save(TENSORS))
    with pytest.warns(NoisyTeacherWarning, match=r"t\.safetensors was written by an earlier"):
        check_tensors(path, "delete it")


@pytest.mark.parametrize("content", [b"[]", b"1", b"null", b"{", b""])
def test_what_is_not_an_object_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "f.json").write_bytes(content)
    with pytest.raises(InputError, match=r"f\.json (is not JSON|does not hold a JSON object)"):
        read_json(tmp_path / "f.json", "make it again")


def test_paths_stay_inside_their_folder(tmp_path: Path) -> None:
    folder, outside = tmp_path / "in", tmp_path / "out.txt"
    (folder / "sub").mkdir(parents=True)
    outside.write_text("secret")
    (folder / "file").write_text("ours")
    (folder / "link").symlink_to(outside)
    (folder / "fine").symlink_to("file")
    (tmp_path / "alias").symlink_to(folder)
    assert path_inside(folder, "sub/x") == folder / "sub" / "x"
    assert path_inside(folder, "fine").read_text() == "ours"
    assert path_inside(tmp_path / "alias", "file").read_text() == "ours"
    for name in ("../out.txt", "sub/../../out.txt", str(outside), "link", "", "a\0b", 3, None):
        with pytest.raises(InputError, match="points outside"):
            path_inside(folder, name)


def _left(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_the_next_writer_removes_what_a_killed_one_left(tmp_path: Path) -> None:
    code = (
        "import os, sys; from pathlib import Path\n"
        "from noisyteacher.core.files import temporary_sibling\n"
        "kept = []\n"
        "for name, folder in (('a.json', False), ('store', True)):\n"
        "    kept.append(temporary_sibling(Path(sys.argv[1]) / name, folder=folder))\n"
        "    made = kept[-1].__enter__()\n"
        "    if folder: (made / 'part').write_text('half')\n"
        "os.kill(os.getpid(), 9)\n"
    )
    subprocess.run([sys.executable, "-c", code, tmp_path], check=False)
    left = _left(tmp_path)
    assert [name.rpartition("-")[0] for name in left] == [".a.json.tmp", ".store.tmp"]
    write_atomic(tmp_path / "b.json", b"{}")
    assert _left(tmp_path) == sorted([*left, "b.json"]), "left-overs of other names stay"
    write_atomic(tmp_path / "a.json", b"{}")
    with temporary_sibling(tmp_path / "store", folder=True) as made:
        made.rename(tmp_path / "store")
    assert _left(tmp_path) == ["a.json", "b.json", "store"]


def test_a_writer_at_work_is_not_disturbed(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    with temporary_sibling(path) as one:
        write_atomic(path, b"2")
        assert one.exists()
        one.write_bytes(b"1")
        one.replace(path)
    assert (path.read_bytes(), _left(tmp_path)) == (b"1", ["a.json"])


def test_a_failed_writer_leaves_nothing(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    with suppress(KeyboardInterrupt), temporary_sibling(path) as one:
        one.write_bytes(b"half")
        raise KeyboardInterrupt
    assert _left(tmp_path) == []
