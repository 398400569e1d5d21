"""Label stores on disk: a folder with a manifest and Parquet parts.

Nothing half-written can be opened, because a store is what its manifest names, and the manifest
comes last:

- A new store is written into a hidden sibling folder, which is then renamed.
- A store is replaced from inside: the new parts are written beside the old ones under other names,
  one rename exchanges the manifest, and only then are the old parts removed. A kill at any moment
  leaves the old manifest with all its parts or the new one with all of its own; at worst, part
  files that no manifest names stay behind.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from noisyteacher.core.errors import InputError, first_few
from noisyteacher.core.files import write_atomic
from noisyteacher.labels.manifest import (
    FILE_NAME,
    Manifest,
    Record,
    StorePart,
    hash_column,
    hash_ids,
    hash_rows,
    is_part_name,
    part_name,
    parts_in_use,
)
from noisyteacher.labels.topk import index_dtype

_PART_BYTES = 1 << 26
_PART_ROWS = 1 << 18


def write(record: Record, path: Path, overwrite: bool) -> None:
    """Write ``record`` as the store ``path``; the ids must be unique."""
    path = path.absolute()
    exists = os.path.lexists(path)
    if exists and not overwrite:
        raise InputError(f"{path} exists already; overwrite=True (--overwrite) would replace it.")
    try:
        if exists:
            _replace(record, path)
        else:
            _create(record, path)
    except OSError as error:
        reason = error.strerror or error
        raise OSError(
            error.errno,
            f"the label store {path} could not be written ({reason}); nothing older is lost",
        ) from error


def _create(record: Record, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    token = secrets.token_hex(4)
    temporary = path.with_name(f".{path.name}.tmp-{token}")
    temporary.mkdir()
    try:
        _write_store(record, temporary, token)
        temporary.rename(path)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
    _sync_folder(path.parent)


def _replace(record: Record, folder: Path) -> None:
    old = _parts_to_replace(folder)
    token = secrets.token_hex(4)
    try:
        _write_store(record, folder, token)
    except BaseException:
        with contextlib.suppress(OSError):
            _remove_unused(folder, (new.name for new in folder.glob(f"part-{token}-*")))
        raise
    with contextlib.suppress(OSError):
        _remove_unused(folder, old)


def _parts_to_replace(folder: Path) -> set[str]:
    """The parts of the store in ``folder``; anything that is not a store is left alone."""
    if not folder.is_dir():
        raise InputError(f"{folder} is not a label store, so it is not overwritten.")
    named = parts_in_use(folder)
    if named is not None:
        return named
    files = {file.name for file in folder.iterdir()}
    foreign = sorted(n for n in files if not is_part_name(n) and not n.startswith(f".{FILE_NAME}."))
    if foreign:
        raise InputError(
            f"{folder} is not a label store (it holds {first_few(foreign)}), "
            "so it is not overwritten."
        )
    return {name for name in files if is_part_name(name)}


def _remove_unused(folder: Path, names: Iterable[str]) -> None:
    # The manifest decides, not the caller: an interrupt may come right after the exchange.
    used = parts_in_use(folder) or set()
    for name in set(names) - used:
        (folder / name).unlink(missing_ok=True)


def _write_store(record: Record, folder: Path, token: str) -> None:
    """Write all parts, then the manifest; each is on the disk before the next begins."""
    manifest = Manifest.describe(record, _write_parts(record, folder, token))
    _sync_folder(folder)
    write_atomic(folder / FILE_NAME, manifest.to_json())
    _sync_folder(folder)


def _sync_folder(folder: Path) -> None:
    """Make new names in ``folder`` durable, where the system has a way to."""
    if os.name == "nt":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _write_parts(record: Record, folder: Path, token: str) -> tuple[StorePart, ...]:
    parts = []
    step = _rows_per_part(record)
    for number, start in enumerate(range(0, len(record.ids), step)):
        rows = slice(start, min(start + step, len(record.ids)))
        part = StorePart(part_name(token, number), rows.stop - rows.start)
        with (folder / part.file).open("xb") as file:
            pq.write_table(
                _table(record, rows),
                file,
                compression="zstd",
                # Class numbers repeat and shrink; the other columns would only slow down.
                use_dictionary=["topk_index.list.element"],
                write_statistics=False,
            )
            file.flush()
            os.fsync(file.fileno())
        parts.append(part)
    return tuple(parts)


def _rows_per_part(record: Record) -> int:
    columns = [record.topk_index, record.topk_logprob, *record.extras.values()]
    row_bytes = sum(column.itemsize * int(np.prod(column.shape[1:])) for column in columns)
    return min(_PART_ROWS, max(1, _PART_BYTES // row_bytes))


def _table(record: Record, rows: slice) -> Any:
    ids = record.ids[rows]
    columns = {
        # Through a list, because pyarrow ends NumPy strings at their first NUL.
        "id": pa.array(ids.tolist(), pa.string()) if ids.dtype.kind == "U" else pa.array(ids),
        "topk_index": _list_column(record.topk_index[rows]),
        "topk_logprob": _list_column(record.topk_logprob[rows]),
        "tail": pa.array(record.stored_tail[rows]),
        "missing": pa.array(record.missing[rows]),
    }
    columns |= {name: _list_column(column[rows]) for name, column in record.extras.items()}
    fields = [pa.field(name, array.type, nullable=False) for name, array in columns.items()]
    return pa.table(list(columns.values()), schema=pa.schema(fields))


def _list_column(column: npt.NDArray[Any]) -> Any:
    flat = np.ascontiguousarray(column).reshape(-1)
    width = int(np.prod(column.shape[1:]))
    element = pa.field("element", pa.from_numpy_dtype(column.dtype), nullable=False)
    return pa.FixedSizeListArray.from_arrays(pa.array(flat), type=pa.list_(element, width))


def read(path: Path, extras: Iterable[str] | None) -> Record:
    """Read the store ``path`` with the named extra columns (None: all) and check its hashes."""
    manifest = Manifest.load(path)
    names = list(manifest.extras) if extras is None else list(extras)
    absent = [name for name in names if name not in manifest.extras]
    if absent:
        raise InputError(f"{path} has no extra column {first_few(absent)}.")
    record = _empty_record(manifest, names)
    ids, start = [record.ids], 0
    for part in manifest.parts:
        ids.append(_read_part(path / part.file, part.rows, record, start))
        start += part.rows
    record = Record(**{**vars(record), "ids": np.concatenate(ids)})
    _check_hashes(record, manifest, path)
    return record


def _empty_record(manifest: Manifest, extras: list[str]) -> Record:
    """Columns to be filled; those of the ids, whose width is not known yet, have no rows."""
    shape = (manifest.rows, manifest.k)
    columns = {name: manifest.extras[name] for name in extras}
    return Record(
        ids=np.empty(0, np.str_ if manifest.id_type == "string" else np.int64),
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


def _read_part(file: Path, rows: int, record: Record, start: int) -> npt.NDArray[Any]:
    """Fill the rows from ``start`` on from one part, and return its ids."""
    targets = {
        "topk_index": record.topk_index,
        "topk_logprob": record.topk_logprob,
        "tail": record.stored_tail,
        "missing": record.missing,
        **record.extras,
    }
    if not file.is_file():
        raise InputError(f"{file} is missing, so the label store cannot be opened.")
    try:
        with pq.ParquetFile(file, memory_map=True) as parquet:
            table = parquet.read(["id", *targets])
        if table.num_rows != rows:
            raise ValueError(f"{table.num_rows} rows instead of {rows}")
        for name, target in targets.items():
            _fill(target[start : start + rows], table.column(name))
        return _read_ids(table.column("id"), record.ids.dtype.kind)
    except (pa.ArrowException, OSError, ValueError, KeyError) as error:
        reason = " ".join(str(error).split())
        raise InputError(f"{file} is damaged: {reason.rstrip('.')}.") from error


def _fill(target: npt.NDArray[Any], column: Any) -> None:
    at = 0
    for chunk in column.chunks:
        flat = chunk.flatten() if pa.types.is_fixed_size_list(chunk.type) else chunk
        values = flat.to_numpy(zero_copy_only=True)
        if values.dtype != target.dtype:
            raise ValueError(f"values of type {values.dtype} instead of {target.dtype}")
        target[at : at + len(chunk)] = values.reshape(len(chunk), *target.shape[1:])
        at += len(chunk)


def _read_ids(column: Any, kind: str) -> npt.NDArray[Any]:
    if kind == "U":
        return column.to_numpy().astype(np.str_)  # type: ignore[no-any-return]
    return column.to_numpy().astype(np.int64, casting="safe")  # type: ignore[no-any-return]


def _check_hashes(record: Record, manifest: Manifest, path: Path) -> None:
    wrong = [name for name, c in record.extras.items() if _extra_differs(c, manifest, name)]
    if hash_rows(record) != manifest.rows_sha256:
        wrong.append("rows")
    if hash_ids(record.ids) != manifest.ids_sha256:
        wrong.append("ids")
    if wrong:
        raise InputError(
            f"the {' and '.join(wrong)} of {path} do not have the hash that its manifest gives, "
            "so its parts were changed after they were written."
        )


def _extra_differs(column: npt.NDArray[Any], manifest: Manifest, name: str) -> bool:
    return hash_column(column).hex() != manifest.extras[name].sha256
