"""How pages open: the verdict in one sentence, and the figures that it rests on."""

from __future__ import annotations

from typing import Any

from noisyteacher.bench.bench_verdict import bench_verdict, best_lines
from noisyteacher.bench.result_lines import Line
from noisyteacher.report.page_source import PageSource
from noisyteacher.report.parts import KeyFigure, Opening, short_name

_NAMES = {"teacher": "Teacher", "gold_only": "Without the teacher", "student": "Student"}


def make_opening(source: PageSource, live: bool = False) -> Opening:
    """Of a distillation, a benchmark or an audit, whichever the page is of."""
    if "figures" in source.about:
        return _of_distillation(source.about)
    if "verdict" in source.about:
        return Opening(str(source.about["verdict"]))
    if source.rows:
        return _of_bench(source)
    if source.audits:
        return _of_audit(next(iter(source.audits.values())))
    return Opening("No student has finished yet." if live else "There are no results.")


def _of_distillation(about: dict[str, Any]) -> Opening:
    figures = [
        KeyFigure(_NAMES[key], *about["figures"][key])
        for key in _NAMES
        if about["figures"].get(key) is not None
    ]
    headline = str(about.get("headline") or about["verdict"])
    # The sentence before the headline has the figures.
    rest = str(about["verdict"]).partition(headline)[2].strip()
    metric = {"macro_f1": "Macro-F1"}.get(about.get("metric", ""), "Accuracy")
    measured = f"{metric} on the same held-out gold rows, with 95% intervals"
    return Opening(headline, figures, measured, [rest] if rest else [])


def _of_bench(source: PageSource) -> Opening:
    found = source.lines
    headline = bench_verdict(found) or "These are the results so far."
    sizes = sorted({line.labeled for line in found})
    found = [line for line in found if line.labeled == sizes[0]]
    floor, best = best_lines(found)
    teacher = next((x.teacher_accuracy for x in found if x.teacher_accuracy is not None), None)
    figures = [] if teacher is None else [KeyFigure("Teacher", teacher)]
    figures += [] if floor is None else [_figure("Best without the teacher", floor)]
    figures += [] if best is None else [_figure(f"Best student: {short_name(best.name)}", best)]
    several = any(figure.low is not None for figure in figures)
    spread = ", with 95% intervals over trials" if several else ", of one trial"
    at = f", with {sizes[0]:,} gold labels" if len(sizes) > 1 else ""
    return Opening(headline, figures, f"Test accuracy after the last epoch{at}{spread}")


def _figure(name: str, line: Line) -> KeyFigure:
    cell = line.accuracy["last"]
    assert cell is not None
    if cell.half_width is None:
        return KeyFigure(name, cell.mean)
    return KeyFigure(name, cell.mean, max(0.0, cell.low), min(100.0, cell.high))


def _of_audit(audit: dict[str, Any]) -> Opening:
    numbers, advice = audit["numbers"], audit["recommendation"]
    compared = numbers.get("comparison") or {}
    probe = (numbers.get("probe") or {}).get("accuracy")
    shares = {
        "teacher": numbers["quality"]["accuracy"],
        "gold_only": compared.get("gold_only") or probe,
        "student": compared.get("student"),
    }
    figures = [
        KeyFigure(_NAMES[key], *(100 * share[end] for end in ("value", "low", "high")))
        for key, share in shares.items()
        if share is not None
    ]
    right = figures[0]
    headline = (
        f"The teacher is right on {right.value:.1f}% ({right.interval}) of "
        f"{numbers['val_rows']:,} gold rows; the audit recommends {advice['method']}."
    )
    measured = "Accuracy on the gold rows, with 95% intervals"
    return Opening(headline, figures, measured, [compared["verdict"]] if compared else [])
