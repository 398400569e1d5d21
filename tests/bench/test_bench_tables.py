"""Tables and figures from rows alone."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from noisyteacher.bench import Row
from noisyteacher.bench.figures import nearest_mean
from noisyteacher.bench.method_sets import FIDELITY, OTHER_LOSSES, PAPER_SOFT
from noisyteacher.bench.paper_tables import (
    Bold,
    PaperTable,
    by_kind,
    csv_text,
    detail_table,
    escape_latex,
    size_table,
)
from noisyteacher.bench.publish import figures_of, publish, tables_of
from noisyteacher.bench.recipe import LOGISTIC
from noisyteacher.bench.result_lines import (
    HEADER,
    cells,
    in_reading_order,
    lines,
    paper_figures,
    teacher_range,
)
from noisyteacher.core.errors import InputError
from noisyteacher.methods import parse
from results_rows import row


def body(table: PaperTable) -> dict[str, list[str]]:
    """Rows by their first cell."""
    return {line[0]: list(line[1:]) for line in table.rows}


def bold(table: PaperTable) -> list[str]:
    return [cell for line in table.rows for cell in line if isinstance(cell, Bold)]


def test_mean_deviation_and_number_of_trials() -> None:
    rows = [row(accuracy=value, trial=i) for i, value in enumerate((40.0, 41.0, 45.0))]
    (line,) = lines(rows)
    assert str(line.accuracy["last"]) == "42.00 ± 2.65"
    assert dict(zip(HEADER, cells(line), strict=True)) == {
        "method": "SLaM()",
        "passes": "1",
        "labeled": "5000",
        "epochs": "60",
        "n": "3",
        "last epoch": "42.00 ± 2.65",
        "selected on S": "42.00 ± 2.65",
        "best test epoch": "43.00 ± 2.65",
    }


def test_names_tell_generations_repeats_and_arms() -> None:
    (line,) = lines([row(generation=2, gold_repeat=5, recipe="ablations / V out")])
    assert line.name == "SLaM(), V out, generation 2, gold ×5"
    assert line.table == "ablations"


def test_other_lengths_and_recipes_are_other_lines() -> None:
    assert len(lines([row(), row(epochs=160), row(recipe="cifar100 batch=64")])) == 3


def test_methods_by_sizes_beside_the_paper() -> None:
    rows = [row("GoldOnly()", 39.0), row("Vanilla()", 38.0), row(accuracy=42.0)]
    rows += [row(accuracy=52.0, labeled=10000, teacher_accuracy=None)]
    found = lines(rows)
    table = size_table("cifar100", "soft", found, "last")
    shown = body(table)
    assert table.header[3:] == ("5000 labels", "paper", "10000 labels", "paper")
    assert shown["SLaM()"] == [
        "1", "60", "42.00 (1)", "42.72 ± 0.30", "52.00 (1)", "54.73 ± 0.27",
    ]  # fmt: skip
    assert shown["Vanilla()"][2:] == ["38.00† (1)", "37.94 ± 0.10", "", ""]
    assert shown["the teacher"][2:] == ["34.00", "35.97", "", "49.62"]
    assert shown["UPS (not run)"] == ["", "", "", "39.62 ± 0.23", "", "54.43 ± 0.27"]
    assert bold(table) == ["42.00 (1)", "52.00 (1)"]
    assert "below a student of gold labels only" in table.notes[0]


def test_ups_stands_in_both_kinds_with_the_papers_figure_of_each() -> None:
    found = lines([row("Vanilla()"), row("Vanilla(hard=True)"), row("UPS()", 39.0)])
    papers = {}
    for kind, mine in by_kind(found):
        shown = body(size_table("cifar100", kind, mine, "last"))
        assert "UPS (not run)" not in shown
        papers[kind] = shown["UPS()"][3]
    assert papers == {"soft": "39.62 ± 0.23", "hard": "39.49 ± 0.13"}


def test_the_paper_is_mentioned_where_it_is_quoted() -> None:
    rows = [row("Vanilla()", recipe="digits", dataset="digits", epochs=n) for n in (3, 4)]
    rows += [
        replace(row("GoldOnly()", recipe="digits", dataset="digits", epochs=n), method=LOGISTIC)
        for n in (3, 4)
    ]
    table = size_table("digits", "soft", lines(rows), "last")
    assert "paper" not in table.notes[0]
    names = [cells[0] for cells in table.rows]
    assert names.count(LOGISTIC) == 1  # it has no epochs


def test_all_students_of_a_size() -> None:
    rows = [row(), row("Consistency(inner=None)", 43.0), row("Vanilla(hard=True)", 36.0)]
    table = detail_table("cifar100", lines(rows))
    shown = body(table)
    assert shown["Consistency(inner=None)"][:4] == ["none", "2", "60", "1"]
    assert shown["Vanilla(hard=True)"][0] == "hard"
    assert bold(table) == ["43.00", "43.00", "44.00"]
    assert "the teacher: 34.00 %" in table.title


def test_rows_of_two_runs_name_the_range_of_their_teachers() -> None:
    hard = row("Vanilla(hard=True)", teacher_accuracy=35.7)
    gold = row("GoldOnly()", teacher_accuracy=30.0)  # learns from neither
    found = lines([row(), gold, hard])
    assert body(size_table("cifar100", None, found, "last"))["the teacher"][2] == "34.00 to 35.70"
    assert body(size_table("cifar100", "hard", found[1:], "last"))["the teacher"][2] == "35.70"
    assert "the teacher: 34.00 to 35.70 %" in detail_table("cifar100", found).title


def test_a_mean_over_trials_stands_for_the_teacher_only_where_all_lines_share_it() -> None:
    each_its_own = [
        row(method, trial=trial, teacher_accuracy=70.0 + trial)
        for method in ("Vanilla()", "SLaM()")
        for trial in range(3)
    ]
    assert teacher_range(lines(each_its_own)) == "71.00"
    # The second trial of one method came in a later run, with another teacher: 33.0 is nobody's.
    later = [row("SLaM()", teacher_accuracy=32.0), row("SLaM()", trial=1, teacher_accuracy=34.0)]
    first = row("Vanilla()", teacher_accuracy=32.0)
    assert teacher_range(lines([first, *later])) == "32.00 to 34.00"
    assert teacher_range(lines([row(teacher_accuracy=None)])) == ""


def test_a_logistic_regression_has_no_epochs_and_no_repeats() -> None:
    (line,) = lines([replace(row("GoldOnly()", gold_repeat=5), method="LogisticRegression()")])
    assert (line.name, line.length, line.passes) == ("LogisticRegression()", "", None)
    found = [line, *lines([row("GoldOnly()", 39.0, gold_repeat=5), row(gold_repeat=5)])]
    shown = body(detail_table("x", found))
    assert shown["GoldOnly(), gold ×5"][4] == "39.00"
    assert shown["SLaM(), gold ×5"][4] == "40.00"
    assert shown["LogisticRegression()"][4] == "40.00"


def test_hard_and_soft_stand_apart_with_the_teacher_free_in_both() -> None:
    rows = [row("GoldOnly()", 30.0), row(), row("SLaM(hard=True)", 41.0)]
    soft, _, hard, _, _ = tables_of("cifar100", lines(rows))
    assert {"GoldOnly()", "SLaM()"} <= set(body(soft))
    assert {"GoldOnly()", "SLaM(hard=True)"} <= set(body(hard))
    assert "SLaM()" not in body(hard)


def test_the_papers_figures() -> None:
    figures = paper_figures()
    assert len(figures) == 312
    assert str(figures["cifar100", "soft", 5000, "SLaM"]) == "42.72 ± 0.30"
    assert figures["celeba", "soft", 3256, "Teacher"].std is None
    assert ("imagenet", "soft", 64058, "Vanilla") in figures
    assert ("imdb", "soft", 500, "SLaM") in figures
    hard = [
        name for dataset, kind, _, name in paper_figures() if (dataset, kind) == ("cifar10", "hard")
    ]
    assert hard[-1] == "SLaM"
    (with_other_loss,) = lines([row("SLaM(base=TaylorCE(2))")])
    (second,) = lines([row(generation=2)])
    assert with_other_loss.paper is None
    assert second.paper is None


@pytest.mark.parametrize(
    "recipe", ["ablations", "cifar100 student=ResNetCifar(depth=20)", "cifar100 batch=9 labels=x"]
)
def test_other_students_are_not_set_beside_the_papers(recipe: str) -> None:
    found = lines([row(recipe=recipe)])
    assert found[0].paper is None
    table = size_table(recipe, "soft", found, "last")
    assert list(body(table)) == ["the teacher", "SLaM()"]
    assert "paper" not in table.header
    assert "paper" not in detail_table(recipe, found).header


def test_markdown_and_latex() -> None:
    table = PaperTable("a_b", ("x", "y"), (("m|n", Bold("4 ± 1")),), ("5 % of it",))
    assert "| m\\|n | **4 ± 1** |" in table.markdown()
    latex = table.latex()
    assert r"\textbf{4 $\pm$ 1} \\" in latex
    assert r"\caption{a\_b. 5 \% of it}" in latex
    assert escape_latex("a\\b{c}^~") == (
        r"a\textbackslash{}b\{c\}\textasciicircum{}\textasciitilde{}"
    )


def test_csv_holds_every_number() -> None:
    rows = [row(trial=0), row(trial=1, accuracy=42.0), row("Consistency(inner=None)", 43.0)]
    slam, free = csv.DictReader(csv_text(lines(rows)).splitlines())
    assert float(slam["last_mean"]) == 41.0
    assert float(slam["last_std"]) == pytest.approx(2**0.5, abs=1e-4)
    assert (slam["last_n"], slam["paper_accuracy"]) == ("2", "42.7200")
    assert (free["last_std"], free["paper_accuracy"], free["distillation"]) == ("", "", "")


def test_csv_holds_no_formulas() -> None:
    table = csv_text(lines([row(dataset="=1+1", recipe="@x, y")]))
    (line,) = csv.DictReader(table.splitlines())
    assert (line["dataset"], line["recipe"], line["last_mean"]) == ("'=1+1", "'@x, y", "40.0000")


def many_rows() -> list[object]:
    methods = dict.fromkeys(
        [
            *PAPER_SOFT,
            *OTHER_LOSSES,
            *FIDELITY,
            "Temperature(2, 1)",
            "Temperature(2, 1, inner=SLaM())",
        ]
    )
    return [
        row(m if isinstance(m, str) else repr(m), 30.0 + i + size / 1000, labeled=size,
            teacher_accuracy=size / 200)
        for size in (5000, 10000)
        for i, m in enumerate(methods)
    ]  # fmt: skip


def test_everything_is_written(tmp_path: Path) -> None:
    written = publish(many_rows(), tmp_path)
    assert [path.name for path in written] == ["cifar100.md", "cifar100.tex", "cifar100.csv"]
    names = {path.stem for path in (tmp_path / "figures").glob("*.png")}
    kinds = ("soft", "other-losses", "fidelity", "temperature", "gain")
    rankings = {f"cifar100-soft-60epochs-{size}labels" for size in (5000, 10000)}
    assert names == {f"cifar100-{kind}-60epochs" for kind in kinds} | rankings
    for path in (tmp_path / "figures").glob("*.png"):
        greys = Image.open(path).convert("L").histogram()
        assert sum(count > 0 for count in greys) > 10
        assert path.with_suffix(".svg").read_text().startswith("<?xml")


def test_the_same_rows_give_the_same_bytes(tmp_path: Path) -> None:
    for name in ("one", "two"):
        publish([row("GoldOnly()")], tmp_path / name)
    one, two = (
        {path.name: path.read_bytes() for path in (tmp_path / name).rglob("*.*")}
        for name in ("one", "two")
    )
    assert one == two
    assert len(one) == 5


def test_no_figure_without_points() -> None:
    [(name, _)] = figures_of("x", lines([row("GoldOnly()")]))
    assert name == "free-60epochs-5000labels"
    with pytest.raises(InputError, match="no results rows"):
        publish([], "nowhere")


def test_nearest_mean() -> None:
    x, values = np.array([0.0, 1.0, 2.0, 10.0]), np.array([0.0, 1.0, 1.0, 0.0])
    np.testing.assert_allclose(nearest_mean(x, values, np.array([0.1, 9.0]), 2), [0.5, 0.5])


def test_one_size_is_drawn_as_a_ranking() -> None:
    rows = [row("Vanilla()", 38.0), row("SLaM()", 42.0), row("SLaM()", 44.0, trial=1)]
    [(_, figure)] = figures_of("x", lines(rows))
    names = [label.get_text() for label in figure.axes[0].get_yticklabels()]
    assert names == ["Vanilla() (1)", "SLaM() (2)"]  # the best on top
    dots = figure.axes[0].containers[0].lines[0]
    assert list(dots.get_xdata()) == [38.0, 43.0]


def test_a_line_has_two_sizes_and_the_teacher_beside_it() -> None:
    rows = [
        *(row("Vanilla()", 38.0, labeled=size, teacher_accuracy=36.0) for size in (5000, 10000)),
        row("SLaM()", 42.0, teacher_accuracy=36.0),
    ]
    figures = dict(figures_of("x", lines(rows)))
    assert set(figures) == {f"soft-60epochs{end}" for end in ("", "-5000labels", "-10000labels")}
    drawn = figures["soft-60epochs"]
    named = [text.get_text() for text in drawn.legends[0].get_texts()]
    assert "SLaM()" not in named
    assert {"Vanilla()", "the teacher"} <= set(named)


def test_gold_alone_makes_no_figure_of_hard_labels() -> None:
    rows = [row("GoldOnly()", labeled=size) for size in (5000, 10000)]
    rows += [row("Vanilla(hard=True)", distillation="hard"), row("Vanilla()", labeled=10000)]
    names = {name for name, _ in figures_of("x", lines(rows))}
    assert names == {"hard-60epochs-5000labels", "soft-60epochs-10000labels"}


def test_gain_is_drawn_against_different_teachers_only() -> None:
    def names(better: float) -> list[str]:
        rows = [
            row(method, 40.0 + i, labeled=size, teacher_accuracy=teacher)
            for size, teacher in ((5000, 36.0), (10000, 36.0 + better))
            for i, method in enumerate(("Vanilla()", "SLaM()"))
        ]
        return [name for name, _ in figures_of("x", lines(rows))]

    assert "gain-60epochs" in names(9.0)
    assert "gain-60epochs" not in names(0.01)  # one store, asked about another A


def test_gain_compares_within_the_trials_that_both_have() -> None:
    """Another trial's luck of the split is no lead."""
    rows = [
        row(method, accuracy, trial=trial, labeled=size, teacher_accuracy=teacher)
        for size, teacher in ((5000, 36.0), (10000, 50.0))
        for method, trial, accuracy in (
            ("Vanilla()", 0, 40.0),
            ("SLaM()", 0, 41.0),
            ("SLaM()", 1, 60.0),
        )
    ]
    figure = dict(figures_of("x", lines(rows)))["gain-60epochs"]
    dots = figure.axes[0].containers[0].lines[0]
    assert list(dots.get_ydata()) == [1.0, 1.0]
    assert [text.get_text() for text in figure.axes[0].texts] == ["(1)", "(1)"]


def test_arms_and_generations_are_not_taken_for_the_method_itself() -> None:
    rows = [
        row(method, accuracy, labeled=size, teacher_accuracy=teacher, **other)
        for size, teacher in ((5000, 36.0), (10000, 50.0))
        for method, accuracy, other in (
            ("Vanilla()", 40.0, {}),
            ("SLaM()", 44.0, {}),
            ("TaylorCE()", 41.0, {}),
            ("SLaM(base=TaylorCE(2))", 42.0, {}),
            ("SLaM()", 30.0, {"recipe": "cifar100 / V out"}),
            ("SLaM()", 60.0, {"generation": 2}),
        )
    ]
    rows.append(row("PolyLoss()", 39.0, labeled=17500))
    figures = dict(figures_of("cifar100", lines(rows)))
    assert list(figures["gain-60epochs"].axes[0].containers[0].lines[0].get_ydata()) == [4.0, 4.0]
    panels = figures["other-losses-60epochs"].axes
    assert [axes.get_title() for axes in panels] == ["cross-entropy", "Taylor-CE, order 2"]
    assert list(panels[0].containers[1].lines[0].get_ydata()) == [44.0, 44.0]


def test_a_line_breaks_where_a_size_was_not_run() -> None:
    sizes = (5000, 10000, 17500)
    rows = [row("Vanilla()", 38.0, labeled=size) for size in sizes]
    rows += [row("SLaM()", 42.0, labeled=size) for size in (5000, 17500)]
    axes = dict(figures_of("x", lines(rows)))["soft-60epochs"].axes[0]
    drawn = {c.get_label(): list(c.lines[0].get_ydata()) for c in axes.containers}
    assert drawn["Vanilla()"] == [38.0] * 3
    assert drawn["SLaM()"][0] == drawn["SLaM()"][2] == 42.0
    assert np.isnan(drawn["SLaM()"][1])


def test_tables_are_read_from_floors_to_later_generations() -> None:
    rows = [
        row("SLaM()", epochs=160),
        row("Consistency(SLaM())", generation=2),
        row("Consistency(SLaM())"),
        row("GCE()"),
        row("SLaM()"),
        row("Vanilla()"),
        row("Consistency(None)"),
        row("GoldOnly()"),
    ]
    in_order = [
        "GoldOnly()",
        "Consistency(inner=None)",
        "Vanilla()",
        "SLaM()",
        "GCE()",
        "Consistency(inner=SLaM())",
        "Consistency(inner=SLaM()), generation 2",
        "SLaM()",
    ]
    names = [line.name for line in in_reading_order(lines([_named(r) for r in rows]))]
    assert names == in_order


def _named(of: Row) -> Row:
    """With the method's full name, as runs write it."""
    return replace(of, method=repr(parse(of.method)))


def test_leads_over_vanilla_are_those_within_trials() -> None:
    rows = [
        *(row("Vanilla()", 40.0 + 5 * trial, trial=trial) for trial in range(2)),
        *(row("SLaM()", 41.0 + 6 * trial, trial=trial) for trial in range(3)),
        row("Vanilla(hard=True)", 30.0),
        row("SLaM(hard=True)", 29.0),
        row("SLaM()", 50.0, recipe="cifar100 / V out"),
        row("SLaM()", 50.0, epochs=160),
        row("Vanilla()", 70.0, epochs=160, generation=2),
    ]
    table = detail_table("x", lines(rows))
    place = table.header.index("over vanilla")
    told = [(line[0], line[place]) for line in table.rows]
    assert told == [
        ("Vanilla()", ""),
        ("SLaM()", "+1.50 ± 0.71 (2)"),
        ("Vanilla(hard=True)", ""),
        ("SLaM(hard=True)", "-1.00 (1)"),
        ("SLaM(), V out", ""),  # no vanilla of its kind
        ("SLaM()", ""),  # the vanilla of its length learned from students
        ("Vanilla(), generation 2", ""),
    ]
    assert "within the trials" in table.markdown()
    assert "over vanilla" not in detail_table("x", lines([row("SLaM()")])).header
