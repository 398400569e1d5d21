"""The page in a real browser: drawn, usable, quiet, and nothing fetched."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from report_runs import CLASSES, EVIL, row, write_rows, write_run

from noisyteacher.report import write_run_page
from noisyteacher.report.page import has_extra

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
if CHROMIUM is None:
    pytest.skip("no Chromium on this machine", allow_module_level=True)
if not has_extra():
    pytest.skip("charts need the extra [report]", allow_module_level=True)
playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
QUIET = "--no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking"
MORE = "--disable-component-update --disable-sync"
UNDRAWN = "document.querySelector('[data-chart]:not([data-drawn])') === null"


class Visit:
    """A page in the browser, and what it said and asked for meanwhile."""

    def __init__(self, browser: Any, address: str, **settings: Any) -> None:
        self.page = browser.new_page(**{"viewport": {"width": 1100, "height": 900}} | settings)
        self.said: list[str] = []
        self.asked: list[str] = []
        self.page.on("console", lambda message: self.said.append(message.text))
        self.page.on("pageerror", lambda error: self.said.append(str(error)))
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.goto(address)
        self.page.wait_for_function(UNDRAWN)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as started:
        opened = started.chromium.launch(
            executable_path=CHROMIUM, args=[*QUIET.split(), *MORE.split()]
        )
        yield opened
        opened.close()


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> str:
    return write_run_page(write_run(tmp_path_factory.mktemp("runs") / "run")).as_uri()


@pytest.fixture(scope="module")
def visit(browser: Any, address: str) -> Visit:
    return Visit(browser, address)


def test_charts_are_drawn_without_a_word_or_a_request(visit: Visit, address: str) -> None:
    drawn = visit.page.locator("[data-chart] svg")
    assert drawn.count() == visit.page.locator("[data-chart]").count() == 11
    for i in range(drawn.count()):
        box = drawn.nth(i).bounding_box()
        assert box["width"] > 300
        assert box["height"] > 150
    assert visit.page.locator("[data-chart] .mark-symbol path").count() > 20
    assert visit.said == []
    assert {one for one in visit.asked if not one.startswith("data:")} == {address}


def test_pointing_at_a_dot_shows_its_value(visit: Visit) -> None:
    dot = visit.page.locator("#chart-1-1 .mark-symbol.role-mark path").last
    dot.scroll_into_view_if_needed()
    dot.hover(force=True)
    tooltip = visit.page.locator("#vg-tooltip-element.visible")
    tooltip.wait_for()
    assert "SLaM()" in tooltip.inner_text()
    assert "± 0.71" in tooltip.inner_text()


def test_a_class_called_script_stays_text(visit: Visit) -> None:
    square = visit.page.locator("#chart-5-1 .mark-rect.role-mark path").first
    square.scroll_into_view_if_needed()
    square.hover(force=True)
    tooltip = visit.page.locator("#vg-tooltip-element.visible")
    tooltip.wait_for()
    assert any(name in tooltip.inner_text() for name in CLASSES)
    assert visit.page.evaluate("window.hacked") is None
    assert EVIL in visit.page.locator("main").inner_text()
    assert visit.page.locator("main script:not(#chart-data)").count() == 0


def axis_labels(visit: Visit) -> list[str]:
    found: list[str] = visit.page.locator("#chart-4-1 .role-axis-label text").all_text_contents()
    return found


def test_ctrl_and_wheel_zoom_while_the_wheel_alone_scrolls(visit: Visit) -> None:
    chart = visit.page.locator("#chart-4-1 svg")
    chart.scroll_into_view_if_needed()
    box = chart.bounding_box()
    visit.page.mouse.move(box["x"] + box["width"] / 2, box["y"] + 100)
    before = axis_labels(visit)
    top = visit.page.evaluate("scrollY")
    visit.page.mouse.wheel(0, 300)
    visit.page.wait_for_function("top => scrollY > top", arg=top)
    assert axis_labels(visit) == before
    chart.scroll_into_view_if_needed()
    visit.page.keyboard.down("Control")
    box = chart.bounding_box()
    visit.page.mouse.move(box["x"] + box["width"] / 2, box["y"] + 100)
    visit.page.mouse.wheel(0, -300)
    visit.page.keyboard.up("Control")
    visit.page.wait_for_function(
        "before => [...document.querySelectorAll('#chart-4-1 .role-axis-label text')]"
        ".map(e => e.textContent).join() !== before.join()",
        arg=before,
    )


def test_a_crosshair_tells_all_methods_at_one_epoch(visit: Visit) -> None:
    chart = visit.page.locator("#chart-4-1 svg")
    chart.scroll_into_view_if_needed()
    box = chart.bounding_box()
    visit.page.mouse.move(box["x"] + box["width"] / 2, box["y"] + 60)
    visit.page.mouse.move(box["x"] + box["width"] / 2 + 3, box["y"] + 90)
    tooltip = visit.page.locator("#vg-tooltip-element.visible")
    tooltip.wait_for()
    for name in ("epoch", "gold labels only", "vanilla distillation", "SLaM"):
        assert name in tooltip.inner_text()


def test_a_click_on_a_columns_name_sorts_the_table(visit: Visit) -> None:
    table = visit.page.locator("#comparison table").first

    def names() -> list[str]:
        return [text.split(" best")[0] for text in table.locator("tbody th").all_inner_texts()]

    assert names() == ["gold labels only", "vanilla distillation", "SLaM"]
    head = table.get_by_role("button", name="last epoch")
    head.click()
    assert names() == ["SLaM", "vanilla distillation", "gold labels only"]
    assert table.locator("th[aria-sort=descending]").inner_text().startswith("last epoch")
    head.click()
    assert names() == ["gold labels only", "vanilla distillation", "SLaM"]
    assert table.locator("tr.best").inner_text().startswith("SLaM")


def test_the_search_filters_disagreements(visit: Visit) -> None:
    cards = visit.page.locator("#cards > li")
    everything = cards.count()
    assert visit.page.locator("#cards > li:visible").count() == 24 < everything
    visit.page.get_by_label("Search these examples").fill("Student RIGHT")
    right = [card for card in cards.all() if "student right" in card.text_content()]
    shown = visit.page.locator("#cards > li:visible")
    assert 0 < shown.count() == len(right) < everything
    assert visit.page.locator("#found").text_content() == f"{len(right)} found"
    visit.page.get_by_label("Search these examples").fill("no such thing")
    assert shown.count() == 0
    visit.page.get_by_label("Search these examples").fill("")
    assert shown.count() == everything


def colours(page: Any) -> dict[str, str]:
    found: dict[str, str] = page.evaluate(
        """() => {
          const of = (place, name) => getComputedStyle(document.querySelector(place))[name];
          return {
            paper: of("body", "backgroundColor"),
            text: of("body", "color"),
            axis: of("#chart-1-1 .role-axis-label text", "fill"),
            dot: of("#chart-1-1 .mark-symbol.role-mark path", "fill"),
          };
        }"""
    )
    return found


def test_light_dark_the_button_and_paper(browser: Any, address: str) -> None:
    page = Visit(browser, address, color_scheme="light").page
    light = colours(page)
    page.emulate_media(color_scheme="dark")
    dark = colours(page)
    assert all(light[name] != dark[name] for name in light)
    assert dark["axis"] == dark["text"]
    page.get_by_role("button", name="Switch between light and dark").click()
    assert colours(page) == light
    page.get_by_role("button", name="Switch between light and dark").click()
    assert colours(page) == dark
    page.emulate_media(media="print")
    assert colours(page) == light
    page.close()


def test_a_phone_scrolls_in_one_direction_only(browser: Any, address: str) -> None:
    page = Visit(browser, address, viewport={"width": 360, "height": 740}).page
    assert page.evaluate("document.documentElement.scrollWidth") == 360
    page.close()


def test_the_keyboard_reaches_everything(browser: Any, address: str) -> None:
    page = Visit(browser, address).page
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
    reached = set()
    for _ in range(60):
        page.keyboard.press("Tab")
        reached.add(page.evaluate("document.activeElement.id || document.activeElement.tagName"))
    assert {"theme", "A", "SUMMARY", "DIV", "search", "more"} <= reached
    page.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_folds_and_choices_work_and_axe_finds_nothing(
    browser: Any, tmp_path: Path, scheme: str
) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe is missing")
    # Several sizes bring folds and a choice of size; texts are the other kind of example.
    run = write_run(tmp_path / "run", sizes=(30, 60), pictures=False)
    page = browser.new_page(color_scheme=scheme)
    page.goto(write_run_page(run).as_uri())
    page.evaluate("document.querySelectorAll('details').forEach(one => (one.open = true))")
    page.wait_for_function(UNDRAWN)
    line = page.locator("#chart-6-1 .mark-line path").first
    before = line.get_attribute("d")
    page.get_by_label("Gold labels in A:").first.select_option("30")
    playwright.expect(line).not_to_have_attribute("d", before)
    found = axe.Axe().run(page).response["violations"]
    assert [(one["id"], one["nodes"][0]["html"]) for one in found] == []
    page.close()


def test_a_watched_page_updates_in_place(browser: Any, tmp_path: Path) -> None:
    from noisyteacher.report.watch import PageServer

    write_rows(tmp_path, [row("Vanilla()")])
    with PageServer(tmp_path) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            visit = Visit(browser, server.address)
            visit.page.wait_for_timeout(300)
            visit.page.evaluate("window.kept = 1")
            write_rows(tmp_path, [row("Vanilla()"), row("SLaM()")])
            visit.page.locator("#comparison th", has_text="SLaM").first.wait_for(timeout=30_000)
            visit.page.wait_for_function(UNDRAWN)
            assert visit.page.evaluate("window.kept") == 1, "the page was loaded again"
            assert visit.said == []
            assert all(one.startswith(server.address) for one in visit.asked if one[:5] != "data:")
        finally:
            visit.page.close()
            server.shutdown()
            thread.join()
