"""The page with charts: its sections, and one HTML file that needs no network.

Needs the extra ``[report]``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import lru_cache
from importlib.resources import files
from typing import Any

import altair as alt
import jinja2
import orjson
import vl_convert

from noisyteacher import __version__
from noisyteacher.bench.result_lines import HEADER, cells
from noisyteacher.core.reprs import ShortRepr
from noisyteacher.report.audit_charts import (
    draw_alpha,
    draw_drift,
    draw_reliability,
    draw_shortlists,
    draw_top_k,
)
from noisyteacher.report.charts import (
    Chart,
    Table,
    confused_classes,
    draw_accuracies,
    draw_by_size,
    draw_confusion,
    draw_curves,
)
from noisyteacher.report.page_source import (
    ACCURACIES_IN_WORDS,
    PageSource,
    caption,
    facts,
    progress,
)
from noisyteacher.runs.comparison import Comparison, data_address

_FOLDER = files("noisyteacher.report") / "assets"
_MOST_CLASS_ROWS = 200
_OFTEN_SHARED = ("passes", "labeled", "epochs", "n")


@dataclass(frozen=True, repr=False)
class Section(ShortRepr):
    """A heading, and what stands below it."""

    title: str
    texts: list[str] = field(default_factory=list)
    commands: list[str] = field(default_factory=list)
    facts: list[tuple[str, str]] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    items: list[str] = field(default_factory=list)
    charts: list[Chart] = field(default_factory=list)
    tables: list[Table] = field(default_factory=list)
    pictures: list[tuple[str, str]] = field(default_factory=list)  # caption, data: address
    folded: bool = False
    comparison: Comparison | None = None


@dataclass(frozen=True, repr=False)
class Page(ShortRepr):
    """A whole page; ``live`` pages look for a newer self."""

    title: str
    sections: list[Section]
    live: bool = False
    progress: str = ""


def make_page(source: PageSource, live: bool = False) -> Page:
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


def _done(source: PageSource, live: bool) -> Section:
    texts = [str(source.about["verdict"])] if "verdict" in source.about else []
    if live and not source.rows and not source.audits:
        texts.append("No student has finished yet; this page refreshes by itself.")
    return Section(
        "What was done",
        texts=texts,
        commands=source.log.commands,
        facts=facts(source),
        warnings=source.log.notes,
    )


def _results(source: PageSource) -> Section:
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
    common = "".join(f", {name} {value}" for name, value in shared.items() if value)
    table = list(zip(*columns.values(), strict=True))
    return Table(f"Test accuracy in percent{common}", tuple(columns), table)


def _candidates(about: dict[str, Any]) -> list[Table]:
    """A distillation judges on held-out gold rows, with or without a test part."""
    if "table" in about:
        told = about["table"]
        return [Table(told["title"], tuple(told["header"]), [tuple(row) for row in told["rows"]])]
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
    return [Table("Students as judged on the selection set S", header, rows)] if rows else []


def _training(source: PageSource) -> Section | None:
    charts = draw_curves(source.rows)
    return Section("Training", charts=charts) if charts else None


def _pictures(source: PageSource) -> Section:
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
    found = [
        ("teacher", numbers["teacher"] or "unnamed"),
        ("rows of V and pool", f"{numbers['val_rows']:,} and {numbers['pool_rows']:,}"),
        ("accuracy on V", _interval(quality["accuracy"], ".1%")),
        ("temperature on V", _interval(quality["temperature"], ".2f")),
    ]
    for key, name in (("log_loss", "log-loss"), ("brier", "Brier score"), ("ece", "ECE")):
        after = f"; at that temperature {quality['after'][key]['value']:.3f}"
        found.append((name, _interval(quality["before"][key], ".3f") + after))
    found += [
        ("mean α", _interval(trust["mean_alpha"], ".3f")),
        ("pool at the lower bound", _interval(trust["share_at_lower_bound"], ".1%")),
        ("worth in gold labels", _interval(trust["effective_labels"], ",.0f")),
    ]
    compared = numbers.get("comparison")
    if compared is not None:
        found.append(("gold labels alone", _interval(compared["gold_only"], ".1%")))
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


# -- HTML -----------------------------------------------------------------------------------------


def render(page: Page) -> str:
    """The whole file; every text in it is escaped."""
    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(_asset),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["slug"] = _slug
    charts = [
        {"key": f"chart-{i}-{j}", "spec": chart.spec}
        for i, section in enumerate(page.sections, 1)
        for j, chart in enumerate(section.charts, 1)
    ]
    # The template takes these four as they are: our own files, and JSON escaped for its place.
    return environment.get_template("page.html").render(
        page=page,
        version=__version__,
        style=_asset("page.css"),
        script=_asset("page.js"),
        library=_vega(),
        charts=inline_json(charts),
    )


def inline_json(value: object) -> str:
    """JSON that nothing can break out of a script element with."""
    text = orjson.dumps(value).decode()
    for sign in "<>&\u2028\u2029":
        # Outside strings JSON has none of these signs.
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return text


def _asset(name: str) -> str:
    return (_FOLDER / name).read_text(encoding="utf-8")


@lru_cache(maxsize=1)
def _vega() -> str:
    """Vega, Vega-Lite and Vega-Embed as one script, in the version whose charts altair writes."""
    wanted = ".".join(alt.SCHEMA_VERSION.split(".")[:2])
    bundle: str = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;", wanted)
    return re.sub(r"</(?=script)", r"<\\/", bundle, flags=re.IGNORECASE)


def _slug(title: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")
