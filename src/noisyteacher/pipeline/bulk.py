"""Bulk labeling of files into a store: in shards, resumable after a kill, sized to memory.

Finished shards lie as small stores in ``<store>.partial/`` until all are there; then the store
appears whole, and the folder goes. A run with another model, other files or other settings begins
anew.
"""

from __future__ import annotations

import hashlib
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import orjson
import torch

from noisyteacher.core.errors import InputError, first_few
from noisyteacher.core.files import write_atomic
from noisyteacher.core.locks import hold_lock
from noisyteacher.data import Dataset
from noisyteacher.labels import TeacherLabels
from noisyteacher.pipeline.matching import contents
from noisyteacher.pipeline.sources import join_labels
from noisyteacher.pipeline.teachers import Teacher

_PLAN = "plan.json"


@dataclass(frozen=True)
class Progress:
    """How far a labeling is; ``rate`` counts what this call labeled itself."""

    done: int
    total: int
    rate: float  # examples a second

    @property
    def seconds_left(self) -> float:
        return (self.total - self.done) / max(self.rate, 1e-9)


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
    on_progress: Callable[[Progress], None] = lambda progress: None,
    say: Callable[[str], None] = lambda text: None,
) -> TeacherLabels:
    """Label all examples and save the store; ``settings`` are what else makes the labels differ.

    A shard that does not fit in memory is tried again with half the batch.
    """
    if batch_size < 1 or shard_size < 1:
        raise InputError(f"Batches and shards hold at least 1, not {batch_size}, {shard_size}.")
    out = Path(out)
    if out.exists() and not overwrite:
        raise InputError(f"{out} exists already; overwrite=True (--overwrite) would replace it.")
    sources = [teacher.arranged(source) for source in sources]
    _check_ids(sources)
    shards = list(_shards(sources, shard_size))
    work, lock = (out.with_name(f"{out.name}.{ending}") for ending in ("partial", "lock"))
    with hold_lock(lock, str(out), "choose another store with out= (--out)"):
        _open_plan(work, _plan(teacher, sources, settings, shard_size, seed), say)
        total, done, began, own = sum(map(len, sources)), 0, time.monotonic(), 0
        for number, (source, rows) in enumerate(shards):
            path = work / f"shard-{number:06d}"
            count = len(source.ids[rows])
            if not path.exists():
                shard = (source.ids[rows], source.inputs[rows])
                labels, batch_size = _label_shard(teacher, *shard, batch_size, seed + number, say)
                labels.save(path)
                own += count
            done += count
            on_progress(Progress(done, total, own / max(time.monotonic() - began, 1e-9)))
        parts = [TeacherLabels.open(work / f"shard-{i:06d}") for i in range(len(shards))]
        joined = join_labels(parts)
        joined.save(out, overwrite=overwrite)
        shutil.rmtree(work, ignore_errors=True)
        return joined


def _shards(sources: Sequence[Dataset], size: int) -> Iterator[tuple[Dataset, slice]]:
    for source in sources:
        for start in range(0, len(source), size):
            yield source, slice(start, start + size)


def _check_ids(sources: Sequence[Dataset]) -> None:
    ids = [key for source in sources for key in source.ids.tolist()]
    if len({type(key) for key in ids}) > 1:
        raise InputError("The ids of the files must all be text, or all whole numbers.")
    values, counts = np.unique(np.array(ids), return_counts=True)
    if len(values) != len(ids):
        raise InputError(
            f"The files share ids: {first_few(values[counts > 1].tolist())}; label them into "
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


def _open_plan(work: Path, plan: bytes, say: Callable[[str], None]) -> None:
    path = work / _PLAN
    if path.exists() and path.read_bytes() == plan:
        say(f"Going on with the finished shards in {work}.")
        return
    if work.exists():
        # A kill while the plan was written leaves its temporary file.
        others = (entry for entry in work.iterdir() if not entry.name.startswith(f".{_PLAN}."))
        if not path.exists() and any(others):
            raise InputError(f"{work} is in the way and is not of a labeling; move it.")
        say(f"The shards in {work} belong to another labeling; beginning anew.")
        shutil.rmtree(work)
    write_atomic(path, plan)


def _label_shard(
    teacher: Teacher,
    ids: np.ndarray,
    inputs: np.ndarray | list[str],
    batch_size: int,
    seed: int,
    say: Callable[[str], None],
) -> tuple[TeacherLabels, int]:
    """A shard's labels, and the batch size that fitted."""
    while True:
        try:
            return teacher.say(ids, inputs, batch_size, seed), batch_size
        except (MemoryError, RuntimeError) as error:
            if not _out_of_memory(error) or batch_size == 1:
                raise
            batch_size //= 2
            say(f"Out of memory; going on with batches of {batch_size}.")
            if torch.cuda.is_available():
                torch.cuda.empty_cache()


def _out_of_memory(error: BaseException) -> bool:
    # torch's CPU allocator raises a plain RuntimeError.
    return isinstance(
        error, MemoryError | torch.OutOfMemoryError
    ) or "can't allocate memory" in str(error)
