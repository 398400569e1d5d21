"""What a label store holds: its columns, and ``manifest.json`` with the hashes that prove them."""

from __future__ import annotations

import hashlib
import re
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import orjson

from noisyteacher.core.errors import InputError

FILE_NAME = "manifest.json"
_FORMAT = "noisyteacher labels"
_VERSION = 1
_PART_NAME = re.compile(r"part-[0-9a-f]{8}-[0-9]{5}\.parquet")


@dataclass(frozen=True, eq=False)
class Record:
    """Teacher labels exactly as they stand on disk: clean columns of n rows.

    ``exp(topk_logprob)`` and ``stored_tail`` of a row sum to 1 up to the float16 rounding; readers
    divide both by their sum.
    """

    ids: npt.NDArray[Any]  # (n,) int64 or str
    classes: tuple[str, ...]
    topk_index: npt.NDArray[Any]  # (n, k) unsigned
    topk_logprob: npt.NDArray[np.float16]  # (n, k) descending; a tie has the lower class first
    stored_tail: npt.NDArray[np.float32]  # (n,)
    missing: npt.NDArray[np.float32]  # (n,)
    extras: dict[str, npt.NDArray[Any]]  # each (n, ...)
    teacher: str | None = None
    revision: str | None = None
    temperature: float | None = None


@dataclass(frozen=True)
class StorePart:
    """One Parquet file."""

    file: str
    rows: int


@dataclass(frozen=True)
class Extra:
    """One extra column: its type, the shape of one row's entry, and the hash of its bytes."""

    dtype: str
    shape: tuple[int, ...]
    sha256: str


@dataclass(frozen=True)
class Manifest:
    """Everything about a store that is not one value per row.

    ``rows_sha256`` covers ``topk_index``, ``topk_logprob``, ``tail`` and ``missing``. Hashes are
    of the values, not of the files, so that they are the same however the rows are cut into parts.
    """

    rows: int
    k: int
    id_type: str  # "integer" or "string"
    teacher: str | None
    revision: str | None
    temperature: float | None
    created_at: str
    ids_sha256: str
    rows_sha256: str
    extras: dict[str, Extra]
    parts: tuple[StorePart, ...]
    classes: tuple[str, ...]

    @classmethod
    def describe(cls, record: Record, parts: tuple[StorePart, ...]) -> Manifest:
        """The manifest of ``record`` written as ``parts``, now."""
        return cls(
            rows=len(record.ids),
            k=record.topk_index.shape[1],
            id_type="string" if record.ids.dtype.kind == "U" else "integer",
            teacher=record.teacher,
            revision=record.revision,
            temperature=record.temperature,
            created_at=datetime.now(UTC).isoformat(timespec="seconds"),
            ids_sha256=hash_ids(record.ids),
            rows_sha256=hash_rows(record),
            extras={
                name: Extra(column.dtype.name, column.shape[1:], hash_column(column).hex())
                for name, column in record.extras.items()
            },
            parts=parts,
            classes=record.classes,
        )

    def to_json(self) -> bytes:
        """The file's content, with a hash of its own that any later edit breaks."""
        fields = {"format": _FORMAT, "version": _VERSION, **asdict(self)}
        fields["manifest_sha256"] = _hash_fields(fields)
        return orjson.dumps(fields, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)

    @classmethod
    def load(cls, folder: Path) -> Manifest:
        """Read and check a store's manifest."""
        fields = _read_fields(folder)
        if fields is None:
            raise InputError(f"there is no label store at {folder} (no {FILE_NAME}).")
        if fields.pop("version", None) != _VERSION:
            raise InputError(f"{folder} was written by another version of noisyteacher.")
        del fields["format"]
        expected = fields.pop("manifest_sha256", None)
        if expected != _hash_fields({"format": _FORMAT, "version": _VERSION, **fields}):
            raise InputError(f"{folder / FILE_NAME} was changed after it was written.")
        fields["extras"] = {
            name: Extra(extra["dtype"], tuple(extra["shape"]), extra["sha256"])
            for name, extra in fields["extras"].items()
        }
        fields["parts"] = tuple(StorePart(**part) for part in fields["parts"])
        fields["classes"] = tuple(fields["classes"])
        return cls(**fields)


def part_name(token: str, number: int) -> str:
    """The name of one part; a token per writing keeps old and new parts apart."""
    return f"part-{token}-{number:05d}.parquet"


def parts_in_use(folder: Path) -> set[str] | None:
    """The parts that the manifest in ``folder`` names, edited or not; None without a manifest."""
    fields = _read_fields(folder)
    if fields is None:
        return None
    listed = fields.get("parts")
    names = [part.get("file") for part in listed] if isinstance(listed, list) else []
    return {name for name in names if isinstance(name, str) and is_part_name(name)}


def is_part_name(name: str) -> bool:
    """Whether a file of this name is one that a store may own."""
    return _PART_NAME.fullmatch(name) is not None


def _read_fields(folder: Path) -> dict[str, Any] | None:
    path = folder / FILE_NAME
    try:
        content = path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return None
    try:
        fields = orjson.loads(content)
    except orjson.JSONDecodeError:
        raise InputError(f"{path} is damaged: it is not valid JSON.") from None
    if not isinstance(fields, dict) or fields.get("format") != _FORMAT:
        raise InputError(f"{path} is not the manifest of a label store.")
    return fields


def _hash_fields(fields: dict[str, Any]) -> str:
    return hashlib.sha256(orjson.dumps(fields, option=orjson.OPT_SORT_KEYS)).hexdigest()


def hash_ids(ids: npt.NDArray[Any]) -> str:
    """Hash of the ids as a JSON list, which keeps "1" and 1 apart."""
    return hashlib.sha256(orjson.dumps(ids.tolist())).hexdigest()


def hash_rows(record: Record) -> str:
    """Hash of the label columns, one after the other."""
    columns = (record.topk_index, record.topk_logprob, record.stored_tail, record.missing)
    return hashlib.sha256(b"".join(map(hash_column, columns))).hexdigest()


def hash_column(column: npt.NDArray[Any]) -> bytes:
    """Hash of the bytes of one column."""
    flat = np.ascontiguousarray(column).reshape(-1)
    return hashlib.sha256(flat.view(np.uint8).data).digest()
