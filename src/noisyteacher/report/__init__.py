"""The HTML page of a run."""

from noisyteacher.report.page import write_page

__all__ = ["write_page"]
