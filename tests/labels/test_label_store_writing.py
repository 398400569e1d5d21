"""Writing a store: a kill, a full disk or a wrong path never costs what was there before."""

from __future__ import annotations

import errno
import itertools
import os
import shutil
import signal
import subprocess
import sys

import pytest
from label_helpers import assert_identical, random_probs

from noisyteacher.core.errors import InputError
from noisyteacher.labels import TeacherLabels, store

OLD = TeacherLabels.from_probs(range(10), random_probs(10, 5, seed=1), teacher="old")
NEW = TeacherLabels.from_probs(range(20), random_probs(20, 5, seed=2), teacher="new")
STEPS = ("fsync", "replace", "rename", "unlink", "mkdir", "rmdir", "open")


class Killed(BaseException):
    """Stands for the end of the process."""


@pytest.fixture(autouse=True)
def small_parts(monkeypatch):
    monkeypatch.setattr(store, "_PART_ROWS", 7)


def fail_at(step, monkeypatch, error, forever):
    """Let the ``step``-th change of the file system fail, or that one and all that follow."""
    calls = itertools.count()

    def guarded(original):
        def call(*args, **kwargs):
            number = next(calls)
            if number == step or (forever and number > step):
                raise error
            return original(*args, **kwargs)

        return call

    for name in STEPS:
        monkeypatch.setattr(os, name, guarded(getattr(os, name)))
    return calls


def outcomes(folder, start, error, forever):
    """What ``open`` finds after each possible failure of a save over the store in ``start``."""
    for step in itertools.count():
        path = folder / f"{step}" / "store"
        path.parent.mkdir()
        if start is not None:
            shutil.copytree(start, path)
        with pytest.MonkeyPatch.context() as patch:
            fail_at(step, patch, error, forever)
            raised = None
            try:
                NEW.save(path, overwrite=True)
            except (Killed, OSError) as failure:
                raised = failure
        assert not isinstance(raised, OSError) or "could not be written" in str(raised)
        yield path
        if raised is None:
            return


def name_of(path):
    """Which labels are there, whole; None where there is no store."""
    if not (path / "manifest.json").exists():
        return None
    opened = TeacherLabels.open(path)
    assert_identical(opened, {"old": OLD, "new": NEW}[opened.teacher])
    return opened.teacher


def test_a_killed_writer_leaves_the_old_store_or_the_new(tmp_path):
    OLD.save(tmp_path / "old")
    found = [name_of(p) for p in outcomes(tmp_path, tmp_path / "old", Killed(), forever=True)]
    assert len(found) > 8
    assert found == sorted(found, key=["old", "new"].index)
    assert set(found) == {"old", "new"}


def test_a_killed_writer_of_a_new_store_leaves_none_or_all(tmp_path):
    found = []
    for path in outcomes(tmp_path, None, Killed(), forever=True):
        found.append(name_of(path))
        # Whatever was left behind is hidden, and does not stand in the way.
        assert all(left.name.startswith(".") for left in path.parent.iterdir() if left != path)
        if found[-1] is None:
            NEW.save(path)
            assert name_of(path) == "new"
    assert len(found) > 6
    assert found == sorted(found, key=[None, "new"].index)


def test_a_killed_overwrite_can_be_repeated(tmp_path):
    OLD.save(tmp_path / "old")
    (tmp_path / "empty").mkdir()
    for start in ("old", "empty"):
        folder = tmp_path / f"from {start}"
        folder.mkdir()
        for path in outcomes(folder, tmp_path / start, Killed(), forever=True):
            NEW.save(path, overwrite=True)
            assert name_of(path) == "new"


def test_a_full_disk_leaves_no_trace(tmp_path):
    full = OSError(errno.ENOSPC, "No space left on device")
    OLD.save(tmp_path / "old")
    before = {file.name for file in (tmp_path / "old").iterdir()}
    for path in outcomes(tmp_path, tmp_path / "old", full, forever=False):
        if name_of(path) == "old":
            assert {file.name for file in path.iterdir()} == before
    new = tmp_path / "new"
    new.mkdir()
    for path in outcomes(new, None, full, forever=False):
        assert name_of(path) == "new" or list(path.parent.iterdir()) == []


def test_a_disk_that_fills_up_within_a_part(tmp_path, monkeypatch):
    OLD.save(tmp_path / "store")

    def fill_up(table, file, **options):
        file.write(b"PAR1")
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(store.pq, "write_table", fill_up)
    message = (
        r"store could not be written \(No space left on device\); an older store there is unchanged"
    )
    with pytest.raises(OSError, match=message) as error:
        NEW.save(tmp_path / "store", overwrite=True)
    assert error.value.errno == errno.ENOSPC
    with pytest.raises(OSError, match=message):
        NEW.save(tmp_path / "another store")
    assert [file.name for file in tmp_path.iterdir()] == ["store"]
    assert name_of(tmp_path / "store") == "old"


def test_an_interrupt_right_after_the_exchange_keeps_the_new_store(tmp_path, monkeypatch):
    OLD.save(tmp_path / "store")

    def exchange_then_stop(source, target, replace=os.replace):
        replace(source, target)
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", exchange_then_stop)
    with pytest.raises(KeyboardInterrupt):
        NEW.save(tmp_path / "store", overwrite=True)
    assert name_of(tmp_path / "store") == "new"


KILLED_WRITER = """
import os, signal, sys
from noisyteacher.labels import TeacherLabels, store

store._PART_ROWS = 7
labels = TeacherLabels.from_probs(range(20), [[0.5, 0.5]] * 20)
setattr(os, sys.argv[2], lambda *paths: os.kill(os.getpid(), signal.SIGKILL))
labels.save(sys.argv[1], overwrite=True)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGKILL")
@pytest.mark.parametrize(("last_step", "before"), [("replace", "old"), ("rename", None)])
def test_a_process_that_is_really_killed(tmp_path, last_step, before):
    path = tmp_path / "store"
    if before == "old":
        OLD.save(path)
    command = [sys.executable, "-c", KILLED_WRITER, str(path), last_step]
    assert subprocess.run(command, check=False).returncode == -signal.SIGKILL
    assert name_of(path) == before
    assert path.exists() == (before is not None)
    NEW.save(path, overwrite=True)
    assert name_of(path) == "new"


def test_an_existing_path_is_refused(tmp_path):
    OLD.save(tmp_path / "store")
    with pytest.raises(InputError, match=r"exists already; overwrite=True \(--overwrite\) would"):
        NEW.save(tmp_path / "store")
    assert name_of(tmp_path / "store") == "old"


def test_overwriting_removes_the_old_parts(tmp_path):
    OLD.save(tmp_path / "store")
    NEW.save(str(tmp_path / "store"), overwrite=True)
    assert name_of(tmp_path / "store") == "new"
    assert len(list((tmp_path / "store").iterdir())) == 1 + 3
    opened = TeacherLabels.open(tmp_path / "store")
    opened.save(tmp_path / "store", overwrite=True)
    assert name_of(tmp_path / "store") == "new"


def test_a_damaged_store_can_be_overwritten(tmp_path):
    OLD.save(tmp_path / "store")
    manifest = tmp_path / "store" / "manifest.json"
    manifest.write_bytes(manifest.read_bytes().replace(b'"old"', b'"odd"'))
    NEW.save(tmp_path / "store", overwrite=True)
    assert name_of(tmp_path / "store") == "new"
    assert len(list((tmp_path / "store").iterdir())) == 1 + 3


def test_overwriting_keeps_files_that_are_not_ours(tmp_path):
    OLD.save(tmp_path / "store")
    note = tmp_path / "store" / "README.md"
    note.write_text("mine")
    manifest = tmp_path / "store" / "manifest.json"
    # An edited manifest must not make us remove other people's files.
    part = next((tmp_path / "store").glob("part-*")).name.encode()
    manifest.write_bytes(manifest.read_bytes().replace(part, b"README.md"))
    NEW.save(tmp_path / "store", overwrite=True)
    assert note.read_text() == "mine"
    assert name_of(tmp_path / "store") == "new"


def test_what_is_not_a_store_is_never_overwritten(tmp_path):
    folder = tmp_path / "photos"
    folder.mkdir()
    (folder / "me.png").write_bytes(b"png")
    with pytest.raises(InputError, match=r"not a label store \(it holds 'me.png'\)"):
        NEW.save(folder, overwrite=True)
    (folder / "manifest.json").write_text('{"name": "a web page"}')
    with pytest.raises(InputError, match="not the manifest of a label store"):
        NEW.save(folder, overwrite=True)
    (folder / "manifest.json").write_text("{")
    with pytest.raises(InputError, match="not valid JSON"):
        NEW.save(folder, overwrite=True)
    with pytest.raises(InputError, match="is not a label store"):
        NEW.save(folder / "me.png", overwrite=True)
    assert (folder / "me.png").read_bytes() == b"png"
    assert len(list(folder.iterdir())) == 2


def test_folders_above_the_store_are_made(tmp_path):
    NEW.save(tmp_path / "a" / "b" / "store")
    assert name_of(tmp_path / "a" / "b" / "store") == "new"
