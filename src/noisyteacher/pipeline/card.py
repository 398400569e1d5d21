"""The card of a student: what it is, what it was trained on, how good it is."""

from __future__ import annotations

import numpy as np

from noisyteacher.noise import TeacherNoise
from noisyteacher.pipeline.outcome import Distilled

_MOST_STEPS = 12


def write_card(done: Distilled) -> str:
    """The card as Markdown."""
    about, student = done.student.about, done.student
    sizes, teacher = about["sizes"], about["teacher"]
    shown = ", ".join(student.classes[:20]) + (", ..." if len(student.classes) > 20 else "")
    lines = [
        f"# A student of {student.inputs.kind}s: {done.task.name}",
        "",
        about["verdict"],
        "",
        f"- Model: `{student.spec!r}`" if len(repr(student.spec)) < 300 else "- Model: config.json",
        f"- Classes ({len(student.classes)}): {shown}",
        f"- Data: {sizes['gold']} gold (A), {sizes['V']} validation (V), {sizes['S']} selection "
        f"(S), {sizes['pool']} pool, {sizes['test']} test examples",
        f"- Teacher: {teacher['name'] or 'unnamed'}"
        + (f", revision {teacher['revision']}" if teacher["revision"] else "")
        + f", right on {teacher['accuracy_on_V']:.2f} % of V",
        "",
        "## Accuracy in percent, after the last epoch",
        "",
        "The student with the best accuracy on S is kept; S was never trained on. Test examples "
        "took no part in any choice.",
        "",
        *_accuracies(done),
        "",
        *_noise_lines(done.noise),
        "## Use",
        "",
        "```python",
        "import noisyteacher as nt",
        "",
        'student = nt.load_student("FOLDER")',
        f"student.predict({_example(student.inputs.kind)})",
        "```",
        "",
        f"Made on {about['hardware']}, {about['finished_at']}, with "
        + ", ".join(f"{name} {version}" for name, version in about["versions"].items())
        + ".",
    ]
    return "\n".join(lines) + "\n"


def _accuracies(done: Distilled) -> list[str]:
    table = ["| student | S | test | seconds | kept |", "|---|---|---|---|---|"]
    for outcome in done.outcomes:
        line = done.line(outcome)
        test = "" if line["accuracy_on_test"] is None else f"{line['accuracy_on_test']:.2f}"
        table.append(
            f"| {line['candidate']} | {line['accuracy_on_S']:.2f} | {test} | "
            f"{line['seconds']:.1f} | {'yes' if line['kept'] else ''} |"
        )
    return table


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
        "## How far the teacher was trusted",
        "",
        f"The chance α that its top class is right, by its {noise.metric}, fitted on "
        f"{noise.n_val_} rows of V, never below {noise.lower_bound}:",
        "",
        f"| {noise.metric} up to | α |",
        "|---|---|",
        *table,
        "",
    ]


def _example(kind: str) -> str:
    examples = {
        "text": '["some text"]',
        "image": '["picture.png"]',
        "table": "rows",
    }
    return examples[kind]
