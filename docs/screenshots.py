"""Pictures of a run's report page, for the README: ``python docs/screenshots.py runs/demo``.

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
    "report-light": ("light", 1000, "#results"),
    "report-dark": ("dark", 1000, "#the-teacher .charts"),
    "report-phone": ("light", 390, "#training"),
}
HEIGHT = 1120


def take(browser: Any, address: str, scheme: str, width: int, start: str) -> bytes:
    """One picture as PNG, in few colours: it lives in a repository."""
    page = browser.new_page(viewport={"width": width, "height": HEIGHT}, color_scheme=scheme)
    page.goto(address)
    page.wait_for_function(
        "[...document.querySelectorAll('[data-chart]:not([data-drawn])')]"
        ".every(place => place.closest('details.folded'))"
    )
    top = page.locator(start).first.bounding_box()["y"]
    area = {"x": 0, "y": max(0, top - 16), "width": width, "height": HEIGHT}
    shot = Image.open(BytesIO(page.screenshot(full_page=True, clip=area)))
    file = BytesIO()
    shot.convert("RGB").quantize(128).save(file, "PNG", optimize=True)
    page.close()
    return file.getvalue()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", type=Path, help="folder of a finished run")
    parser.add_argument("--out", type=Path, default=Path("docs/pictures"))
    asked = parser.parse_args()
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        sys.exit("There is no Chromium on this machine.")
    from playwright.sync_api import sync_playwright

    address = write_run_page(asked.run).resolve().as_uri()
    with sync_playwright() as started:
        browser = started.chromium.launch(executable_path=chromium, args=list(QUIET))
        for name, settings in PICTURES.items():
            write_atomic(asked.out / f"{name}.png", take(browser, address, *settings))
            print(asked.out / f"{name}.png")
        browser.close()


if __name__ == "__main__":
    main()
