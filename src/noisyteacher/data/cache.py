"""Decoded images on disk, once per state of their source, read back memory-mapped.

A cache is a folder: ``images.json`` and, for each part, ``*_images.npy`` (n, H, W, 3) uint8,
``*_y.npy`` and ``*_ids.npy``. It is written under a temporary name and renamed when whole;
``images.json`` has the checksums of the others.
"""

from __future__ import annotations

import hashlib
import math
import os
import shutil
from dataclasses import astuple
from pathlib import Path
from typing import Any

import numpy as np

from noisyteacher.core.errors import InputError
from noisyteacher.core.files import sync, temporary_sibling, write_atomic
from noisyteacher.core.integrity import check_file, file_sha256, read_json, sealed_json
from noisyteacher.core.progress import track
from noisyteacher.data.dataset import ChannelHistogram, Dataset
from noisyteacher.data.layouts import Found, ReadOptions
from noisyteacher.io.images import decoded

_FORMAT = 4  # raise it when decoding changes, so that old caches are not used
_HEADER = "images.json"
# Files, and the fields of a dataset that they hold.
_IMAGES = {"train_images": "inputs", "test_images": "test_inputs"}
_COLUMNS = {"train_ids": "ids", "train_y": "y", "test_ids": "test_ids", "test_y": "test_y"}
_FILES = _IMAGES | _COLUMNS


def cache_folder(cache: str | Path | None) -> Path:
    """The argument, else ``NOISYTEACHER_CACHE``, else ``~/.cache/noisyteacher``."""
    chosen = cache or os.environ.get("NOISYTEACHER_CACHE")
    return Path(chosen).expanduser() if chosen else Path.home() / ".cache" / "noisyteacher"


def fingerprint(found: Found, root: Path, options: ReadOptions) -> str:
    """A hash of the layout, the options and every file's name, size and time of change."""
    digest = hashlib.sha256(repr((_FORMAT, found.layout, astuple(options))).encode())
    for file in found.files:
        try:
            stat = file.stat()
        except OSError as error:
            raise InputError(f"{file} cannot be read: {error.strerror}.") from error
        name = file.relative_to(root) if file.is_relative_to(root) else file
        digest.update(repr((str(name), stat.st_size, stat.st_mtime_ns)).encode())
    return digest.hexdigest()


def open_cache(folder: Path) -> Dataset | None:
    """The cached dataset, its images memory-mapped; None where there is no cache yet."""
    if not (folder / _HEADER).exists():
        return None
    remedy = f"delete the folder {folder} and run again"
    header = read_json(folder / _HEADER, remedy)
    fields: dict[str, Any] = {}
    for stem, field in _FILES.items():
        path = folder / f"{stem}.npy"
        check_file(path, header.get("files", {}).get(stem), remedy)
        fields[field] = np.load(
            path, mmap_mode="r" if stem in _IMAGES else None, allow_pickle=False
        )
    fields |= {name: tuple(header[name]) for name in ("classes", "mean", "std")}
    return Dataset(name=header["name"], kind="image", **fields)


def write_cache(folder: Path, made: Dataset, side: int | None) -> None:
    """Decode the images of a dataset into ``folder``; it appears whole or not at all."""
    wanted = (side, side) if side else None
    with temporary_sibling(folder, folder=True) as temporary:
        histogram = ChannelHistogram()
        size = _write_images(temporary, "train", made.inputs, wanted, histogram)
        _write_images(temporary, "test", made.test_inputs, size, None)
        for stem, field in _COLUMNS.items():
            column = getattr(made, field)
            with (temporary / f"{stem}.npy").open("wb") as file:
                text = column.dtype.kind == "O"  # NumPy files hold no Python strings
                np.save(file, column.astype(np.str_) if text else column, allow_pickle=False)
                sync(file)
        mean, std = histogram.mean_and_std()
        files = {stem: file_sha256(temporary / f"{stem}.npy") for stem in _FILES}
        header = {"name": made.name, "classes": made.classes, "mean": mean, "std": std}
        write_atomic(temporary / _HEADER, sealed_json(header | {"files": files}))
        temporary.replace(folder)


def _write_images(
    folder: Path,
    stem: str,
    encoded: Any,
    size: tuple[int, int] | None,
    histogram: ChannelHistogram | None,
) -> tuple[int, int]:
    """Write one part's images; gives their height and width."""
    images = decoded(encoded, size)
    shape = (images.count, images.height, images.width, 3)
    _check_space(folder, shape)
    with (folder / f"{stem}_images.npy").open("wb") as file:
        header = {"descr": "|u1", "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(file, header)
        written = 0
        blocks = images.blocks
        if images.count:
            blocks = track(blocks, images.count, f"Decoding {stem} images")
        for block in blocks:
            file.write(np.ascontiguousarray(block).data)
            written += len(block)
            if histogram is not None:
                histogram.add(block)
        sync(file)
    if written != images.count:
        raise InputError(f"{images.count} {stem} images were expected, but {written} were found.")
    return images.height, images.width


def _check_space(folder: Path, shape: tuple[int, ...]) -> None:
    needed, free = math.prod(shape), shutil.disk_usage(folder).free
    if needed > free:
        raise InputError(
            f"Decoding needs {needed / 1e9:.1f} GB in {folder.parent} and {free / 1e9:.1f} GB are "
            "free; give another cache folder or a smaller image_size."
        )
