"""The sections of a page, each only where the run has left its data."""

from __future__ import annotations

from typing import Any

from noisyteacher.bench.result_lines import HEADER, cells
from noisyteacher.report.accuracy_charts import draw_accuracies, draw_by_size
from noisyteacher.report.audit_charts import (
    draw_alpha,
    draw_drift,
    draw_reliability,
    draw_shortlists,
    draw_top_k,
)
from noisyteacher.report.comparison import Comparison
from noisyteacher.report.confusion_charts import confused_classes, draw_confusion
from noisyteacher.report.curve_charts import draw_curves
from noisyteacher.report.page import data_address
from noisyteacher.report.parts import Chart, Page, Section, Table
from noisyteacher.report.source import Source
from noisyteacher.report.words import ACCURACIES_IN_WORDS, caption, facts, progress

_MOST_CLASS_ROWS = 200
_OFTEN_SHARED = ("passes", "labelled", "epochs", "n")


def make_page(source: Source, live: bool = False) -> Page:
    """All that is known of a run, or of one audit."""
    sections: list[Section | None] = [_done(source, live)]
    if source.rows:
        sections += [_results(source), _training(source)]
    if source.pictures and not source.audits:
        sections.append(_pictures(source))
    for i, (heading, audit) in enumerate(source.audits.items()):
        sections += [_audit(heading, audit, folded=i > 0), _classes(heading, audit, folded=i > 0)]
    if source.comparison is not None:
        sections += [_confusions(source.comparison), _disagreements(source.comparison)]
    shown = [section for section in sections if section is not None]
    return Page(source.title, shown, live, progress(source) if live else "")


def _done(source: Source, live: bool) -> Section:
    texts = [str(source.about["verdict"])] if "verdict" in source.about else []
    if live and not source.rows and not source.audits:
        texts.append("No student has finished yet; this page refreshes by itself.")
    return Section(
        "What was done",
        texts=texts,
        commands=source.story.commands,
        facts=facts(source),
        warnings=source.story.notes,
    )


def _results(source: Source) -> Section:
    found = source.lines
    by_size = draw_by_size(found)
    # One dot plot for several sizes would mix them up.
    chart = by_size if len({line.labeled for line in found}) > 1 else draw_accuracies(found)
    tested = any(cell is not None for line in found for cell in line.accuracy.values())
    candidates = _candidates(source.about)
    if not tested and candidates:
        return Section("Results", tables=candidates)
    return Section(
        "Results",
        texts=[ACCURACIES_IN_WORDS],
        tables=[_accuracies([cells(line) for line in found]), *candidates],
        charts=[] if chart is None else [chart],
    )


def _accuracies(rows: list[tuple[str, ...]]) -> Table:
    """What all lines share stands in the caption: a phone has little room."""
    columns = dict(zip(HEADER, zip(*rows, strict=True), strict=True))
    shared = {n: columns.pop(n)[0] for n in _OFTEN_SHARED if len(set(columns[n])) == 1}
    told = "".join(f", {name} {value}" for name, value in shared.items() if value)
    table = list(zip(*columns.values(), strict=True))
    return Table(f"Test accuracy in percent{told}", tuple(columns), table)


def _candidates(about: dict[str, Any]) -> list[Table]:
    """A distillation judges on S, with or without a test part."""
    rows = [
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
    return [Table("Students as judged on the selection set S", header, rows)] if rows else []


def _training(source: Source) -> Section | None:
    charts = draw_curves(source.rows)
    return Section("Training", charts=charts) if charts else None


def _pictures(source: Source) -> Section:
    """What a run drew while it went on; an audit shows more."""
    shown = [(caption(path), data_address("png", path.read_bytes())) for path in source.pictures]
    return Section("Pictures", pictures=shown)


# -- the audit ------------------------------------------------------------------------------------


def _audit(heading: str, audit: dict[str, Any], folded: bool) -> Section:
    numbers, advice = audit["numbers"], audit["recommendation"]
    drawn: list[Chart | None] = [
        draw_alpha(numbers),
        draw_reliability(numbers),
        draw_shortlists(numbers),
        draw_top_k(numbers),
        draw_drift(numbers, "margin"),
        draw_drift(numbers, "entropy"),
    ]
    return Section(
        heading,
        texts=[f"The audit recommends {advice['method']}."],
        facts=_audit_facts(numbers),
        warnings=[one["text"] for one in audit["findings"] if one["warning"]],
        items=[
            *(one["text"] for one in audit["findings"] if not one["warning"]),
            *advice["reasons"],
        ],
        charts=[chart for chart in drawn if chart is not None],
        folded=folded,
    )


def _audit_facts(numbers: dict[str, Any]) -> list[tuple[str, str]]:
    quality, trust = numbers["quality"], numbers["trust"]
    told = [
        ("teacher", numbers["teacher"] or "unnamed"),
        ("rows of V and pool", f"{numbers['val_rows']:,} and {numbers['pool_rows']:,}"),
        ("accuracy on V", _interval(quality["accuracy"], ".1%")),
        ("temperature on V", _interval(quality["temperature"], ".2f")),
    ]
    for key, name in (("log_loss", "log-loss"), ("brier", "Brier score"), ("ece", "ECE")):
        after = f"; at that temperature {quality['after'][key]['value']:.3f}"
        told.append((name, _interval(quality["before"][key], ".3f") + after))
    told += [
        ("mean α", _interval(trust["mean_alpha"], ".3f")),
        ("pool at the lower bound", _interval(trust["share_at_lower_bound"], ".1%")),
        ("worth in gold labels", _interval(trust["effective_labels"], ",.0f")),
    ]
    if numbers["probe"] is not None:
        told.append(("gold labels alone", _interval(numbers["probe"]["accuracy"], ".1%")))
    return told


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
            _percent(c["precision"]),
            _percent(c["recall"]),
            _percent(c["gold_share"]),
            _percent(c["pool_share"]),
            c["confused_with"] or "",
        )
        for c in worst[:_MOST_CLASS_ROWS]
    ]
    header = (
        *("class", "rows of V", "said", "right when said", "found"),
        *("share of V", "said share of pool", "often is"),
    )
    left_out = len(worst) - len(rows)
    more = f"; {left_out} classes with more right answers are left out" if left_out else ""
    table = Table(f"On V and in the pool, least right first{more}", header, rows)
    return Section(f"{heading}, class by class", tables=[table], folded=folded)


def _percent(share: float | None) -> str:
    return "" if share is None else f"{share:.1%}"


# -- teacher and student --------------------------------------------------------------------------


def _confusions(comparison: Comparison) -> Section | None:
    shown = confused_classes(comparison.confusions, len(comparison.classes))
    drawn = [draw_confusion(one, comparison.classes, shown) for one in comparison.confusions]
    charts = [chart for chart in drawn if chart is not None]
    if not charts:
        return None
    return Section("Mistakes", texts=[f"The student is {comparison.student}."], charts=charts)


def _disagreements(comparison: Comparison) -> Section:
    share = comparison.disagreements / max(1, comparison.rows)
    text = (
        f"Teacher and student ({comparison.student}) disagree on {comparison.disagreements:,} of "
        f"{comparison.rows:,} rows of {comparison.rows_of} ({share:.1%})."
    )
    if len(comparison.examples) < comparison.disagreements:
        text += f" The {len(comparison.examples)} of which the teacher is surest:"
    return Section("Where teacher and student disagree", texts=[text], comparison=comparison)
