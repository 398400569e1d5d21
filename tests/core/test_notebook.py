"""What notebooks show: escaped HTML and one-line reprs."""

from __future__ import annotations

import numpy as np
import pytest

from noisyteacher.auditing import audit
from noisyteacher.core.reprs import notebook_html
from noisyteacher.data.input_format import fit_format
from noisyteacher.labels import TeacherLabels
from noisyteacher.models import Linear
from noisyteacher.pipeline import Student
from noisyteacher.runs.comparison import Comparison, Example

EVIL = "<script>alert(1)</script>"


def labels() -> TeacherLabels:
    rng = np.random.default_rng(0)
    return TeacherLabels.from_probs(
        [f"{EVIL}{i}" for i in range(60)],
        rng.dirichlet(np.ones(3), 60),
        [EVIL, "b", "c"],
        teacher=EVIL,
    )


def audited() -> object:
    store = labels()
    return audit(store, store.hard[:30], store.ids[:30], replicates=50)


def student() -> Student:
    made, _ = fit_format("table", np.zeros((4, 2), np.float32))
    spec = Linear(2, 3)
    table = {"header": ["student", "accuracy, %"], "rows": [[EVIL, "71.2"]]}
    about = {"verdict": f"{EVIL} was worth it.", "table": table}
    return Student(spec, spec.build().state_dict(), [EVIL, "b", "c"], made, about)


def comparison() -> Comparison:
    example = Example("7", EVIL, 0.9, "b", 0.5, text=EVIL)
    return Comparison("SLaM()", [EVIL, "b"], "the pool", 60, 1, [], [example] * 150)


@pytest.mark.parametrize("make", [labels, audited, student, comparison])
def test_results_are_one_line_and_their_html_is_escaped(make) -> None:
    made = make()
    assert "\n" not in repr(made)
    assert len(repr(made)) < 300
    html = made._repr_html_()
    assert "<script" not in html
    assert "&lt;script&gt;" in html
    assert len(html) < 10_000


def test_a_students_verdict_and_table_are_shown() -> None:
    html = student()._repr_html_()
    assert "was worth it." in html
    assert "<td>71.2</td>" in html


def test_labels_show_ids_with_classes_and_probabilities() -> None:
    store = labels()
    html = store._repr_html_()
    assert html.count("<tr>") == 6
    assert f"<td>{store.probs[1].max():.3f}</td>" in html


def test_html_has_only_the_parts_that_there_are() -> None:
    assert notebook_html("a & b") == "<div><b>a &amp; b</b></div>"
