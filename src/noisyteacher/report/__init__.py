"""The HTML page of a run, a distillation or an audit."""

from noisyteacher.report.page import render_page, write_audit_page, write_run_page

__all__ = ["render_page", "write_audit_page", "write_run_page"]


def __dir__() -> list[str]:
    return __all__
