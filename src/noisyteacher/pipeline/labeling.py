"""Bulk labeling of files into a store, by one process, by several, or by the workers of Ray.

The examples are cut into shards. Finished shards are small stores in ``<store>.partial/`` until all
are there; then the store is written from them, part by part, and the folder goes. A shard carries
the hash of the plan it belongs to (the model, the examples, the settings), so that shards of
another plan are never mixed in, and it appears whole or not at all, so that any process may be
killed at any moment and started again.
"""

from __future__ import annotations

import contextlib
import hashlib
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import torch

from noisyteacher.core.errors import InputError, first_few
from noisyteacher.core.files import write_atomic
from noisyteacher.core.locks import hold_lock
from noisyteacher.data import Dataset
from noisyteacher.io.ids import is_text, repeated_ids
from noisyteacher.labels import TeacherLabels, store
from noisyteacher.labels.importers import rejected_path
from noisyteacher.labels.importers.llm_rows import RejectedList
from noisyteacher.labels.manifest import Manifest
from noisyteacher.labels.teacher_labels import join_labels
from noisyteacher.pipeline.matching import contents
from noisyteacher.pipeline.teachers import Teacher

_PLAN = "plan.json"
_PLAN_IN_STORE = "labeling.json"  # the plan that made a store
_FEW_FAILURES, _MOST_FAILURES = 10, 0.1

Say = Callable[[str], None]


@dataclass(frozen=True)
class LabelingProgress:
    """How far a labeling is; ``rate`` counts what this call labeled itself."""

    done: int
    total: int
    rate: float  # examples a second

    @property
    def seconds_left(self) -> float:
        return (self.total - self.done) / max(self.rate, 1e-9)


@dataclass(frozen=True)
class Shard:
    """Some rows of one file, which are labeled together."""

    number: int
    file: str
    first_row: int
    ids: np.ndarray
    inputs: np.ndarray | list[str]
    seed: int


@dataclass(frozen=True)
class LabeledShard:
    """A shard's labels, and the reason and the answer of each row that has none."""

    shard: int
    labels: TeacherLabels
    rejected: dict[Any, tuple[str, str]]


# Labels shards in any order, with batches of this size at most.
Runner = Callable[[Iterable[Shard], int], Iterator[LabeledShard]]


def label_files(
    teacher: Teacher,
    sources: Sequence[Dataset],
    out: str | Path,
    *,
    settings: str = "",
    batch_size: int = 256,
    shard_size: int = 8192,
    seed: int = 0,
    overwrite: bool = False,
    share: tuple[int, int] | None = None,
    runner: Runner | None = None,
    on_progress: Callable[[LabelingProgress], None] = lambda progress: None,
    say: Say = lambda text: None,
) -> Manifest | None:
    """Label all examples and save the store; ``settings`` are what else makes the labels differ.

    Args:
        teacher: labels the shards, unless a ``runner`` does.
        share: (i, n), i from 1 to n: label only every n-th shard, from the i-th on; n processes
            with the same other arguments label them all, and whichever ends last writes the store.
        runner: labels the shards in place of this process.

    Returns:
        The manifest of the store; None while shards of other processes are missing.

    A shard that does not fit in memory is tried again with half the batch. Rows at which the
    teacher fails are left out and listed in ``<store>.rejected.jsonl``.
    """
    if batch_size < 1 or shard_size < 1:
        raise InputError(
            f"Batch and shard sizes must be at least 1, not {batch_size}, {shard_size}."
        )
    if share is not None and not 1 <= share[0] <= share[1]:
        raise InputError(f"The share I/N needs I from 1 to N, not {share[0]}/{share[1]}.")
    if share is not None and overwrite:
        raise InputError("Several processes cannot overwrite one store; remove it first.")
    out = Path(out)
    if share is None and out.exists() and not overwrite:
        _remove_left_shards(out)
        raise InputError(f"{out} exists already; overwrite=True (--overwrite) would replace it.")
    sources = [teacher.arrange(source) for source in sources]
    if not any(map(len, sources)):
        raise InputError("There are no examples to label.")
    _check_ids(sources)
    plan = _plan(teacher, sources, settings, shard_size, seed)
    work = _ShardFolder(out, plan, list(_cut(sources, shard_size)), seed)
    run = runner or (lambda shards, size: label_here(teacher, shards, size, say))
    label = partial(work.label, run=run, batch_size=batch_size, on_progress=on_progress)
    if share is not None:
        return _label_share(work, share, label, say)
    with _lock(out):
        work.open(say)
        label(range(len(work)))
        return work.finish(overwrite)


def _lock(out: Path) -> contextlib.AbstractContextManager[None]:
    name = out.with_name(f"{out.name}.lock")
    return hold_lock(name, str(out), "choose another store with out= (--out)")


def _partial(out: Path) -> Path:
    return out.with_name(f"{out.name}.partial")


def _token(plan: bytes) -> str:
    return hashlib.sha256(plan).hexdigest()[:8]


def _remove_left_shards(out: Path) -> None:
    """Remove the shards of a labeling that was killed after it had written its store."""
    folder, plan = _partial(out), out / _PLAN_IN_STORE
    if not plan.exists() or not (folder.exists() or out.with_name(f"{out.name}.lock").exists()):
        return
    token = _token(plan.read_bytes())
    with _lock(out):
        shards = folder.glob("shard-*") if folder.exists() else ()
        if all(f"-{token}" in shard.name for shard in shards):
            shutil.rmtree(folder, ignore_errors=True)


def _label_share(
    work: _ShardFolder, share: tuple[int, int], label: Callable[[Sequence[int]], None], say: Say
) -> Manifest | None:
    index, count = share
    if work.out.exists():
        return work.finished_before()
    work.join()
    label(range(index - 1, len(work), count))
    missing = len(work) - len(work.done())
    if missing and not work.out.exists():
        say(
            f"Share {index} of {count} is done; {missing} shards of other processes are missing. "
            "Whichever process ends last writes the store."
        )
        return None
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(_lock(work.out))
        except InputError:
            say(f"Share {index} of {count} is done; another process writes the store.")
            return None
        return work.finished_before() if work.out.exists() else work.finish(overwrite=False)


class _ShardFolder:
    """The finished shards of a labeling, in ``<store>.partial/``."""

    def __init__(
        self, out: Path, plan: bytes, pieces: list[tuple[Dataset, slice]], seed: int
    ) -> None:
        self.out, self._plan, self._pieces, self._seed = out, plan, pieces, seed
        self._folder, self._token = _partial(out), _token(plan)

    def __len__(self) -> int:
        return len(self._pieces)

    def open(self, say: Say) -> None:
        """Go on with this plan's shards; those of another plan are removed."""
        path = self._folder / _PLAN
        if path.exists() and path.read_bytes() == self._plan:
            say(f"Continuing with the finished shards in {self._folder}.")
            return
        if self._folder.exists():
            # A kill while the plan was written leaves its temporary file.
            others = (e for e in self._folder.iterdir() if not e.name.startswith(f".{_PLAN}."))
            if not path.exists() and any(others):
                raise InputError(
                    f"{self._folder} exists and was not made by label; move it elsewhere."
                )
            say(f"The shards in {self._folder} belong to another labeling; starting over.")
            shutil.rmtree(self._folder)
        write_atomic(path, self._plan)

    def join(self) -> None:
        """As ``open``, where other processes may be at work: nothing is removed."""
        path = self._folder / _PLAN
        if not path.exists():
            write_atomic(path, self._plan)
        if path.read_bytes() != self._plan:
            raise InputError(
                f"The shards in {self._folder} belong to a labeling with another model, other "
                "files or other settings; remove the folder, or choose another store with --out."
            )

    def finished_before(self) -> Manifest:
        """The store, which must be that of this plan."""
        path = self.out / _PLAN_IN_STORE
        if not path.exists() or path.read_bytes() != self._plan:
            raise InputError(
                f"{self.out} exists already and comes from another labeling; remove it, or choose "
                "another store with --out."
            )
        shutil.rmtree(self._folder, ignore_errors=True)  # a late process may have begun it anew
        return Manifest.load(self.out)

    def label(
        self,
        numbers: Sequence[int],
        run: Runner,
        batch_size: int,
        on_progress: Callable[[LabelingProgress], None],
    ) -> None:
        """Label those of the shards that are not there yet."""
        sizes = [len(source.ids[rows]) for source, rows in self._pieces]
        done, total, own, began = self.done(), sum(sizes), 0, time.monotonic()
        labeled = sum(sizes[number] for number in done)
        missing = [number for number in numbers if number not in done]
        if not missing:
            on_progress(LabelingProgress(labeled, total, 0.0))
        for result in run(map(self._shard, missing), batch_size):
            self._save(result)
            own += sizes[result.shard]
            rate = own / max(time.monotonic() - began, 1e-9)
            on_progress(LabelingProgress(labeled + own, total, rate))

    def done(self) -> set[int]:
        """The numbers of the shards that are there."""
        return {number for number in range(len(self)) if self._path(number).exists()}

    def _path(self, number: int) -> Path:
        return self._folder / f"shard-{number:06d}-{self._token}"

    def _shard(self, number: int) -> Shard:
        source, rows = self._pieces[number]
        ids, inputs = source.ids[rows], source.inputs[rows]
        return Shard(number, source.name, rows.start, ids, inputs, self._seed + number)

    def _save(self, result: LabeledShard) -> None:
        path, (source, rows) = self._path(result.shard), self._pieces[result.shard]
        row_of = {key: row for row, key in enumerate(source.ids[rows].tolist(), rows.start + 1)}
        # First the rows without labels: a shard that is there has its list.
        with RejectedList(rejected_path(path)) as listed:
            for key, (reason, answer) in result.rejected.items():
                listed.add(key, Path(source.name), row_of[key], reason, answer)
            listed.commit()
        try:
            result.labels.save(path)
        except (InputError, OSError):
            if not path.exists():  # else another process has written the same
                raise

    def finish(self, overwrite: bool) -> Manifest:
        """Write the store from the shards, and remove them."""
        paths = [self._path(number) for number in range(len(self))]
        lists = [p.read_bytes() for p in map(rejected_path, paths) if p.exists()]
        if lists:
            write_atomic(rejected_path(self.out), b"".join(lists))
        else:
            rejected_path(self.out).unlink(missing_ok=True)
        records = (store.read(path, None) for path in paths)
        store.write(records, self.out, overwrite, {_PLAN_IN_STORE: self._plan})
        shutil.rmtree(self._folder, ignore_errors=True)
        return Manifest.load(self.out)


def _cut(sources: Sequence[Dataset], size: int) -> Iterator[tuple[Dataset, slice]]:
    for source in sources:
        for start in range(0, len(source), size):
            yield source, slice(start, start + size)


def _check_ids(sources: Sequence[Dataset]) -> None:
    """Refuse an id that stands in two of the files; each was looked at when it was read."""
    if len({is_text(source.ids) for source in sources if len(source)}) > 1:
        raise InputError("The ids of the files must all be text, or all whole numbers.")
    if len(sources) == 1:
        return
    if repeated := sorted(repeated_ids(np.concatenate([source.ids for source in sources]))):
        raise InputError(
            f"The files share ids: {first_few(repeated)}; label them into "
            "stores of their own, or give them other ids."
        )


def _plan(
    teacher: Teacher, sources: Sequence[Dataset], settings: str, shard_size: int, seed: int
) -> bytes:
    """What a shard's labels depend on."""
    digest = hashlib.sha256()
    for source in sources:
        for key, content in zip(source.ids.tolist(), contents(source), strict=True):
            digest.update(repr((key, content)).encode())
    plan = {
        "teacher": teacher.name,
        "weights": teacher.fingerprint(),
        "classes": teacher.classes,
        "settings": settings,
        "examples": digest.hexdigest(),
        "shard_size": shard_size,
        "seed": seed,
    }
    return orjson.dumps(plan, option=orjson.OPT_INDENT_2)


# -- one shard -------------------------------------------------------------------------------------


def label_here(
    teacher: Teacher, shards: Iterable[Shard], batch_size: int, say: Say
) -> Iterator[LabeledShard]:
    """Label shards one after the other."""
    labeler = ShardLabeler(teacher, batch_size)
    for shard in shards:
        yield labeler.label(shard, say)


class ShardLabeler:
    """Labels a shard at a time; a batch size that did not fit in memory is not tried again."""

    def __init__(self, teacher: Teacher, batch_size: int) -> None:
        self._teacher, self._batch_size = teacher, batch_size

    def label(self, shard: Shard, say: Say) -> LabeledShard:
        """A shard's labels: of the whole, or of halves of halves without the rows that fail."""
        if self._teacher.rejected is not None:
            labels = self._teacher.label(shard.ids, shard.inputs, self._batch_size, shard.seed)
            return LabeledShard(shard.number, labels, self._teacher.rejected)
        parts: list[TeacherLabels] = []
        failed: dict[Any, tuple[str, str]] = {}
        first_error: Exception | None = None
        waiting = [(0, len(shard.ids))]
        while waiting:
            start, stop = waiting.pop()
            try:
                parts.append(self._ask(shard, slice(start, stop), say))
            except Exception as error:
                first_error = first_error or error
                if stop - start > 1:
                    middle = (start + stop) // 2
                    waiting += [(middle, stop), (start, middle)]
                    continue
                reason = f"{type(error).__name__}: {' '.join(str(error).split())}"
                failed[shard.ids[start : start + 1].tolist()[0]] = (reason[:300], "")
                tried = len(failed) + sum(map(len, parts))
                if len(failed) > max(_FEW_FAILURES, _MOST_FAILURES * tried):
                    raise first_error from None
        if not parts and first_error is not None:
            raise first_error
        return LabeledShard(shard.number, join_labels(parts), failed)

    def _ask(self, shard: Shard, rows: slice, say: Say) -> TeacherLabels:
        while True:
            try:
                return self._teacher.label(
                    shard.ids[rows], shard.inputs[rows], self._batch_size, shard.seed
                )
            except (MemoryError, RuntimeError) as error:
                if not _out_of_memory(error) or self._batch_size == 1:
                    raise
                self._batch_size //= 2
                say(f"Out of memory; continuing with batches of {self._batch_size}.")
                if torch.cuda.is_available():
                    torch.cuda.empty_cache()


def _out_of_memory(error: BaseException) -> bool:
    # torch's CPU allocator raises a plain RuntimeError.
    told = "can't allocate memory" in str(error)
    return told or isinstance(error, MemoryError | torch.OutOfMemoryError)
