"""The HTML page of a run, a distillation or an audit."""

from noisyteacher.report.collect import collect_distilled, collect_run, tell_story
from noisyteacher.report.page import render_page, write_run_page

__all__ = ["collect_distilled", "collect_run", "render_page", "tell_story", "write_run_page"]


def __dir__() -> list[str]:
    return __all__
