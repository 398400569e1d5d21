"""CelebA: ``img_align_celeba/``, ``list_attr_celeba`` and ``list_eval_partition`` (.txt or .csv).

The label is one attribute (0: absent, 1: present). Partition 0 is the training part, 2 the test
part; partition 1 is left out. Images are stored at 64×64 unless another size is asked for.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from noisyteacher.core.errors import InputError, first_few
from noisyteacher.data.readers.folders import image_files
from noisyteacher.data.source import Found, Part, ReadOptions, Source

_SIDE = 64  # 2.5 GB for 200 000 images
_TRAIN, _TEST = "0", "2"


def find(place: Path, options: ReadOptions) -> Found | None:
    """A folder with both lists; the images may lie one folder deeper, as some mirrors have it."""
    attributes = _list_file(place, "list_attr_celeba")
    partition = _list_file(place, "list_eval_partition")
    if attributes is None:
        return None
    if partition is None:
        raise InputError(f"{place} has {attributes.name} and no list_eval_partition.txt or .csv.")
    images = place / "img_align_celeba"
    images = images / images.name if (images / images.name).is_dir() else images
    if not images.is_dir():
        raise InputError(f"{place} has {attributes.name} and no folder img_align_celeba.")
    files = (attributes, partition, *sorted(images.iterdir()))
    return Found("CelebA", files, lambda: _read(attributes, partition, images, options.attribute))


def _list_file(place: Path, stem: str) -> Path | None:
    return next((f for f in (place / f"{stem}.txt", place / f"{stem}.csv") if f.is_file()), None)


def _read(attributes: Path, partition: Path, images: Path, attribute: str) -> Source:
    names, rows = _table(attributes)
    if attribute not in names:
        raise InputError(
            f"CelebA has no attribute {attribute!r}; it has {first_few(names, limit=len(names))}."
        )
    column = names.index(attribute)
    present = {file: _present(values, column, file, attributes) for file, values in rows.items()}
    parts = {file: values[0] for file, values in _table(partition, header=False)[1].items()}
    missing = sorted(parts.keys() - present.keys())
    if missing:
        raise InputError(f"{attributes} lacks {len(missing)} images: {first_few(missing)}.")
    train, test = (
        _part([file for file, value in parts.items() if value == wanted], present, images)
        for wanted in (_TRAIN, _TEST)
    )
    return Source("image", (f"not {attribute}", attribute), train, test, image_size=_SIDE)


def _part(files: list[str], present: dict[str, int], images: Path) -> Part:
    y = np.array([present[file] for file in files], np.int64)
    return Part(np.array(files, np.str_), y, image_files([images / file for file in files]))


def _present(values: list[str], column: int, file: str, where: Path) -> int:
    value = values[column] if column < len(values) else None
    if value not in ("1", "-1"):
        raise InputError(f"{where}: the attributes of {file} must be 1 or -1, not {value!r}.")
    return int(value == "1")


def _table(path: Path, header: bool = True) -> tuple[list[str], dict[str, list[str]]]:
    """Column names and, per image file, its values; the official .txt and the .csv of mirrors."""
    lines = [line for line in path.read_text().splitlines() if line.strip()]
    if path.suffix == ".csv":
        cells = [[cell.strip() for cell in line.split(",")] for line in lines]
        names, body = cells[0][1:], cells[1:]
    else:
        cells = [line.split() for line in lines]
        # The attribute list starts with a count and the names; the partition list has neither.
        names, body = (cells[1], cells[2:]) if header else ([], cells)
    short = [row[0] for row in body if len(row) < 2]
    if short:
        raise InputError(f"{path} has lines without values: {first_few(short)}.")
    return names, {row[0]: row[1:] for row in body}
