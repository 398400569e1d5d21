"""Checksums inside the files that this package writes, and paths that stay inside their folder.

A JSON file or line has a field ``sha256`` over its other fields; a safetensors file has one in its
metadata, over its header and its data. Both are checked when the file is read. Files of earlier
versions have none.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any, BinaryIO

import orjson

from noisyteacher.core.errors import InputError, warn

CHECKSUM = "sha256"
_METADATA = "__metadata__"
_LENGTH_BYTES = 8  # of the header's length, with which a safetensors file begins
_MOST_HEADER_BYTES = 100_000_000  # as in the safetensors library
_CHUNK = 1 << 20
_OPTIONS = orjson.OPT_SERIALIZE_NUMPY


def seal(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The fields as JSON holds them, with their checksum as the last one."""
    plain: dict[str, Any] = orjson.loads(orjson.dumps(fields, option=_OPTIONS))
    return {**plain, CHECKSUM: fields_sha256(plain)}


def sealed_json(fields: Mapping[str, Any], option: int = orjson.OPT_INDENT_2) -> bytes:
    """The content of a JSON file with its checksum."""
    return orjson.dumps(seal(fields), option=option)


def unseal(fields: Mapping[str, Any], name: object, remedy: str) -> dict[str, Any]:
    """The fields without their checksum; refused where they do not match it."""
    plain = dict(fields)
    if CHECKSUM in plain:
        damaged = plain.pop(CHECKSUM) != fields_sha256(plain)
    else:
        damaged = _has_renamed_checksum(plain)
    if damaged:
        raise _damaged(name, remedy)
    return plain


def _has_renamed_checksum(fields: Mapping[str, Any]) -> bool:
    """Whether the last field is a checksum whose name is damaged; old files have none at all."""
    *others, last = fields.items() or [("", None)]
    return bool(last[1] == fields_sha256(dict(others)))


def read_json(path: str | PathLike[str], remedy: str, *, note: bool = False) -> dict[str, Any]:
    """A JSON object from a file, checked; ``note`` tells the user where it has no checksum."""
    try:
        fields = orjson.loads(Path(path).read_bytes())
    except orjson.JSONDecodeError as error:
        raise InputError(f"{path} is not JSON ({error}); {remedy}.") from error
    if not isinstance(fields, dict):
        raise InputError(f"{path} does not hold a JSON object; {remedy}.")
    if note and CHECKSUM not in fields:
        note_missing(path)
    return unseal(fields, path, remedy)


def note_missing(path: object) -> None:
    """Tell that damage to a file would not be noticed."""
    warn(
        f"{path} was written by an earlier version, without a checksum: damage to it would go "
        "unnoticed."
    )


def file_sha256(path: Path) -> str:
    """The checksum of a whole file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def check_file(path: Path, expected: object, remedy: str) -> None:
    """Refuse a file that is not there or does not have the checksum ``expected``."""
    if not path.is_file():
        raise InputError(f"{path} is missing; {remedy}.")
    if file_sha256(path) != expected:
        raise _damaged(path, remedy)


def seal_tensors(content: bytes) -> bytes:
    """A safetensors file's content with a checksum in its metadata."""
    size = int.from_bytes(content[:_LENGTH_BYTES], "little")
    header = orjson.loads(content[_LENGTH_BYTES : _LENGTH_BYTES + size])
    data = memoryview(content)[_LENGTH_BYTES + size :]
    digest = _header_digest(header)
    digest.update(data)
    header.setdefault(_METADATA, {})[CHECKSUM] = digest.hexdigest()
    told = orjson.dumps(header)
    told += b" " * (-len(told) % _LENGTH_BYTES)  # data begin at a multiple of 8
    return b"".join([len(told).to_bytes(_LENGTH_BYTES, "little"), told, data])


def check_tensors(path: Path, remedy: str) -> None:
    """Refuse a safetensors file that does not match its checksum, before anything is loaded."""
    with path.open("rb") as file:
        header = _read_header(file, path, remedy)
        expected = header[_METADATA].get(CHECKSUM)
        if expected is None:
            note_missing(path)
            return
        digest = _header_digest(header)
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    if digest.hexdigest() != expected:
        raise _damaged(path, remedy)


def _read_header(file: BinaryIO, path: Path, remedy: str) -> dict[str, Any]:
    size = int.from_bytes(file.read(_LENGTH_BYTES), "little")
    if size > min(_MOST_HEADER_BYTES, path.stat().st_size):
        raise _damaged(path, remedy)
    try:
        header = orjson.loads(file.read(size))
    except orjson.JSONDecodeError:
        raise _damaged(path, remedy) from None
    if not isinstance(header, dict) or not isinstance(header.setdefault(_METADATA, {}), dict):
        raise _damaged(path, remedy)
    return header


def _header_digest(header: Mapping[str, Any]) -> Any:
    """Of all of the header but the checksum."""
    metadata = {k: v for k, v in header.get(_METADATA, {}).items() if k != CHECKSUM}
    told = orjson.dumps({**header, _METADATA: metadata}, option=orjson.OPT_SORT_KEYS)
    return hashlib.sha256(told)


def fields_sha256(fields: Mapping[str, Any]) -> str:
    """The hash of JSON fields, whatever their order."""
    return hashlib.sha256(orjson.dumps(fields, option=orjson.OPT_SORT_KEYS)).hexdigest()


def _damaged(name: object, remedy: str) -> InputError:
    return InputError(f"{name} is damaged: it does not match its checksum; {remedy}.")


def path_inside(folder: Path, name: object) -> Path:
    """The file or folder ``name`` in ``folder``; refused where it leads out of it."""
    if isinstance(name, str) and name and "\0" not in name:
        path = folder / name
        if path.resolve().is_relative_to(folder.resolve()) and not Path(name).is_absolute():
            return path
    raise InputError(f"{name!r} points outside {folder}; nothing outside it is read.")
