"""Folders that carry code: it must not run, whoever answers a library's question.

    python tests/attack/malicious.py

A Hugging Face model and a saved student name code of their own (``auto_map``) that writes a file
when it is run. Both are used with "y" waiting on a pipe, on a terminal, and in a Python call.
"""

from __future__ import annotations

import io
import os
import pty
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import orjson
import torch
import workplace

from noisyteacher.core.errors import InputError
from noisyteacher.core.integrity import file_sha256, read_json, sealed_json
from noisyteacher.data import Tokens
from noisyteacher.data.embeddings import Embeddings
from noisyteacher.data.input_format import InputFormat
from noisyteacher.models import TextEncoder
from noisyteacher.pipeline.student import Student, load_student, save_student
from noisyteacher.pipeline.teachers import open_teacher
from tiny_encoder import save_classifier

_AUTO = {
    "AutoConfig": "payload.Evil",
    "AutoModel": "payload.Evil",
    "AutoModelForSequenceClassification": "payload.Evil",
    "AutoTokenizer": ["payload.Evil", "payload.Evil"],
}


def make_files(folder: Path) -> None:
    """``model`` and ``student``, both with code, and texts to label."""
    clean = save_classifier(folder / "clean", {0: "bad", 1: "good"})
    network = TextEncoder(str(clean), 2).build()
    inputs = InputFormat("text", Tokens(clean, 8))
    student = Student(network.spec, network.state_dict(), ("bad", "good"), inputs)
    save_student(folder / "student", student)
    clean.rename(folder / "model")
    for place in ("model", "student/tokenizer"):
        code = (
            f"from pathlib import Path\nPath({str(folder / 'ran')!r}).touch()\nclass Evil: pass\n"
        )
        (folder / place / "payload.py").write_text(code)
    # One whose type only its own code knows, and one that names code beside a type we know.
    shutil.copytree(folder / "model", folder / "known")
    for name in ("model", "known"):
        _add_code(folder / name / "config.json", known=name == "known")
        _add_code(folder / name / "tokenizer_config.json", known=name == "known")
    # As someone does who knows how to mend the checksums.
    own = folder / "student/tokenizer/tokenizer_config.json"
    _add_code(own)
    config = read_json(folder / "student/config.json", "")
    config["files"]["tokenizer/tokenizer_config.json"] = file_sha256(own)
    (folder / "student/config.json").write_bytes(sealed_json(config))
    (folder / "pool.csv").write_text("id,text\na,good film\nb,bad film\n")


def _add_code(path: Path, *, known: bool = False) -> None:
    fields = orjson.loads(path.read_bytes()) if path.exists() else {}
    fields["auto_map"] = _AUTO
    if not known:
        fields |= {"tokenizer_class": "EvilTokenizer"}
        fields |= {"model_type": "evil"} if path.name == "config.json" else {}
    path.write_bytes(orjson.dumps(fields))


def calls(folder: Path) -> dict[str, Callable[[], object]]:
    """The Python calls that read such folders."""
    cpu = torch.device("cpu")
    return {
        "load_student": lambda: load_student(folder / "student"),
        "label a model": lambda: open_teacher(str(folder / "model"), device=cpu),
        "label a model of a known type": lambda: open_teacher(str(folder / "known"), device=cpu),
        "an encoder of a known type": lambda: Embeddings(folder / "known").transform(["good film"]),
        "label by a student": lambda: open_teacher(str(folder / "student"), device=cpu),
        "an encoder": lambda: Embeddings(folder / "model").transform(["good film"]),
        "a tokenizer": lambda: Tokens(folder / "model"),
        "a text encoder": lambda: TextEncoder(str(folder / "model"), 2).build(),
    }


def run_call(call: Callable[[], object]) -> str:
    """Call with answers waiting on standard input; what came of it."""
    before, sys.stdin = sys.stdin, io.StringIO("y\n" * 1000)
    try:
        call()
    except (InputError, ImportError) as error:
        return f"refused: {error}"
    finally:
        sys.stdin = before
    return "read without running code"


def run_verb(command: list[str], folder: Path, *, terminal: bool) -> str:
    """Run a verb with answers waiting on a pipe or a terminal; its last line."""
    full = [sys.executable, "-m", "noisyteacher", *command]
    more = {"cwd": folder, "env": workplace.environment()}
    if not terminal:
        done = subprocess.run(full, input=b"y\n" * 1000, capture_output=True, **more)
        return f"exit status {done.returncode}: {done.stderr.decode().strip()[-200:]}"
    parent, child = pty.openpty()
    process = subprocess.Popen(full, stdin=child, stdout=child, stderr=child, **more)
    os.close(child)
    os.write(parent, b"y\n" * 100)
    said = b""
    while True:
        try:
            said += os.read(parent, 4096)
        except OSError:
            break
    os.close(parent)
    return f"exit status {process.wait()}: {said.decode(errors='replace').strip()[-200:]}"


def main() -> None:
    torch.set_num_threads(1)
    ran = []
    with tempfile.TemporaryDirectory(prefix="malicious-") as place:
        folder = Path(place)
        make_files(folder)

        def told(name: str, result: str) -> None:
            if (folder / "ran").exists():
                ran.append(name)
                (folder / "ran").unlink()
            print(f"{name}: {result}", flush=True)

        for name, call in calls(folder).items():
            told(name, run_call(call))
        verbs = {f"label {m}": ["label", m, "pool.csv"] for m in ("model", "known", "student")}
        verbs["predict"] = ["predict", "student", "pool.csv"]
        for terminal in (False, True):
            for name, verb in verbs.items():
                way = "terminal" if terminal else "pipe"
                command = [*verb, "--out", f"{verb[1]}-{way}.csv"]
                told(f"{name}, {way}", run_verb(command, folder, terminal=terminal))
    print(f"Code ran in: {', '.join(ran)}." if ran else "No code ran.")
    raise SystemExit(1 if ran else 0)


if __name__ == "__main__":
    main()
