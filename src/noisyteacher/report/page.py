"""The page of a run or an audit: one HTML file that fetches nothing, every text escaped.

With the extra ``[report]`` installed it has charts, otherwise tables and pictures.
"""

from __future__ import annotations

import re
from functools import lru_cache
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import jinja2
import orjson

from noisyteacher import __version__
from noisyteacher.core.errors import InputError
from noisyteacher.core.files import write_atomic
from noisyteacher.report.page_source import PageSource, audit_source, read_source
from noisyteacher.report.parts import Page
from noisyteacher.report.sections import make_page

_EXTRA = ("altair", "vl_convert")
_FOLDER = files("noisyteacher.report") / "assets"


def has_extra() -> bool:
    """Whether all that charts need is installed."""
    return all(find_spec(name) is not None for name in _EXTRA)


def render_page(path: str | Path, live: bool = False) -> str:
    """The page of a run's folder, or of an audit's JSON file, as HTML.

    A ``live`` page updates itself, and the run may have no results yet.
    """
    try:
        return _render_source(read_source(path), str(path), live)
    except InputError:
        raise
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        # Files of a run are JSON that anybody may edit.
        raise InputError(
            f"{path} cannot be shown, because one of its files is damaged or was edited "
            f"({type(error).__name__}: {error}); restore it, or run the command again."
        ) from error


def write_run_page(path: str | Path, out: str | Path | None = None) -> Path:
    """Write the page of a run's folder (``report.html`` in it) or of an audit (beside it)."""
    path = Path(path)
    default = path / "report.html" if path.is_dir() else path.with_suffix(".html")
    page = default if out is None else Path(out)
    write_atomic(page, render_page(path).encode())
    return page


def write_audit_page(audit: dict[str, Any], out: str | Path) -> Path:
    """Write the page of an audit, given as its ``to_dict()``."""
    found = orjson.loads(orjson.dumps(audit, option=orjson.OPT_SERIALIZE_NUMPY))
    write_atomic(Path(out), _render_source(audit_source(found), "The audit").encode())
    return Path(out)


def _render_source(source: PageSource, name: str, live: bool = False) -> str:
    if not live and not source.rows and not source.audits:
        raise InputError(f"{name} has no results yet.")
    return render(make_page(source, live, charts=has_extra()))


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
        library=_vega() if charts or (page.live and has_extra()) else "",
        charts=inline_json(charts),
    )


def inline_json(value: object) -> str:
    """JSON that nothing can break out of a script element with."""
    return orjson.dumps(value).decode().translate(_ESCAPED)


# Outside strings JSON has none of these signs.
_ESCAPED = {ord(sign): f"\\u{ord(sign):04x}" for sign in "<>&\u2028\u2029"}


def _asset(name: str) -> str:
    return (_FOLDER / name).read_text(encoding="utf-8")


@lru_cache(maxsize=1)
def _vega() -> str:
    """Vega, Vega-Lite and Vega-Embed as one script, in the version whose charts altair writes."""
    import altair as alt
    import vl_convert

    wanted = ".".join(alt.SCHEMA_VERSION.split(".")[:2])
    bundle: str = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;", wanted)
    return re.sub(r"</(?=script)", r"<\\/", bundle, flags=re.IGNORECASE)


def _slug(title: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")
