"""The page: what it shows, that it stands alone, and that data stays data."""

from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from report_runs import EVIL, METHODS, make_audit, row, write_rows, write_run

from noisyteacher.core.errors import InputError
from noisyteacher.report import page as page_module
from noisyteacher.report import write_audit_page, write_run_page
from noisyteacher.report.openings import make_opening
from noisyteacher.report.page_source import read_source
from noisyteacher.report.parts import short_name, short_names
from noisyteacher.report.sections import make_page
from noisyteacher.runs import record_command
from noisyteacher.runs.comparison import Comparison, Predictions, find_examples

needs_extra = pytest.mark.skipif(
    not page_module.has_extra(), reason="charts need the extra [report]: altair, vl-convert"
)


class Reader(HTMLParser):
    """Collects what a browser would make of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text, self.inside = "", ""
        self.scripts: list[str] = []
        self.headings: list[str] = []
        self.heading, self.verdict = "", ""
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        self.inside = "verdict" if dict(attrs).get("class") == "verdict" else tag
        if tag == "script":
            self.scripts.append("")
        if tag == "h2":
            self.headings.append("")

    def handle_endtag(self, tag):
        self.inside = ""

    def handle_data(self, data):
        if self.inside == "script":
            self.scripts[-1] += data
        elif self.inside == "h2":
            self.headings[-1] += data
        elif self.inside != "style":
            self.text += data
        if self.inside == "h1":
            self.heading += data
        if self.inside == "verdict":
            self.verdict += data.replace("\u00a0", " ")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_run(tmp_path_factory.mktemp("runs") / "run", sizes=(30, 60))


@pytest.fixture(scope="module")
def page(run: Path) -> Reader:
    return Reader(write_run_page(run).read_text())


@needs_extra
def test_it_shows_all_that_the_run_left(page: Reader) -> None:
    assert page.headings == [
        "Comparison",
        "Teacher quality, 30 gold labels",
        "Teacher quality, 30 gold labels by class",
        "Teacher quality, 60 gold labels",
        "Teacher quality, 60 gold labels by class",
        "Training",
        "Confusion matrices",
        "Disagreements",
        "Provenance",
    ]
    for method in METHODS:
        assert short_name(method) in page.text
        assert any(a.get("title") == method for _, a in page.tags)
    assert "70.80 ± 0.71" in page.text  # SLaM at 30: 70.3 and 71.3
    assert f"noisyteacher bench {EVIL}" in page.text
    assert f"A note about {EVIL}" in page.text


@needs_extra
def test_it_stands_alone_in_one_small_file(run: Path, page: Reader) -> None:
    assert (run / "report.html").stat().st_size < 3_000_000
    for tag, attributes in page.tags:
        for name in ("src", "href"):
            assert re.match("data:|#", attributes.get(name) or "#"), (tag, attributes)
    policy = next(a["content"] for t, a in page.tags if a.get("http-equiv") and t == "meta")
    assert "default-src 'none'" in policy
    assert "connect-src 'none'" in policy


@needs_extra
def test_names_that_look_like_markup_stay_text(page: Reader) -> None:
    assert len(page.scripts) == 3
    charts = orjson.loads(page.scripts[0])
    assert EVIL in page.text
    assert EVIL in str(charts)
    assert all(EVIL not in script for script in page.scripts)
    tags = [tag for tag, _ in page.tags]
    assert "i" not in tags  # ids end in <i>
    assert tags.count("b") == 3 * tags.count("img")  # one class is called </script><b>bold


@needs_extra
def test_every_chart_has_words_and_numbers(page: Reader) -> None:
    charts = [a for _, a in page.tags if "data-chart" in a]
    specs = orjson.loads(page.scripts[0])
    assert [a["id"] for a in charts] == [one["key"] for one in specs]
    assert len(charts) == 1 + 2 + 2 * 6 + 2
    assert all(a["role"] == "img" and a["aria-label"] for a in charts)
    figures = [t for t, _ in page.tags if t in ("figure", "table")]
    assert figures.count("figure") == len(charts)
    assert figures.count("table") == 1 + len(charts) + 2


@needs_extra
def test_parts_without_data_are_left_out(tmp_path: Path, monkeypatch) -> None:
    write_rows(tmp_path, [row("SLaM()", curve=[])])
    found = Reader(write_run_page(tmp_path).read_text())
    assert found.headings == ["Comparison", "Provenance"]
    assert not any("search" in (a.get("type") or "") for _, a in found.tags)
    (tmp_path / "pictures").mkdir()
    Image.new("L", (2, 2)).save(tmp_path / "pictures" / "alpha-30.png")
    monkeypatch.setattr(page_module, "has_extra", lambda: False)
    found = Reader(write_run_page(tmp_path).read_text())
    assert found.headings == ["Comparison", "Pictures", "Provenance"]
    shown = [a["alt"] for tag, a in found.tags if tag == "img"]
    assert shown == ["α(x): the probability that a teacher label is right, 30 gold labels"]


@needs_extra
def test_a_page_of_the_largest_run_stays_under_3_mb(tmp_path: Path) -> None:
    curve = [
        {"epoch": e, "loss": 1 / e, "selection": 50 - 9 / e, "test": 60 - 9 / e}
        for e in range(1, 201)
    ]
    methods = [f"Weighted(inner=SLaM(), beta={i / 100})" for i in range(25)]
    plain = row("SLaM()", epochs=200, curve=curve)
    sizes = (5000, 7500, 10000, 12500, 15000, 17500)
    write_rows(tmp_path, [replace(plain, labeled=n, method=m) for n in sizes for m in methods])
    rng = np.random.default_rng(0)
    said, answers = map(Predictions.of, rng.dirichlet(np.ones(10), (2, 400)))
    noise = rng.integers(0, 256, (400, 64, 64, 3), dtype=np.uint8)  # the worst to compress
    names = [f"a rather long name of class {i}" for i in range(10)]
    apart, examples = find_examples(np.arange(400), noise, said, answers, names)
    Comparison("SLaM()", names, "the pool", 400, apart, [], examples).save(tmp_path)
    assert len(examples) == 150
    assert write_run_page(tmp_path).stat().st_size < 3_000_000


@needs_extra
def test_an_audit_has_a_page_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "audit.json").write_bytes(orjson.dumps(make_audit()))
    page = write_run_page(tmp_path / "audit.json")
    assert page == tmp_path / "audit.html"
    found = Reader(page.read_text())
    assert found.headings == ["Teacher quality", "Teacher quality by class"]
    numbers = make_audit()["numbers"]
    right = numbers["quality"]["accuracy"]
    told = [f"{100 * right[end]:.1f}" for end in ("value", "low", "high")]
    assert found.verdict == (
        f"The teacher is right on {told[0]}% ({told[1]} to {told[2]}) of 120 gold rows; the audit "
        "recommends Consistency(inner=SLaM())."
    )
    assert found.heading == EVIL
    assert write_audit_page(make_audit(), tmp_path / "b.html").read_text() == page.read_text()


@needs_extra
def test_a_distillation_tells_its_verdict(tmp_path: Path) -> None:
    untested = {"last": None, "selected": None, "best_test": None}
    write_rows(tmp_path, [row(name, accuracy=untested) for name in ("GoldOnly()", "SLaM()")])
    candidates = [
        {
            "candidate": "SLaM()",
            "accuracy_on_S": 71.5,
            "accuracy_on_test": None,
            "seconds": 2.0,
            "kept": True,
        }
    ]
    about = {"verdict": f"{EVIL} is kept.", "candidates": candidates}
    (tmp_path / "student").mkdir()
    (tmp_path / "student" / "config.json").write_bytes(orjson.dumps({"about": about}))
    (tmp_path / "audit.json").write_bytes(orjson.dumps(make_audit()))
    found = Reader(write_run_page(tmp_path, tmp_path / "other.html").read_text())
    assert f"{EVIL} is kept." in found.text
    assert "71.50" in found.text
    assert "best test epoch" not in found.text
    assert "Teacher quality" in found.headings
    assert found.verdict == f"{EVIL} is kept."


def test_the_page_of_a_cross_fit_opens_with_its_headline_and_three_figures(tmp_path: Path) -> None:
    write_rows(tmp_path, [row("GoldOnly()"), row("SLaM()")])
    about = {
        "headline": f"The labels of {EVIL} were worth it.",
        "figures": {
            "teacher": [70.0, 61.5, 77.25],
            "gold_only": [72.5, 60.0, 80.0],
            "student": [81.2, 70.0, 90.0],
            "gain": [8.7, 1.0, 16.0],
        },
        "verdict": f"81.2, 72.5, 70.0. The labels of {EVIL} were worth it. So far.",
        "metric": "accuracy",
        "table": {
            "title": "100 gold rows",
            "header": ["student", "accuracy, %", "95% interval"],
            "rows": [
                ["the teacher", "99.0", "61.5 to 77.2"],
                ["GoldOnly()", "72.5", "60.0 to 80.0"],
                ["SLaM(hard=True)", "82.0", "71.0 to 91.0"],
                ["the returned blend", "81.2", "70.0 to 90.0"],
            ],
        },
    }
    (tmp_path / "student").mkdir()
    (tmp_path / "student" / "config.json").write_bytes(orjson.dumps({"about": about}))
    found = read_source(tmp_path)
    opening = make_opening(found)
    assert opening.headline == about["headline"]
    assert [(f.name, f.value, f.interval) for f in opening.figures] == [
        ("Teacher", 70.0, "61.5 to 77.2"),
        ("Without the teacher", 72.5, "60.0 to 80.0"),
        ("Student", 81.2, "70.0 to 90.0"),
    ]
    assert opening.texts == ["So far."]
    (table,) = make_page(found, charts=False).sections[0].tables
    assert [name for name, *_ in table.rows] == [
        "the teacher",
        "gold labels only",
        "SLaM, hard labels",
        "the returned blend",
    ]
    assert table.best == (2,)  # the best student, though the teacher has more
    assert Reader(write_run_page(tmp_path).read_text()).verdict == about["headline"]


def test_short_names_are_never_shared() -> None:
    names = ["SLaM()", "SLaM(k=2)", "SLaM(hard=True)", "Consistency(inner=SLaM())", "mine"]
    assert short_names(names) == {
        "SLaM()": "SLaM()",
        "SLaM(k=2)": "SLaM(k=2)",
        "SLaM(hard=True)": "SLaM, hard labels",
        "Consistency(inner=SLaM())": "SLaM, consistency",
        "mine": "mine",
    }
    assert short_name("Vanilla(), generation 2") == "vanilla distillation, generation 2"
    assert short_name("Consistency(inner=None)") == "consistency without a teacher"


def test_without_the_extra_there_is_a_page_without_charts(
    run: Path, tmp_path: Path, monkeypatch
) -> None:
    monkeypatch.setattr(page_module, "has_extra", lambda: False)
    found = Reader(write_run_page(run, tmp_path / "plain.html").read_text())
    assert orjson.loads(found.scripts[0]) == []
    assert not any("data-chart" in a for _, a in found.tags)
    assert "Disagreements" in found.headings
    assert "70.80 ± 0.71" in found.text
    assert f"noisyteacher bench {EVIL}" in found.text
    assert "noisyteacher[report]" in found.text


def test_what_is_no_run_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no run or audit"):
        write_run_page(tmp_path / "nothing")
    with pytest.raises(InputError, match="not a run's folder"):
        write_run_page(tmp_path)
    (tmp_path / "other.json").write_text('{"numbers": 1}')
    with pytest.raises(InputError, match="not an audit: it has no 'findings'"):
        read_source(tmp_path / "other.json")
    (tmp_path / "broken.json").write_text("{")
    with pytest.raises(InputError, match="not JSON"):
        read_source(tmp_path / "broken.json")
    write_rows(tmp_path / "empty", [])
    with pytest.raises(InputError, match="no results yet"):
        write_run_page(tmp_path / "empty")


def test_each_command_is_recorded_once(tmp_path: Path) -> None:
    for command in ("noisyteacher bench a", "noisyteacher bench b", "noisyteacher bench a"):
        record_command(tmp_path, command, ["said"])
    told = orjson.loads((tmp_path / "story.json").read_bytes())
    assert len(told.pop("sha256")) == 64
    assert told == {"commands": ["noisyteacher bench a", "noisyteacher bench b"], "notes": ["said"]}


@needs_extra
@settings(max_examples=50, deadline=None)
@given(st.recursive(st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)))
def test_inline_json_reads_back_and_never_closes_its_script(value) -> None:
    from noisyteacher.report.page import inline_json

    text = inline_json([value, EVIL, "\u2028<!--"])
    assert orjson.loads(text) == [value, EVIL, "\u2028<!--"]
    assert not set("<>&\u2028\u2029") & set(text)
