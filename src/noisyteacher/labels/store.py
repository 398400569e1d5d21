"""Label stores on disk: a folder with a manifest and Parquet parts.

Nothing half-written can be opened, because a store is what its manifest names, and the manifest
comes last:

- A new store is written into a hidden sibling folder, which is then renamed.
- A store is replaced from inside: the new parts are written beside the old ones under other names,
  one rename exchanges the manifest, and only then are the old parts removed. A kill at any moment
  leaves the old manifest with all its parts or the new one with all of its own; part files that
  no manifest names are removed by the next writer.
"""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from noisyteacher.core.errors import InputError, first_few
from noisyteacher.core.files import temporary_sibling, write_atomic
from noisyteacher.core.locks import hold_lock
from noisyteacher.io.formats import in_one_line
from noisyteacher.io.ids import is_text, text_array
from noisyteacher.labels.checks import COLUMNS
from noisyteacher.labels.manifest import (
    FILE_NAME,
    Manifest,
    Record,
    RowHashes,
    StorePart,
    is_part_name,
    part_name,
    parts_in_use,
)
from noisyteacher.labels.topk import index_dtype

_PART_BYTES = 1 << 26
_PART_ROWS = 1 << 18
_NUMBERS = ("tail", "missing")  # one in each row; the other columns hold lists


def write(
    records: Iterable[Record],
    path: Path,
    overwrite: bool,
    files: Mapping[str, bytes] = MappingProxyType({}),
) -> None:
    """Write the rows of ``records`` under each other as the store ``path``.

    There is at least one record; all have the same classes, k and extras, and their ids are unique.
    They are read one after the other, and the store is the same however its rows were cut: not
    more than a part of it and one record are in memory. ``files`` are put beside the parts.
    """
    path = path.absolute()
    exists = os.path.lexists(path)
    if exists and not overwrite:
        raise InputError(f"{path} exists already; overwrite=True (--overwrite) would replace it.")
    try:
        if exists:
            lock = path.with_name(f".{path.name}.lock")
            with hold_lock(lock, str(path), "choose another store"):
                _replace(records, path, files)
        else:
            _create(records, path, files)
    except OSError as error:
        reason = error.strerror or error
        raise OSError(
            error.errno,
            f"the label store {path} could not be written ({reason}); an older store there is "
            "unchanged",
        ) from error


def _create(records: Iterable[Record], path: Path, files: Mapping[str, bytes]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with temporary_sibling(path, folder=True) as temporary:
        _write_store(records, temporary, secrets.token_hex(4))
        for name, content in files.items():
            write_atomic(temporary / name, content)
        temporary.rename(path)
    _sync_folder(path.parent)


def _replace(records: Iterable[Record], folder: Path, files: Mapping[str, bytes]) -> None:
    old = _parts_to_replace(folder)
    token = secrets.token_hex(4)
    for name in files:  # they belong to the old store
        (folder / name).unlink(missing_ok=True)
    try:
        _write_store(records, folder, token)
    except BaseException:
        _remove_unused(folder, (new.name for new in folder.glob(f"part-{token}-*")))
        raise
    for name, content in files.items():
        write_atomic(folder / name, content)
    _remove_unused(folder, old)


def _parts_to_replace(folder: Path) -> set[str]:
    """The parts of the store in ``folder``; anything that is not a store is left alone."""
    if not folder.is_dir():
        raise InputError(f"{folder} is not a label store, so it is not overwritten.")
    files = {file.name for file in folder.iterdir()}
    parts = {name for name in files if is_part_name(name)}
    foreign = sorted(name for name in files - parts if not name.startswith(f".{FILE_NAME}."))
    if foreign and parts_in_use(folder) is None:
        raise InputError(
            f"{folder} is not a label store (it holds {first_few(foreign)}), "
            "so it is not overwritten."
        )
    return parts


def _remove_unused(folder: Path, names: Iterable[str]) -> None:
    # The manifest decides, not the caller: an interrupt may come right after the exchange.
    with contextlib.suppress(OSError):
        for name in set(names) - (parts_in_use(folder) or set()):
            (folder / name).unlink(missing_ok=True)


def _write_store(records: Iterable[Record], folder: Path, token: str) -> None:
    """Write all parts, then the manifest; each is on the disk before the next begins."""
    hashes, parts = RowHashes(), []
    for number, record in enumerate(_cut_into_parts(records)):
        hashes.add(record)
        if len(record.ids):
            parts.append(_write_part(record, folder, part_name(token, number)))
    _sync_folder(folder)
    write_atomic(folder / FILE_NAME, hashes.manifest(record, tuple(parts)).to_json())
    _sync_folder(folder)


def _cut_into_parts(records: Iterable[Record]) -> Iterator[Record]:
    """The same rows, as many at a time as a part holds; without rows, one record without any."""
    waiting: list[Record] = []
    cut = False
    for record in records:
        waiting.append(record)
        step, count = _rows_per_part(record), sum(len(part.ids) for part in waiting)
        if count < step:
            continue
        joined, whole = waiting[0].followed_by(waiting[1:]), count - count % step
        for start in range(0, whole, step):
            yield joined.at(slice(start, start + step))
        waiting, cut = [joined.at(slice(whole, count))], True
    rest = waiting[0].followed_by(waiting[1:])
    if len(rest.ids) or not cut:
        yield rest


def _sync_folder(folder: Path) -> None:
    """Make new names in ``folder`` durable, where the system has a way to."""
    if os.name == "nt":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _write_part(record: Record, folder: Path, name: str) -> StorePart:
    with (folder / name).open("xb") as file:
        pq.write_table(
            _table(record),
            file,
            compression="zstd",
            # Class numbers repeat and shrink; the other columns would only slow down.
            use_dictionary=["topk_index.list.element"],
            write_statistics=False,
        )
        file.flush()
        os.fsync(file.fileno())
    return StorePart(name, len(record.ids))


def _rows_per_part(record: Record) -> int:
    columns = [record.topk_index, record.topk_logprob, *record.extras.values()]
    row_bytes = sum(column.itemsize * int(np.prod(column.shape[1:])) for column in columns)
    return min(_PART_ROWS, max(1, _PART_BYTES // row_bytes))


def _table(record: Record) -> Any:
    ids = record.ids
    # Through a list, because pyarrow ends NumPy strings at their first NUL.
    columns = {"id": pa.array(ids.tolist(), pa.string()) if is_text(ids) else pa.array(ids)}
    for name, column in _columns(record).items():
        columns[name] = pa.array(column) if name in _NUMBERS else _list_column(column)
    fields = [pa.field(name, array.type, nullable=False) for name, array in columns.items()]
    return pa.table(list(columns.values()), schema=pa.schema(fields))


def _columns(record: Record) -> dict[str, npt.NDArray[Any]]:
    """All columns but that of the ids, by their names in the file."""
    values = (record.topk_index, record.topk_logprob, record.stored_tail, record.missing)
    return {**dict(zip(COLUMNS[1:], values, strict=True)), **record.extras}


def _list_column(column: npt.NDArray[Any]) -> Any:
    flat = np.ascontiguousarray(column).reshape(-1)
    width = int(np.prod(column.shape[1:]))
    element = pa.field("element", pa.from_numpy_dtype(column.dtype), nullable=False)
    return pa.FixedSizeListArray.from_arrays(pa.array(flat), type=pa.list_(element, width))


def read(path: Path, extras: Iterable[str] | None) -> Record:
    """Read the store ``path`` with the named extra columns (None: all) and check its hashes."""
    manifest = Manifest.load(path)
    names = list(manifest.extras) if extras is None else list(extras)
    if absent := [name for name in names if name not in manifest.extras]:
        raise InputError(f"{path} has no extra column {first_few(absent)}.")
    check_parts(path, manifest, names)
    record, hashes = empty_record(manifest, names), RowHashes()
    hashes.add(record.at(slice(0, 0)))
    ids, start = [record.ids], 0
    for part in manifest.parts:
        ids.append(_read_part(path / part.file, part.rows, record, start))
        # A part at a time, because the ids are hashed as one text.
        hashes.add(replace(record.at(slice(start, start + part.rows)), ids=ids[-1]))
        start += part.rows
    _check_hashes(hashes, manifest, path)
    return replace(record, ids=np.concatenate(ids))


def read_parts(path: Path) -> Iterator[Record]:
    """The store's rows in order, a part at a time, without extras; the last checks the hashes."""
    manifest, hashes = Manifest.load(path), RowHashes()
    for part in manifest.parts:
        record = empty_record(replace(manifest, rows=part.rows))
        ids = _read_part(path / part.file, part.rows, record, 0)
        record = replace(record, ids=ids)
        hashes.add(record)
        yield record
    _check_hashes(hashes, manifest, path)


def empty_record(manifest: Manifest, extras: Sequence[str] = ()) -> Record:
    """Columns to be filled; those of the ids, whose width is not known yet, have no rows."""
    shape = (manifest.rows, manifest.k)
    columns = {name: manifest.extras[name] for name in extras}
    return Record(
        ids=np.empty(0, object if manifest.id_type == "string" else np.int64),
        classes=manifest.classes,
        topk_index=np.empty(shape, index_dtype(len(manifest.classes))),
        topk_logprob=np.empty(shape, np.float16),
        stored_tail=np.empty(manifest.rows, np.float32),
        missing=np.empty(manifest.rows, np.float32),
        extras={n: np.empty((manifest.rows, *e.shape), e.dtype) for n, e in columns.items()},
        teacher=manifest.teacher,
        revision=manifest.revision,
        temperature=manifest.temperature,
    )


def check_parts(path: Path, manifest: Manifest, extras: Sequence[str] = ()) -> None:
    """Compare the parts with the manifest before memory is made for what the manifest says."""
    widths = {"topk_index": manifest.k, "topk_logprob": manifest.k}
    widths |= {name: int(np.prod(manifest.extras[name].shape)) for name in extras}
    for part in manifest.parts:
        file = path / part.file
        if not file.is_file():
            raise InputError(f"{file} is missing, so the label store cannot be opened.")
        with _damaged(file), pq.ParquetFile(file, memory_map=True) as parquet:
            if parquet.metadata.num_rows != part.rows:
                raise ValueError(f"{parquet.metadata.num_rows} rows instead of {part.rows}")
            for name, width in widths.items():
                kind = parquet.schema_arrow.field(name).type
                found = kind.list_size if pa.types.is_fixed_size_list(kind) else 1
                if found != width:
                    raise ValueError(f"{found} values of {name} in a row instead of {width}")


@contextlib.contextmanager
def _damaged(file: Path) -> Iterator[None]:
    try:
        yield
    except (pa.ArrowException, OSError, ValueError, KeyError) as error:
        raise InputError(f"{file} is damaged: {in_one_line(error)}.") from error


def _read_part(file: Path, rows: int, record: Record, start: int) -> npt.NDArray[Any]:
    """Fill the rows from ``start`` on from one part, and return its ids."""
    targets = _columns(record)
    with _damaged(file):
        with pq.ParquetFile(file, memory_map=True) as parquet:
            table = parquet.read(["id", *targets])
        for name, target in targets.items():
            _fill(target[start : start + rows], table.column(name))
        ids = table.column("id")
        if is_text(record.ids):
            return text_array(ids.cast(pa.string(), safe=True).to_pylist())
        return ids.to_numpy().astype(np.int64, casting="safe")  # type: ignore[no-any-return]


def _fill(target: npt.NDArray[Any], column: Any) -> None:
    at = 0
    for chunk in column.chunks:
        flat = chunk.flatten() if pa.types.is_fixed_size_list(chunk.type) else chunk
        values = flat.to_numpy(zero_copy_only=True)
        if values.dtype != target.dtype:
            raise ValueError(f"values of type {values.dtype} instead of {target.dtype}")
        target[at : at + len(chunk)] = values.reshape(len(chunk), *target.shape[1:])
        at += len(chunk)


def _check_hashes(hashes: RowHashes, manifest: Manifest, path: Path) -> None:
    found = hashes.extras
    wrong = [name for name in found if found[name] != manifest.extras[name].sha256]
    if hashes.rows != manifest.rows_sha256:
        wrong.append("rows")
    if hashes.ids != manifest.ids_sha256:
        wrong.append("ids")
    if wrong:
        raise InputError(
            f"the {' and '.join(wrong)} of {path} do not have the hash that its manifest gives, "
            "so its parts were changed after they were written."
        )
