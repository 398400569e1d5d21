"""What a label store holds: its columns, and ``manifest.json`` with the hashes that prove them."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import orjson

from noisyteacher.core.errors import InputError
from noisyteacher.core.integrity import fields_sha256
from noisyteacher.io.classes import clean_classes
from noisyteacher.io.formats import in_one_line
from noisyteacher.io.ids import is_text

FILE_NAME = "manifest.json"
LABEL_COLUMNS = ("topk_index", "topk_logprob", "stored_tail", "missing")  # of a ``Record``
_COLUMNS = ("ids", *LABEL_COLUMNS)
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

    def at(self, rows: npt.NDArray[np.integer[Any]] | slice) -> Self:
        """Some of the rows, in that order; a slice makes no copy."""

        def pick(column: npt.NDArray[Any]) -> npt.NDArray[Any]:
            return column[rows] if isinstance(rows, slice) else np.take(column, rows, axis=0)

        columns: dict[str, Any] = {name: pick(getattr(self, name)) for name in _COLUMNS}
        extras = {name: pick(column) for name, column in self.extras.items()}
        return replace(self, **columns, extras=extras)

    def followed_by(self, others: Sequence[Record]) -> Self:
        """The rows of several records of the same classes and k under each other."""
        if not others:
            return self
        parts: tuple[Record, ...] = (self, *others)
        shared = set.intersection(*(set(part.extras) for part in parts))
        columns: dict[str, Any] = {
            name: np.concatenate([getattr(part, name) for part in parts]) for name in _COLUMNS
        }
        extras = {name: np.concatenate([part.extras[name] for part in parts]) for name in shared}
        return replace(self, **columns, extras=extras)


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

    def to_json(self) -> bytes:
        """The file's content, with a hash of its own that any later edit breaks."""
        fields = {"format": _FORMAT, "version": _VERSION, **asdict(self)}
        fields["manifest_sha256"] = fields_sha256(fields)
        return orjson.dumps(fields, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)

    @classmethod
    def load(cls, folder: Path) -> Manifest:
        """Read and check a store's manifest."""
        fields = _read_fields(folder)
        if fields is None and folder.is_file():
            raise InputError(
                f"{folder} is a file, not a label store. Make one with `noisyteacher import "
                f"{folder} --out STORE`."
            )
        if fields is None:
            raise InputError(f"There is no label store at {folder} (no {FILE_NAME}).")
        if fields.pop("version", None) != _VERSION:
            raise InputError(f"{folder} was written by another version of noisyteacher.")
        del fields["format"]
        expected = fields.pop("manifest_sha256", None)
        if expected != fields_sha256({"format": _FORMAT, "version": _VERSION, **fields}):
            raise InputError(f"{folder / FILE_NAME} was changed after it was written.")
        try:
            fields["extras"] = {
                name: Extra(extra["dtype"], tuple(extra["shape"]), extra["sha256"])
                for name, extra in fields["extras"].items()
            }
            fields["parts"] = tuple(StorePart(**part) for part in fields["parts"])
            fields["classes"] = clean_classes(fields["classes"])
            manifest = cls(**fields)
            manifest._check()
        except (InputError, AttributeError, KeyError, TypeError, ValueError) as error:
            raise InputError(
                f"{folder / FILE_NAME} is not a manifest that noisyteacher wrote "
                f"({in_one_line(error)}); make the label store again."
            ) from error
        return manifest

    def _check(self) -> None:
        """Refuse what no store can be, before memory is made for it."""
        counts = {"rows": self.rows, "k": self.k, **{part.file: part.rows for part in self.parts}}
        for name, count in counts.items():
            if type(count) is not int or count < 0:
                raise ValueError(f"{name} is {count!r}, not a number of rows or classes")
        if outside := [part.file for part in self.parts if not is_part_name(part.file)]:
            raise ValueError(f"{outside[0]!r} is not the name of a part in this folder")
        if sum(part.rows for part in self.parts) != self.rows:
            raise ValueError(f"its parts do not add up to {self.rows} rows")
        if not 1 <= self.k <= len(self.classes):
            raise ValueError(f"k is {self.k} for {len(self.classes)} classes")
        if self.id_type not in ("string", "integer"):
            raise ValueError(f"ids are of the type {self.id_type!r}")
        for text in (self.teacher, self.revision):
            if not isinstance(text, str | None):
                raise ValueError(f"the teacher is {text!r}")
        if not isinstance(self.temperature, float | int | None):
            raise ValueError(f"the temperature is {self.temperature!r}")
        for name, extra in self.extras.items():
            sides = all(type(side) is int and side > 0 for side in extra.shape)
            if np.dtype(extra.dtype).kind not in "iuf" or not sides:
                raise ValueError(f"the extra column {name!r} is {extra.dtype} {extra.shape}")


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


class RowHashes:
    """The hashes of a store's columns, taken while its rows pass by, some at a time."""

    def __init__(self) -> None:
        self._rows = 0
        self._ids = hashlib.sha256(b"[")
        self._columns = {name: hashlib.sha256() for name in LABEL_COLUMNS}
        self._extras: dict[str, Any] = {}

    def add(self, record: Record) -> None:
        """The next rows."""
        if not self._extras:
            self._extras = {name: hashlib.sha256() for name in record.extras}
        if len(record.ids):
            # The ids as one JSON list, which keeps "1" and 1 apart.
            self._ids.update(b"," if self._rows else b"")
            self._ids.update(memoryview(orjson.dumps(record.ids.tolist()))[1:-1])
        for name, digest in self._columns.items():
            digest.update(_bytes_of(getattr(record, name)))
        for name, digest in self._extras.items():
            digest.update(_bytes_of(record.extras[name]))
        self._rows += len(record.ids)

    @property
    def ids(self) -> str:
        """Hash of the ids as a JSON list."""
        whole = self._ids.copy()
        whole.update(b"]")
        return whole.hexdigest()

    @property
    def rows(self) -> str:
        """Hash of the label columns, one after the other."""
        digests = b"".join(digest.digest() for digest in self._columns.values())
        return hashlib.sha256(digests).hexdigest()

    @property
    def extras(self) -> dict[str, str]:
        """Hash of each extra column."""
        return {name: digest.hexdigest() for name, digest in self._extras.items()}

    def manifest(self, last: Record, parts: tuple[StorePart, ...]) -> Manifest:
        """The manifest, as of now, of the rows that were added; ``last`` is any of the records."""
        hashes = self.extras
        return Manifest(
            rows=self._rows,
            k=last.topk_index.shape[1],
            id_type="string" if is_text(last.ids) else "integer",
            teacher=last.teacher,
            revision=last.revision,
            temperature=last.temperature,
            created_at=datetime.now(UTC).isoformat(timespec="seconds"),
            ids_sha256=self.ids,
            rows_sha256=self.rows,
            extras={
                name: Extra(column.dtype.name, column.shape[1:], hashes[name])
                for name, column in last.extras.items()
            },
            parts=parts,
            classes=last.classes,
        )


def _bytes_of(column: npt.NDArray[Any]) -> memoryview:
    return np.ascontiguousarray(column).reshape(-1).view(np.uint8).data
