"""The card of a student: what it is, what it was trained on, how good it is."""

from __future__ import annotations

import re
from html import escape
from typing import Any

import numpy as np

from noisyteacher.noise import TeacherNoise
from noisyteacher.pipeline.distilled import Distilled

_MOST_STEPS = 12
_EXAMPLES = {"text": '["some text"]', "image": '["picture.png"]', "table": "rows"}


def write_card(done: Distilled) -> str:
    """The card as Markdown."""
    about, student = done.student.about, done.student
    sizes, teacher = about["sizes"], about["teacher"]
    shown = plain_markdown(", ".join(student.classes[:20]))
    shown += ", ..." if len(student.classes) > 20 else ""
    model = repr(student.spec).replace("`", "'").replace("\n", " ")
    lines = [
        f"# Classifier of {student.inputs.kind}s: {plain_markdown(done.task.name)}",
        "",
        plain_markdown(about["verdict"]),
        "",
        f"- Model: `{model}`" if len(model) < 300 else "- Model: config.json",
        f"- Classes ({len(student.classes)}): {shown}",
        f"- Data: {sizes_in_words(sizes)}",
        f"- Teacher: {plain_markdown(teacher['name'] or 'unnamed')}"
        + (f", revision {plain_markdown(teacher['revision'])}" if teacher["revision"] else "")
        + f", accuracy on the gold examples {teacher['accuracy_on_gold']:.2f}%",
        "",
        "## Accuracy",
        "",
        f"{about['table']['title']}. Test examples were not used for any choice.",
        "",
        *_accuracies(about["table"]),
        "",
        *_noise_lines(done.noise),
        "## Use",
        "",
        "```python",
        "import noisyteacher as nt",
        "",
        'student = nt.load_student("FOLDER")',
        f"student.predict({_EXAMPLES[student.inputs.kind]})",
        "```",
        "",
        f"Made on {about['hardware']}, {about['finished_at']}, with "
        + ", ".join(f"{name} {version}" for name, version in about["versions"].items())
        + ".",
    ]
    return "\n".join(lines) + "\n"


def plain_markdown(text: str) -> str:
    """Text that Markdown shows as it is: no markup, no HTML, no links, on one line."""
    one_line = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    escaped = re.sub(r"([\\`*_\[\]|#~])", r"\\\1", escape(one_line, quote=False))
    return escaped.replace("://", ":\\//")


def _accuracies(table: dict[str, Any]) -> list[str]:
    lines = [table["header"], ["---"] * len(table["header"]), *table["rows"]]
    return [f"| {' | '.join(map(plain_markdown, line))} |" for line in lines]


def sizes_in_words(sizes: dict[str, int]) -> str:
    """Such as "400 gold, 5000 pool and 1000 test examples"; empty parts are left out."""
    names = {"gold": "gold", "V": "validation (V)", "S": "selection (S)"}
    told = [f"{n} {names.get(part, part)}" for part, n in sizes.items() if n]
    return f"{', '.join(told[:-1])} and {told[-1]} examples" if told[1:] else f"{told[0]} examples"


def _noise_lines(noise: TeacherNoise | None) -> list[str]:
    """The α curve as a table of its steps."""
    if noise is None:
        return []
    curve = noise.alpha_curve_
    # The values hold up to and at their knot; only the last knot of each height is worth a line.
    ends = np.flatnonzero(np.append(np.diff(curve.values_) > 0, True))
    if len(ends) > _MOST_STEPS:
        ends = ends[np.linspace(0, len(ends) - 1, _MOST_STEPS).round().astype(int)]
    table = [f"| {curve.knots_[i]:.3f} | {curve.values_[i]:.3f} |" for i in ends]
    return [
        "## How reliable the teacher's labels are",
        "",
        f"α is the probability that the teacher's most likely class is right. It depends on the "
        f"{noise.metric}, was fitted on {noise.n_val_} gold rows, and is never below "
        f"{noise.lower_bound}:",
        "",
        f"| {noise.metric} up to | α |",
        "|---|---|",
        *table,
        "",
    ]
