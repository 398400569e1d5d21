"""The page with charts: one HTML file that needs no network. Needs the extra ``[report]``."""

from __future__ import annotations

import re
from functools import lru_cache
from importlib.resources import files

import altair as alt
import jinja2
import orjson
import vl_convert

from noisyteacher import __version__
from noisyteacher.report.parts import Page

_FOLDER = files("noisyteacher.report") / "assets"


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
