"""Files by their names, their lines, and the arrays of NumPy files."""

from __future__ import annotations

import gc
import gzip
import math
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, cast

import numpy as np
import numpy.typing as npt

from noisyteacher.core.errors import InputError

TEXT_TABLES, JSON_LINES, PARQUET = (".csv", ".tsv"), (".jsonl", ".ndjson"), (".parquet",)
TABLES = (*TEXT_TABLES, *JSON_LINES, *PARQUET)
_PACKED = (".gz", ".bz2", ".xz", ".zst", ".zip", ".7z")

# Larger blocks leave the processor's cache and are slower, unless lines are read as columns.
_BLOCK_BYTES, _RAW_BYTES = 1 << 16, 1 << 22
SHORT_LINE = 256
_LOOK_AHEAD = 1 << 20
_UTF8_MARK = b"\xef\xbb\xbf"
_UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")


def kind_of(path: Path) -> str:
    """The suffix that tells the format, in lower case: of ``pool.csv.gz`` it is ``.csv``."""
    inner = Path(path.stem).suffix.lower()
    packed = path.suffix.lower() == ".gz" and inner in (*TEXT_TABLES, *JSON_LINES)
    return inner if packed else path.suffix.lower()


def stem_of(path: Path) -> str:
    """What rows without ids are named after: the name without the suffixes of format and .gz."""
    return path.stem if kind_of(path) == path.suffix.lower() else Path(path.stem).stem


def is_untyped(path: Path) -> bool:
    """Whether the file cannot say itself which of its values are numbers."""
    return kind_of(path) in TEXT_TABLES


def is_table(path: Path) -> bool:
    """Whether the name is that of a table, packed or not."""
    inner = Path(path.stem).suffix.lower() if path.suffix.lower() in _PACKED else None
    return inner in TABLES or path.suffix.lower() in TABLES


def name_files(paths: Sequence[Path]) -> str:
    """How messages call one or more files."""
    more = f" and {len(paths) - 1} more" if len(paths) > 1 else ""
    return f"{paths[0]}{more}"


def in_one_line(error: BaseException) -> str:
    """What an error says, without line breaks and without its full stop."""
    return " ".join(str(error).split()).rstrip(".")


def read_arrays(path: Path) -> dict[str, npt.NDArray[Any]]:
    """The arrays of a ``.npz`` file by their keys; that of a ``.npy`` file is "array", mapped."""
    check_name(path)
    try:
        _check_sizes(path)
        loaded = np.load(path, mmap_mode="c", allow_pickle=False)
        if isinstance(loaded, np.ndarray):
            return {"array": loaded}
        with loaded:
            return {key: loaded[key] for key in loaded.files}
    except InputError:
        raise
    except (OSError, ValueError, EOFError, MemoryError, zipfile.BadZipFile) as error:
        objects = "pickle" in str(error)  # NumPy advises to load such files unsafely
        reason = "it holds Python objects, or no array" if objects else str(error).rstrip(".")
        raise InputError(f"{path} is not a readable NumPy file: {reason}.") from error


def check_name(path: Path) -> None:
    """Refuse a file whose name is not UTF-8: some libraries cannot open it, and no file list it."""
    try:
        str(path).encode()
    except UnicodeEncodeError:
        shown = str(path).encode(errors="backslashreplace").decode()
        raise InputError(f"the name of the file {shown} is not UTF-8; rename the file.") from None


def _check_sizes(path: Path) -> None:
    """Refuse arrays that are larger by their header than the file is."""
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as packed:
            for member in packed.infolist():
                with packed.open(member) as file:
                    _check_size(
                        cast(BinaryIO, file), member.file_size, f"{path}: {member.filename}"
                    )
    else:
        with path.open("rb") as file:
            _check_size(file, path.stat().st_size, str(path))


def _check_size(file: BinaryIO, size: int, where: str) -> None:
    if file.read(len(np.lib.format.MAGIC_PREFIX)) != np.lib.format.MAGIC_PREFIX:
        return  # np.load says what it is
    major = file.read(2)[0]
    read_header = (
        np.lib.format.read_array_header_1_0 if major == 1 else np.lib.format.read_array_header_2_0
    )
    shape, _, dtype = read_header(file)
    if min(shape, default=0) < 0 or (
        not dtype.hasobject and math.prod(shape) * dtype.itemsize > size
    ):
        raise InputError(
            f"{where} is damaged or incomplete: by its header it holds an array of shape {shape}, "
            f"but it has only {size} bytes. Write it again."
        )


class LineBlock(NamedTuple):
    """Some lines, perhaps with their endings; ``first`` is the number of the first, from 1."""

    first: int
    lines: list[bytes]


class RawLines(NamedTuple):
    """Some whole lines: short ones as they stand in the file, others cut."""

    first: int
    data: bytes
    lines: list[bytes]  # none where there is data

    def blocks(self) -> Iterator[LineBlock]:
        """All of them cut, some at a time."""
        number, read = self.first, BytesIO(self.data).readlines
        if self.lines:
            yield LineBlock(number, self.lines)
        while lines := read(_BLOCK_BYTES):
            yield LineBlock(number, lines)
            number += len(lines)


@contextmanager
def no_garbage() -> Iterator[None]:
    """Objects of JSON hold no cycles, and looking for some takes longer than reading them."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()


def line_blocks(path: Path) -> Iterator[LineBlock]:
    """The lines of a UTF-8 file that end in LF, CR LF or CR, with or without a byte order mark.

    A file whose name ends in ``.gz`` is unpacked on the way.
    """
    for raw in raw_lines(path, _BLOCK_BYTES):
        yield from raw.blocks()


def raw_lines(path: Path, size: int | None = None) -> Iterator[RawLines]:
    """The same; where the first line is short, ``size`` bytes at a time and not yet cut."""
    number = 1
    check_name(path)
    with _open(path) as file:
        try:
            start = file.read(_LOOK_AHEAD)
            check_utf8(start, path)
            file.seek(len(_UTF8_MARK) if start.startswith(_UTF8_MARK) else 0)
            if b"\r" in start and b"\n" not in start:  # as old programs end lines
                file = BytesIO(file.read().replace(b"\r", b"\n"))
            if 0 <= start.find(b"\n") <= SHORT_LINE:
                while data := file.read(size or _RAW_BYTES):
                    data += file.readline()
                    yield RawLines(number, data, [])
                    number += int(np.count_nonzero(np.frombuffer(data, np.uint8) == ord("\n")))
            while lines := file.readlines(_BLOCK_BYTES):
                yield RawLines(number, b"", lines)
                number += len(lines)
        except (gzip.BadGzipFile, zlib.error, EOFError) as error:
            raise InputError(f"{path} is not a complete gzip file: {error}") from error


def _open(path: Path) -> BinaryIO:
    if path.suffix.lower() == ".gz":
        return cast(BinaryIO, gzip.open(path, "rb"))
    return path.open("rb", buffering=_BLOCK_BYTES)


def check_utf8(start: bytes, path: Path) -> None:
    """Refuse UTF-16 text, with or without its mark, by the first bytes of a file."""
    zeros = start[:1000].count(b"\0")
    if start.startswith(_UTF16_MARKS) or 4 * zeros > len(start[:1000]):
        raise InputError(f"{path} is UTF-16 text; save it as UTF-8.")
