"""Pictures of a run's page and chart for the docs: ``python docs/screenshots.py runs/demo``.

With ``--review --out FOLDER`` whole pages in three widths, light and dark, and axe on each.

Needs the extra ``[report]``, playwright, and Chromium as the system installs it.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from io import BytesIO
from pathlib import Path
from typing import Any

from PIL import Image

from noisyteacher.core.files import write_atomic
from noisyteacher.report import write_run_page

QUIET = (
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
)
# Name: colour scheme, width, and where the picture begins; each is HEIGHT high.
PICTURES = {
    "report-light": ("light", 1000, "header"),
    "report-dark": ("dark", 1000, "#when-a-teacher-pays-off"),
    "report-phone": ("light", 390, "header"),
}
HEIGHT = 1120
WIDTHS = (1440, 1024, 390)  # of the pictures that --review takes of whole pages


def open_page(browser: Any, address: str, scheme: str, width: int) -> Any:
    """The page in a tab of its own, its charts drawn."""
    page = browser.new_page(viewport={"width": width, "height": HEIGHT}, color_scheme=scheme)
    page.goto(address)
    page.wait_for_function(
        "[...document.querySelectorAll('[data-chart]:not([data-drawn])')]"
        ".every(place => place.closest('details.folded'))"
    )
    return page


def take(browser: Any, address: str, scheme: str, width: int, start: str) -> bytes:
    """One picture as PNG, in few colours: it lives in a repository."""
    page = open_page(browser, address, scheme, width)
    top = page.locator(start).first.bounding_box()["y"]
    area = {"x": 0, "y": max(0, top - 16), "width": width, "height": HEIGHT}
    shot = Image.open(BytesIO(page.screenshot(full_page=True, clip=area)))
    file = BytesIO()
    shot.convert("RGB").quantize(128).save(file, "PNG", optimize=True)
    page.close()
    return file.getvalue()


def review(browser: Any, address: str, out: Path) -> int:
    """Whole pages in every width and scheme, and how many findings axe has of them."""
    from axe_playwright_python.sync_playwright import Axe

    found = 0
    for width in WIDTHS:
        for scheme in ("light", "dark"):
            page = open_page(browser, address, scheme, width)
            write_atomic(out / f"review-{width}-{scheme}.png", page.screenshot(full_page=True))
            for one in Axe().run(page).response["violations"]:
                print(f"axe, {width} {scheme}: {one['id']}: {one['nodes'][0]['html']}")
                found += 1
            page.close()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", type=Path, help="folder of a finished run")
    parser.add_argument("--out", type=Path, default=Path("docs/pictures"))
    parser.add_argument(
        "--review",
        action="store_true",
        help="take whole pages in three widths, light and dark, and run axe on each",
    )
    asked = parser.parse_args()
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        sys.exit("There is no Chromium on this machine.")
    from playwright.sync_api import sync_playwright

    address = write_run_page(asked.run).resolve().as_uri()
    chart = asked.run / "pictures" / "gold-rows.svg"
    if chart.exists() and not asked.review:
        write_atomic(asked.out / chart.name, chart.read_bytes())
    with sync_playwright() as started:
        browser = started.chromium.launch(executable_path=chromium, args=list(QUIET))
        if asked.review:
            found = review(browser, address, asked.out)
            browser.close()
            sys.exit(f"axe has {found} findings." if found else 0)
        for name, settings in PICTURES.items():
            write_atomic(asked.out / f"{name}.png", take(browser, address, *settings))
            print(asked.out / f"{name}.png")
        browser.close()


if __name__ == "__main__":
    main()
