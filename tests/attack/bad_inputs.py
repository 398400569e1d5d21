"""Bad inputs of every verb, each with the sentence that refuses it.

    python tests/attack/bad_inputs.py            # run them all and compare
    python tests/attack/bad_inputs.py --record   # write bad_inputs.json anew, to be read

Each case is a command in a folder of small files, after a change to one of them. It must end with
exit status 2 and the one sentence that ``bad_inputs.json`` has for it, before anything trains; a
traceback or a silent success is a failure. Where a sentence is typer's own, releases before 0.29
say what ``bad_inputs_older_typer.json`` has.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import tempfile
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import flips
import torch
import typer
import workplace
from packaging.version import Version
from typer.testing import CliRunner

from noisyteacher.cli import app
from noisyteacher.core.errors import InputError

_COMPARED = 90  # characters of a sentence
EXPECTED = Path(__file__).with_suffix(".json")
OLDER_TYPER = EXPECTED.with_name("bad_inputs_older_typer.json")
_NOT_OBJECTS = {
    "list": "[]",
    "number": "1",
    "null": "null",
    "text": '"x"',
    "damaged": '{"sha256": ""}',
}
_ROW_FIELDS = {
    **dict.fromkeys(("recipe", "dataset", "method", "hardware", "finished_at"), 5),
    **dict.fromkeys(("labeled", "gold_repeat", "generation", "trial", "epochs"), "x"),
    "accuracy": [],
    "seeds": [],
    "versions": [],
    "curve": {},
    **dict.fromkeys(("seconds", "images_per_second", "macro_f1", "teacher_accuracy"), "fast"),
    "distillation": 3,
    "commit": 7,
}
_DISTILL = (
    *("distill", "--gold", "reviews/gold.csv", "--pool", "reviews/pool.csv"),
    *("--labels", "reviews/labels", "--device", "cpu", "--out", "out/run"),
)
_BENCH = ("bench", "digits", "--quick", "--device", "cpu", "--out", "out/run")
_LABEL = ("label", "text", "reviews/pool.csv", "--device", "cpu", "--out", "out/labels")
_AUDIT = ("audit", "reviews/labels", "--gold", "reviews/gold.csv")


@dataclass(frozen=True)
class Case:
    """A command, and what is done to the files before it."""

    name: str
    command: tuple[str, ...]
    prepare: Callable[[Path], object] = lambda folder: None


def _write(name: str, text: str) -> Callable[[Path], object]:
    def prepare(folder: Path) -> None:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)

    return prepare


def _edit_row(field: str, value: object) -> Callable[[Path], object]:
    def prepare(folder: Path) -> None:
        path = folder / "results.jsonl"
        row = json.loads(path.read_text())
        del row["sha256"]
        path.write_text(json.dumps(row | {field: value}) + "\n")

    return prepare


def cases() -> Iterator[Case]:
    """All of them, with names that differ."""
    for file in ("recipe.json", "story.json", "comparison.json", "audit.json"):
        for what, text in _NOT_OBJECTS.items():
            yield Case(f"report {file} {what}", ("report", "."), _write(file, text))
        yield Case(f"report {file} cut", ("report", "."), _write(file, '{"a": '))
    for what, text in _NOT_OBJECTS.items():
        yield Case(f"report row {what}", ("report", "."), _write("results.jsonl", text + "\n"))
        config = _write("student/config.json", text)
        yield Case(f"report student {what}", ("report", "."), config)
    for field, value in _ROW_FIELDS.items():
        yield Case(f"report row {field}", ("report", "."), _edit_row(field, value))
    for name, text in {
        "findings": '{"numbers": {}, "findings": 3, "recommendation": {}}',
        "numbers": '{"numbers": [], "findings": [], "recommendation": {}}',
        "recommendation": '{"numbers": {}, "findings": [], "recommendation": 1}',
    }.items():
        yield Case(f"report audit {name}", ("report", "a.json"), _write("a.json", text))
    yield Case("report commands", ("report", "."), _write("story.json", '{"commands": [1]}'))
    yield Case("report examples", ("report", "."), _write("comparison.json", '{"examples": 1}'))
    yield Case("report nothing", ("report", "nowhere"))
    yield Case("report no run", ("report", "reviews"))
    for file, text in {
        "text/config.json": "[]",
        "text/model.safetensors": "",
        "text/featurizer.json": "{}",
    }.items():
        for verb, more in {
            "predict": ("reviews/pool.csv", "--out", "out/p.csv"),
            "export": ("--onnx", "out/m.onnx"),
        }.items():
            yield Case(f"{verb} {file}", (verb, "text", *more), _write(file, text))
        yield Case(f"label {file}", _LABEL, _write(file, text))
    for name, more in {
        "no student": ("nowhere", "reviews/pool.csv", "--out", "out/p.csv"),
        "a store": ("reviews/labels", "reviews/pool.csv", "--out", "out/p.csv"),
        "no file": ("text", "nowhere.csv", "--out", "out/p.csv"),
        "format": ("text", "reviews/pool.csv", "--out", "out/p.xlsx"),
        "another kind": ("table", "reviews/pool.csv", "--out", "out/p.csv"),
        "abstain": ("text", "reviews/pool.csv", "--out", "out/p.csv", "--abstain-below", "2"),
        "text column": ("text", "reviews/pool.csv", "--out", "out/p.csv", "--text-column", "x"),
        "id column": ("text", "reviews/pool.csv", "--out", "out/p.csv", "--id-column", "x"),
    }.items():
        yield Case(f"predict {name}", ("predict", *more))
    yield Case("export no student", ("export", "nowhere", "--onnx", "out/m.onnx"))
    yield Case("export exists", ("export", "text", "--onnx", "noise.json"))
    for name, more in {
        "k": ("--method", "SLaM(k=50)"),
        "method code": ("--method", "__import__('os')"),
        "unknown method": ("--method", "Nothing()"),
        "method setting": ("--method", "SLaM(beta=1)"),
        "method value": ("--method", "SLaM(lower_bound=7)"),
        "method text": ("--method", "SLaM("),
        "folds": ("--folds", "1"),
        "metric": ("--metric", "beauty"),
        "epochs": ("--epochs", "0"),
        "seed": ("--seed", "-1"),
        "generations": ("--generations", "0"),
        "student": ("--student", "resnet20"),
        "own student": ("--student", "no_such_module:net"),
        "device": ("--device", "tpu"),
        "text column": ("--text-column", "nothing"),
        "label column": ("--label-column", "nothing"),
        "id column": ("--id-column", "nothing"),
        "test": ("--test", "nowhere.csv"),
        "val": ("--val", "nowhere.csv"),
        "encoder": ("--student", "embeddings", "--encoder", "nowhere"),
        "saw gold": ("--teacher-saw-gold",),
    }.items():
        yield Case(f"distill {name}", (*_DISTILL, *more))
    for name, (file, text) in {
        "foreign student": ("out/run/student/mine.txt", "mine"),
        "bad row": ("out/run/results.jsonl", "[]\n"),
        "recipe list": ("out/run/recipe.json", "[]"),
        "recipe cut": ("out/run/recipe.json", "{"),
        "out is a file": ("out/run", "mine"),
        "gold empty": ("reviews/gold.csv", "id,text,label\n"),
        "gold one row": ("reviews/gold.csv", "id,text,label\nr1,good,good\n"),
        "gold class": ("reviews/gold.csv", "id,text,label\nr1,good,strange\n"),
        "manifest": ("reviews/labels/manifest.json", "{}"),
    }.items():
        yield Case(f"distill {name}", _DISTILL, _write(file, text))
    for option, values in {
        "--lr": ("nan", "inf", "0", "-1", "x"),
        "--labeled": ("abc", "0", "-5", ","),
        "--weight-decay": ("nan", "-1"),
        "--trials": ("0",),
        "--epochs": ("0",),
        "--teacher-epochs": ("0",),
        "--batch-size": ("0",),
        "--cohort": ("0",),
        "--method": ("Nothing()", "SLaM(k=50)", "__import__('os')"),
        "--student": ("ResNetCifar(depth=7)", "os.system('x')", "no_such_module:net"),
        "--labels": ("nowhere", "images"),
        "--track": ("nothing",),
        "--device": ("tpu",),
        "--minutes": ("nan", "-1"),
    }.items():
        for value in values:
            yield Case(f"bench {option} {value}", (*_BENCH, option, value))
    whole = ("bench", "digits", "--allow-dirty", "--device", "cpu", "--out", "out/run")
    yield Case("bench too many labeled", (*whole, "--labeled", "99999"))
    yield Case("bench recipe", ("bench", "nothing", "--quick"))
    yield Case("bench words", (*_BENCH[:2], "more", *_BENCH[2:]))
    yield Case("bench recipe list", _BENCH, _write("out/run/recipe.json", "[]"))
    yield Case("bench bad row", _BENCH, _write("out/run/results.jsonl", "[]\n"))
    yield Case("bench tables nothing", ("bench", "tables", "--out", "out"))
    yield Case("bench tables bad", ("bench", "tables", "answers.jsonl", "--out", "out"))
    for option, values in {
        "--margin": ("0", "2", "nan"),
        "--epsilon": ("0", "1", "nan"),
        "--noise": ("0.5", "-1", "nan"),
        "--runs": ("0",),
        "--max-steps": ("0",),
        "--seed": ("-1",),
        "--shape": ("cube",),
        "--device": ("tpu",),
    }.items():
        for value in values:
            command = ("halfspace", "--quick", "--out", "out/run", option, value)
            yield Case(f"halfspace {option} {value}", command)
    half = ("halfspace", "--quick", "--out", "out/run")
    yield Case("halfspace recipe list", half, _write("out/run/recipe.json", "[]"))
    yield Case("halfspace bad row", half, _write("out/run/results.jsonl", "[]\n"))
    for name, more in {
        "batch": ("--batch-size", "0"),
        "shard": ("--shard-size", "0"),
        "k": ("--k", "0"),
        "views": ("--view-passes", "1"),
        "classes": ("--classes", "a,b,c"),
        "text column": ("--text-column", "x"),
        "device": ("--device", "tpu"),
    }.items():
        yield Case(f"label {name}", (*_LABEL, *more))
    for model in ("nowhere", "no_such_module:f", "json:nothing", "json:__name__", "reviews"):
        yield Case(f"label model {model}", (_LABEL[0], model, *_LABEL[2:]))
    yield Case("label twice", (*_LABEL[:3], "reviews/pool.csv", *_LABEL[3:]))
    yield Case("label exists", _LABEL, _write("out/labels/mine.txt", "mine"))
    for name, more in {
        "replicates": ("--replicates", "1"),
        "lower bound": ("--lower-bound", "2"),
        "id column": ("--id-column", "x"),
        "label column": ("--label-column", "x"),
        "inputs": ("--inputs", "nowhere"),
        "embeddings": ("--embeddings",),
    }.items():
        yield Case(f"audit {name}", (*_AUDIT, *more))
    gold = _write("reviews/gold.csv", "id,text,label\nz1,good,good\n")
    yield Case("audit other ids", _AUDIT, gold)
    yield Case("audit empty", _AUDIT, _write("reviews/gold.csv", "id,text,label\n"))
    yield Case("audit manifest", _AUDIT, _write("reviews/labels/manifest.json", "[]"))


def make_files(folder: Path) -> None:
    """What the cases start from."""
    workplace.make_raw_inputs(folder)
    flips.make_files(folder)


def refusal(case: Case, files: Path) -> tuple[int, str]:
    """Exit status and the last line that the command says, without the folder's name."""
    with tempfile.TemporaryDirectory(prefix="bad-") as place:
        folder = shutil.copytree(files, Path(place).resolve() / "work")
        case.prepare(folder)
        before = Path.cwd()
        os.chdir(folder)
        try:
            with warnings.catch_warnings(), contextlib.redirect_stderr(None):
                warnings.simplefilter("ignore")
                result = CliRunner().invoke(app, list(case.command), env={"COLUMNS": "500"})
        finally:
            os.chdir(before)
        status, error = result.exit_code, result.exception
        if isinstance(error, InputError | OSError | ImportError):
            status, said = 2, str(error)
        elif error is not None and not isinstance(error, SystemExit):
            status, said = 1, f"{type(error).__name__}: {error}"
        else:
            lines = [line.strip("│ ") for line in result.output.splitlines() if line.strip("│ ╰─╯")]
            said = lines[-1] if lines else ""
        return status, said.replace(str(folder), "FOLDER")


def compare(chosen: list[Case], files: Path) -> list[str]:
    """What does not end as ``bad_inputs.json`` says."""
    expected = json.loads(EXPECTED.read_text())
    if Version(typer.__version__) < Version("0.29"):
        expected |= json.loads(OLDER_TYPER.read_text())
    problems = []
    for case in chosen:
        status, said = refusal(case, files)
        if status != 2 or not said.startswith(expected.get(case.name, "(not recorded)")):
            problems.append(f"{case.name}: exit status {status}: {said}")
    return problems


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--record", action="store_true", help="write the sentences anew")
    given = parser.parse_args()
    torch.set_num_threads(1)
    every = list(cases())
    with tempfile.TemporaryDirectory(prefix="bad-") as place:
        make_files(Path(place))
        if given.record:
            found = {case.name: refusal(case, Path(place)) for case in every}
            bad = [f"{n}: exit status {s}: {said}" for n, (s, said) in found.items() if s != 2]
            # What follows in longer ones lists methods and recipes, which come and go.
            told = {name: said[:_COMPARED] for name, (_, said) in found.items()}
            EXPECTED.write_text(json.dumps(told, indent=1, ensure_ascii=False) + "\n")
        else:
            bad = compare(every, Path(place))
    print(*bad, sep="\n")
    print(f"{len(every)} bad inputs, {len(bad)} without their sentence.")
    raise SystemExit(1 if bad else 0)


if __name__ == "__main__":
    main()
