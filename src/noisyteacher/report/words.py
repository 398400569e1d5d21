"""A run in words, for the plain and the rich page alike."""

from __future__ import annotations

from pathlib import Path

from noisyteacher.report.source import Source, plain

ACCURACIES_IN_WORDS = (
    "Test accuracy in percent, mean ± standard deviation over n trials: after the last epoch, "
    "at the epoch chosen on the selection set S, and at the best test epoch (the paper's "
    "protocol, which looks at the test part)."
)
_STORE = "the label store "  # how the recipe of a bench calls a teacher that it did not train


def facts(source: Source) -> list[tuple[str, str]]:
    """Teacher, student, sizes and machine, as far as they are known."""
    told = []
    named = source.recipe | {"teacher": _given_store(source) or source.recipe.get("teacher")}
    for key, name in (("teacher", "Teacher"), ("student", "Student, the same for every method")):
        if named.get(key):
            told.append((name, plain(named[key])))
    right = [row.teacher_accuracy for row in source.rows if row.teacher_accuracy is not None]
    if right:
        each = ", ".join(f"{value:.1f} %" for value in dict.fromkeys(right))
        told.append((f"Teacher's accuracy on {_judged_on(source)}", each))
    sizes = source.recipe.get("sizes")
    if isinstance(sizes, dict):
        told.append(("Rows", ", ".join(f"{name} {count:,}" for name, count in sizes.items())))
    for name in ("val", "selection", "trials", "seed"):
        if name in source.recipe:
            words = {"val": "Rows of V", "selection": "Rows of S"}.get(name, name.capitalize())
            told.append((words, plain(source.recipe[name])))
    if source.rows:
        machines = dict.fromkeys(row.hardware for row in source.rows)
        told.append(("Measured on", ", ".join(machines)))
        last = max(row.finished_at for row in source.rows)
        told.append(("Last student finished", last.replace("T", " ").replace("+00:00", " UTC")))
    return told


def _given_store(source: Source) -> str | None:
    """The label store whose labels a bench was given; None where it trained its own teacher."""
    lasting = source.recipe.get("lasting")
    teacher = lasting.get("teacher") if isinstance(lasting, dict) else None
    return teacher if isinstance(teacher, str) and teacher.startswith(_STORE) else None


def _judged_on(source: Source) -> str:
    if "sizes" in source.recipe:
        return "V"
    if _given_store(source) is None:
        return "the test part"
    # Rows do not tell which of the two it was.
    return "the test part, or, where its store lacks that, on the training part without A"


def progress(source: Source) -> str:
    """How far a run that may still go on has come; empty where nothing is known."""
    latest = source.progress
    if latest is None:
        return ""
    told = [f"epoch {latest.get('epoch')}"]
    for key, name in (("loss", "loss"), ("test", "test accuracy"), ("selection", "accuracy on S")):
        if isinstance(latest.get(key), float):
            told.append(f"{name} {latest[key]:.3g}")
    finished = f"{len(source.rows)} students have finished."
    return f"{finished} Last heard of: {latest.get('student')}, {', '.join(told)}."


def caption(path: Path) -> str:
    """What a picture of a run shows, by its file name."""
    kind, _, size = path.stem.partition("-")
    if kind != "alpha":
        return path.stem
    told = f", {size} gold labels" if size else ""
    return f"α(x): how likely the teacher's label is right{told}"
