"""Each accuracy of a table is judged in its own column, and by its own rows."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from noisyteacher.bench.bench_verdict import bench_verdict, best_lines
from noisyteacher.bench.paper_tables import Bold, PaperTable, detail_table, size_table
from noisyteacher.bench.result_lines import TrialMean, in_reading_order, lines
from noisyteacher.runs import Row
from results_rows import row


def three(method: str, last: float, selected: float, best_test: float, **more: Any) -> Row:
    accuracy = {"last": last, "selected": selected, "best_test": best_test}
    return replace(row(method, **more), accuracy=accuracy)


# The best by each of the three accuracies is another one, and so is who is below gold only.
ROWS = [
    three("GoldOnly()", 50.0, 40.0, 55.0),
    three("SLaM()", 52.0, 39.0, 56.0),
    three("Vanilla()", 49.0, 47.0, 57.0),
    three("TaylorCE(order=2)", 51.0, 43.0, 60.0),
]


def cells_of(table: PaperTable, column: str) -> dict[str, str]:
    place = table.header.index(column)
    return {line[0]: line[place] for line in table.rows}


def bold(cells: dict[str, str]) -> list[str]:
    return [name for name, cell in cells.items() if isinstance(cell, Bold)]


def test_a_column_of_all_accuracies_has_its_own_best_and_its_own_marks() -> None:
    table = detail_table("cifar100", lines(ROWS))
    last = cells_of(table, "last epoch")
    assert last["Vanilla()"] == "49.00†"
    assert last["SLaM()"] == "52.00"
    assert bold(last) == ["SLaM()"]
    selected = cells_of(table, "selected on S")
    assert selected["SLaM()"] == "39.00†"
    assert selected["Vanilla()"] == "47.00"
    assert bold(selected) == ["Vanilla()"]
    best = cells_of(table, "best test epoch")
    assert not any("†" in cell for cell in best.values())
    assert bold(best) == ["TaylorCE(order=2)"]


def test_a_table_of_sizes_shows_the_accuracy_of_its_title() -> None:
    found = lines(ROWS)
    expected = {
        "last": ("52.00 (1)", "49.00† (1)", "SLaM()"),
        "selected": ("39.00† (1)", "47.00 (1)", "Vanilla()"),
        "best_test": ("56.00 (1)", "57.00 (1)", "TaylorCE(order=2)"),
    }
    for accuracy, (slam, vanilla, best) in expected.items():
        shown = cells_of(size_table("cifar100", "soft", found, accuracy), "5000 labels")
        assert (shown["SLaM()"], shown["Vanilla()"], bold(shown)) == (slam, vanilla, [best])


def test_macro_f1_is_a_column_of_its_own() -> None:
    found = lines([row(macro_f1=33.0), row("Vanilla()", macro_f1=None)])
    shown = cells_of(detail_table("cifar100", found), "macro F1")
    assert shown == {"SLaM()": "33.00", "Vanilla()": ""}


def test_gold_only_of_another_length_or_size_is_no_floor() -> None:
    slam, better = row(accuracy=40.0), {"method": "GoldOnly()", "accuracy": 50.0}
    for other in ({"epochs": 160}, {"labeled": 10000}, {"gold_repeat": 5}):
        table = size_table("cifar100", "soft", lines([slam, row(**better, **other)]), "last")
        assert not any("†" in cell for line in table.rows for cell in line)
    table = size_table("cifar100", "soft", lines([slam, row(**better)]), "last")
    assert cells_of(table, "5000 labels")["SLaM()"] == "40.00† (1)"


def test_later_generations_stand_below_all_first_ones() -> None:
    rows = [row(generation=2), row("Consistency(inner=None)", generation=2), row("Vanilla()")]
    names = [line.name for line in in_reading_order(lines([*rows, row("GoldOnly()"), row()]))]
    assert names == [
        "GoldOnly()",
        "Vanilla()",
        "SLaM()",
        "Consistency(inner=None), generation 2",
        "SLaM(), generation 2",
    ]


def test_the_verdict_compares_last_epochs() -> None:
    """Not the best test epochs, by which others would be the best."""
    rows = [
        *(three("GoldOnly()", 50.0, 50.0, 50.0, trial=t) for t in range(2)),
        *(three("GoldOnly()", 45.0, 45.0, 90.0, trial=t, epochs=160) for t in range(2)),
        *(three("SLaM()", 60.0 + t, 50.0, 50.0, trial=t) for t in range(2)),
        *(three("Vanilla()", 45.0, 45.0, 90.0, trial=t) for t in range(2)),
    ]
    floor, best = best_lines(lines(rows))
    assert floor is not None
    assert best is not None
    assert (floor.epochs, floor.mean()) == (60, 50.0)
    assert (best.name, best.mean()) == ("SLaM()", 60.5)


def test_a_student_without_a_teacher_is_no_use_of_the_teacher() -> None:
    views = row("Consistency(inner=None)", 90.0)
    floor, best = best_lines(lines([views, row("GoldOnly()", 50.0), row("SLaM()", 60.0)]))
    assert floor is not None
    assert best is not None
    assert (floor.name, best.name) == ("GoldOnly()", "SLaM()")


def test_a_lead_within_its_interval_is_no_measurable_difference() -> None:
    rows = [
        *(row("GoldOnly()", value, trial=t) for t, value in enumerate((60.0, 66.0, 62.0))),
        *(row("SLaM()", value, trial=t) for t, value in enumerate((64.0, 63.0, 65.0))),
    ]
    assert bench_verdict(lines(rows)).startswith(
        "The teacher's labels made no measurable difference: SLaM() reaches 64.00% and gold labels "
        "alone 62.67%, +1.33 points (-"
    )


def test_a_single_trial_has_an_endless_interval() -> None:
    single = TrialMean.of([40.0])
    assert (single.low, single.high) == (-np.inf, np.inf)
