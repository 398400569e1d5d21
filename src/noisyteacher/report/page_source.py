"""The contents of a page: a run's folder, or an audit's file, read and put into words."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from noisyteacher.bench.result_lines import Line, lines
from noisyteacher.core.errors import InputError
from noisyteacher.core.integrity import read_json
from noisyteacher.core.reprs import ShortRepr
from noisyteacher.runs import Row, read_rows
from noisyteacher.runs.comparison import Comparison, read_comparison
from noisyteacher.runs.folder import AUDITS, PROGRESS, SIZES, CommandLog, read_command_log

TEACHER = "Teacher quality"
ACCURACIES_IN_WORDS = (
    "Test accuracy in percent, mean ± standard deviation over n trials: after the last epoch, "
    "at the epoch chosen on the selection set S, and at the best test epoch (the paper's "
    "protocol, which uses the test rows to choose)."
)
_STORE = "the label store "  # how the recipe of a bench calls a teacher that it did not train


@dataclass(frozen=True, repr=False)
class PageSource(ShortRepr):
    """Everything a page may show; what the run has not left is empty."""

    title: str
    log: CommandLog = field(default_factory=CommandLog)
    recipe: dict[str, Any] = field(default_factory=dict)
    about: dict[str, Any] = field(default_factory=dict)  # a distillation's own account
    rows: list[Row] = field(default_factory=list)
    audits: dict[str, dict[str, Any]] = field(default_factory=dict)  # by heading
    comparison: Comparison | None = None
    sizes: list[Row] = field(default_factory=list)  # a demo's, over numbers of gold rows
    pictures: list[Path] = field(default_factory=list)
    progress: dict[str, Any] | None = None  # the latest epoch of any student

    @property
    def lines(self) -> list[Line]:
        return lines(self.rows)


def read_source(path: str | Path) -> PageSource:
    """Read a run's folder, or the JSON that ``noisyteacher audit --json`` printed."""
    path = Path(path)
    if path.is_file():
        return audit_source(read_audit(path))
    if not path.is_dir():
        raise InputError(f"There is no run or audit {path}.")
    if not (path / "recipe.json").exists() and not (path / "results.jsonl").exists():
        raise InputError(f"{path} is not a run's folder: it has no recipe.json.")
    recipe = _read_json(path / "recipe.json")
    student = _read_json(path / "student" / "config.json")
    return PageSource(
        title=_title(recipe, path),
        log=read_command_log(path),
        recipe=recipe,
        about=student.get("about") or {},
        rows=read_rows(path / "results.jsonl"),
        audits=_audits(path),
        comparison=read_comparison(path),
        sizes=read_rows(path / SIZES / "results.jsonl"),
        pictures=sorted((path / "pictures").glob("*.png")),
        progress=last_line(path / "curves.jsonl"),
    )


def audit_source(audit: dict[str, Any]) -> PageSource:
    """The source of an audit's own page, from its ``to_dict``."""
    title = audit["numbers"]["teacher"] or "Unnamed teacher"
    return PageSource(title=title, audits={TEACHER: audit})


def read_audit(path: Path) -> dict[str, Any]:
    """An audit's ``to_dict`` from a file."""
    found = _read_json(path)
    missing = [name for name in ("numbers", "findings", "recommendation") if name not in found]
    if missing:
        raise InputError(
            f"{path} is not an audit: it has no {missing[0]!r}. `noisyteacher audit --json` "
            "prints one."
        )
    return found


def _audits(folder: Path) -> dict[str, dict[str, Any]]:
    found = {TEACHER: folder / "audit.json"}
    sized = sorted((folder / AUDITS).glob("*.json"), key=lambda p: (len(p.stem), p.stem))
    for path in sized:
        heading = TEACHER if len(sized) == 1 else f"{TEACHER}, {path.stem} gold labels"
        found[heading] = path
    return {heading: read_audit(path) for heading, path in found.items() if path.exists()}


def _read_json(path: Path) -> dict[str, Any]:
    """Empty where there is no such file."""
    if not path.exists():
        return {}
    return read_json(path, "restore it, or make it again with the command that wrote it")


def plain(value: object) -> str:
    """A recipe's value as people write it: bench recipes keep reprs, texts in quotes."""
    text = str(value)
    try:
        read = ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text
    return read if isinstance(read, str) else text


def _title(recipe: dict[str, Any], folder: Path) -> str:
    name, dataset = (plain(recipe.get(key, "")) for key in ("name", "dataset"))
    if (folder / SIZES).is_dir():
        return "Handwritten digits"
    if name == "distill":
        return dataset if dataset and dataset != "gold" else folder.resolve().name
    if name and dataset and dataset not in name:
        return f"{name}: {dataset}"
    return name or folder.name


def last_line(path: Path) -> dict[str, Any] | None:
    if not path.exists():
        return None
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - 4096))
        tail = file.read().splitlines()
    for line in reversed(tail):
        try:
            found = orjson.loads(line)
        except orjson.JSONDecodeError:
            continue  # the writer is in the middle of it
        return found if isinstance(found, dict) else None
    return None


# -- in words -------------------------------------------------------------------------------------


def facts(source: PageSource) -> list[tuple[str, str]]:
    """Teacher, student, sizes and machine, as far as they are known."""
    found = []
    named = source.recipe | {"teacher": _given_store(source) or source.recipe.get("teacher")}
    for key, name in (("teacher", "Teacher"), ("student", "Student, the same for every method")):
        if named.get(key):
            found.append((name, plain(named[key])))
    right = [row.teacher_accuracy for row in source.rows if row.teacher_accuracy is not None]
    if right:
        each = ", ".join(f"{value:.1f}%" for value in dict.fromkeys(right))
        found.append((f"Teacher's accuracy on {_measured_on(source)}", each))
    sizes = source.recipe.get("sizes")
    if isinstance(sizes, dict):
        told = [f"{name} {count:,}" for name, count in sizes.items() if count]
        found.append(("Rows", ", ".join(told)))
    for name in ("val", "selection", "trials", "seed"):
        if name in source.recipe:
            words = {"val": "Rows of V", "selection": "Rows of S"}.get(name, name.capitalize())
            found.append((words, plain(source.recipe[name])))
    if source.rows:
        machines = dict.fromkeys(row.hardware for row in source.rows)
        found.append(("Measured on", ", ".join(machines)))
        last = max(row.finished_at for row in source.rows)
        found.append(("Last student finished", last.replace("T", " ").replace("+00:00", " UTC")))
    return found


def _given_store(source: PageSource) -> str | None:
    """The label store whose labels a bench was given; None where it trained its own teacher."""
    lasting = source.recipe.get("lasting")
    teacher = lasting.get("teacher") if isinstance(lasting, dict) else None
    return teacher if isinstance(teacher, str) and teacher.startswith(_STORE) else None


def _measured_on(source: PageSource) -> str:
    sizes = source.recipe.get("sizes")
    if isinstance(sizes, dict) and not sizes.get("V"):
        return "the gold rows"
    if sizes is not None:
        return "V"
    if _given_store(source) is None:
        return "the test part"
    # Rows do not tell which of the two it was.
    return "the test part, or, where its store lacks that, on the training part without A"


def progress(source: PageSource) -> str:
    """How far a run that may still go on has come; empty where nothing is known."""
    latest = source.progress
    if latest is None:
        return ""
    parts = [f"epoch {latest.get('epoch')}"]
    for key, name in (("loss", "loss"), ("test", "test accuracy"), ("selection", "accuracy on S")):
        if isinstance(latest.get(key), float):
            parts.append(f"{name} {latest[key]:.3g}")
    finished = f"{len(source.rows)} students have finished."
    return f"{finished} Training {latest.get('student')}: {', '.join(parts)}."


def progress_so_far(folder: Path, source: PageSource) -> tuple[float | None, str]:
    """The share done, where it is known, and a sentence with the time left."""
    path = folder / PROGRESS
    try:
        found = orjson.loads(path.read_bytes()) if path.exists() else {}
        done, total, left = found["done"], found["total"], found["seconds_left"]
        told = f"{found['told']}: {done} of {total} steps"
        if done < total and left is not None:
            minutes = f"{left / 60:.0f} min" if left >= 90 else f"{left:.0f} s"
            told += f", about {minutes} left"
        return done / total, f"{told}."
    except (orjson.JSONDecodeError, KeyError, TypeError, ZeroDivisionError):
        return None, progress(source)


def caption(path: Path) -> str:
    """What a picture of a run shows, by its file name."""
    if path.stem == "gold-rows":
        return "Test accuracy against the number of gold rows"
    kind, _, size = path.stem.partition("-")
    if kind != "alpha":
        return path.stem
    labels = f", {size} gold labels" if size else ""
    return f"α(x): the probability that a teacher label is right{labels}"
