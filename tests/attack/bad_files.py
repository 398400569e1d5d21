"""Bad files of teacher outputs: what each command has to say about them.

A case makes its files in a folder that holds ``ok`` (a label store of cats and dogs), ``gold.csv``
and ``pool.csv``, and gives the arguments of the command. The command must end with status 2 and one
sentence that holds the expected words, and leave nothing behind.
"""

from __future__ import annotations

import io
import os
import shutil
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image

from noisyteacher.core.integrity import fields_sha256
from noisyteacher.labels import TeacherLabels

PROBS = np.array([[0.5, 0.5], [0.1, 0.9]])
TEACHER = """
import sys
calls = 0
def strings(ids, inputs): return [["a", "b"]] * len(ids)
def columns(ids, inputs):
    global calls
    calls += 1
    return [[0.0] * (1 + calls)] * len(ids)
def leaves(ids, inputs): sys.exit(0)
def number(ids, inputs): return 7
def none(ids, inputs): return None
"""


class BadFile(NamedTuple):
    """One case: its name, what makes its files and gives the arguments, the expected words."""

    name: str
    make: Callable[[Path], list[str]]
    says: str


def make_good_files(folder: Path) -> None:
    """What the cases start from."""
    TeacherLabels.from_probs(["a", "b"], PROBS, ["cat", "dog"]).save(folder / "ok")
    (folder / "gold.csv").write_text("id,text,label\na,x y,cat\nb,y z,dog\n")
    (folder / "pool.csv").write_text("id,text\n" + "".join(f"{n},text {n}\n" for n in range(40)))
    (folder / "ids.txt").write_text("a\nb\n")
    (folder / "bad_teacher.py").write_text(TEACHER)


def _header(shape: tuple[int, ...], kind: str = "<f8") -> bytes:
    file = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        file, {"descr": kind, "fortran_order": False, "shape": shape}
    )
    return file.getvalue()


def _imports(name: str, content: bytes, *options: str) -> Callable[[Path], list[str]]:
    def make(folder: Path) -> list[str]:
        (folder / name).write_bytes(content)
        return ["import", name, "--out", "labels", *options]

    return make


def _npz(**arrays: np.ndarray) -> bytes:
    file = io.BytesIO()
    np.savez(file, **arrays)
    return file.getvalue()


def _zipped(**members: bytes) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as packed:
        for name, content in members.items():
            packed.writestr(f"{name}.npy", content)
    return file.getvalue()


def _parquet(**columns: Any) -> bytes:
    file = io.BytesIO()
    pq.write_table(pa.table(columns), file)
    return file.getvalue()


def _not_utf8(folder: Path) -> list[str]:
    name = b"caf\xe9.csv"
    (folder / os.fsdecode(name)).write_bytes(b"id,cat,dog\na,0.5,0.5\n")
    return ["import", os.fsdecode(name), "--out", "labels"]


def _forged(**fields: Any) -> Callable[[Path], list[str]]:
    """A manifest with other fields (... leaves one out) and the hash that belongs to them."""

    def make(folder: Path) -> list[str]:
        shutil.copytree(folder / "ok", folder / "forged")
        path = folder / "forged" / "manifest.json"
        old = orjson.loads(path.read_bytes())
        for key, value in fields.items():
            old[key] = value(old, folder) if callable(value) else value
        new = {k: v for k, v in old.items() if v is not ... and k != "manifest_sha256"}
        path.write_bytes(orjson.dumps({**new, "manifest_sha256": fields_sha256(new)}))
        return ["audit", "forged", "--gold", "gold.csv"]

    return make


def _part(**changes: Any) -> Callable[[dict[str, Any], Path], list[Any]]:
    return lambda fields, folder: [{**fields["parts"][0], **changes}]


def _part_elsewhere(fields: dict[str, Any], folder: Path) -> list[Any]:
    part = fields["parts"][0]
    return [{**part, "file": str(folder / "ok" / part["file"])}]


def _part_above(fields: dict[str, Any], folder: Path) -> list[Any]:
    part = fields["parts"][0]
    return [{**part, "file": f"../ok/{part['file']}"}]


def _extra(kind: str, shape: list[Any]) -> dict[str, Any]:
    return {"embedding": {"dtype": kind, "shape": shape, "sha256": "0"}}


def _teaches(function: str) -> Callable[[Path], list[str]]:
    return lambda folder: [
        *("label", f"bad_teacher:{function}", "pool.csv", "--batch-size", "10", "--out", "labels")
    ]


def _bomb(folder: Path) -> list[str]:
    for part in ("gold/cat", "gold/dog", "pool"):
        (folder / part).mkdir(parents=True)
        for number in range(3):
            Image.new("RGB", (8, 8)).save(folder / part / f"{number}.png")
    data = bytearray((folder / "pool" / "1.png").read_bytes())
    data[16:24] = (60_000).to_bytes(4, "big") * 2  # the sides in the header
    data[29:33] = zlib.crc32(bytes(data[12:29])).to_bytes(4, "big")
    (folder / "pool" / "1.png").write_bytes(bytes(data))
    return [
        *("distill", "--gold", "gold", "--pool", "pool", "--labels", "ok", "--out", "run"),
        *("--quick", "--device", "cpu"),
    ]


CSV = "id,cat,dog\na,0.5,0.5\n"
NOT_OURS = "forged/manifest.json is not a manifest that noisyteacher wrote"
BAD_FILES = (
    BadFile(
        "npy that claims terabytes",
        _imports("big.npy", _header((10**12, 4)), "--ids", "ids.txt"),
        r"Error: big.npy is damaged or incomplete: .* shape \(1000000000000, 4\), but .* 128 bytes",
    ),
    BadFile(
        "npz that claims terabytes",
        _imports("big.npz", _zipped(probs=_header((10**12, 4)), ids=_header((2,), "<i8"))),
        r"Error: big.npz: probs.npy is damaged or incomplete: ",
    ),
    BadFile(
        "npy with a negative side",
        _imports("bad.npy", _header((-1, 4)), "--ids", "ids.txt"),
        r"Error: bad.npy is damaged or incomplete: .* shape \(-1, 4\)",
    ),
    BadFile(
        "ids that claim terabytes",
        lambda folder: (
            (folder / "i.npy").write_bytes(_header((10**12,), "<i8"))
            and _imports("p.npy", _header((2, 2)) + b"\0" * 32, "--ids", "i.npy")(folder)
        ),
        "Error: i.npy is damaged or incomplete: ",
    ),
    BadFile(
        "npz with probs and logits",
        _imports("both.npz", _npz(probs=PROBS, logits=PROBS, ids=np.arange(2))),
        "both.npz has both 'probs' and 'logits'; leave one of them out",
    ),
    BadFile(
        "npz with float ids",
        _imports("f.npz", _npz(probs=PROBS, ids=np.array([1.0, 2.0]))),
        "f.npz: ids must be all strings or all integers, got 1.0",
    ),
    BadFile(
        "npz with Python objects",
        _imports("o.npz", _npz(probs=PROBS, ids=np.array(["a", "b"], object))),
        "o.npz is not a readable NumPy file: it holds Python objects",
    ),
    BadFile(
        "Parquet with float ids",
        _imports("f.parquet", _parquet(id=[1.0, 2.5], cat=[0.5, 0.1], dog=[0.5, 0.9])),
        r"f.parquet: the id column 'id' holds decimal numbers \(double\); save the ids as whole",
    ),
    BadFile(
        "UTF-16 CSV",
        _imports("u.csv", CSV.encode("utf-16")),
        "u.csv is UTF-16 text; save it as UTF-8",
    ),
    BadFile(
        "UTF-16 CSV without a mark",
        _imports("u.csv", CSV.encode("utf-16-le")),
        "u.csv is UTF-16 text; save it as UTF-8",
    ),
    BadFile(
        "UTF-16 JSONL",
        _imports("u.jsonl", '{"id": "a", "label": "cat"}\n'.encode("utf-16"), "--classes", "a,b"),
        "u.jsonl is UTF-16 text; save it as UTF-8",
    ),
    BadFile(
        "Latin-1 CSV",
        _imports("l.csv", "id,café,dog\na,0.5,0.5\n".encode("latin-1")),
        "l.csv.*UTF-8",
    ),
    BadFile(
        "file name that is not UTF-8",
        _not_utf8,
        r"the name of the file caf.*\.csv is not UTF-8; rename the file",
    ),
    BadFile("image bomb", _bomb, "1.png has more pixels than is safe to decode; scale it down"),
    BadFile("teacher of strings", _teaches("strings"), "bad_teacher:strings must return an array"),
    BadFile("teacher of a number", _teaches("number"), "bad_teacher:number must return logits"),
    BadFile("teacher of nothing", _teaches("none"), "bad_teacher:none must return"),
    BadFile(
        "teacher that changes its columns",
        _teaches("columns"),
        "bad_teacher:columns returned 2 columns first and 3 later",
    ),
    BadFile(
        "teacher that leaves",
        _teaches("leaves"),
        r"bad_teacher:leaves ended the program with sys.exit\(0\); it must return logits",
    ),
    BadFile("manifest: 1e12 rows", _forged(rows=10**12), NOT_OURS),
    BadFile(
        "manifest: 1e12 rows in a part",
        _forged(rows=10**12, parts=_part(rows=10**12)),
        r"part-\w+-00000.parquet is damaged: 2 rows instead of 1000000000000",
    ),
    BadFile("manifest: -1 rows", _forged(rows=-1), f"{NOT_OURS} .rows is -1"),
    BadFile("manifest: rows as text", _forged(rows="two"), f"{NOT_OURS} .rows is 'two'"),
    BadFile("manifest: rows as a float", _forged(rows=2.0), f"{NOT_OURS} .rows is 2.0"),
    BadFile("manifest: no parts", _forged(parts=...), f"{NOT_OURS} ..parts"),
    BadFile("manifest: empty parts", _forged(parts=[]), f"{NOT_OURS} .its parts do not add up"),
    BadFile("manifest: parts as text", _forged(parts="x"), NOT_OURS),
    BadFile("manifest: parts of numbers", _forged(parts=[1]), NOT_OURS),
    BadFile("manifest: part in the folder above", _forged(parts=_part_above), f"{NOT_OURS} .'../"),
    BadFile("manifest: part elsewhere", _forged(parts=_part_elsewhere), f"{NOT_OURS} .'/"),
    BadFile("manifest: part name a number", _forged(parts=_part(file=7)), NOT_OURS),
    BadFile("manifest: extras as a list", _forged(extras=[]), NOT_OURS),
    BadFile("manifest: extras of objects", _forged(extras=_extra("object", [3])), NOT_OURS),
    BadFile("manifest: extras of no type", _forged(extras=_extra("what", [3])), NOT_OURS),
    BadFile("manifest: extras of text sides", _forged(extras=_extra("int8", ["a"])), NOT_OURS),
    BadFile("manifest: a class twice", _forged(classes=["cat", "cat"]), "classes must be unique"),
    BadFile("manifest: classes of numbers", _forged(classes=[1, 2]), "classes must be strings"),
    BadFile("manifest: classes as text", _forged(classes="catdog"), NOT_OURS),
    BadFile("manifest: no classes", _forged(classes=...), NOT_OURS),
    BadFile("manifest: k is 0", _forged(k=0), f"{NOT_OURS} .k is 0 for 2 classes"),
    BadFile("manifest: k is huge", _forged(k=10**9), f"{NOT_OURS} .k is 1000000000"),
    BadFile("manifest: k is text", _forged(k="x"), f"{NOT_OURS} .k is 'x'"),
    BadFile("manifest: ids of floats", _forged(id_type="float"), NOT_OURS),
    BadFile("manifest: temperature as text", _forged(temperature="hot"), NOT_OURS),
    BadFile("manifest: teacher as a list", _forged(teacher=[1]), NOT_OURS),
    BadFile("manifest: unknown field", _forged(more=1), NOT_OURS),
    BadFile("manifest: other version", _forged(version=99), "another version of noisyteacher"),
)
