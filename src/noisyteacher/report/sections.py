"""The sections of a page: the comparison, the teacher's quality, details and provenance."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

from noisyteacher.bench import gold_sizes
from noisyteacher.bench.result_lines import HEADER, Line, cells
from noisyteacher.report.openings import make_opening
from noisyteacher.report.page_source import (
    ACCURACIES_IN_WORDS,
    PageSource,
    caption,
    facts,
    plain,
    progress,
)
from noisyteacher.report.parts import Chart, Page, Section, Table, short_name, short_names
from noisyteacher.runs.comparison import Comparison, confused_classes, data_address

_MOST_CLASS_ROWS = 200
_OFTEN_SHARED = ("passes", "labeled", "epochs", "n")


def make_page(source: PageSource, live: bool = False, charts: bool = True) -> Page:
    """All that is known of a run, or of one audit; without ``charts`` in tables and pictures."""
    draw = _student_charts() if charts else None
    sections: list[Section] = []
    if source.rows:
        sections.append(_comparison(source, draw))
    if source.sizes:
        sections.append(_sizes(source, draw))
    for i, (heading, audit) in enumerate(source.audits.items()):
        sections += [
            _audit(heading, audit, charts, folded=i > 0, advises=not source.about),
            _classes(heading, audit, folded=i > 0),
        ]
    if draw is None:  # what the run drew while it went on
        shown = _captioned(path for path in source.pictures if path.stem != "gold-rows")
        sections.append(Section("Pictures", pictures=shown))
    else:
        sections.append(Section("Training", charts=draw.draw_curves(source.rows)))
    if source.comparison is not None and draw is not None:
        sections.append(_confusions(source.comparison, draw))
    if source.comparison is not None:
        sections.append(_disagreements(source.comparison))
    log = source.log
    sections.append(
        Section("Provenance", commands=log.commands, facts=facts(source), items=log.notes)
    )
    shown_sections = [section for section in sections if not section.is_empty]
    told = progress(source) if live else ""
    opening = make_opening(source, live)
    return Page(source.title, _kind(source), opening, shown_sections, live, told)


def _kind(source: PageSource) -> str:
    if source.sizes:
        return "Demo"
    if source.about or plain(source.recipe.get("name", "")) == "distill":
        return "Distillation"
    return "Benchmark" if source.recipe or source.rows else "Audit"


def _student_charts() -> ModuleType:
    """Its functions need the extra ``[report]``."""
    from noisyteacher.report import charts

    return charts


def _comparison(source: PageSource, draw: ModuleType | None) -> Section:
    found, candidates = source.lines, _candidates(source.about)
    tested = any(cell is not None for line in found for cell in line.accuracy.values())
    if candidates:
        return Section("Comparison", tables=candidates)
    if not tested:
        return Section("Comparison", texts=["No student was measured on test rows."])
    charts = []
    if draw is not None:
        # One dot plot for several sizes would mix them up.
        several = len({line.labeled for line in found}) > 1
        drawn = draw.draw_by_size(found) if several else draw.draw_accuracies(found)
        charts = [] if drawn is None else [drawn]
    table = _accuracies(found)
    return Section("Comparison", texts=[ACCURACIES_IN_WORDS], tables=[table], charts=charts)


def _accuracies(found: list[Line]) -> Table:
    """What all lines share stands in the caption: a phone has little room."""
    short = short_names(line.name for line in found)
    columns = dict(zip(HEADER, zip(*map(cells, found), strict=True), strict=True))
    columns["method"] = tuple(short[line.name] for line in found)
    shared = {n: columns.pop(n)[0] for n in _OFTEN_SHARED if len(set(columns[n])) == 1}
    common = "".join(f", {name} {value}" for name, value in shared.items() if value)
    table = list(zip(*columns.values(), strict=True))
    best = tuple(_best_lines(found))
    return Table(
        f"Test accuracy in percent{common}",
        tuple(columns),
        table,
        [line.name for line in found],
        best,
    )


def _best_lines(found: list[Line]) -> Iterator[int]:
    """Positions of the best line of each number of gold labels, where several compete."""
    for size in dict.fromkeys(line.labeled for line in found):
        group = [i for i, x in enumerate(found) if x.labeled == size and x.accuracy["last"]]
        if len(group) > 1:
            yield max(group, key=lambda i: found[i].mean())


def _candidates(about: dict[str, Any]) -> list[Table]:
    """A distillation compares students on held-out gold rows, with or without a test part."""
    if "table" in about:
        told = about["table"]
        full = [str(row[0]) for row in told["rows"]]
        short = short_names(full)
        rows = [(short[str(row[0])], *map(str, row[1:])) for row in told["rows"]]
        scores = [-1.0 if row[0] == "the teacher" else float(row[1]) for row in rows]
        best = tuple(i for i, score in enumerate(scores) if score == max(scores))
        return [Table(told["title"], tuple(told["header"]), rows, full, best)]
    rows = [  # of a student that 0.1.0 made
        (
            str(one["candidate"]),
            f"{one['accuracy_on_S']:.2f}",
            "" if one["accuracy_on_test"] is None else f"{one['accuracy_on_test']:.2f}",
            f"{one['seconds']:.1f}",
            "yes" if one["kept"] else "",
        )
        for one in about.get("candidates", ())
    ]
    header = ("student", "S, %", "test, %", "seconds", "kept")
    return [Table("Students compared on the selection set S", header, rows)] if rows else []


def _sizes(source: PageSource, draw: ModuleType | None) -> Section:
    """A demo's students with few and with many gold rows."""
    header, rows = gold_sizes.sizes_table(source.sizes)
    texts = [gold_sizes.sizes_verdict(source.sizes)]
    table = Table(gold_sizes.sizes_title(source.sizes), tuple(header), [tuple(row) for row in rows])
    if draw is not None:
        points, teacher = gold_sizes.summarize(source.sizes), gold_sizes.teacher_mean(source.sizes)
        chart = draw.draw_gold_sizes(points, teacher, table)
        return Section("When a teacher pays off", texts=texts, charts=[chart])
    shown = _captioned(path for path in source.pictures if path.stem == "gold-rows")
    return Section("When a teacher pays off", texts=texts, tables=[table], pictures=shown)


def _captioned(pictures: Iterable[Path]) -> list[tuple[str, str]]:
    return [(caption(path), data_address("png", path.read_bytes())) for path in pictures]


# -- the audit ------------------------------------------------------------------------------------


def _audit(
    heading: str, audit: dict[str, Any], charts: bool, *, folded: bool, advises: bool
) -> Section:
    """The teacher's quality; ``advises`` is False where the students were trained and compared."""
    numbers, advice = audit["numbers"], audit["recommendation"]
    drawn: list[Chart] = []
    if charts:
        from noisyteacher.report.audit_charts import draw_audit

        drawn = draw_audit(numbers)
    compared = (numbers.get("comparison") or {}).get("verdict")  # which opens the page
    told = [one for one in audit["findings"] if one["text"] != compared]
    return Section(
        heading,
        texts=[f"The audit recommends {advice['method']}."] if advises else [],
        facts=_audit_facts(numbers),
        warnings=[one["text"] for one in told if one["warning"]],
        items=[
            *(one["text"] for one in told if not one["warning"]),
            *(advice["reasons"] if advises else ()),
        ],
        charts=drawn,
        folded=folded,
    )


def _audit_facts(numbers: dict[str, Any]) -> list[tuple[str, str]]:
    quality, trust = numbers["quality"], numbers["trust"]
    found = [
        ("Teacher", numbers["teacher"] or "unnamed"),
        ("Gold rows and pool", f"{numbers['val_rows']:,} and {numbers['pool_rows']:,}"),
        ("Accuracy on the gold rows", _interval(quality["accuracy"], ".1%")),
        ("Best temperature", _interval(quality["temperature"], ".2f")),
    ]
    for key, name in (
        ("log_loss", "Log-loss"),
        ("brier", "Brier score"),
        ("ece", "Calibration error"),
    ):
        after = f"; at that temperature {quality['after'][key]['value']:.3f}"
        found.append((name, _interval(quality["before"][key], ".3f") + after))
    whose = "the pool" if numbers["pool_rows"] else "the gold rows"
    found += [
        (f"Mean α over {whose}", _interval(trust["mean_alpha"], ".3f")),
        (f"Share of {whose} at the lower bound", _interval(trust["share_at_lower_bound"], ".1%")),
    ]
    if numbers["pool_rows"]:
        worth = _interval(trust["effective_labels"], ",.0f")
        found.append(("Equivalent number of gold labels", worth))
    if numbers.get("probe") is not None:  # of an audit that 0.1.0 made
        found.append(("Gold labels alone", _interval(numbers["probe"]["accuracy"], ".1%")))
    if numbers.get("comparison") is not None:
        found.append(("Without the teacher", _interval(numbers["comparison"]["gold_only"], ".1%")))
    return found


def _interval(value: dict[str, float], form: str) -> str:
    number, low, high = (format(value[end], form) for end in ("value", "low", "high"))
    return f"{number} ({low} to {high})"


def _classes(heading: str, audit: dict[str, Any], folded: bool) -> Section:
    """Least right first."""
    classes = audit["numbers"]["per_class"]["classes"]
    seen = [c for c in classes if c["gold_rows"] or c["predicted_rows"]]
    worst = sorted(seen, key=lambda c: 2.0 if c["precision"] is None else c["precision"])
    rows = [
        (
            c["name"],
            str(c["gold_rows"]),
            str(c["predicted_rows"]),
            *(_percent(c[key]) for key in ("precision", "recall", "gold_share", "pool_share")),
            c["confused_with"] or "",
        )
        for c in worst[:_MOST_CLASS_ROWS]
    ]
    header = (
        *("class", "gold rows", "predicted", "precision", "recall"),
        *("share of gold rows", "share of the pool", "most often confused with"),
    )
    left_out = len(worst) - len(rows)
    more = f"; {left_out} classes with higher precision are left out" if left_out else ""
    table = Table(
        f"The teacher on the gold rows and in the pool, lowest precision first{more}", header, rows
    )
    return Section(f"{heading} by class", tables=[table], folded=folded)


def _percent(share: float | None) -> str:
    return "" if share is None else f"{share:.1%}"


# -- teacher and student --------------------------------------------------------------------------


def _confusions(comparison: Comparison, draw: ModuleType) -> Section:
    classes = comparison.classes
    shown = confused_classes(comparison.confusions, len(classes))
    drawn = [draw.draw_confusion(one, classes, shown) for one in comparison.confusions]
    charts = [chart for chart in drawn if chart is not None]
    texts = [f"The student is {short_name(comparison.student)}."] if charts else []
    return Section("Confusion matrices", texts=texts, charts=charts)


def _disagreements(comparison: Comparison) -> Section:
    share = comparison.disagreements / max(1, comparison.rows)
    text = (
        f"Teacher and student ({short_name(comparison.student)}) disagree on "
        f"{comparison.disagreements:,} ({share:.1%}) of {comparison.rows:,} rows of "
        f"{comparison.rows_of}."
    )
    if len(comparison.examples) < comparison.disagreements:
        text += f" These are the {len(comparison.examples)} on which the teacher is most confident."
    return Section("Disagreements", texts=[text], comparison=comparison)
