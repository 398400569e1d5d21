"""A pool of texts that does not fit in memory.

The pool's file is read twice, in blocks: once to draw the rows on which candidates are compared
(and, for TF-IDF, those that give the vocabulary), once to turn all rows into files of features or
tokens with their teacher labels. The student is chosen on the gold rows and the drawn part of the
pool, and then solved or trained on all of it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from noisyteacher.choose.linear_choice import STREAMED_FOR_COMPARISON
from noisyteacher.core.errors import InputError, first_few, warn
from noisyteacher.core.machine import memory_of
from noisyteacher.data import Dataset, Tfidf
from noisyteacher.data.input_format import InputFormat
from noisyteacher.data.tensors import gather_rows
from noisyteacher.io.columns import ids_in, texts_in
from noisyteacher.io.formats import PARQUET, is_table, kind_of, stem_of
from noisyteacher.io.user_tables import FileOptions, open_parquet, table_blocks
from noisyteacher.labels import TeacherLabels, store
from noisyteacher.labels.manifest import LABEL_COLUMNS, Manifest
from noisyteacher.labels.teacher_labels import check_joinable
from noisyteacher.pipeline.api import gather
from noisyteacher.pipeline.defaults import featurizer_for
from noisyteacher.pipeline.preparation import DistillSettings
from noisyteacher.pipeline.sources import ExamplesLike, as_examples
from noisyteacher.pipeline.task import Task
from noisyteacher.train.pool_shards import PoolShards, PoolTensors, check_streamable

VOCABULARY_ROWS = 100_000  # texts that give TF-IDF its words and their weights
SHARD_ROWS = 50_000
_BYTES_PER_ROW = 3_300  # of a text in memory, with all that is made of it (measured at a million)


def why_stream(pool: ExamplesLike, labels: Sequence[Path], settings: DistillSettings) -> str | None:
    """A sentence that says why the pool is streamed; None where it fits, or cannot be streamed."""
    if not _can_stream(pool, labels, settings):
        return None
    rows = _rows_about(Path(str(pool)))
    needed = rows * _BYTES_PER_ROW / 1e9
    limit = memory_of("cpu") / 2e9 if settings.max_memory is None else settings.max_memory
    if needed <= limit:
        return None
    return (
        f"The pool has about {rows:,} rows, which would take about {needed:.1f} GB in memory "
        f"(limit: {limit:.1f} GB), so it is read in shards."
    )


def _can_stream(pool: ExamplesLike, labels: Sequence[Path], settings: DistillSettings) -> bool:
    path = Path(pool) if isinstance(pool, str | Path) else None
    if path is None or not path.is_file() or not is_table(path) or path.suffix.lower() == ".gz":
        return False
    stores = all(isinstance(part, str | Path) and Path(part).is_dir() for part in labels)
    return stores and settings.generations == 1 and settings.encoder is None


def _rows_about(path: Path) -> int:
    if kind_of(path) in PARQUET:
        with open_parquet(path) as file:
            return int(file.metadata.num_rows)
    with path.open("rb") as file:
        first = file.read(1 << 20)
    return round(path.stat().st_size / max(len(first), 1) * max(first.count(b"\n"), 1))


@dataclass(frozen=True, eq=False)
class _PoolFile:
    """The texts of a file, in blocks, without those that other sets hold too."""

    path: Path
    options: FileOptions
    left_out: frozenset[str]
    taken: frozenset[str]  # ids of other sets

    def blocks(self) -> Iterator[tuple[list[str], list[str]]]:
        """Ids, as text, and texts."""
        start, where = 0, str(self.path)
        columns = self.options.names("id"), self.options.names("text")
        for table in table_blocks(self.path, *columns):
            text = self.options.column("text", table.column_names, where)
            key = self.options.optional_column("id", table.column_names, where)
            texts = texts_in(table, text, where)
            if key is None:
                name = stem_of(self.path)
                ids = [f"{name}/{row}" for row in range(start, start + len(texts))]
            else:
                ids = [str(one) for one in ids_in(table, key, where).tolist()]
            start += len(texts)
            kept = [i for i, one in enumerate(texts) if one not in self.left_out]
            if len(kept) < len(texts):
                ids, texts = [ids[i] for i in kept], [texts[i] for i in kept]
            yield ids, texts

    def draw(self, count: int, labels: _LabelRows, seed: int) -> tuple[list[str], list[str]]:
        """Ids and texts of ``count`` rows with a teacher label, in random order.

        Refused where an id names two rows, of the pool or of the pool and another set.
        """
        rng = np.random.default_rng([seed, 2])
        met = np.zeros(len(labels), bool)
        keys, ids, texts = np.empty(0), [""][:0], [""][:0]
        for more_ids, more_texts in self.blocks():
            rows = labels.find(more_ids)
            known = rows >= 0
            some, counts = np.unique(rows[known], return_counts=True)
            repeated = some[met[some] | (counts > 1)]
            met[some] = True
            if len(repeated):
                which = dict.fromkeys(more_ids[i] for i in np.flatnonzero(np.isin(rows, repeated)))
                raise InputError(f"{self.path}: ids must be unique; repeated: {first_few(which)}.")
            if clash := [one for one in more_ids if one in self.taken]:
                raise InputError(
                    f"{len(clash)} ids name different examples in the pool and in another set: "
                    f"{first_few(clash)}; ids must be unique."
                )
            key = np.where(known, rng.random(len(more_ids)), np.inf)
            keys, ids, texts = np.concatenate([keys, key]), ids + more_ids, texts + more_texts
            order = np.argsort(keys, kind="stable")[:count]
            order = order[np.isfinite(keys[order])]
            keys = keys[order]
            ids, texts = [ids[i] for i in order], [texts[i] for i in order]
        return ids, texts


class _LabelRows:
    """All teacher labels without their ids, found by a hash of 64 bits of the id."""

    def __init__(self, paths: Sequence[Path]) -> None:
        manifests = [Manifest.load(path) for path in paths]
        first, rows = manifests[0], sum(manifest.rows for manifest in manifests)
        for other in manifests[1:]:
            check_joinable(first.classes, first.k, other.classes, other.k)
        for path, manifest in zip(paths, manifests, strict=True):
            store.check_parts(path, manifest)
        # Filled part by part: parts put together at the end would be there twice.
        self._record = store.empty_record(replace(first, rows=rows))
        hashes, start = np.empty(rows, np.uint64), 0
        for part in (part for path in paths for part in store.read_parts(path)):
            own = slice(start, start + len(part.ids))
            hashes[own] = _hashes([str(key) for key in part.ids.tolist()])
            for name in LABEL_COLUMNS:
                getattr(self._record, name)[own] = getattr(part, name)
            start = own.stop
        self._order = np.argsort(hashes)
        self._sorted = hashes[self._order]
        if (self._sorted[1:] == self._sorted[:-1]).any():
            raise InputError("The label stores share ids.")

    def __len__(self) -> int:
        return len(self._order)

    def find(self, ids: Sequence[str]) -> np.ndarray:
        """(m,) row of each id, -1 where there is none."""
        wanted = _hashes(ids)
        place = np.minimum(np.searchsorted(self._sorted, wanted), len(self._sorted) - 1)
        return np.where(self._sorted[place] == wanted, self._order[place], -1)

    def take(self, ids: Sequence[str]) -> TeacherLabels:
        """The labels of those ids that have one, in their order."""
        rows = self.find(ids)
        known = [key for key, row in zip(ids, rows.tolist(), strict=True) if row >= 0]
        columns = {name: getattr(self._record, name)[rows[rows >= 0]] for name in LABEL_COLUMNS}
        return TeacherLabels(**{**vars(self._record), **columns, "ids": np.array(known, np.str_)})


def _hashes(ids: Sequence[str]) -> np.ndarray:
    """(n,) uint64."""
    joined = b"".join(hashlib.blake2b(key.encode(), digest_size=8).digest() for key in ids)
    return np.frombuffer(joined, np.uint64)


def gather_streamed(
    *,
    gold: ExamplesLike,
    pool: str | Path,
    labels: Sequence[Path],
    settings: DistillSettings,
    folder: Path,
    val: ExamplesLike | None = None,
    selection: ExamplesLike | None = None,
    test: ExamplesLike | None = None,
    files: FileOptions | None = None,
    say: Callable[[str], None] = lambda text: None,
) -> tuple[Task, DistillSettings]:
    """Read a distillation whose pool stays on disk, as shards in ``folder``.

    Returns:
        The task with a part of the pool in memory, and the settings with the fitted featurizer.
    """
    for method in settings.methods:
        check_streamable(method)
    if not _can_stream(pool, labels, settings):
        raise InputError(
            "Only a pool of texts in one .parquet, .csv, .tsv or .jsonl file, with its teacher "
            "labels in label stores, can be streamed, and only without --encoder and more "
            "--generations: leave out --stream."
        )
    options = files or FileOptions()
    sets: dict[str, Dataset] = {
        name: as_examples(part, name, files)
        for name, part in (("gold", gold), ("val", val), ("selection", selection), ("test", test))
        if part is not None
    }
    texts = [str(text) for part in sets.values() for text in part.inputs]
    own = [str(key) for part in sets.values() for key in part.ids.tolist()]
    file = _PoolFile(Path(pool), options, frozenset(texts), frozenset(own))
    known = _LabelRows([Path(path) for path in labels])
    featurizer = settings.featurizer or featurizer_for("text", settings.student)
    assert featurizer is not None
    wanted = STREAMED_FOR_COMPARISON if featurizer.fitted else VOCABULARY_ROWS
    ids, drawn = file.draw(wanted, known, settings.seed)
    if not ids:
        raise InputError(f"None of the rows of {pool} has a teacher label.")
    if isinstance(featurizer, Tfidf) and not featurizer.fitted:
        featurizer.fit([*map(str, sets["gold"].inputs), *drawn])
    ids, drawn = ids[:STREAMED_FOR_COMPARISON], drawn[:STREAMED_FOR_COMPARISON]
    task = gather(
        **sets,  # type: ignore[arg-type]
        pool=(ids, drawn),
        labels=known.take(list(dict.fromkeys([*own, *ids]))),
        files=files,
    )
    settings = replace(settings, featurizer=featurizer)
    inputs = InputFormat("text", featurizer)
    solves = settings.solves("text")
    shards: PoolShards | PoolTensors
    if solves:
        shards = PoolShards(folder, inputs.features, task.labels)
    else:
        # As wide as all of them ask for; the rows of the pool come last.
        known_rows = torch.arange(len(task.ids) - len(task.split.pool))
        shown = gather_rows(inputs.tensors(task.inputs), known_rows)
        shards = PoolTensors(folder, shown, task.labels)
    missing = 0
    for some_ids, some_texts in file.blocks():
        labeled = np.flatnonzero(known.find(some_ids) >= 0)
        missing += len(some_ids) - len(labeled)
        for start in range(0, len(labeled), SHARD_ROWS):
            rows = labeled[start : start + SHARD_ROWS]
            tensors = inputs.tensors([some_texts[i] for i in rows])
            read: Any = inputs.matrix(tensors) if solves else tensors
            shards.add(read, known.take([some_ids[i] for i in rows]))
    if missing:
        warn(f"{missing} rows of {pool} have no teacher label and are left out.")
    say(
        f"{shards.rows:,} pool rows in {len(shards)} shards; candidates are compared on "
        f"{len(ids):,} of them, and the student is trained on all."
    )
    return replace(task, rest=shards), settings
