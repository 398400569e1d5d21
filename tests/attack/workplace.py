"""Small inputs of every verb, and the commands that the attacks run on them."""

from __future__ import annotations

import importlib.util
import json
import os
import sys
import tempfile
from pathlib import Path

import numpy as np
from forked import Forked

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from noisyteacher.cli import main
from tiny_encoder import save_classifier
from user_files import noisy_probs, reviews, write_digit_folders, write_digit_tables, write_reviews

ENCODER = importlib.util.find_spec("transformers") is not None
ROOT = Path(__file__).resolve().parents[2]

# Each runs in a folder that ``make_inputs`` has filled, and writes into ``out``.
COMMANDS: dict[str, list[str]] = {
    "import": ["import", "answers.jsonl", "--classes", "bad,good", "--out", "out/labels"],
    "import-probs": [
        *("import", "tables/probs.npy", "--ids", "tables/ids.txt", "--int-ids"),
        *("--classes", "0,1,2", "--out", "out/labels"),
    ],
    "label": ["label", "student", "reviews/pool.csv", "--out", "out/labels", "--shard-size", "20"],
    "audit": [
        *("audit", "reviews/labels", "--gold", "reviews/gold.csv", "--replicates", "50"),
        *("--html", "out/audit.html"),
    ],
    "distill-text": [
        *("distill", "--gold", "reviews/gold.csv", "--pool", "reviews/pool.csv"),
        *("--labels", "reviews/labels", "--quick", "--folds", "2", "--out", "out/run"),
    ],
    "distill-table": [
        *("distill", "--gold", "tables/gold.parquet", "--pool", "tables/pool.parquet"),
        *("--labels", "tables/probs.npy", "--student", "mlp", "--quick", "--epochs", "2"),
        *("--out", "out/run", "--device", "cpu"),
    ],
    "distill-image": [
        *("distill", "--gold", "images/gold", "--pool", "images/pool", "--labels", "images/labels"),
        *("--quick", "--epochs", "1", "--out", "out/run", "--device", "cpu"),
    ],
    "distill-embeddings": [
        *("distill", "--gold", "reviews/gold.csv", "--pool", "reviews/pool.csv"),
        *("--labels", "reviews/labels", "--student", "embeddings", "--encoder", "encoder"),
        *("--quick", "--folds", "2", "--out", "out/run", "--device", "cpu"),
    ],
    "distill-stream": [
        *("distill", "--gold", "reviews/gold.csv", "--pool", "reviews/pool.csv"),
        *("--labels", "reviews/labels", "--stream", "--quick", "--folds", "2", "--out", "out/run"),
    ],
    "distill-stream-network": [
        *("distill", "--gold", "reviews/gold.csv", "--pool", "reviews/pool.csv"),
        *("--labels", "reviews/labels", "--stream", "--student", "mlp", "--quick"),
        *("--epochs", "2", "--out", "out/run", "--device", "cpu"),
    ],
    "distill-folds": [
        *("distill", "--gold", "tables/gold.parquet", "--pool", "tables/pool.parquet"),
        *("--labels", "tables/probs.npy", "--student", "mlp", "--quick", "--epochs", "2"),
        *("--folds", "2", "--out", "out/run", "--device", "cpu"),
    ],
    "distill-generations": [
        *("distill", "--gold", "reviews/a.csv", "--val", "reviews/v.csv"),
        *("--selection", "reviews/s.csv", "--pool", "reviews/pool.csv"),
        *("--labels", "reviews/labels", "--student", "mlp", "--quick", "--epochs", "2"),
        *("--generations", "2", "--out", "out/run", "--device", "cpu"),
    ],
    "bench": ["bench", "digits", "--quick", "--out", "out/run", "--device", "cpu"],
    "bench-sizes": [
        *("bench", "digits", "--labeled", "24,36", "--method", "SLaM();Consistency(SLaM())"),
        *("--epochs", "2", "--teacher-epochs", "1", "--trials", "1", "--allow-dirty"),
        *("--out", "out/run", "--device", "cpu"),
    ],
    "halfspace": [
        *("halfspace", "--quick", "--runs", "4", "--max-steps", "100", "--out", "out/run"),
    ],
    "report": ["report", "run", "--out", "out/page.html"],
    "export": ["export", "student", "--onnx", "out/student.onnx"],
    "predict": ["predict", "student", "reviews/pool.csv", "--out", "out/predictions.csv"],
}


def environment() -> dict[str, str]:
    """Of a verb: this tree's source, one thread, no GPU, no network."""
    return os.environ | {
        "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")]),
        "OMP_NUM_THREADS": "1",
        "MKL_NUM_THREADS": "1",
        "CUDA_VISIBLE_DEVICES": "",
        "HF_HUB_OFFLINE": "1",
        "COLUMNS": "120",
    }


def start(command: list[str], folder: Path, log: Path, modules: Path | None = None) -> Forked:
    """A verb as a process of its own, in ``folder``; what it prints goes to ``log``.

    Its temporary files are in ``folder`` too, where left-overs are seen. The names of the modules
    that it imports go to ``modules``.
    """
    for name in ("out", "tmp"):
        (folder / name).mkdir(exist_ok=True)

    def verb() -> None:
        os.chdir(folder)
        os.environ |= environment() | {
            "TMPDIR": str(folder / "tmp"),
            "NOISYTEACHER_CACHE": str(folder / "cache"),
            "TORCHINDUCTOR_CACHE_DIR": str(folder.parent / "torchinductor"),
        }
        tempfile.tempdir = None
        sys.argv = ["noisyteacher", *command]
        try:
            main()
        finally:
            if modules is not None:
                modules.write_text("\n".join(sys.modules))

    return Forked(verb, log)


def must_run(command: list[str], folder: Path) -> None:
    """A verb, run to its end."""
    log = folder.with_name(f"{folder.name}.log")
    if start(command, folder, log).wait(600) != 0:
        raise SystemExit(f"{command} fails: {log.read_text()}")
    log.unlink()


def make_inputs(folder: Path, *, student: bool) -> None:
    """The raw inputs, and where it is wanted a student and the run it is from."""
    if Forked(lambda: make_raw_inputs(folder), folder.with_name("inputs.log")).wait(600) != 0:
        raise SystemExit(folder.with_name("inputs.log").read_text())
    if student:
        must_run([*COMMANDS["distill-text"][:-1], "run"], folder)
        (folder / "run" / "student").rename(folder / "student")
        (folder / "out").rmdir()


def make_raw_inputs(folder: Path) -> None:
    """Reviews, digits as tables and images, answers of an LLM, and an encoder of texts."""
    gold = write_reviews(folder / "reviews", gold=60, pool=60) / "gold.csv"
    header, *lines = gold.read_text().splitlines(keepends=True)
    for part, name in enumerate("avs"):
        gold.with_name(f"{name}.csv").write_text(header + "".join(lines[part::3]))
    if ENCODER:
        save_classifier(folder / "encoder", {0: "bad", 1: "good"})
    write_digit_folders(folder / "images", gold=40, pool=40)
    tables = write_digit_tables(folder / "tables", gold=60, pool=60)
    probs = noisy_probs(reviews(200)[1], 2)
    with (folder / "answers.jsonl").open("w") as file:
        for i, row in enumerate(probs):
            said = ("bad", "good")[int(np.argmax(row))]
            file.write(json.dumps({"id": f"r{i}", "label": said}) + "\n")
    (tables / "ids.txt").write_text("".join(f"{i}\n" for i in range(120)))
